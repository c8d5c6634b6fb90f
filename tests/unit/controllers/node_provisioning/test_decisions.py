"""Patches: their content, when they are written, retries, and concurrency."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.controllers.node_provisioning.decisions import (
    MAX_IN_FLIGHT,
    MESSAGE_SECONDS,
    NEVER,
    Decisions,
    Patch,
)
from scheduler.controllers.node_provisioning.ownership import CONDITION
from tests.unit.controllers.node_provisioning.world import (
    BACKOFF,
    TOO_BIG,
    SimulatedBridge,
    group_failure,
    having,
    pod,
    promise,
    refusal,
    rfc,
)


def test_a50_a_refusal_makes_the_condition_false() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    assert bridge.write(0.5) == [("False", "ScaleUpBackoff")]
    (patch,) = bridge.patches
    assert patch.condition.type == CONDITION
    assert patch.condition.last_transition_time == rfc(0.5)
    assert patch.source == "cluster-autoscaler"
    assert not patch.verify


def test_without_events_nothing_is_written() -> None:
    bridge = SimulatedBridge(pod())
    assert bridge.plan(10_000).patches == ()
    assert bridge.plan(10_000).wake == NEVER


def test_the_time_of_transition_stays_while_the_status_does() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    bridge.write(0)
    bridge.observe(refusal(10, TOO_BIG))
    assert bridge.write(10) == [("False", "MaxSizeReached")]
    assert bridge.patches[-1].condition.last_transition_time == rfc(0)
    bridge.observe(promise(20))
    bridge.write(20)
    assert bridge.patches[-1].condition.last_transition_time == rfc(20)


def test_an_unchanged_condition_is_written_once() -> None:
    bridge = SimulatedBridge(pod())
    for time in range(10):
        bridge.observe(refusal(time))
        bridge.write(time)
    assert len(bridge.patches) == 1


def test_a_condition_that_the_pod_has_is_not_written_again() -> None:
    """After a restart the bridge reads its own condition."""
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    bridge.write(0)
    restarted = SimulatedBridge(having(pod(), bridge.patches[0].condition))
    restarted.observe(refusal(0), age=30)
    assert restarted.write(30) == []


def test_a_changed_message_is_written_once_a_minute() -> None:
    bridge = SimulatedBridge(pod())
    written = []
    for time in range(0, 200, 5):
        bridge.now = time
        bridge.observe(refusal(time, f"{BACKOFF}, {time} node(s) didn't match"))
        if bridge.write(time):
            written.append(time)
    assert written == [0, 60, 120, 180]


def test_the_newest_message_is_written_after_the_minute() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    bridge.write(0)
    bridge.observe(refusal(10, f"{BACKOFF}, 7 node(s) didn't match"))
    assert bridge.plan(10).wake == MESSAGE_SECONDS
    assert bridge.write(MESSAGE_SECONDS) == [("False", "ScaleUpBackoff")]
    assert "7 node(s)" in bridge.patches[-1].condition.message


def test_only_one_patch_of_a_pod_is_under_way() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    (first,) = bridge.plan(0).patches
    bridge.observe(promise(1))
    assert bridge.plan(1).patches == ()
    bridge.decisions.written(first, 2)
    assert bridge.write(2) == [("True", "TriggeredScaleUp")]


def test_an_interrupted_patch_is_planned_again() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    assert bridge.plan(0).patches
    bridge.decisions.forget_events()
    bridge.decisions.begin()
    bridge.observe(refusal(0))
    assert bridge.write(1) == [("False", "ScaleUpBackoff")]


def test_a_failed_patch_is_retried_with_backoff() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    waits = []
    for _ in range(9):
        (patch,) = bridge.plan().patches
        bridge.decisions.failed(patch, bridge.now)
        plan = bridge.plan()
        assert plan.patches == ()
        waits.append(plan.wake - bridge.now)
        bridge.now = plan.wake
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert bridge.write() == [("False", "ScaleUpBackoff")]


def test_a_retry_writes_the_current_condition() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    (patch,) = bridge.plan(0).patches
    bridge.decisions.failed(patch, 0)
    bridge.observe(promise(0.5))
    assert bridge.write(1) == [("True", "TriggeredScaleUp")]


@pytest.mark.parametrize(
    "report",
    [
        lambda decisions, patch: decisions.written(patch, 1),
        lambda decisions, patch: decisions.failed(patch, 1),
        lambda decisions, patch: decisions.concede(patch),
    ],
    ids=["written", "failed", "another writer"],
)
def test_a_deleted_pod_is_forgotten_whatever_its_patch_returns(
    report: Callable[[Decisions, Patch], None],
) -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    (patch,) = bridge.plan(0).patches
    bridge.decisions.forget(patch.pod.uid)
    report(bridge.decisions, patch)
    assert bridge.plan(100).patches == ()
    assert bridge.decisions.statistics().under_way == 0
    assert bridge.decisions.conflicting_managers == 0


def test_an_expired_event_is_forgotten_unless_its_pod_is_pending() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0), refusal(0, name="unknown"))
    bridge.write(0)
    bridge.decisions.event_deleted(promise(0))
    bridge.decisions.event_deleted(refusal(0, name="unknown"))
    assert bridge.decisions.statistics().signals == 1
    assert bridge.write(1200) == [("False", "ProvisioningTimedOut")]


def test_forgetting_events_keeps_the_written_conditions() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0), group_failure("g1", 0))
    bridge.write(0)
    bridge.decisions.forget_events()
    assert bridge.plan(5000).wake == NEVER
    bridge.observe(refusal(0), age=5000)
    assert bridge.write(5000) == []


def test_a_delayed_patch_is_decided_when_it_is_sent() -> None:
    names = [f"p{number}" for number in range(MAX_IN_FLIGHT + 1)]
    bridge = SimulatedBridge(*map(pod, names))
    bridge.observe(*(refusal(0, name=name) for name in names))
    first = bridge.plan(0).patches
    assert [each.pod.metadata.name for each in first] == names[:MAX_IN_FLIGHT]
    assert bridge.plan(1).patches == ()
    bridge.observe(promise(2, name=names[-1]))
    bridge.decisions.written(first[0], 2)
    (last,) = bridge.plan(2).patches
    assert (last.pod.metadata.name, last.condition.status) == (names[-1], "True")
