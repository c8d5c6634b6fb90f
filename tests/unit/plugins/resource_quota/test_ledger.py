"""The ledger: which pods count, are held and released (docs/deferred-quota.md, Q1 to Q7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins.resource_quota.accounts import QuotaMode
from plugins.resource_quota.messages import message
from scheduler.api import Pod
from tests.unit.plugins.resource_quota.objects import Desk, pod, quota

CPU = "requests.cpu-millis"


def changed(old: Pod, **spec: Any) -> Pod:
    """The pod with other fields in its spec, as a fresh object."""
    raw = msgspec.to_builtins(old.metadata)
    status = msgspec.to_builtins(old.status)
    return pod(old.uid, metadata={"labels": raw.get("labels", {})}, status=status, spec=spec)


@pytest.mark.parametrize(
    ("subject", "used"),
    [
        pytest.param(pod("p", gates=True), "0", id="Q1: gated"),
        pytest.param(pod("p", deferred=True), "0", id="Q3: gates gone, not scheduled"),
        pytest.param(pod("p", node="n", deferred=True), "1000", id="Q4: gates gone, scheduled"),
        pytest.param(pod("p"), "1000", id="Q2: never gated, pending"),
        pytest.param(pod("p", spec={"schedulerName": "other"}), "1000", id="other scheduler"),
        pytest.param(pod("p", node="n", status={"phase": "Running"}), "1000", id="running"),
        pytest.param(pod("p", node="n", status={"phase": "Succeeded"}), "0", id="B20: succeeded"),
        pytest.param(pod("p", node="n", status={"phase": "Failed"}), "0", id="B20: failed"),
        pytest.param(
            pod("p", metadata={"annotations": {"kubestow.io/quota-deferred": "true"}}),
            "0",
            id="annotation",
        ),
        pytest.param(
            pod(
                "p",
                status={"conditions": [{"type": "kubestow.io/QuotaDeferred", "status": "True"}]},
            ),
            "0",
            id="mark True",
        ),
        pytest.param(
            pod(
                "p",
                deferred=True,
                status={"conditions": [{"type": "kubestow.io/QuotaDeferred", "status": "False"}]},
            ),
            "1000",
            id="mark False overrides the reason",
        ),
        *(
            pytest.param(
                pod(
                    "p",
                    status={
                        "conditions": [{"type": "PodScheduled", "status": "False", "reason": why}]
                    },
                ),
                used,
                id=f"reason {why}",
            )
            for why, used in (
                ("ResourceQuotaValidated", "0"),
                ("ResourceQuotaExceeded", "0"),
                ("Unschedulable", "1000"),
            )
        ),
    ],
)
def test_which_pods_count(subject: Pod, used: str) -> None:
    desk = Desk(quota())
    desk.see(subject)
    assert desk.used() == {CPU: used}


def test_a_hold_of_ours_does_not_make_a_never_gated_pod_deferred() -> None:
    desk = Desk(quota())
    desk.see(pod("p"))
    told = [{"type": "PodScheduled", "status": "False", "reason": "ResourceQuotaValidated"}]
    desk.see(pod("p", status={"conditions": told}))
    assert desk.used() == {CPU: "1000"}


def test_a_deferred_pod_stays_deferred_when_its_reason_is_overwritten() -> None:
    desk = Desk(quota())
    desk.see(pod("p", gates=True))
    other = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    desk.see(pod("p", status={"conditions": other}))
    assert desk.used() == {CPU: "0"}


def test_a_deferred_pod_counts_pending_pods_a_never_gated_one_does_not() -> None:
    desk = Desk(quota())
    desk.see(pod("a"), pod("b"))
    assert desk.enqueue(pod("deferred", deferred=True)) == []
    # The hard wall for never-gated pods: what is taken; other pending ones would deadlock them.
    assert desk.enqueue(pod("c")) == ["c"]


def test_b18_a_resource_that_is_not_asked_for_does_not_matter() -> None:
    desk = Desk(quota(hard={CPU: 1000, "requests.memory": 1}))
    desk.see(pod("big", "4", node="n", requests={"memory": "1Gi"}))
    assert desk.enqueue(pod("p", deferred=True)) == ["p"]


@pytest.mark.parametrize(
    ("subject", "hard", "text"),
    [
        (
            pod("p", "1500m", deferred=True),
            {CPU: 2000},
            (
                "quota exceeded: q, requested: requests.cpu=1500m, used: requests.cpu=1, "
                "limited: requests.cpu=2"
            ),
        ),
        (
            pod("p", "3", deferred=True),
            {CPU: 2000},
            (
                "quota exceeded: q, requested: requests.cpu=3, used: requests.cpu=1, "
                "limited: requests.cpu=2 (exceeds the quota even when empty)"
            ),
        ),
        (
            pod("p", deferred=True, requests={"cpu": "2", "memory": "2Gi"}),
            {CPU: 2000, "requests.memory": 2**30},
            (
                "quota exceeded: q, requested: requests.cpu=2,requests.memory=2Gi, "
                "used: requests.cpu=1,requests.memory=0, "
                "limited: requests.cpu=2,requests.memory=1Gi (exceeds the quota even when empty)"
            ),
        ),
    ],
)
def test_b17_messages(subject: Pod, hard: dict[str, int], text: str) -> None:
    desk = Desk(quota(hard=hard))
    desk.see(pod("running", node="n"), subject)
    assert message(desk.ledger.violations(subject)) == text


def test_several_quotas_stand_in_the_order_of_their_names() -> None:
    desk = Desk(quota("b"), quota("a", hard={CPU: 1000}))
    big = pod("p", "3", deferred=True)
    desk.see(big)
    first, second = message(desk.ledger.violations(big)).split("; ")
    assert first.startswith("quota exceeded: a, ")
    assert second.startswith("quota exceeded: b, ")


def test_reserve_checks_and_reserves_in_one_step() -> None:
    desk = Desk(quota())
    a, b = pod("a", "2", deferred=True), pod("b", "1", deferred=True)
    assert desk.enqueue(a, b) == ["a", "b"]
    assert not desk.ledger.reserve(a)
    assert [each.resource for each in desk.ledger.reserve(b)] == ["requests.cpu"]
    assert desk.used() == {CPU: "2000"}
    desk.ledger.unreserve("a")
    desk.ledger.unreserve("a")
    assert desk.used() == {CPU: "0"}
    assert not desk.ledger.reserve(b)
    desk.see(pod("b", "1", node="n"))
    assert desk.used() == {CPU: "1000"}
    desk.ledger.unreserve("b")
    assert desk.used() == {CPU: "1000"}
    assert desk.ledger.statistics().reserved == 0


def test_a_reservation_ends_with_the_pod() -> None:
    desk = Desk(quota())
    a = pod("a", "2", deferred=True)
    desk.enqueue(a)
    desk.ledger.reserve(a)
    desk.ledger.forget("a")
    desk.ledger.unreserve("a")
    desk.ledger.validate()
    assert desk.used() == {CPU: "0"}
    assert not desk.ledger.reserve(a)
    assert desk.used() == {CPU: "0"}


def test_b31_one_freed_unit_releases_one_pod_in_queue_order() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("running", node="n"))
    waiting = [pod(f"p{number}", deferred=True) for number in range(20)]
    assert desk.enqueue(*waiting) == []
    assert desk.run() == []
    desk.ledger.forget("running")
    assert desk.run() == ["p0"]
    assert desk.run() == []
    assert not desk.ledger.reserve(waiting[0])
    assert desk.run(60) == []


def test_b35_the_higher_priority_goes_first() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("running", node="n"))
    desk.enqueue(pod("low", deferred=True), pod("high", deferred=True, spec={"priority": 10}))
    desk.ledger.forget("running")
    assert desk.run() == ["high"]


def test_a_pod_that_does_not_fit_does_not_block_those_behind_it() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    desk.see(pod("a", node="n"), pod("b", node="n"))
    desk.enqueue(pod("big", "2", deferred=True), pod("small", deferred=True))
    desk.ledger.forget("a")
    assert desk.run() == ["small"]


def test_pods_that_do_not_use_what_they_were_let_out_for_make_room_for_others() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("running", node="n"))
    waiting = [pod(f"p{number}", deferred=True) for number in range(60)]
    desk.enqueue(*waiting)
    desk.ledger.forget("running")
    assert desk.run() == ["p0"]
    # Its attempt failed on the nodes: the next one's turn comes at once.
    desk.ledger.attempted("p0")
    assert desk.run() == ["p1"]
    # Nothing reports its attempt: after a while more are let out, and more each time.
    assert desk.run(0.3) == [f"p{number}" for number in range(2, 19)]
    assert len(desk.run(0.3)) == 33


@pytest.mark.parametrize(
    "free",
    [
        pytest.param(lambda desk: desk.ledger.forget("running"), id="B8: pod gone"),
        pytest.param(
            lambda desk: desk.see(pod("running", node="n", status={"phase": "Succeeded"})),
            id="B20: pod finished",
        ),
        pytest.param(
            lambda desk: desk.ledger.set_quota(quota(hard={CPU: 2000})), id="B32: hard raised"
        ),
        pytest.param(
            lambda desk: desk.ledger.set_quota(quota(hard={"requests.memory": 1})),
            id="B32: key removed",
        ),
        pytest.param(lambda desk: desk.ledger.remove_quota("default", "q"), id="B32: quota gone"),
        pytest.param(
            lambda desk: desk.ledger.set_quota(quota(hard={CPU: 1000}, scopes=["Terminating"])),
            id="scope matches no longer",
        ),
        pytest.param(lambda desk: desk.see(pod("running", "0", node="n")), id="resized down"),
        pytest.param(lambda desk: desk.see(pod("held", "0", deferred=True)), id="own size lowered"),
    ],
)
def test_freed(free: Any) -> None:
    desk = Desk(quota(hard={CPU: 1000}), quota("other", "elsewhere", hard={CPU: 0}))
    desk.see(pod("running", node="n"))
    desk.enqueue(pod("held", deferred=True), pod("stranger", deferred=True, namespace="elsewhere"))
    free(desk)
    assert desk.run() == ["held"]


def test_b30_what_frees_nothing_releases_nobody() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    running = pod("running", node="n")
    desk.see(running)
    desk.enqueue(*(pod(f"p{number}", deferred=True) for number in range(5)))
    desk.run()
    desk.see(pod("running", node="n", metadata={"labels": {"a": "b"}}))
    desk.see(pod("new", namespace="elsewhere"))
    desk.ledger.forget("new")
    desk.ledger.forget("unknown")
    assert desk.ledger.next_due() is None
    assert desk.run() == []


def test_a_deleted_pod_counts_until_its_grace_has_passed_twice() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    going = {"deletionTimestamp": "1970-01-01T00:17:00Z", "deletionGracePeriodSeconds": 30}
    desk.see(pod("running", node="n", metadata=going))
    desk.enqueue(pod("held", deferred=True))
    assert desk.ledger.next_due() == pytest.approx(1050.001)
    assert desk.run(50) == []
    assert desk.used() == {CPU: "1000"}
    assert desk.run(0.01) == ["held"]
    assert desk.used() == {CPU: "0"}
    desk.see(pod("running", node="n", metadata={**going, "labels": {"a": "b"}}))
    assert desk.used() == {CPU: "0"}


def test_b15_active_deadline_moves_a_pod_between_quotas() -> None:
    desk = Desk(
        quota("short", hard={CPU: 1000}, scopes=["Terminating"]),
        quota("long", hard={CPU: 1000}, scopes=["NotTerminating"]),
    )
    desk.see(pod("running", node="n"))
    desk.enqueue(pod("held", deferred=True))
    assert (desk.used("long"), desk.used("short")) == ({CPU: "1000"}, {CPU: "0"})
    desk.see(pod("running", node="n", spec={"activeDeadlineSeconds": 60}))
    assert (desk.used("long"), desk.used("short")) == ({CPU: "0"}, {CPU: "1000"})
    assert desk.run() == ["held"]


@pytest.mark.parametrize(
    ("spec", "parts", "covered"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, False),
        ({"scopes": ["NotTerminating", "BestEffort"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["PriorityClass"]}, {}, False),
        ({"scopes": ["Unheard"]}, {}, False),
        (("In", ["high"]), {"priorityClassName": "high"}, True),
        (("In", ["high"]), {"priorityClassName": "low"}, False),
        (("In", ["high"]), {}, False),
        (("NotIn", ["high"]), {}, True),
        (("NotIn", ["high"]), {"priorityClassName": "high"}, False),
        (("DoesNotExist", []), {}, True),
        (("DoesNotExist", []), {"priorityClassName": "high"}, False),
        (("Exists", []), {"priorityClassName": "high"}, True),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "z", "namespaceSelector": {}}
                        ]
                    }
                }
            },
            True,
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}
                        ]
                    }
                }
            },
            False,
        ),
    ],
)
def test_b14_scopes(spec: Any, parts: dict[str, Any], covered: bool) -> None:
    if isinstance(spec, tuple):
        operator, values = spec
        each = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        spec = {"scopeSelector": {"matchExpressions": [each]}}
    desk = Desk(quota(hard={CPU: 0}, **spec))
    assert desk.enqueue(pod("p", deferred=True, spec=parts)) == ([] if covered else ["p"])


def test_b29_a_nominated_deferred_pod_keeps_its_quota_and_does_not_block_itself() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    assert desk.enqueue(pod("small", deferred=True), pod("plain")) == []
    assert not desk.ledger.violations(preemptor)
    assert not desk.ledger.reserve(preemptor)
    desk.ledger.unreserve("preemptor")
    assert desk.used() == {CPU: "2000"}  # still nominated; "plain" is held and charged nothing
    desk.ledger.nominate(preemptor, "")
    assert desk.run() == ["small", "plain"]


def test_a_pod_that_quota_holds_is_charged_nothing_and_keeps_nobody_out() -> None:
    """A never-gated pod for 9 of 8: it used to hold every deferred pod of the namespace."""
    desk = Desk(quota(hard={CPU: 8000}))
    assert desk.enqueue(pod("huge", "9")) == []
    deferred = [pod(f"d{number}", "1", deferred=True) for number in range(4)]
    assert desk.enqueue(*deferred) == [each.uid for each in deferred]
    assert desk.used() == {CPU: "0"}
    for each in deferred:
        assert not desk.ledger.reserve(each)
    # One that fits an empty quota, but not now.
    assert desk.enqueue(pod("large", "8")) == []
    assert desk.used() == {CPU: "4000"}
    assert desk.enqueue(pod("small", "2", deferred=True), pod("plain", "2")) == ["small", "plain"]


def test_what_a_refused_pod_is_told_is_what_the_quota_says() -> None:
    desk = Desk(quota(hard={CPU: 8000}))
    assert desk.enqueue(pod("first", "2"), pod("second", "1")) == ["first", "second"]
    (found,) = desk.ledger.violations(pod("third", "9"))
    assert desk.used() == {CPU: "3000"}
    assert found.used == 3 * 10**9
    (found,) = desk.ledger.violations(pod("fourth", "9", deferred=True))
    assert found.used == 3 * 10**9


def test_a_pod_too_large_for_the_quota_is_charged_once_the_quota_grows() -> None:
    """It is another scheduler's, so that nothing here holds it."""
    desk = Desk(quota(hard={CPU: 8000}))
    desk.see(pod("huge", "9"))
    assert desk.used() == {CPU: "0"}
    desk.ledger.set_quota(quota(hard={CPU: 9000}))
    desk.ledger.validate()
    assert desk.used() == {CPU: "9000"}
    desk.ledger.set_quota(quota(hard={CPU: 8000}))
    desk.ledger.validate()
    assert desk.used() == {CPU: "0"}


