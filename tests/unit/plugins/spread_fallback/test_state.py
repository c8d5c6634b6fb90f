"""State: T0 (rule S5), the latch (S11, S12), restarts (S15), and reports."""

from __future__ import annotations

import pytest

from plugins.pod_topology_spread.fallback_condition import CONDITION
from scheduler.framework import PostFilterOutcome, QueueingHint
from scheduler.framework.events import TIME_TICK
from tests.unit.plugins.spread_fallback.bench import (
    HOST,
    NAME,
    NPF,
    PF,
    PROVISIONING,
    ZONE,
    Bench,
    constraint,
)

Outcome = PostFilterOutcome
TIMEOUT = 300.0
QUEUE, STAYS = QueueingHint.QUEUE, QueueingHint.SKIP


# -- T0 (S5) -------------------------------------------------------------------------------------


def test_s5_departure_retries_do_not_reset_t0() -> None:
    """With "the last scheduling time" of the KEP it would never expire in a busy cluster."""
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    for _ in range(10):
        assert bench.attempt() == []
        bench.clock.advance(TIMEOUT / 10)
        since_last_attempt = bench.clock.now() - bench.info.timestamp
        assert since_last_attempt < TIMEOUT, "each attempt resets the KEP's time"
    assert bench.next() == [ZONE]


def test_s5_only_a_rejection_by_spreading_sets_t0() -> None:
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.begin()
    bench.reject(Outcome.FAILED, "NodeResourcesFit")
    assert bench.condition() is None
    bench.clock.advance(TIMEOUT + 1)
    assert bench.next() == []
    bench.reject()
    bench.clock.advance(TIMEOUT - 1)
    assert bench.hint(TIME_TICK) is STAYS
    bench.clock.advance(1)
    assert bench.hint(TIME_TICK) is QUEUE


def test_s5_a_gate_that_closes_again_resets_t0() -> None:
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.attempt()
    bench.info.gating_plugin = "ResourceQuota"
    bench.info.unschedulable_plugins = {NAME, "ResourceQuota"}
    bench.clock.advance(TIMEOUT)
    bench.info.gating_plugin = ""
    bench.info.gate_openings += 1
    assert bench.attempt() == []
    bench.clock.advance(TIMEOUT - 1)
    assert bench.next() == []
    bench.reject()
    bench.clock.advance(1)
    assert bench.next() == [ZONE]


def test_f8_jumps_of_the_wall_clock_do_not_count() -> None:
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.attempt()
    bench.condition()
    bench.clock.wall += 10 * TIMEOUT
    assert bench.hint(TIME_TICK) is STAYS
    bench.clock.wall -= 20 * TIMEOUT
    bench.clock.steady += TIMEOUT
    assert bench.hint(TIME_TICK) is QUEUE


def test_a38_a_restart_restores_t0_from_the_condition() -> None:
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.attempt()
    bench.clock.advance(240)
    bench.restart()
    assert bench.attempt() == []
    bench.clock.advance(58)
    assert bench.hint(TIME_TICK) is STAYS
    bench.clock.advance(2)
    assert bench.hint(TIME_TICK) is QUEUE


def test_f8_a_t0_in_the_future_counts_as_now() -> None:
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.set(CONDITION, "False", "AwaitingCriteria", "since=2099-01-01T00:00:00Z; more")
    assert bench.attempt() == []
    bench.clock.advance(TIMEOUT)
    assert bench.next() == [ZONE]


@pytest.mark.parametrize("message", ["", "since=", "since=yesterday; x", "nothing of ours"])
def test_s15_a_changed_message_loses_t0_only(message: str) -> None:
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.set(CONDITION, "False", "AwaitingCriteria", message)
    assert bench.attempt() == []
    bench.clock.advance(TIMEOUT)
    assert bench.next() == [ZONE]


# -- the latch (S11, S12) ------------------------------------------------------------------------


