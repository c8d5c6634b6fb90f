"""Pods that wait at Permit (runtime/waiting_pods_map.go: waitingPod)."""

from __future__ import annotations

import pytest

from scheduler.api import Pod
from scheduler.api.meta import ObjectMeta
from scheduler.engine import WaitingPod, WaitingPods
from scheduler.framework import Code
from tests.unit.engine.harness import Clock


def waiting(**timeouts: float) -> WaitingPod:
    return WaitingPod(Pod(metadata=ObjectMeta(uid="u")), timeouts, Clock())


def test_the_first_signal_counts() -> None:
    pod = waiting(P1=10)
    pod.allow("P1")
    assert pod.result is not None
    assert pod.result.success
    assert not pod.reject("P1", "too late")
    assert not pod.preempt("P1", "too late")
    assert not pod.expire(1e9)
    assert pod.result.success


def test_a_rejection_names_its_plugin() -> None:
    pod = waiting(P1=10, P2=10)
    assert pod.reject("P2", "no")
    assert pod.result is not None
    assert (pod.result.code, pod.result.reasons, pod.result.plugin) == (
        Code.UNSCHEDULABLE,
        ("no",),
        "P2",
    )
    pod.allow("P1")
    pod.allow("P2")
    assert pod.result.code is Code.UNSCHEDULABLE


def test_preemption_ends_the_wait_with_an_error() -> None:
    pod = waiting(P1=10)
    assert pod.preempt("DefaultPreemption", "preempted")
    assert pod.result is not None
    assert (pod.result.code, pod.result.message) == (Code.ERROR, "preempted")


@pytest.mark.parametrize(
    ("timeouts", "passed", "reason"),
    [
        ({"P1": 10.0}, 9.9, None),
        ({"P1": 10.0}, 10.0, "rejected due to timeout after waiting 10s at plugin P1"),
        ({"P1": 0.0}, 0.0, "rejected due to timeout after waiting 0s at plugin P1"),
        (
            {"P1": 60.0, "P2": 20.0},
            90.0,
            "rejected due to timeout after waiting 20s at plugin P2",
        ),
        ({"P1": 7200.0}, 899.0, None),
        ({"P1": 7200.0}, 900.0, "rejected due to timeout after waiting 15m0s at plugin P1"),
    ],
)
def test_the_earliest_timeout_rejects(
    timeouts: dict[str, float], passed: float, reason: str | None
) -> None:
    pod = waiting(**timeouts)
    assert pod.expire(Clock().monotonic() + passed) is (reason is not None)
    assert (pod.result.reasons if pod.result else None) == ((reason,) if reason else None)


def test_a_plugin_that_allowed_the_pod_no_longer_times_out() -> None:
    pod = waiting(P1=10, P2=60)
    pod.allow("P1")
    assert pod.deadline() == Clock().monotonic() + 60
    assert not pod.expire(Clock().monotonic() + 59)
    assert pod.expire(Clock().monotonic() + 60)


def test_a_pod_that_goes_away_is_rejected_without_a_plugin() -> None:
    pods = WaitingPods()
    pod = waiting(P1=10)
    pods.add(pod)
    assert list(pods) == [pod]
    assert not pods.reject("other")
    assert pods.reject("u")
    assert pod.result is not None
    assert (pod.result.reasons, pod.result.plugin) == (("removed",), "")
    assert not pods.reject("u")
    pods.remove("u")
    pods.remove("u")
    assert (len(pods), pods.get("u")) == (0, None)
