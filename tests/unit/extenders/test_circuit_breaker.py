"""CircuitBreaker in virtual time."""

from __future__ import annotations

import pytest

from scheduler.extenders.circuit_breaker import BreakerState, CircuitBreaker
from tests.unit.engine.harness import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock.monotonic, failures=3, cool_down=30.0)


def open_it(breaker: CircuitBreaker) -> None:
    for _ in range(3):
        assert breaker.allows()
        breaker.failed()


def test_it_opens_after_failures_in_a_row(breaker: CircuitBreaker) -> None:
    assert [breaker.failed() for _ in range(2)] == [False, False]
    breaker.succeeded()
    assert [breaker.failed() for _ in range(3)] == [False, False, True]
    assert not breaker.allows()
    assert breaker.remaining() == 30.0


def test_one_call_probes_when_the_cool_down_is_over(clock: Clock, breaker: CircuitBreaker) -> None:
    open_it(breaker)
    clock.time += 29.9
    assert not breaker.allows()
    clock.time += 0.1
    assert [breaker.allows(), breaker.allows()] == [True, False]
    assert breaker.state is BreakerState.PROBING
    assert breaker.succeeded()
    assert breaker.allows()
    assert breaker.failures == 0


def test_a_probe_that_fails_keeps_it_open(clock: Clock, breaker: CircuitBreaker) -> None:
    open_it(breaker)
    clock.time += 30
    assert breaker.allows()
    assert not breaker.failed()
    assert not breaker.allows()
    assert breaker.remaining() == 30.0


def test_a_probe_without_an_outcome_lets_another_one_try(
    clock: Clock, breaker: CircuitBreaker
) -> None:
    open_it(breaker)
    clock.time += 30
    assert breaker.allows()
    breaker.abandoned()
    assert breaker.allows()


def test_the_success_of_an_earlier_call_closes_it(breaker: CircuitBreaker) -> None:
    open_it(breaker)
    assert breaker.succeeded()
    assert breaker.allows()