def test_a_nomination_books_nothing_that_does_not_fit() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    a, b = pod("a", deferred=True), pod("b", deferred=True)
    desk.enqueue(a, b)
    for each in (a, b):
        desk.ledger.nominate(each, "n")
    assert desk.used() == {CPU: "1000"}


def test_b29_reserve_honours_the_nomination_that_has_just_ended() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    assert desk.enqueue(pod("plain")) == []
    assert not desk.ledger.violations(preemptor)
    desk.ledger.nominate(preemptor, "")
    assert desk.run() == ["plain"]
    assert not desk.ledger.reserve(preemptor)
    assert desk.run() == []


@pytest.mark.parametrize("judged", ["reserved", "given up", "held", "attempted"])
def test_b29_an_ended_nomination_is_honoured_until_the_pod_is_judged(judged: str) -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    desk.enqueue(pod("plain"))
    desk.ledger.nominate(preemptor, "")
    assert desk.run() == ["plain"]
    match judged:
        case "reserved":
            assert not desk.ledger.reserve(preemptor)
            desk.ledger.unreserve(preemptor.uid)
        case "given up":
            desk.ledger.unreserve(preemptor.uid)
        case "held":
            assert desk.enqueue(preemptor) == []
        case "attempted":
            desk.ledger.attempted(preemptor.uid)
    assert desk.ledger.reserve(preemptor)


