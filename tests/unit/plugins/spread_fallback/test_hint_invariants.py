"""Invariants: hints and attempts agree, and no pod is queued without need."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import PodTopologySpread
from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from scheduler.framework import PostFilterOutcome, QueueingHint
from scheduler.framework.events import TIME_TICK
from scheduler.queue import SchedulingQueue, build_hint_map
from tests.unit.plugins.clusters import pod as make_pod
from tests.unit.plugins.spread_fallback.bench import (
    HOST,
    NPF,
    OWN_STATUS,
    PF,
    PROVISIONING,
    ZONE,
    Bench,
    Clock,
    Handle,
    constraint,
    two_zones,
)

TIMEOUT = 300.0

steps = st.lists(
    st.one_of(
        st.tuples(st.just("condition"), st.sampled_from(["True", "False", "Unknown"])),
        st.tuples(st.just("time"), st.floats(0, TIMEOUT)),
        st.tuples(st.just("attempt"), st.sampled_from(list(PostFilterOutcome))),
        st.tuples(st.just("nominate"), st.sampled_from(["", "a", "b"])),
        st.tuples(st.just("annotate"), st.sampled_from([None, f"*={PF}", "zone=Nope"])),
        st.tuples(st.just("gate"), st.none()),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=25,
)


def perform(bench: Bench, what: str, value: Any) -> None:
    actions: dict[str, Callable[[Any], Any]] = {
        "condition": lambda status: bench.set(PROVISIONING, status),
        "time": bench.clock.advance,
        "attempt": bench.attempt,
        "nominate": lambda node: setattr(bench.handle, "nominated", node),
        "annotate": bench.annotate,
        "gate": lambda _: setattr(bench.info, "gate_openings", bench.info.gate_openings + 1),
        "restart": lambda _: bench.restart(),
    }
    actions[what](value)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(steps=steps)
def test_hints_queue_a_pod_exactly_if_more_constraints_would_be_soft(
    steps: list[tuple[str, Any]],
) -> None:
    bench = Bench(constraint(ZONE, NPF, PF), constraint(HOST, NPF), timeout=TIMEOUT)
    bench.attempt()
    for what, value in steps:
        perform(bench, what, value)
        if what == "restart":
            # A new process has no state before its first attempt.
            bench.attempt()
        if bench.info.gate_openings:
            # A pod released by a gate is active: its hints are not called before its next attempt.
            bench.attempt()
            bench.info.gate_openings = 0
            bench.attempt()
        last = set(bench.soft())
        hints = {bench.hint(OWN_STATUS), bench.hint(TIME_TICK), bench.hint(OWN_STATUS)}
        assert len(hints) == 1, "a hint changes nothing"
        grown = set(bench.attempt()) - last
        assert hints == {QueueingHint.QUEUE if grown else QueueingHint.SKIP}


@settings(max_examples=50, deadline=None, derandomize=True)
@given(flaps=st.lists(st.sampled_from(["True", "False", "Unknown"]), max_size=40))
def test_each_change_causes_at_most_one_retry(flaps: list[str]) -> None:
    """Any number of changes between two attempts causes one retry per constraint at most."""
    bench = Bench(constraint(ZONE, NPF), constraint(HOST, NPF, PF))
    bench.attempt()
    retries = 0
    for status in flaps:
        bench.set(PROVISIONING, status)
        if bench.hint(OWN_STATUS) is QueueingHint.QUEUE:
            retries += 1
            bench.attempt()
            assert bench.hint(OWN_STATUS) is QueueingHint.SKIP, "soft constraints queue no pod"
    changes = sum(one != other for one, other in zip(["", *flaps], flaps, strict=False))
    assert retries <= changes


@pytest.mark.slow
def test_a41_a_tick_calls_no_hint_for_pods_that_other_plugins_rejected() -> None:
    clock = Clock()
    arguments = PodTopologySpreadArgs(node_provisioning_timeout=timedelta(seconds=TIMEOUT))
    handle: Any = Handle(two_zones(), clock=clock)
    plugin = PodTopologySpread(arguments, handle)
    queue = SchedulingQueue(
        clock,
        lambda info: info.timestamp,
        {"default-scheduler": ()},
        {"default-scheduler": build_hint_map([plugin])},
        pod_lister=lambda namespace, name: None,
    )
    for number in range(5_000):
        spec = {"schedulerName": "default-scheduler"}
        queue.add(make_pod(spec, metadata={"name": f"p{number}", "uid": f"p{number}"}))
    for number in range(5_000):
        info = queue.pop()
        assert info is not None
        info.unschedulable_plugins = {"PodTopologySpread" if number == 0 else "NodeResourcesFit"}
        queue.add_unschedulable_if_not_present(info)
    before = queue.statistics().hint_calls
    queue.tick_time_hints()
    assert queue.statistics().hint_calls - before == 1
    queue.validate()
