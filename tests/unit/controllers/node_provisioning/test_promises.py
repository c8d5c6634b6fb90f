"""Promises and refusals of autoscalers: order, failures of targets, deadlines, several sources."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.policy import CoreEvent
from tests.unit.controllers.node_provisioning.world import (
    TOO_BIG,
    TWO_GROUPS,
    SimulatedBridge,
    claim_failure,
    group_failure,
    karpenter_promise,
    karpenter_refusal,
    pod,
    promise,
    refusal,
)

PROMISE = promise(0)
REFUSAL = refusal(0)
HISTORY = (
    refusal(0), promise(10), promise(12, TWO_GROUPS), refusal(30, TOO_BIG),
    promise(40, TWO_GROUPS), group_failure("g1", 41), group_failure("g2", 50),
    group_failure("g1", 5), karpenter_promise(35), claim_failure("x", 36),
)  # fmt: skip


def test_a51_a_newer_promise_wins_and_an_older_refusal_is_ignored() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    bridge.write(0)
    bridge.observe(promise(10))
    assert bridge.write(10) == [("True", "TriggeredScaleUp")]
    bridge.observe(refusal(5))
    assert bridge.write(11) == []


@pytest.mark.parametrize(
    "events", [(PROMISE, REFUSAL), (REFUSAL, PROMISE)], ids=["promise first", "refusal first"]
)
def test_at_the_same_time_the_promise_wins(events: tuple[CoreEvent, CoreEvent]) -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(*events)
    assert bridge.write(0) == [("True", "TriggeredScaleUp")]


def test_a57_a_repeated_event_with_a_later_time_counts_again() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0), promise(10))
    assert bridge.write(10) == [("True", "TriggeredScaleUp")]
    bridge.observe(msgspec.structs.replace(refusal(20), count=2))
    assert bridge.write(20) == [("False", "ScaleUpBackoff")]


@given(st.permutations(HISTORY), st.integers(0, len(HISTORY)), st.sampled_from([60, 120, 2000]))
def test_the_order_in_which_events_arrive_does_not_matter(
    order: list[CoreEvent], known: int, later: float
) -> None:
    """In any order of events, and whenever the pod becomes known."""
    bridge = SimulatedBridge()
    bridge.now = 55.0
    bridge.observe(*order[:known])
    bridge.decisions.pod_changed(pod())
    bridge.observe(*order[known:])
    in_order = SimulatedBridge(pod())
    in_order.now = 55.0
    in_order.observe(*HISTORY)
    for when in (55.0, 55.0 + later):
        assert bridge.write(when) == in_order.write(when)


def test_a_promise_is_broken_a_minute_after_its_group_failed() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0))
    bridge.write(0)
    bridge.now = 5
    bridge.observe(group_failure("g1", 5))
    assert bridge.plan(5).wake == 65
    assert bridge.write(64.9) == []
    assert bridge.write(65) == [("False", "ProvisioningFailed")]
    assert "Scale-up failed for group g1" in bridge.patches[-1].condition.message


def test_a_newer_promise_cancels_the_failure() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0), group_failure("g1", 5))
    bridge.write(5)
    bridge.now = 30
    bridge.observe(promise(30))
    assert bridge.write(200) == []


def test_a_failure_before_the_promise_does_not_count() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(group_failure("g1", -1), promise(0))
    assert bridge.write(0) == [("True", "TriggeredScaleUp")]
    assert bridge.write(500) == []


def test_all_groups_must_have_failed() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0, TWO_GROUPS), group_failure("g1", 5))
    bridge.write(5)
    assert bridge.write(500) == []
    bridge.now = 500
    bridge.observe(group_failure("g2", 500))
    assert bridge.write(560) == [("False", "ProvisioningFailed")]


def test_a_repeated_failure_does_not_extend_the_window() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0))
    bridge.write(0)
    for time in range(5, 65, 10):
        bridge.now = time
        bridge.observe(group_failure("g1", time))
        assert bridge.write(time) == []
    assert bridge.write(65) == [("False", "ProvisioningFailed")]


def test_a_promise_without_groups_breaks_by_its_deadline_only() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0, "message of a later version"), group_failure("g1", 5))
    bridge.write(5)
    assert bridge.write(1000) == []


def test_a_failure_of_another_group_does_not_count() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0), group_failure("g9", 5))
    bridge.write(5)
    assert bridge.write(1000) == []


def test_a55_a_failed_node_claim_breaks_its_promise() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(karpenter_promise(0), claim_failure("y", 1), claim_failure("x", 2))
    assert bridge.write(2) == [("True", "Nominated")]
    assert bridge.write(62) == [("False", "ProvisioningFailed")]


def test_a53_a_promise_expires() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0))
    bridge.write(0)
    assert bridge.plan(1).wake == 1200
    assert bridge.write(1199.9) == []
    assert bridge.write(1200) == [("False", "ProvisioningTimedOut")]
    bridge.observe(promise(1300))
    assert bridge.write(1300) == [("True", "TriggeredScaleUp")]


def test_a_repeated_promise_does_not_expire() -> None:
    bridge = SimulatedBridge(pod())
    for time in range(0, 5000, 600):
        bridge.now = time
        bridge.observe(promise(time))
        bridge.write(time)
    assert [patch.condition.status for patch in bridge.patches] == ["True"]


def test_durations_are_measured_by_our_clock() -> None:
    """The autoscaler's clock only orders its events."""
    for skew in (-7200.0, 7200.0):
        bridge = SimulatedBridge(pod())
        bridge.observe(promise(skew))
        assert bridge.write(0) == [("True", "TriggeredScaleUp")]
        assert bridge.write(1199) == []
        assert bridge.write(1200) == [("False", "ProvisioningTimedOut")]


def test_the_age_of_a_promise_counts_towards_its_deadline() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(-1000), age=1000)
    bridge.write(0)
    assert bridge.write(200) == [("False", "ProvisioningTimedOut")]


@pytest.mark.parametrize("order", [0, 1])
def test_a60_one_promise_outweighs_the_refusal_of_another_autoscaler(order: int) -> None:
    events = (refusal(0), karpenter_promise(0)) if order else (karpenter_promise(0), refusal(0))
    bridge = SimulatedBridge(pod())
    bridge.observe(*events)
    assert bridge.write(0) == [("True", "Nominated")]


def test_a_newer_refusal_ends_the_promise_of_the_same_autoscaler() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(karpenter_promise(0))
    bridge.write(0)
    bridge.observe(refusal(100), karpenter_refusal(200))
    assert bridge.write(200) == [("False", "KarpenterFailedScheduling")]


def test_events_are_ordered_within_each_autoscaler() -> None:
    """A newer event of one autoscaler does not invalidate an older one of another."""
    bridge = SimulatedBridge(pod())
    bridge.observe(karpenter_refusal(100), promise(50))
    assert bridge.write(100) == [("True", "TriggeredScaleUp")]
