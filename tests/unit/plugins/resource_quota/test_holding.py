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
    Desk,
    full,
    info_of,
)


def test_b07_a_held_pod_has_the_keps_reason_event_and_metric() -> None:
    desk = full()
    held = pod("held", deferred=True)
    status = desk.plugin.pre_enqueue(held)
    assert status is not None
    assert (status.code, status.condition_reason, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "ResourceQuotaValidated",
        EXCEEDED,
    )
    assert desk.board.recorded == [("held", "ResourceQuotaExceeded", EXCEEDED)]
    assert desk.board.counted == [
        ("scheduler_resource_quota_violations_total", "default", "q", "PreEnqueue")
    ]
    assert desk.board.gauges["scheduler_resource_quota_held_pods", "default"] == 1


def test_b08_freed_quota_wakes_the_pod_and_lets_it_in() -> None:
    desk = full()
    held = pod("held", deferred=True)
    desk.plugin.pre_enqueue(held)
    desk.board.callbacks["pods"](pod("running", node="n"), None)
    assert desk.plugin.enforcement is not None
    assert desk.plugin.enforcement.next_due() is not None
    desk.board.time += 5
    desk.run()
    assert desk.board.woken == ["held"]
    assert desk.plugin.pre_enqueue(held) is None
    assert desk.board.observed == [5.0]
    assert desk.board.gauges["scheduler_resource_quota_held_pods", "default"] == 0


def test_b29_a_nominated_pod_that_was_held_keeps_quota_again_once_it_is_let_in() -> None:
    desk = Desk()
    subject = pod("nominated", deferred=True)
    desk.seen(quota(hard={CPU: 1000}), subject)
    desk.board.nominated[subject.uid] = "n"
    desk.board.callbacks["nomination"](subject, "n")
    assert list(desk.ledger.reserved()) == [subject.uid]
    desk.seen(pod("running", node="n"))
    assert desk.attempt(subject) is not None
    assert not list(desk.ledger.reserved())
    desk.board.callbacks["pods"](pod("running", node="n"), None)
    desk.run()
    assert desk.plugin.pre_enqueue(subject) is None
    assert list(desk.ledger.reserved()) == [subject.uid]


def test_the_event_is_repeated_only_when_other_limits_are_violated() -> None:
    desk = full()
    held = pod("held", deferred=True)
    for _ in range(3):
        desk.plugin.pre_enqueue(held)
    desk.seen(pod("more", node="n"))
    desk.plugin.pre_enqueue(held)
    assert len(desk.board.recorded) == 1
    desk.seen(quota("other", hard={CPU: 0}))
    desk.plugin.pre_enqueue(held)
    assert [note.count("quota exceeded") for _, _, note in desk.board.recorded] == [1, 2]


def test_after_a_restart_a_pod_that_says_so_already_gets_no_event() -> None:
    desk = full()
    told = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "ResourceQuotaValidated",
            "message": EXCEEDED.replace("used: requests.cpu=1", "used: requests.cpu=7"),
        }
    ]
    assert desk.plugin.pre_enqueue(pod("held", status={"conditions": told})) is not None
    assert desk.board.recorded == []


def test_b33_quota_that_went_meanwhile_turns_the_pod_down_in_prefilter() -> None:
    desk = Desk()
    subject = pod("p", deferred=True)
    desk.seen(quota(hard={CPU: 1000}))
    assert desk.plugin.pre_enqueue(subject) is None
    assert desk.attempt(subject) is SKIP
    desk.seen(pod("running", node="n"))
    status = desk.attempt(subject)
    assert status is not None
    assert status.skip_post_filter
    assert status.condition_reason == "ResourceQuotaValidated"
    assert [labels[-1] for labels in desk.board.counted] == ["PreFilter"]
    assert desk.ledger.held("default") == 1


def test_a_trial_leaves_no_trace() -> None:
    desk = full()
    subject = pod("p", deferred=True)
    status = desk.attempt(subject, real=False)
    assert status is not None
    assert status.message == EXCEEDED
    assert (desk.board.recorded, desk.board.counted) == ([], [])
    assert desk.ledger.held("default") == 0


def test_b54_explain_names_quota_and_numbers() -> None:
    desk = full()
    assert desk.plugin.explain(pod("p", deferred=True)) == (f"held by quota: {EXCEEDED}",)
    assert desk.plugin.explain(pod("p", "0", deferred=True)) == ()


def test_reserve_books_and_unreserve_gives_back() -> None:
    desk = Desk()
    a, b = pod("a", deferred=True), pod("b", deferred=True)
    desk.seen(quota(hard={CPU: 1000}), a, b)
    state = CycleState()
    assert desk.plugin.reserve(state, a, "n") is None
    status = desk.plugin.reserve(state, b, "n")
    assert status is not None
    assert status.message == EXCEEDED
    desk.run()
    in_flight = "scheduler_resource_quota_inflight", "default", "q", "requests.cpu"
    assert desk.board.gauges[in_flight] == 1
    desk.plugin.unreserve(state, a, "n")
    desk.run()
    assert desk.board.gauges[in_flight] == 0
    assert desk.board.woken == ["b"]


def test_before_everything_is_known_nobody_is_tried_and_no_gate_closes_or_opens() -> None:
    desk = Desk(synced=False)
    subject, free = pod("p", deferred=True), pod("free", deferred=True, namespace="other")
    desk.seen(quota(hard={CPU: 1000}), subject, free, pod("running", node="n"))

    assert desk.plugin.pre_enqueue(subject) is None
    assert desk.plugin.pre_enqueue(free) is None
    rejected = desk.attempt(subject)
    assert rejected is not None
    assert rejected.condition_reason == ""

    desk.board.callbacks["synced"]()
    desk.run()
    assert desk.board.rechecked == ["p"], "its gate is asked again before anything is tried"
    assert desk.plugin.pre_enqueue(subject) is not None


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
    desk = full()
    desk.seen(subject)
    found = desk.plugin.pod_conditions(subject, info_of(subject, *rejectors))
    assert [(each.status, each.reason) for each in found] == marks
    assert {each.type for each in found} <= {"kubestow.io/QuotaDeferred"}