def test_b29_an_ended_nomination_reserves_nothing_that_others_have_taken() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    desk.ledger.nominate(preemptor, "")
    desk.see(pod("bound", node="n"))
    assert desk.ledger.reserve(preemptor)


def test_a_nomination_granted_before_everything_was_known_is_looked_at_again() -> None:
    desk = Desk(quota(hard={CPU: 3000}), synced=False)
    nominated = pod("nominated", "2", deferred=True)
    desk.see(nominated)
    desk.ledger.nominate(nominated, "n")
    desk.see(pod("bound", "2", node="n"))
    desk.ledger.mark_synced()
    assert desk.used() == {CPU: "2000"}
    assert desk.enqueue(nominated, pod("one", deferred=True)) == ["one"]


def test_no_quota_is_kept_for_a_nominated_pod_that_is_held() -> None:
    desk = Desk(quota(hard={CPU: 3000}))
    nominated = pod("nominated", "2", deferred=True)
    desk.see(nominated)
    desk.ledger.nominate(nominated, "n")
    desk.see(pod("bound", "2", node="n"))
    assert desk.used() == {CPU: "4000"}
    assert desk.enqueue(nominated, pod("one", deferred=True)) == ["one"]
    assert desk.used() == {CPU: "2000"}


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


def test_b49_a_quota_of_built_in_names_only_is_not_ours() -> None:
    desk = Desk(quota(hard={"=requests.cpu": "1", "=pods": "1"}))
    assert desk.enqueue(pod("p", "9", deferred=True)) == ["p"]
    assert desk.used() == {}


