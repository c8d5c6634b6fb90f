"""The plugin: answers, conditions, events and metrics."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plugins import ResourceQuota
from plugins.resource_quota.accounts import Role
from plugins.resource_quota.arguments import ResourceQuotaArgs, argument_problems
from plugins.resource_quota.messages import parse_violated_pairs
from plugins.resource_quota.plugin import GATE
from scheduler.api import Pod
from scheduler.framework import (
    SKIP,
    Code,
    ConfigurationError,
    CycleState,
    Handle,
    QueuedPodInfo,
    Status,
)
from tests.unit.plugins.resource_quota.objects import pod, quota

CPU = "requests.cpu-millis"
EXCEEDED = (
    "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1"
)


class Board:
    """Subscriptions, metrics, events and the queue's side of the handle, all recorded."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.timed: list[Any] = []
        self.recorded: list[tuple[str, str, str]] = []
        self.counted: list[tuple[str, ...]] = []
        self.gauges: dict[tuple[str, ...], float] = {}
        self.observed: list[float] = []
        self.woken: list[str] = []
        self.rechecked: list[str] = []
        self.activated: list[str] = []
        self.relabelled: list[tuple[str, str]] = []
        self.waited_for: list[list[str]] = []
        self.kept: dict[str, Any] = {}
        self.pods: dict[str, Pod] = {}
        self.nominated: dict[str, str] = {}
        self.time = 1000.0

    def on_object(self, plural: str, callback: Callable[..., None]) -> None:
        self.callbacks[plural] = callback

    def on_nomination(self, callback: Callable[..., None]) -> None:
        self.callbacks["nomination"] = callback

    def on_synced(self, callback: Callable[..., None]) -> None:
        self.callbacks["synced"] = callback

    def on_time(self, work: Any) -> None:
        self.timed.append(work)

    def record(self, regarding: Any, kind: str, reason: str, action: str, note: str) -> None:
        name = regarding.metadata.name if isinstance(regarding, Pod) else regarding.name
        assert kind == "Warning"
        assert action
        self.recorded.append((name, reason, note))

    def count(self, *labels: str) -> None:
        self.counted.append(labels)

    def gauge(self, *labels: str, value: float) -> None:
        self.gauges[labels] = value

    def observe(self, *labels: str, value: float) -> None:
        assert labels
        self.observed.append(value)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - 1000

    def wake(self, uids: Any, plugin: str) -> None:
        assert plugin == "ResourceQuota"
        self.woken.extend(uids)

    def recheck(self, uids: Any) -> None:
        self.rechecked.extend(uids)

    def activate(self, pods: Any) -> None:
        self.activated.extend(each.metadata.name for each in pods)

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        assert message.startswith("quota exceeded: ")
        self.relabelled.append((pod.metadata.name, reason))

    async def status_written(self, uids: Any) -> None:
        self.waited_for.append([*uids])

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def handle(self, *, gate: bool = True) -> Handle:
        parts = {
            "feature_gates": {GATE: gate},
            "subscriptions": self,
            "metrics": self,
            "events": self,
            "clock": self,
            "wake": self.wake,
            "recheck": self.recheck,
            "activate": self.activate,
            "relabel": self.relabel,
            "api": self,
            "shared": self.shared,
            "listers": {"pods": SimpleNamespace(list=self.pods.values)},
            "nominator": SimpleNamespace(node_of=lambda uid: self.nominated.get(uid, "")),
        }
        return cast("Handle", SimpleNamespace(**parts))


