"""The pods that the first enforced quota counts although they came before it."""

from __future__ import annotations

from plugins.resource_quota.accounts import Role
from scheduler.framework import (
    CycleState,
)
from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import (
    CPU,
    PluginFixture,
    info_of,
)


def test_without_any_deferred_quota_no_pod_is_counted_and_no_mark_is_made() -> None:
    fixture = PluginFixture()
    subject = pod("p", deferred=True)
    fixture.deliver(quota("built-in", hard={"=requests.memory": "1Gi"}), subject)

    assert fixture.plugin.pre_enqueue(subject) is None
    assert not fixture.plugin.pod_conditions(subject, info_of(subject, "NodeResourcesFit"))
    assert fixture.ledger.pod(subject.uid) is None


def test_the_first_quota_counts_pods_that_exist_and_those_being_bound() -> None:
    fixture = PluginFixture()
    running, reserved, gone = pod("running", node="n"), pod("reserved"), pod("gone")
    fixture.deliver(running, reserved, gone)
    assert not fixture.plugin.reserve(CycleState(0.0), reserved, "n")
    assert not fixture.plugin.reserve(CycleState(0.0), gone, "n")
    fixture.plugin.unreserve(CycleState(0.0), gone, "n")

    fixture.deliver(quota(hard={CPU: 3000}))

    (account,) = fixture.ledger.accounts()
    assert account.sums[Role.ASSIGNED] == account.sums[Role.RESERVED] == [10**9]
    fixture.plugin.unreserve(CycleState(0.0), reserved, "n")
    assert account.sums[Role.RESERVED] == [0]
    fixture.ledger.validate()


def test_pods_gated_before_the_first_quota_are_deferred() -> None:
    """The gate is gone, and with it the condition that showed it (rules Q3, Q5)."""
    fixture = PluginFixture()
    gated = pod("p", gates=True)
    fixture.deliver(gated, pod("running", node="n"), pod("plain"))
    unplaced = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    fixture.deliver_change(gated, pod("p", status={"conditions": unplaced}))

    fixture.deliver(quota(hard={CPU: 1000}))

    (account,) = fixture.ledger.accounts()
    assert account.sums[Role.PENDING] == [10**9], "the plain one"
    assert fixture.ledger.deferred(gated)
    fixture.ledger.validate()


def test_b29_nominations_made_before_the_first_quota_keep_their_share_in_it() -> None:
    fixture = PluginFixture()
    first, ended, late = (pod(name, deferred=True) for name in ("first", "ended", "late"))
    fixture.deliver(first, ended, late)
    for each in (first, ended):
        fixture.handle.callbacks["nomination"](each, "n")
    fixture.handle.callbacks["nomination"](ended, "")

    fixture.deliver(quota(hard={CPU: 1000}))

    assert list(fixture.ledger.reserved()) == ["first"]
    assert fixture.plugin.pre_enqueue(late) is not None
    assert fixture.plugin.pre_enqueue(first) is None
