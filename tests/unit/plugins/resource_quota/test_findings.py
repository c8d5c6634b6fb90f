"""Events on quotas about what is wrong with them."""

from __future__ import annotations

from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import (
    CPU,
    PluginFixture,
)


def test_nothing_is_stored_for_a_namespace_whose_quotas_are_deleted() -> None:
    fixture = PluginFixture()
    enforcement = fixture.plugin.enforcement
    assert enforcement is not None
    plain, built_in = quota("plain"), quota("built-in", hard={"=requests.cpu": 1})
    fixture.deliver(plain, built_in)
    assert enforcement._known.keys() == {"default"}
    for each in (plain, built_in):
        fixture.handle.callbacks["resourcequotas"](each, None)
    assert not enforcement._known


def test_the_event_of_an_exceeded_quota_counts_all_pods() -> None:
    fixture = PluginFixture()
    fixture.deliver(*(pod(f"p{number}", node="n") for number in range(5)))
    fixture.deliver(quota(hard={CPU: 1000}))
    fixture.run()
    ((_, reason, note),) = fixture.handle.recorded
    assert reason == "DeferredQuotaOvercommitted"
    assert "used 5, limited 1;" in note


def test_b48_findings_about_quotas_are_events_on_them_once() -> None:
    fixture = PluginFixture()
    broken = quota(hard={"requests.cpu": 1, CPU: 1000})
    fixture.deliver(quota("built-in", hard={"=requests.memory": "1Gi"}), broken)
    fixture.handle.callbacks["resourcequotas"](broken, broken)
    fixture.deliver(pod("a", "2", node="n"))
    fixture.run()
    assert [(name, reason) for name, reason, _ in fixture.handle.recorded] == [
        ("q", "DeferredQuotaInvalidKey"),
        ("built-in", "BuiltInQuotaConflict"),
        ("q", "DeferredQuotaOvercommitted"),
    ]
    assert "deferred.kubestow.io/requests.cpu" in fixture.handle.recorded[0][2]
    assert fixture.plugin.pre_enqueue(pod("p", deferred=True)) is not None


def test_all_keys_that_cannot_be_read_are_named_in_one_event() -> None:
    """Two of one reason and quota would be one series, which shows the note of the first."""
    fixture = PluginFixture()
    fixture.deliver(quota(hard={"requests.cpu": 1, "requests.foo": 1, CPU: 1000}))
    fixture.run()
    ((_, _, note),) = fixture.handle.recorded
    assert "/requests.cpu: " in note
    assert "/requests.foo: " in note
    assert note.endswith("; these keys are ignored, the others are not")
