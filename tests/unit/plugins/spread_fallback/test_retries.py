"""Retries, hints, the feature gate and trial runs (rules S10 and S16)."""

from __future__ import annotations

import msgspec

from scheduler.framework import SKIP, CycleState, PostFilterOutcome, QueueingHint
from scheduler.framework.events import TIME_TICK
from tests.unit.plugins.clusters import pod as make_pod
from tests.unit.plugins.spread_fallback.bench import (
    NPF,
    OWN_ANNOTATION,
    OWN_STATUS,
    PF,
    PROVISIONING,
    ZONE,
    Bench,
    constraint,
)

Outcome = PostFilterOutcome
QUEUE, STAYS = QueueingHint.QUEUE, QueueingHint.SKIP


def test_s10_each_attempt_evaluates_the_criteria_again() -> None:
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.attempt() == [ZONE]
    bench.set(PROVISIONING, "True")
    assert bench.hint() is STAYS
    assert bench.attempt() == []
    made = bench.condition()
    assert made is not None
    assert (made.status, made.reason) == ("False", "AwaitingCriteria")
    bench.set(PROVISIONING, "False")
    assert bench.hint() is QUEUE, "hard in the attempt between, so it would grow again"


def test_grows_is_idempotent() -> None:
    """Guard against hot loops: constraints that were already soft never queue the pod."""
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert [bench.hint() for _ in range(3)] == [QUEUE] * 3
    bench.attempt()
    bench.set(PROVISIONING, "True")
    bench.set(PROVISIONING, "False")
    assert [bench.hint() for _ in range(3)] == [STAYS] * 3


def test_hints_react_to_the_own_pod_only() -> None:
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    other = make_pod(metadata={"name": "other", "uid": "other"})
    for event in (OWN_STATUS, OWN_ANNOTATION):
        for each in bench.plugin.events_to_register():
            if each.event.matches(event):
                assert each.hint is not None
                assert each.hint(bench.pod, other, other) is STAYS
                assert each.hint(bench.pod, bench.pod, bench.pod) is QUEUE


def test_the_tick_is_registered_with_a_timeout_only() -> None:
    def registered(bench: Bench) -> bool:
        return any(each.event == TIME_TICK for each in bench.plugin.events_to_register())

    assert not registered(Bench(constraint(ZONE, NPF)))
    assert registered(Bench(constraint(ZONE, NPF), timeout=1))
    assert not registered(Bench(constraint(ZONE, NPF), timeout=1, gate=False))


def test_s16_without_the_gate_nothing_is_stored_or_reported() -> None:
    bench = Bench(constraint(ZONE, NPF), annotation="zone=Nope", timeout=1, gate=False)
    bench.attempt_without_hints()
    bench.set(PROVISIONING, "False")
    assert bench.next() == []
    assert bench.condition() is None
    assert (bench.handle.notes, bench.info.plugin_memory) == ([], None)


def test_s16_explain_reports_that_the_gate_is_off() -> None:
    """The explanation names the gate; nothing else reports it."""
    off = "feature gate PodTopologySpreadFallbackMode is off"
    for criteria, annotation in (((), "zone=Nope"), ((NPF,), None)):
        bench = Bench(constraint(ZONE, *criteria), annotation=annotation, gate=False)
        (line,) = bench.plugin.explain(bench.pod)
        assert line.endswith(off)
    plain = Bench(constraint(ZONE), gate=False)
    assert plain.plugin.explain(plain.pod) == ()


def test_a_pod_of_the_same_name_has_no_earlier_state() -> None:
    """State is kept by UID, and is dropped with the queue record."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    metadata = msgspec.structs.replace(bench.pod.metadata, uid="successor")
    bench.pod = bench.cluster.intern(msgspec.structs.replace(bench.pod, metadata=metadata))
    bench.info = type(bench.info)(bench.pod, bench.clock.now())
    assert bench.next() == []
    fallback = bench.plugin._fallback
    assert fallback is not None
    assert list(fallback._infos) == ["successor"], "the old record is not kept alive"


def test_timeouts_are_per_profile() -> None:
    quick, slow = (Bench(constraint(ZONE, NPF), timeout=seconds) for seconds in (10, 1000))
    for bench in (quick, slow):
        bench.attempt()
        bench.clock.advance(20)
    assert (quick.next(), slow.next()) == ([ZONE], [])


def test_a_trial_run_leaves_no_trace() -> None:
    """`kubestow explain` runs PreFilter as well."""
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    notes, before = list(bench.handle.notes), bench.condition()
    state = CycleState(bench.clock.now())
    assert bench.plugin.pre_filter(state, bench.pod, bench.cluster.table) is SKIP
    assert (bench.handle.notes, bench.condition()) == (notes, before)
    assert state.binding_annotations is None
    assert bench.hint() is QUEUE, "the trial is no attempt"
