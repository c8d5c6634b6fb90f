"""Claims of pods that fit the quota and no node."""

from __future__ import annotations

from scheduler.framework import (
    SKIP,
    CycleState,
    QueuedPodInfo,
)
from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import (
    CPU,
    Desk,
)


async def test_a_bind_waits_until_those_it_overtakes_are_told() -> None:
    """RC3: an autoscaler that saw both would buy a node too many."""
    desk = Desk()
    first, second = pod("first", deferred=True), pod("second", deferred=True)
    taker = pod("taker", deferred=True)
    desk.seen(quota(hard={CPU: 2000}), first, second, taker)
    plugin, state = desk.plugin, CycleState(desk.board.time)
    for each in (first, second):
        assert plugin.unschedulable_reason(each) is None
        plugin.pod_conditions(each, QueuedPodInfo(each, desk.board.time))
    assert plugin.pre_bind_pre_flight(state, taker, "n") is SKIP
    assert plugin.reserve(state, taker, "n") is None
    # The newest claim has to go.
    assert desk.board.relabelled == [("second", "ResourceQuotaValidated")]
    assert desk.board.rechecked == []
    assert plugin.pre_bind_pre_flight(state, taker, "n") is None
    assert await plugin.pre_bind(state, taker, "n") is None
    assert desk.board.waited_for == [["second"]]
    desk.run()
    assert desk.board.activated == []
    # It is given back: the one that was overtaken may try again, and claim it.
    plugin.unreserve(state, taker, "n")
    desk.run()
    assert desk.board.activated == ["second"]
    assert plugin.pre_bind_pre_flight(state, taker, "n") is SKIP
    # Those who claimed may use it without a word to anybody.
    assert plugin.reserve(state, first, "n") is None
    assert plugin.pre_bind_pre_flight(state, first, "n") is SKIP
    assert len(desk.board.relabelled) == 1
    desk.ledger.validate()


def test_quota_that_went_while_an_attempt_was_under_way_is_not_claimed_for_long() -> None:
    desk = Desk()
    late = pod("late", deferred=True)
    desk.seen(quota(hard={CPU: 1000}), late)
    assert desk.plugin.unschedulable_reason(late) is None
    desk.seen(pod("running", node="n"))
    desk.run()
    desk.plugin.pod_conditions(late, QueuedPodInfo(late, desk.board.time))
    assert desk.plugin.enforcement is not None
    assert desk.plugin.enforcement.next_due() == 0.0
    desk.run()
    assert desk.board.relabelled == [("late", "ResourceQuotaValidated")]
    # It does not even fit alone: the gate is closed as well.
    assert desk.board.rechecked == [late.uid]
