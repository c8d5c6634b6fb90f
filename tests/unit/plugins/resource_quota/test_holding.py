"""Holding and admitting pods: statuses, events, conditions and metrics."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import Pod
from scheduler.framework import (
    SKIP,
    Code,
    CycleState,
)
from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import (
    CPU,
    EXCEEDED,
    PluginFixture,
    full,
    info_of,
)


def test_b07_a_held_pod_has_the_keps_reason_event_and_metric() -> None:
    fixture = full()
    held = pod("held", deferred=True)
    status = fixture.plugin.pre_enqueue(held)
    assert status is not None
    assert (status.code, status.condition_reason, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "ResourceQuotaValidated",
        EXCEEDED,
    )
    assert fixture.handle.recorded == [("held", "ResourceQuotaExceeded", EXCEEDED)]
    assert fixture.handle.counted == [
        ("scheduler_resource_quota_violations_total", "default", "q", "PreEnqueue")
    ]
    assert fixture.handle.gauges["scheduler_resource_quota_held_pods", "default"] == 1


def test_b08_freed_quota_wakes_the_pod_and_lets_it_in() -> None:
    fixture = full()
    held = pod("held", deferred=True)
    fixture.plugin.pre_enqueue(held)
    fixture.handle.callbacks["pods"](pod("running", node="n"), None)
    assert fixture.plugin.enforcement is not None
    assert fixture.plugin.enforcement.next_due() is not None
    fixture.handle.time += 5
    fixture.run()
    assert fixture.handle.woken == ["held"]
    assert fixture.plugin.pre_enqueue(held) is None
    assert fixture.handle.observed == [5.0]
    assert fixture.handle.gauges["scheduler_resource_quota_held_pods", "default"] == 0


def test_b29_a_nominated_pod_that_was_held_keeps_quota_again_once_it_is_let_in() -> None:
    fixture = PluginFixture()
    subject = pod("nominated", deferred=True)
    fixture.deliver(quota(hard={CPU: 1000}), subject)
    fixture.handle.nominated[subject.uid] = "n"
    fixture.handle.callbacks["nomination"](subject, "n")
    assert list(fixture.ledger.reserved()) == [subject.uid]
    fixture.deliver(pod("running", node="n"))
    assert fixture.attempt(subject) is not None
    assert not list(fixture.ledger.reserved())
    fixture.handle.callbacks["pods"](pod("running", node="n"), None)
    fixture.run()
    assert fixture.plugin.pre_enqueue(subject) is None
    assert list(fixture.ledger.reserved()) == [subject.uid]


def test_the_event_is_repeated_only_when_other_limits_are_violated() -> None:
    fixture = full()
    held = pod("held", deferred=True)
    for _ in range(3):
        fixture.plugin.pre_enqueue(held)
    fixture.deliver(pod("more", node="n"))
    fixture.plugin.pre_enqueue(held)
    assert len(fixture.handle.recorded) == 1
    fixture.deliver(quota("other", hard={CPU: 0}))
    fixture.plugin.pre_enqueue(held)
    assert [note.count("quota exceeded") for _, _, note in fixture.handle.recorded] == [1, 2]


def test_after_a_restart_a_pod_with_the_same_condition_gets_no_event() -> None:
    fixture = full()
    conditions = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "ResourceQuotaValidated",
            "message": EXCEEDED.replace("used: requests.cpu=1", "used: requests.cpu=7"),
        }
    ]
    assert fixture.plugin.pre_enqueue(pod("held", status={"conditions": conditions})) is not None
    assert fixture.handle.recorded == []


def test_b33_quota_that_went_meanwhile_turns_the_pod_down_in_prefilter() -> None:
    fixture = PluginFixture()
    subject = pod("p", deferred=True)
    fixture.deliver(quota(hard={CPU: 1000}))
    assert fixture.plugin.pre_enqueue(subject) is None
    assert fixture.attempt(subject) is SKIP
    fixture.deliver(pod("running", node="n"))
    status = fixture.attempt(subject)
    assert status is not None
    assert status.skip_post_filter
    assert status.condition_reason == "ResourceQuotaValidated"
    assert [labels[-1] for labels in fixture.handle.counted] == ["PreFilter"]
    assert fixture.ledger.held("default") == 1


def test_a_what_if_changes_nothing() -> None:
    fixture = full()
    subject = pod("p", deferred=True)
    status = fixture.attempt(subject, real=False)
    assert status is not None
    assert status.message == EXCEEDED
    assert (fixture.handle.recorded, fixture.handle.counted) == ([], [])
    assert fixture.ledger.held("default") == 0


def test_b54_explain_names_quota_and_numbers() -> None:
    fixture = full()
    assert fixture.plugin.explain(pod("p", deferred=True))[0] == f"held by quota: {EXCEEDED}"
    assert fixture.plugin.explain(pod("p", "0", deferred=True)) == ()


def test_reserve_takes_quota_and_unreserve_frees_it() -> None:
    fixture = PluginFixture()
    a, b = pod("a", deferred=True), pod("b", deferred=True)
    fixture.deliver(quota(hard={CPU: 1000}), a, b)
    state = CycleState()
    assert fixture.plugin.reserve(state, a, "n") is None
    status = fixture.plugin.reserve(state, b, "n")
    assert status is not None
    assert status.message == EXCEEDED
    fixture.run()
    in_flight = "scheduler_resource_quota_inflight", "default", "q", "requests.cpu"
    assert fixture.handle.gauges[in_flight] == 1
    fixture.plugin.unreserve(state, a, "n")
    fixture.run()
    assert fixture.handle.gauges[in_flight] == 0
    assert fixture.handle.woken == ["b"]


def test_before_the_first_lists_are_complete_no_pod_is_tried_held_or_admitted() -> None:
    fixture = PluginFixture(synced=False)
    subject, free = pod("p", deferred=True), pod("free", deferred=True, namespace="other")
    fixture.deliver(quota(hard={CPU: 1000}), subject, free, pod("running", node="n"))

    assert fixture.plugin.pre_enqueue(subject) is None
    assert fixture.plugin.pre_enqueue(free) is None
    rejected = fixture.attempt(subject)
    assert rejected is not None
    assert rejected.condition_reason == ""

    fixture.handle.callbacks["synced"]()
    fixture.run()
    assert fixture.handle.rechecked == ["p"], "PreEnqueue runs again before the pod is tried"
    assert fixture.plugin.pre_enqueue(subject) is not None


@pytest.mark.parametrize(
    ("subject", "rejectors", "marks"),
    [
        (pod("p", deferred=True), ("NodeResourcesFit",), [("True", "SchedulingGated")]),
        (pod("p", deferred=True), ("ResourceQuota",), [("True", "SchedulingGated")]),
        (pod("p"), ("ResourceQuota",), [("False", "NeverGated")]),
        (pod("p"), ("NodeResourcesFit",), []),
        (
            pod("p", metadata={"annotations": {"kubestow.io/quota-deferred": "true"}}),
            ("ResourceQuota",),
            [],
        ),
    ],
)
def test_the_durable_mark(subject: Pod, rejectors: tuple[str, ...], marks: list[Any]) -> None:
    fixture = full()
    fixture.deliver(subject)
    found = fixture.plugin.pod_conditions(subject, info_of(subject, *rejectors))
    assert [(each.status, each.reason) for each in found] == marks
    assert {each.type for each in found} <= {"kubestow.io/QuotaDeferred"}
