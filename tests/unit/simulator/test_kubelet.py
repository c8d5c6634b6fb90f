"""The fake kubelet: what it does with a pod, and when."""

from __future__ import annotations

import math

import pytest

from simulator.controllers.kubelet import (
    EXIT_CODE,
    RUN_SECONDS,
    START_SECONDS,
    TERMINATE_SECONDS,
    Kubelet,
    KubeletDecision,
    PatchStatus,
    Remove,
    Settings,
    decide,
)
from simulator.objects import JsonObject, format_time
from tests.unit.simulator.objects import START, pod

_SETTINGS = Settings(start_seconds=0, run_seconds=10, terminate_seconds=2)


def _bound(phase: str = "Pending", **annotations: str) -> JsonObject:
    made = pod("a", nodeName="n1", restartPolicy="Always")
    names = {
        "start": START_SECONDS,
        "run": RUN_SECONDS,
        "terminate": TERMINATE_SECONDS,
        "exit": EXIT_CODE,
    }
    made["metadata"] |= {
        "namespace": "ns",
        "uid": "u",
        "annotations": {names[key]: value for key, value in annotations.items()},
    }
    made["status"] = {
        "phase": phase,
        "startTime": format_time(START),
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(START)}
        ],
    }
    return made


def _phase(decision: KubeletDecision) -> str | None:
    return decision.action.patch["phase"] if isinstance(decision.action, PatchStatus) else None


def test_a_pod_without_a_node_has_no_kubelet() -> None:
    assert decide(pod("a"), START) == KubeletDecision()


def test_a_bound_pod_starts_and_is_ready() -> None:
    decision = decide(_bound(), START, _SETTINGS)
    assert isinstance(decision.action, PatchStatus)
    assert decision.action.uid == "u"
    patch = decision.action.patch
    assert (patch["phase"], patch["startTime"]) == ("Running", format_time(START))
    ready = [c["status"] for c in patch["conditions"] if c["type"] == "Ready"]
    assert ready == ["True"]
    assert patch["containerStatuses"][0]["ready"] is True


def test_a_slow_pod_starts_when_its_time_has_come() -> None:
    slow = _bound(start="3")
    assert decide(slow, START, _SETTINGS).due == START + 3
    assert _phase(decide(slow, START + 3, _SETTINGS)) == "Running"


@pytest.mark.parametrize(
    ("policy", "annotations", "due", "end"),
    [
        ("Always", {}, None, None),
        ("Never", {}, START + 10, "Succeeded"),
        ("OnFailure", {"run": "4"}, START + 4, "Succeeded"),
        ("Always", {"run": "4", "exit": "1"}, START + 4, "Failed"),
        ("Never", {"run": "nonsense"}, START + 10, "Succeeded"),
    ],
)
def test_when_a_running_pod_ends(
    policy: str, annotations: dict[str, str], due: float | None, end: str | None
) -> None:
    made = _bound("Running", **annotations)
    made["spec"]["restartPolicy"] = policy
    decision = decide(made, START, _SETTINGS)
    assert (decision.action, decision.due) == (None, due)
    assert _phase(decide(made, START + 10, _SETTINGS)) == end


@pytest.mark.parametrize(
    ("annotations", "grace", "gone"),
    [({}, 30, 2.0), ({"terminate": "10"}, 30, 10.0), ({"terminate": "60"}, 30, 30.0), ({}, 0, 0.0)],
)
def test_a_deleted_pod_goes_within_its_grace(
    annotations: dict[str, str], grace: int, gone: float
) -> None:
    made = _bound("Running", **annotations)
    made["metadata"]["deletionTimestamp"] = format_time(START + grace)
    made["metadata"]["deletionGracePeriodSeconds"] = grace
    if gone:
        assert decide(made, START + gone - 0.5, _SETTINGS).due == START + gone
    assert decide(made, START + gone, _SETTINGS).action == Remove("ns", "a", "u")


def test_a_finished_pod_is_left_alone() -> None:
    assert decide(_bound("Succeeded"), START + 1000, _SETTINGS) == KubeletDecision()


