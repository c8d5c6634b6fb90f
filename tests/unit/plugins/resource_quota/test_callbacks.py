"""Reports of the ledger to its host: overcommitted quotas, and pods to check again."""

from __future__ import annotations

from tests.unit.plugins.resource_quota.objects import LedgerFixture, pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import PluginFixture

CPU = "requests.cpu-millis"


def test_o8_a_binding_of_others_is_counted_and_reported_once() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    fixture.observe(pod("a", "2", node="n", deferred=True), pod("b", node="n"))
    assert fixture.overcommitted == ["q"]
    assert fixture.enqueue(pod("p", deferred=True)) == []


def test_o4_a_lowered_limit_holds_new_pods_and_is_reported() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 2000}))
    fixture.observe(pod("a", "2", node="n"))
    fixture.ledger.set_quota(quota(hard={CPU: 1000}))
    assert fixture.enqueue(pod("p", deferred=True)) == []
    assert fixture.overcommitted == ["q"]


def test_pods_admitted_before_the_first_lists_are_complete_are_checked_again() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}), synced=False)
    fixture.observe(
        pod("running", node="n"), pod("p", deferred=True), pod("none", "0", deferred=True)
    )
    for uid in ("p", "none", "gone"):
        fixture.ledger.recheck_after_sync(uid)
    fixture.run()
    assert not fixture.rechecked
    fixture.ledger.mark_synced()
    assert fixture.ledger.next_due() == 0.0
    fixture.run()
    assert fixture.rechecked == ["p"]


def test_without_a_quota_nothing_waits_for_a_time() -> None:
    fixture = PluginFixture(synced=False)
    early = pod("early", deferred=True)
    assert fixture.plugin.pre_enqueue(early) is None
    enforcement = fixture.plugin.enforcement
    assert enforcement is not None
    fixture.ledger.mark_synced()
    fixture.deliver(early)
    assert enforcement.next_due() is None
    # From the first quota on there is a recount to wait for, and still no pod to check again.
    fixture.deliver(quota(hard={CPU: 1000}))
    fixture.run()
    assert enforcement.next_due() is not None
    assert not fixture.handle.rechecked
