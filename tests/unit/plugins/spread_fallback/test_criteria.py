"""The criteria: truth table of rules S2 to S6, and outcomes of preemption."""

from __future__ import annotations

import pytest

from scheduler.framework import PostFilterOutcome, QueueingHint
from tests.unit.plugins.spread_fallback.bench import (
    NAME,
    NPF,
    OWN_STATUS,
    PF,
    PROVISIONING,
    ZONE,
    Bench,
    constraint,
)

Outcome = PostFilterOutcome
TIMEOUT = 300.0
QUEUE, STAYS = QueueingHint.QUEUE, QueueingHint.SKIP
EVERY_OUTCOME = tuple(Outcome)
FAILED_PREEMPTION = (Outcome.FAILED, Outcome.INELIGIBLE, Outcome.NO_PLUGIN, Outcome.ERROR)


@pytest.mark.parametrize(
    ("criteria", "condition", "elapsed", "outcomes", "soft"),
    [
        ((), ("", "True", "False", "Unknown"), (False, True), EVERY_OUTCOME, False),
        ((NPF,), ("", "Unknown"), (False,), EVERY_OUTCOME, False),
        ((NPF,), ("", "Unknown"), (None,), EVERY_OUTCOME, False),
        ((NPF,), ("", "Unknown"), (True,), EVERY_OUTCOME, True),
        ((NPF,), ("True",), (False, True), EVERY_OUTCOME, False),
        ((NPF,), ("False",), (None, False, True), EVERY_OUTCOME, True),
        ((PF,), ("", "False", "True"), (False, True), (Outcome.NOT_RUN,), False),
        ((PF,), ("", "False", "True"), (False, True), (Outcome.NOMINATED,), False),
        ((PF,), ("", "False", "True"), (False, True), FAILED_PREEMPTION, True),
        ((NPF, PF), ("False",), (False, True), (Outcome.FAILED,), True),
        ((NPF, PF), ("False",), (False, True), (Outcome.NOMINATED,), False),
        ((NPF, PF), ("",), (False,), (Outcome.FAILED,), False),
        ((NPF, PF), ("",), (True,), (Outcome.FAILED,), True),
        ((NPF, PF), ("True",), (True,), (Outcome.FAILED,), False),
    ],
)
def test_truth_table(
    criteria: tuple[str, ...],
    condition: tuple[str, ...],
    elapsed: tuple[bool | None, ...],
    outcomes: tuple[Outcome, ...],
    soft: bool,
) -> None:
    """`elapsed`: None means that no timeout is set."""
    for status in condition:
        for past in elapsed:
            for outcome in outcomes:
                timeout = None if past is None else TIMEOUT
                bench = Bench(constraint(ZONE, *criteria), timeout=timeout)
                assert bench.attempt(outcome) == [], "S7: the first attempt is strict"
                if status:
                    bench.set(PROVISIONING, status)
                bench.clock.advance(TIMEOUT + 1 if past or past is None else TIMEOUT - 1)
                expected = [ZONE] if soft else []
                case = (criteria, status, past, outcome)
                assert bench.hint(OWN_STATUS) is (QUEUE if soft else STAYS), case
                assert bench.next() == expected, case
                assert bench.fits() == (["a", "b"] if soft else ["b"]), case


@pytest.mark.parametrize("status", ["false", "FALSE", "no", ""])
def test_s4_an_invalid_status_counts_as_unknown(status: str) -> None:
    """API servers accept any text."""
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, status)
    assert bench.hint(OWN_STATUS) is STAYS
    assert bench.next() == []
    (line,) = bench.plugin.explain(bench.pod)
    assert f"{PROVISIONING}={status} (want True, False or Unknown)" in line


def test_s1_criteria_of_a_soft_constraint_have_no_effect() -> None:
    bench = Bench(constraint(ZONE, NPF, whenUnsatisfiable="ScheduleAnyway"))
    bench.set(PROVISIONING, "False")
    assert bench.attempt() == []
    assert bench.condition() is None


def test_s1_an_unknown_criterion_never_holds() -> None:
    bench = Bench(constraint(ZONE, NPF, "SomethingNewer"))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.next() == []


@pytest.mark.parametrize(
    ("reason", "soft"),
    [
        ("SchedulingGated", False),
        ("ResourceQuotaValidated", False),
        ("NotReadyForScheduling", False),
        ("SchedulerError", False),
        ("Unschedulable", True),
    ],
)
def test_s6_departure_the_reason_decides_about_an_unknown_outcome(reason: str, soft: bool) -> None:
    """The KEP's condition, PodScheduled=False and no nominated node, holds for all of these.

    Taken literally, every pod that was ever gated would be soft in its very first attempt.
    """
    bench = Bench(constraint(ZONE, PF))
    bench.set("PodScheduled", "False", reason)
    assert bench.pod.status.nominated_node_name == ""
    assert bench.next() == ([ZONE] if soft else [])


def test_s6_an_unknown_outcome_with_a_nominated_node_is_no_failure() -> None:
    for field in ("status", "memory"):
        bench = Bench(constraint(ZONE, PF))
        bench.set("PodScheduled", "False", "Unschedulable")
        if field == "status":
            bench.change(nominated_node_name="b")
        else:
            bench.handle.nominated = "b"
        assert bench.next() == []


def test_s6_a_nomination_by_another_writer_is_no_preemption() -> None:
    """Kueue or an autoscaler nominates; the known outcome of the last attempt decides."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    bench.change(nominated_node_name="b")
    assert bench.next() == [ZONE]


def test_s6_a_gate_since_the_last_attempt_voids_its_outcome() -> None:
    """KEP-5465: the pod is held for quota after a rejection, then released."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    bench.info.gating_plugin = "ResourceQuota"
    bench.info.unschedulable_plugins = {NAME, "ResourceQuota"}
    bench.clock.advance(1000)
    bench.info.gating_plugin = ""
    bench.info.gate_openings += 1
    assert bench.next() == []
    bench.reject(Outcome.FAILED)
    assert bench.next() == [ZONE]


def test_s6_an_attempt_that_ended_before_spreading_was_evaluated() -> None:
    """A claim is missing: PostFilter ran and failed, but not because of spreading."""
    bench = Bench(constraint(ZONE, PF))
    bench.info.attempts += 1
    bench.reject_without_hints(Outcome.FAILED, "VolumeBinding")
    assert bench.next() == []


@pytest.mark.parametrize("what", ["bind failed", "scheduler error", "no nodes"])
def test_s6_attempts_in_which_preemption_was_not_tried(what: str) -> None:
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    bench.begin()
    bench.reject(Outcome.NOT_RUN, *(("Other",) if what == "bind failed" else (NAME,)))
    assert bench.next() == [], what


def test_pods_of_a_signature_with_other_soft_keys_share_no_failed_preemption() -> None:
    bench = Bench(constraint(ZONE, PF))
    bench.begin()
    assert bench.state.variant is None
    bench.reject()
    bench.begin()
    assert bench.state.variant == ((NAME, frozenset({ZONE})),)
