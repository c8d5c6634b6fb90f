"""Accounts of namespaces: which are deferred, from when on, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.accounts import DRAIN, MAX_ACCOUNTS, MAX_DEFERRAL, NamespaceAccounts
from tests.unit.queue.doubles import FakeClock

BUDGET = 0.5
FREE = 0.01


def accounts() -> tuple[FakeClock, NamespaceAccounts]:
    clock = FakeClock()
    return clock, NamespaceAccounts(clock.monotonic, BUDGET)


def test_ordinary_attempts_are_never_charged() -> None:
    _, ledger = accounts()
    for _ in range(100_000):
        assert not ledger.charge("a", FREE)
    assert list(ledger.over_limit()) == []
    assert len(ledger) == 0


def test_a_namespace_is_deferred_once_it_owes_more_than_the_limit() -> None:
    _, ledger = accounts()
    assert not ledger.charge("a", 0.1 + FREE)
    assert not ledger.charge("a", 0.1 + FREE)
    assert list(ledger.over_limit()) == []
    assert ledger.charge("a", 0.1 + FREE)
    assert list(ledger.over_limit()) == ["a"]
    assert not ledger.charge("a", 0.1 + FREE), "it was deferred already"


def test_the_debt_is_paid_back_with_time() -> None:
    clock, ledger = accounts()
    ledger.charge("a", BUDGET / 2 + 0.1 + FREE)
    clock.step(0.1 / DRAIN - 0.01)
    assert list(ledger.over_limit()) == ["a"]
    clock.step(0.02)
    assert list(ledger.over_limit()) == []
    clock.step(10.0)
    ledger.charge("b", 0.1)
    assert len(ledger) == 1


def test_no_namespace_is_deferred_for_longer_than_the_limit() -> None:
    clock, ledger = accounts()
    for _ in range(100):
        ledger.charge("a", 100.0)
    clock.step(MAX_DEFERRAL + 0.01)
    assert list(ledger.over_limit()) == []


def test_namespaces_in_debt_share_limit_and_repayment() -> None:
    clock, ledger = accounts()
    ledger.charge("a", 0.2 + FREE)
    assert list(ledger.over_limit()) == []
    ledger.charge("b", 0.2 + FREE)
    assert sorted(ledger.over_limit()) == ["a", "b"]
    clock.step(1.4)
    assert sorted(ledger.over_limit()) == ["a", "b"]
    clock.step(0.2)
    assert list(ledger.over_limit()) == []


def test_if_all_namespaces_are_expensive_all_are_over_the_limit() -> None:
    clock, ledger = accounts()
    names = [f"n{number}" for number in range(20)]
    for _ in range(10):
        for name in names:
            clock.step(0.05)
            ledger.charge(name, 0.05)
    assert sorted(ledger.over_limit()) == sorted(names)


def test_the_number_of_accounts_is_bounded() -> None:
    _, ledger = accounts()
    for number in range(2 * MAX_ACCOUNTS):
        ledger.charge(f"n{number}", 0.1)
    assert len(ledger) == MAX_ACCOUNTS
    assert "n0" not in ledger.over_limit()
    assert f"n{2 * MAX_ACCOUNTS - 1}" in ledger.over_limit()


def test_without_a_budget_no_namespace_is_charged() -> None:
    ledger = NamespaceAccounts(FakeClock().monotonic)
    assert not ledger.charge("a", 1e9)
    assert list(ledger.over_limit()) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.floats(0.0, 3.0), st.floats(0.0, 5.0)), max_size=30
    )
)
def test_expensive_time_is_bounded_and_every_deferral_ends(
    charges: list[tuple[str, float, float]],
) -> None:
    clock, ledger = accounts()
    began, in_turn, largest = clock.mono, 0.0, 0.0
    for name, cost, pause in charges:
        if name not in ledger.over_limit():
            in_turn += max(0.0, cost - FREE)
            largest = max(largest, cost)
        clock.step(cost)
        ledger.charge(name, cost)
        clock.step(pause)
    # One limit, one attempt of each namespace that overshoots it, and what time paid back; what was
    # forgiven beyond the largest debt was waited for.
    elapsed = clock.mono - began
    assert in_turn <= BUDGET / 2 + 3 * largest + DRAIN * elapsed + 3 * largest * (
        elapsed / MAX_DEFERRAL
    )
    clock.step(MAX_DEFERRAL + 1.0)
    assert list(ledger.over_limit()) == []


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_clock_that_stands_still_is_tolerated(seconds: float) -> None:
    _, ledger = accounts()
    assert not ledger.charge("a", seconds)
    ledger.charge("a", 1.0)
    ledger.charge("a", 1.0)
    assert list(ledger.over_limit()) == ["a"]