def test_the_kubelet_acts_once_per_observation_and_in_order_of_time() -> None:
    kubelet = Kubelet(_SETTINGS)
    fast, slow = _bound(start="1"), _bound(start="5")
    slow["metadata"]["name"] = "b"
    kubelet.observe(slow, START)
    kubelet.observe(fast, START)
    assert kubelet.next_due() == START + 1
    assert [action.name for action in kubelet.due(START + 1)] == ["a"]
    assert kubelet.due(START + 1) == []
    assert kubelet.next_due() == START + 5
    kubelet.forget("ns", "b")
    assert kubelet.due(START + 5) == []
    assert kubelet.next_due() is None


def test_a_pod_whose_node_is_missing_is_not_started() -> None:
    nodes: set[str] = set()
    kubelet = Kubelet(_SETTINGS, nodes.__contains__)
    kubelet.observe(_bound(), START)
    assert kubelet.due(START) == []
    nodes.add("n1")
    kubelet.observe(_bound(), START)
    assert len(kubelet.due(START)) == 1


def _deleted(made: JsonObject, grace: int = 30, *, finalizers: tuple[str, ...] = ()) -> JsonObject:
    made["metadata"]["deletionTimestamp"] = format_time(START + grace)
    made["metadata"]["deletionGracePeriodSeconds"] = grace
    if finalizers:
        made["metadata"]["finalizers"] = [*finalizers]
    return made


@pytest.mark.parametrize(
    ("phase", "sleeps", "grace", "gone"),
    [
        ("Running", (7,), 30, 9.0),  # the sleep, then the two seconds of the settings
        ("Running", (3, 7), 30, 9.0),  # containers stop side by side
        ("Running", (79,), 80, 80.0),
        ("Running", (60,), 30, 30.0),  # never longer than the grace period
        ("Pending", (7,), 30, 2.0),  # nothing runs that could have a hook
    ],
)
def test_a_deleted_pod_sleeps_before_it_stops(
    phase: str, sleeps: tuple[int, ...], grace: int, gone: float
) -> None:
    made = _deleted(_bound(phase), grace)
    made["spec"]["containers"] = [
        {"name": f"c{number}", "lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}
        for number, seconds in enumerate(sleeps)
    ]
    assert decide(made, START, _SETTINGS) == KubeletDecision(due=START + gone)
    assert decide(made, START + gone, _SETTINGS).action == Remove("ns", "a", "u")


def test_a_pod_with_finalizers_ends_and_is_then_let_go_once() -> None:
    made = _deleted(_bound("Running"), finalizers=("example.com/hold",))
    assert decide(made, START + 1, _SETTINGS) == KubeletDecision(due=START + 2)
    assert _phase(decide(made, START + 2, _SETTINGS)) == "Succeeded"

    made["status"]["phase"] = "Succeeded"
    assert decide(made, START + 2, _SETTINGS).action == Remove("ns", "a", "u")

    made["metadata"]["deletionGracePeriodSeconds"] = 0
    assert decide(made, START + 3, _SETTINGS) == KubeletDecision()

    made["metadata"]["finalizers"] = []
    assert decide(made, START + 3, _SETTINGS).action == Remove("ns", "a", "u")


def test_a_pod_with_finalizers_that_is_deleted_at_once_ends_too() -> None:
    made = _deleted(_bound("Running", exit="1"), 0, finalizers=("example.com/hold",))
    assert _phase(decide(made, START, _SETTINGS)) == "Failed"


def _condition(pod: JsonObject, name: str) -> str | None:
    decision = decide(pod, START, _SETTINGS)
    assert isinstance(decision.action, PatchStatus)
    found = [one["status"] for one in decision.action.patch["conditions"] if one["type"] == name]
    return found[0] if found else None


def test_a_pod_that_no_scheduler_bound_is_called_scheduled() -> None:
    assert _condition(_bound(), "PodScheduled") is None, "the scheduler's own time stays"
    static = _bound()
    static["status"]["conditions"] = []
    assert _condition(static, "PodScheduled") == "True"


def test_pods_can_run_until_they_are_deleted() -> None:
    made = _bound("Running")
    made["spec"]["restartPolicy"] = "Never"
    for_ever = _SETTINGS._replace(run_seconds=math.inf)
    assert decide(made, START + 1e9, for_ever) == KubeletDecision()