class Desk:
    """A plugin of a synced process."""

    def __init__(self, *, synced: bool = True) -> None:
        self.board = Board()
        self.plugin = ResourceQuota(None, self.board.handle())
        assert self.plugin.enforcement is not None
        self.ledger = self.plugin.enforcement.ledger
        if synced:
            self.board.callbacks["synced"]()

    def seen(self, *objects: Any) -> None:
        """New objects, as the watch delivers them."""
        for each in objects:
            plural = "pods" if isinstance(each, Pod) else "resourcequotas"
            if isinstance(each, Pod):
                self.board.pods[each.uid] = each
            self.board.callbacks[plural](None, each)

    def changed(self, old: Pod, new: Pod) -> None:
        """A pod that was seen is different."""
        self.board.pods[new.uid] = new
        self.board.callbacks["pods"](old, new)

    def run(self) -> None:
        self.plugin.enforcement.run_due()  # type: ignore[union-attr]

    def attempt(self, subject: Pod, *, real: bool = True) -> Status | None:
        state = CycleState(self.board.time)
        state.info = QueuedPodInfo(subject, self.board.time) if real else None
        return self.plugin.pre_filter(state, subject, cast("Any", None))


def full() -> Desk:
    """A limit of one core, taken."""
    desk = Desk()
    desk.seen(quota(hard={CPU: 1000}), pod("running", node="n"))
    return desk


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


def info_of(subject: Pod, *rejectors: str, gated: bool = False) -> QueuedPodInfo:
    info = QueuedPodInfo(subject, 0.0, unschedulable_plugins=set(rejectors))
    info.gating_plugin = "ResourceQuota" if gated else ""
    return info


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


@pytest.mark.parametrize("mode", ["DeferredKeys", "Off"])
def test_the_plugin_is_inert_without_its_gate_or_when_it_is_off(mode: str) -> None:
    board = Board()
    args = ResourceQuotaArgs(quota_mode=mode)
    plugin = ResourceQuota(args, board.handle(gate=mode == "Off"))
    subject = pod("p", deferred=True)
    state = CycleState()
    assert board.callbacks == {}
    assert plugin.pre_enqueue(subject) is None
    assert plugin.pre_filter(state, subject, cast("Any", None)) is SKIP
    assert plugin.reserve(state, subject, "n") is None
    plugin.unreserve(state, subject, "n")
    plugin.post_bind(state, subject, "n")
    assert plugin.pod_conditions(subject, info_of(subject)) == ()
    assert plugin.events_to_register() == ()


def test_all_profiles_share_one_ledger_and_must_agree() -> None:
    board = Board()
    first, second = (ResourceQuota(None, board.handle()) for _ in range(2))
    assert first.enforcement is second.enforcement
    with pytest.raises(ConfigurationError, match="the same in all profiles"):
        ResourceQuota(ResourceQuotaArgs(quota_mode="Both"), board.handle())


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        (ResourceQuotaArgs(), []),
        (ResourceQuotaArgs(hold_after=timedelta(minutes=1)), []),
        (ResourceQuotaArgs(fairness="HoldAfter"), []),
        (ResourceQuotaArgs(quota_mode="Sometimes"), ["quotaMode"]),
        (ResourceQuotaArgs(fairness="Much", reservation="Paper"), ["fairness", "reservation"]),
        (
            ResourceQuotaArgs(fairness="None", hold_after=timedelta(minutes=1)),
            ["holdAfter"],
        ),
        (ResourceQuotaArgs(hold_after=timedelta(0), max_hold=timedelta(-1)),
         ["holdAfter", "maxHold"]),
    ],
)  # fmt: skip
def test_arguments(args: ResourceQuotaArgs, paths: list[str]) -> None:
    assert [path for path, _ in argument_problems(args)] == paths


def test_hold_after_chooses_fairness_and_has_a_default() -> None:
    assert ResourceQuotaArgs(hold_after=timedelta(minutes=1)).fairness == "HoldAfter"
    assert ResourceQuotaArgs(fairness="HoldAfter").hold_after == timedelta(minutes=10)
    assert ResourceQuotaArgs().fairness == "None"


def test_messages_can_be_read_back() -> None:
    text = f"{EXCEEDED} (exceeds the quota even when empty); status unknown for quota: r, "
    assert parse_violated_pairs(text + "resources: cpu,memory") == {
        ("q", "requests.cpu"),
        ("r", "cpu"),
        ("r", "memory"),
    }
    assert parse_violated_pairs("0/1 nodes are available: Insufficient cpu.") == frozenset()
