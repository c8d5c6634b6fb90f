"""What the first enforced quota counts of the pods that came before it."""

from __future__ import annotations

from plugins.resource_quota.accounts import Role
from scheduler.framework import (
    CycleState,
)
from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import (
    CPU,
    Desk,
    info_of,
)


def test_without_any_deferred_quota_no_pod_is_counted_and_no_mark_is_made() -> None:
    desk = Desk()
    subject = pod("p", deferred=True)
    desk.seen(quota("built-in", hard={"=requests.memory": "1Gi"}), subject)

    assert desk.plugin.pre_enqueue(subject) is None
    assert not desk.plugin.pod_conditions(subject, info_of(subject, "NodeResourcesFit"))
    assert desk.ledger.pod(subject.uid) is None


def test_the_first_quota_counts_pods_that_are_there_already_and_those_on_their_way() -> None:
    desk = Desk()
    running, reserved, gone = pod("running", node="n"), pod("reserved"), pod("gone")
    desk.seen(running, reserved, gone)
    assert not desk.plugin.reserve(CycleState(0.0), reserved, "n")
    assert not desk.plugin.reserve(CycleState(0.0), gone, "n")
    desk.plugin.unreserve(CycleState(0.0), gone, "n")

    desk.seen(quota(hard={CPU: 3000}))

    (account,) = desk.ledger.accounts()
    assert account.sums[Role.ASSIGNED] == account.sums[Role.RESERVED] == [10**9]
    desk.plugin.unreserve(CycleState(0.0), reserved, "n")
    assert account.sums[Role.RESERVED] == [0]
    desk.ledger.validate()


def test_the_first_quota_knows_who_was_gated_before_it_came() -> None:
    """The gate is gone, and with it the condition that told of it (rules Q3, Q5)."""
    desk = Desk()
    gated = pod("p", gates=True)
    desk.seen(gated, pod("running", node="n"), pod("plain"))
    unplaced = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    desk.changed(gated, pod("p", status={"conditions": unplaced}))

    desk.seen(quota(hard={CPU: 1000}))

    (account,) = desk.ledger.accounts()
    assert account.sums[Role.PENDING] == [10**9], "the plain one"
    assert desk.ledger.deferred(gated)
    desk.ledger.validate()


def test_b29_nominations_made_before_the_first_quota_hold_their_share_in_it() -> None:
    desk = Desk()
    first, ended, late = (pod(name, deferred=True) for name in ("first", "ended", "late"))
    desk.seen(first, ended, late)
    for each in (first, ended):
        desk.board.callbacks["nomination"](each, "n")
    desk.board.callbacks["nomination"](ended, "")

    desk.seen(quota(hard={CPU: 1000}))

    assert list(desk.ledger.reserved()) == ["first"]
    assert desk.plugin.pre_enqueue(late) is not None
    assert desk.plugin.pre_enqueue(first) is None
