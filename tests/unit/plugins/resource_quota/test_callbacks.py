"""Reports of the ledger to its host: overcommitted quotas, and pods to check again."""

from __future__ import annotations

from tests.unit.plugins.resource_quota.objects import Desk, pod, quota

CPU = "requests.cpu-millis"


def test_o8_a_binding_of_others_is_counted_and_reported_once() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("a", "2", node="n", deferred=True), pod("b", node="n"))
    assert desk.overcommitted == ["q"]
    assert desk.enqueue(pod("p", deferred=True)) == []


def test_o4_a_lowered_limit_holds_new_pods_and_is_reported() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    desk.see(pod("a", "2", node="n"))
    desk.ledger.set_quota(quota(hard={CPU: 1000}))
    assert desk.enqueue(pod("p", deferred=True)) == []
    assert desk.overcommitted == ["q"]


def test_pods_admitted_before_the_first_lists_are_complete_are_checked_again() -> None:
    desk = Desk(quota(hard={CPU: 1000}), synced=False)
    desk.see(pod("running", node="n"), pod("p", deferred=True), pod("none", "0", deferred=True))
    for uid in ("p", "none", "gone"):
        desk.ledger.recheck_after_sync(uid)
    desk.run()
    assert not desk.rechecked
    desk.ledger.mark_synced()
    assert desk.ledger.next_due() == 0.0
    desk.run()
    assert desk.rechecked == ["p"]
