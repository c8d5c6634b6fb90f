"""Events on quotas about what is wrong with them."""

from __future__ import annotations

from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import (
    CPU,
    Desk,
)


def test_nothing_is_kept_of_the_quotas_of_a_namespace_that_has_none_any_more() -> None:
    desk = Desk()
    enforcement = desk.plugin.enforcement
    assert enforcement is not None
    plain, built_in = quota("plain"), quota("built-in", hard={"=requests.cpu": 1})
    desk.seen(plain)
    assert not enforcement._built_in
    desk.seen(built_in)
    assert enforcement._built_in.keys() == {"default"}
    for each in (plain, built_in):
        desk.board.callbacks["resourcequotas"](each, None)
    assert not enforcement._built_in


def test_what_is_said_of_an_exceeded_quota_is_about_all_pods() -> None:
    desk = Desk()
    desk.seen(*(pod(f"p{number}", node="n") for number in range(5)))
    desk.seen(quota(hard={CPU: 1000}))
    desk.run()
    ((_, reason, note),) = desk.board.recorded
    assert reason == "DeferredQuotaOvercommitted"
    assert "used 5, limited 1;" in note


def test_b48_findings_about_quotas_are_events_on_them_once() -> None:
    desk = Desk()
    broken = quota(hard={"requests.cpu": 1, CPU: 1000})
    desk.seen(quota("built-in", hard={"=requests.memory": "1Gi"}), broken)
    desk.board.callbacks["resourcequotas"](broken, broken)
    desk.seen(pod("a", "2", node="n"))
    desk.run()
    assert [(name, reason) for name, reason, _ in desk.board.recorded] == [
        ("q", "DeferredQuotaInvalidKey"),
        ("built-in", "BuiltInQuotaConflict"),
        ("q", "DeferredQuotaOvercommitted"),
    ]
    assert "deferred.kubestow.io/requests.cpu" in desk.board.recorded[0][2]
    assert desk.plugin.pre_enqueue(pod("p", deferred=True)) is not None


def test_all_keys_that_cannot_be_read_are_named_in_one_event() -> None:
    """Two of one reason and quota would be one series, which shows the note of the first."""
    desk = Desk()
    desk.seen(quota(hard={"requests.cpu": 1, "requests.foo": 1, CPU: 1000}))
    desk.run()
    ((_, _, note),) = desk.board.recorded
    assert "/requests.cpu: " in note
    assert "/requests.foo: " in note
    assert note.endswith("; these keys are ignored, the others are not")