def nominated_while_soft() -> Bench:
    """Attempt 1 fails, attempt 2 is soft and preempts on node a, which violates the spread."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    assert bench.attempt(Outcome.NOMINATED) == [ZONE]
    bench.handle.nominated = "a"
    return bench


def test_a23_s11_departure_the_latch_keeps_the_nominated_node_usable() -> None:
    """By the KEP's wording the criterion is false now.

    The next attempt would be strict, node a would violate the spread, the nomination would be
    cleared, and the attempt after that would be soft and evict pods again.
    """
    bench = nominated_while_soft()
    line = bench.plugin.explain(bench.pod)[0]
    assert f"{PF} false (preemption nominated a node)" in line, "false by the wording of the KEP"
    for _ in range(3):
        assert bench.next() == [ZONE]
        assert "a" in bench.fits()
        bench.reject(Outcome.NOMINATED)


def test_s11_the_latch_ends_with_the_nomination() -> None:
    bench = nominated_while_soft()
    assert bench.attempt(Outcome.NOMINATED) == [ZONE]
    bench.handle.nominated = ""
    assert bench.next() == []


def test_s11_the_latch_keeps_only_what_was_soft_at_the_nomination() -> None:
    bench = Bench(constraint(ZONE, PF), constraint(HOST, NPF))
    bench.attempt(Outcome.FAILED)
    bench.attempt(Outcome.NOMINATED)
    bench.handle.nominated = "a"
    bench.set(PROVISIONING, "False")
    assert bench.attempt(Outcome.NOMINATED) == [HOST, ZONE]
    bench.set(PROVISIONING, "True")
    assert bench.next() == [ZONE]


def test_a24_s12_a_nomination_lost_to_another_pod_is_no_failed_preemption() -> None:
    bench = nominated_while_soft()
    bench.handle.nominated = ""
    assert bench.hint() is STAYS
    assert bench.next() == []


def test_a25_s11_a_restart_restores_the_latch() -> None:
    bench = nominated_while_soft()
    bench.change(nominated_node_name="a")
    bench.restart()
    assert bench.next() == [ZONE]
    bench.reject(Outcome.NOMINATED)
    assert bench.next() == [ZONE]


def test_a25_without_the_condition_nothing_is_restored() -> None:
    bench = Bench(constraint(ZONE, PF))
    bench.change(nominated_node_name="a")
    bench.handle.nominated = "a"
    assert bench.next() == []


# -- reports ------------------------------------------------------------------------------------


def test_s15_the_condition_through_the_life_of_a_pod() -> None:
    bench = Bench(constraint(ZONE, NPF), annotation=None)
    assert bench.condition() is None
    bench.begin()
    assert bench.condition() is None, "not rejected yet"
    bench.reject()
    first = bench.condition()
    assert first is not None
    assert first.type == "kubestow.io/TopologySpreadFallback"
    assert (first.status, first.reason) == ("False", "AwaitingCriteria")
    assert first.message == f"since=1970-01-12T13:46:40Z; {ZONE} waits for {NPF}"
    bench.clock.advance(60)
    bench.attempt()
    assert bench.condition() == first, "unchanged, so that nothing is written"
    bench.set(PROVISIONING, "False")
    bench.attempt()
    now = bench.condition()
    assert now is not None
    assert (now.status, now.reason) == ("True", "CriteriaMet")
    assert now.message == f"since=1970-01-12T13:46:40Z; {ZONE}: {NPF}"


def test_s15_removed_criteria_are_not_awaited() -> None:
    bench = Bench(constraint(ZONE), annotation=f"{ZONE}={NPF}")
    bench.attempt()
    shown = bench.condition()
    assert shown is not None
    bench.change(conditions=(*bench.pod.status.conditions, shown))
    bench.annotate(None)
    bench.attempt()
    condition = bench.condition()
    assert condition is not None
    assert condition.message.endswith("; no constraint has criteria")


def test_an_invalid_annotation_does_not_affect_the_field() -> None:
    bench = Bench(constraint(ZONE, PF), annotation="junk")
    assert bench.attempt(Outcome.FAILED) == []
    assert bench.next() == [ZONE]
    notes = [note for reason, note in bench.handle.notes if reason.startswith("Invalid")]
    assert len(notes) == 1
    assert notes[0].endswith("; the annotation is ignored")


def test_one_event_is_recorded_per_additional_soft_constraint() -> None:
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False", "NotTriggerScaleUp", "1 in backoff")
    for _ in range(3):
        bench.attempt()
    note = (
        f"topologySpreadConstraints[{ZONE}] treated as ScheduleAnyway: {NPF} "
        "(NodeProvisioningInProgress=False (NotTriggerScaleUp: 1 in backoff))"
    )
    assert bench.handle.notes == [("TopologySpreadFallback", note)]
    assert bench.handle.counted == [("scheduler_pod_topology_spread_fallback_total", NPF, "test")]


def test_only_a_binding_of_a_soft_attempt_counts_as_scheduled_by_fallback() -> None:
    name = "scheduler_pod_topology_spread_fallback_scheduled_total"
    bench = Bench(constraint(ZONE, NPF))
    bench.begin()
    bench.handle.bound(bench.pod, "b")
    assert bench.handle.counted == []
    bench.reject()
    bench.set(PROVISIONING, "False")
    bench.begin()
    bench.handle.bound(bench.pod, "a")
    assert bench.handle.counted[-1] == (name, "test")


def test_explain_names_every_criterion_with_its_evidence() -> None:
    bench = Bench(constraint(ZONE, NPF, PF), constraint(HOST, NPF), timeout=TIMEOUT)
    bench.attempt(Outcome.FAILED)
    bench.condition()
    bench.clock.advance(100)
    left = f"{NPF} false (no condition {PROVISIONING}, 200s of 300s left)"
    assert bench.plugin.explain(bench.pod) == (
        f"{ZONE}: hard: {left}, {PF} true (preemption found no candidate)",
        f"{HOST}: hard: {left}",
    )
    bench.annotate("zone=Nope")
    assert "ignored as a whole" in bench.plugin.explain(bench.pod)[-1]