NATIVE = {"=requests.cpu": "2", "=requests.storage": "0", "=pods": "0"}


@pytest.mark.parametrize(
    ("status", "running", "text"),
    [
        pytest.param({"requests.cpu": "0"}, [], "", id="free"),
        pytest.param(
            {"requests.cpu": "1500m"},
            [],
            "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=1500m, "
            "limited: requests.cpu=2",
            id="the status knows of more",
        ),
        pytest.param(
            {"requests.cpu": "0"},
            [pod("r", "2", node="n")],
            "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=2, "
            "limited: requests.cpu=2",
            id="the ledger knows of more",
        ),
        pytest.param(
            {},
            [],
            "status unknown for quota: q, resources: requests.cpu",
            id="the controller has not run",
        ),
    ],
)
def test_native_mode(status: dict[str, str], running: list[Pod], text: str) -> None:
    desk = Desk(quota(hard=NATIVE, status={"used": status}), mode=QuotaMode.NATIVE)
    subject = pod("p", deferred=True)
    desk.see(*running, subject)
    assert message(desk.ledger.violations(subject)) == text
    assert not desk.ledger.violations(pod("plain", "9"))


def test_native_mode_is_woken_by_the_status() -> None:
    desk = Desk(quota(hard=NATIVE), mode=QuotaMode.NATIVE)
    desk.enqueue(pod("p", deferred=True))
    desk.ledger.set_quota(quota(hard=NATIVE, status={"used": {"requests.cpu": "0"}}))
    assert desk.run() == ["p"]


@pytest.mark.parametrize(
    "key",
    [
        "requests.memory",
        "limits.cpu-millis",
        "requests.ephemeral-storage",
        "requests.hugepages-2Mi",
        "requests.nvidia.com_gpu",
    ],
)
def test_b12_each_compute_name_defers(key: str) -> None:
    desk = Desk(quota(hard={key: 1}))
    amounts = {
        "cpu": "1",
        "memory": "1Gi",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "nvidia.com/gpu": "2",
    }
    wanting = {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}
    assert desk.enqueue(pod("p", deferred=True, spec=wanting)) == []


def test_b13_a_pod_that_states_nothing_counts_as_nothing() -> None:
    desk = Desk(quota(hard={CPU: 0}))
    assert desk.enqueue(pod("p", deferred=True, requests={"memory": "1Gi"})) == ["p"]
