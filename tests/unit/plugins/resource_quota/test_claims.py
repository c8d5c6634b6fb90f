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
    PluginFixture,
)


async def test_a_bind_waits_until_displaced_pods_are_relabelled() -> None:
    """RC3: an autoscaler that saw both would buy a node too many."""
    fixture = PluginFixture()
    first, second = pod("first", deferred=True), pod("second", deferred=True)
    taker = pod("taker", deferred=True)
    fixture.deliver(quota(hard={CPU: 2000}), first, second, taker)
    plugin, state = fixture.plugin, CycleState(fixture.handle.time)
    for each in (first, second):
        assert plugin.unschedulable_reason(each) is None
        plugin.pod_conditions(each, QueuedPodInfo(each, fixture.handle.time))
    assert plugin.pre_bind_pre_flight(state, taker, "n") is SKIP
    assert plugin.reserve(state, taker, "n") is None
    # The newest claim has to go.
    assert fixture.handle.relabelled == [("second", "ResourceQuotaValidated")]
    assert fixture.handle.rechecked == []
    assert plugin.pre_bind_pre_flight(state, taker, "n") is None
    assert await plugin.pre_bind(state, taker, "n") is None
    assert fixture.handle.waited_for == [["second"]]
    fixture.run()
    assert fixture.handle.activated == []
    # It is given back: the one that was overtaken may try again, and claim it.
    plugin.unreserve(state, taker, "n")
    fixture.run()
    assert fixture.handle.activated == ["second"]
    assert plugin.pre_bind_pre_flight(state, taker, "n") is SKIP
    # Those who claimed may use it without a word to anybody.
    assert plugin.reserve(state, first, "n") is None
    assert plugin.pre_bind_pre_flight(state, first, "n") is SKIP
    assert len(fixture.handle.relabelled) == 1
    fixture.ledger.validate()


def test_a_claim_is_withdrawn_when_quota_was_taken_during_the_attempt() -> None:
    fixture = PluginFixture()
    late = pod("late", deferred=True)
    fixture.deliver(quota(hard={CPU: 1000}), late)
    assert fixture.plugin.unschedulable_reason(late) is None
    fixture.deliver(pod("running", node="n"))
    fixture.run()
    fixture.plugin.pod_conditions(late, QueuedPodInfo(late, fixture.handle.time))
    assert fixture.plugin.enforcement is not None
    assert fixture.plugin.enforcement.next_due() == 0.0
    fixture.run()
    assert fixture.handle.relabelled == [("late", "ResourceQuotaValidated")]
    # It does not even fit alone: the gate is closed as well.
    assert fixture.handle.rechecked == [late.uid]
