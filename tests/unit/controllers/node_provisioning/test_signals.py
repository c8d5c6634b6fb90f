"""Each row of the mapping from events to verdicts, with the texts of cluster-autoscaler 1.36."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.meta import parse_time
from scheduler.api.policy import CoreEvent, EventSeries, EventSource
from scheduler.controllers.node_provisioning.signals import (
    COMBINED,
    PodSignal,
    ScaleUp,
    StatusObject,
    TargetFailure,
    event_time,
    read_event,
)
from tests.unit.controllers.node_provisioning.world import EPOCH, event, group_event, rfc

STATUS = StatusObject()
NOT = "pod didn't trigger scale-up: "

VERDICTS = [
    ("TriggeredScaleUp", "pod triggered scale-up: [{asg-z2 1->2 (max: 5)}]", "cluster-autoscaler",
     (True, "TriggeredScaleUp", {"asg-z2"})),
    ("TriggeredScaleUp", "pod triggered scale-up: [{a 1->2 (max: 5)} {b 0->1 (max: 3)}]",
     "cluster-autoscaler", (True, "TriggeredScaleUp", {"a", "b"})),
    ("TriggeredScaleUp",
     "pod triggered scale-up: [{https://www.googleapis.com/compute/v1/p/z/g 1->2 (max: 5)}]",
     "cluster-autoscaler",
     (True, "TriggeredScaleUp", {"https://www.googleapis.com/compute/v1/p/z/g"})),
    ("TriggeredScaleUp", "words of a later version", "cluster-autoscaler",
     (True, "TriggeredScaleUp", set())),
    ("NotTriggerScaleUp", NOT + "2 in backoff after failed scale-up, 1 max node group size reached",
     "cluster-autoscaler", (False, "ScaleUpBackoff", set())),
    ("NotTriggerScaleUp", NOT + "1 max node group size reached, 2 in backoff after failed scale-up",
     "cluster-autoscaler", (False, "ScaleUpBackoff", set())),
    ("NotTriggerScaleUp", NOT + "1 max node group size reached, 3 node(s) didn't match affinity",
     "cluster-autoscaler", (False, "MaxSizeReached", set())),
    ("NotTriggerScaleUp", NOT + "1 max total nodes in cluster reached", "cluster-autoscaler",
     (False, "MaxSizeReached", set())),
    ("NotTriggerScaleUp", NOT + '1 exceeded quota: "q", resources: cpu', "cluster-autoscaler",
     (False, "QuotaExceeded", set())),
    ("NotTriggerScaleUp", NOT + "3 node(s) didn't match Pod's node affinity/selector",
     "cluster-autoscaler", (False, "NoNodeGroup", set())),
    ("NotTriggerScaleUp", NOT, "cluster-autoscaler", (False, "NoNodeGroup", set())),
    ("NotTriggerScaleUp", NOT.strip(), "cluster-autoscaler", (False, "NoNodeGroup", set())),
    ("NotTriggerScaleUp", NOT + "1 not ready for scale-up, 2 in backoff after failed scale-up",
     "cluster-autoscaler", (False, "ScaleUpBackoff", set())),
    ("NotTriggerScaleUp", NOT + "2 not ready for scale-up", "cluster-autoscaler", None),
    ("ScaleDown", "deleting pod for node scale down", "cluster-autoscaler", None),
    ("FailedScheduling", "0/3 nodes are available", "cluster-autoscaler", None),
    ("FailedScheduling", "Failed to schedule pod, all available instance types exceed limits",
     "karpenter", (False, "KarpenterFailedScheduling", set())),
    ("FailedScheduling", "0/3 nodes are available", "default-scheduler", None),
    ("FailedScheduling", "0/3 nodes are available", "kubestow", None),
    ("Nominated", "Pod should schedule on: nodeclaim/x", "karpenter", (True, "Nominated", {"x"})),
    ("Nominated", "Pod should schedule on: nodeclaim/x, node/y", "karpenter",
     (True, "Nominated", {"x"})),
    ("Nominated", "Pod should schedule on: node/y", "karpenter", (True, "Nominated", set())),
    ("TriggeredScaleUp", "pod triggered scale-up: [{a 1->2 (max: 5)}]", "karpenter", None),
    ("Nominated", "Pod should schedule on: nodeclaim/x", "cluster-autoscaler", None),
]  # fmt: skip


@pytest.mark.parametrize("prefix", ["", COMBINED])
@pytest.mark.parametrize(("reason", "message", "source", "expected"), VERDICTS)
def test_events_about_pods(
    reason: str,
    message: str,
    source: str,
    expected: tuple[bool, str, set[str]] | None,
    prefix: str,
) -> None:
    signal = read_event(event(reason, prefix + message, source=source), STATUS)
    if expected is None:
        assert signal is None
        return
    assert isinstance(signal, PodSignal)
    assert (signal.provisioning, signal.reason, set(signal.targets)) == expected
    assert (signal.uid, signal.source) == ("uid-a", source)
    assert signal.message.startswith(f"{reason}: ")
    assert COMBINED not in signal.message


FAILURES = [
    ("FailedToScaleUpGroup", "Scale-up failed for group g1: timeout", "g1"),
    ("FailedToScaleUpGroup", "Scale-up failed for group https://x/z/g: 409: busy", "https://x/z/g"),
    ("FailedToScaleUpGroup", "Scale-up failed for group g1:", "g1"),
    ("ScaleUpFailed", "Failed adding 2 nodes to group g1 due to OutOfResource.CODE; source errors",
     "g1"),
    ("ScaleUpTimedOut", "Nodes added to group g1 failed to register within 15m3s", "g1"),
    ("ScaleUpTimedOut", "words of a later version", None),
    ("MaxNodesTotalReached", "Max total nodes in cluster reached: 1000", None),
    ("ClusterUnhealthy", "Cluster is unhealthy", None),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "message", "group"), FAILURES)
def test_failures_of_node_groups(reason: str, message: str, group: str | None) -> None:
    signal = read_event(group_event(reason, message), STATUS)
    if group is None:
        assert signal is None
        return
    assert signal == TargetFailure("cluster-autoscaler", group, EPOCH, message)


@pytest.mark.parametrize(
    "text",
    [
        "Scale-up: group g1 size set to 2 instead of 1 (max: 5)",
        "Scale-up: setting group g1 size to 2 instead of 1 (max: 5)",
    ],
)
def test_scale_ups_of_node_groups(text: str) -> None:
    made = group_event("ScaledUpGroup", text)
    assert read_event(made, STATUS) == ScaleUp("cluster-autoscaler", "g1", EPOCH)


def test_only_the_status_object_of_the_autoscaler_counts() -> None:
    text = "Scale-up failed for group g1: no"
    others: list[dict[str, Any]] = [
        {"name": "other"},
        {"namespace": "other"},
        {"source": "karpenter"},
    ]
    for more in others:
        assert read_event(group_event("FailedToScaleUpGroup", text, **more), STATUS) is None
    elsewhere = StatusObject("autoscaling", "mine")
    moved = group_event("FailedToScaleUpGroup", text, name="mine", namespace="autoscaling")
    assert read_event(moved, elsewhere) is not None


def test_failures_of_node_claims() -> None:
    said = event("InsufficientCapacityError", "NodeClaim x event: no", kind="NodeClaim", name="x",
                 source="karpenter")  # fmt: skip
    assert read_event(said, STATUS) == TargetFailure(
        "karpenter", "x", EPOCH, "NodeClaim x event: no"
    )
    assert read_event(msgspec.structs.replace(said, reason="Launched"), STATUS) is None


def test_events_about_capacity_buffers_are_ignored() -> None:
    said = event("NotTriggerScaleUp", NOT, kind="CapacityBuffer")
    assert read_event(said, STATUS) is None


def test_events_about_a_pod_without_uid_are_ignored() -> None:
    assert read_event(event("NotTriggerScaleUp", NOT, uid=""), STATUS) is None


def test_the_source_may_be_the_reporting_controller() -> None:
    said = msgspec.structs.replace(
        event("NotTriggerScaleUp", NOT), source=EventSource(), reporting_component="karpenter"
    )
    assert said.component == "karpenter"


def test_the_order_of_fragments_does_not_matter() -> None:
    one, other = (
        read_event(event("NotTriggerScaleUp", NOT + text), STATUS)
        for text in ("1 a, 2 b, 3 c", "3 c, 1 a, 2 b")
    )
    assert one == other


def test_a_long_message_is_truncated() -> None:
    signal = read_event(event("TriggeredScaleUp", "x" * 5000), STATUS)
    assert isinstance(signal, PodSignal)
    assert len(signal.message) == 1024


@pytest.mark.parametrize(
    ("series", "last", "at", "expected"),
    [
        (3.0, 2.0, 1.0, 3.0),
        (None, 2.0, 1.0, 2.0),
        (None, None, 1.0, 1.0),
        (None, None, None, None),
    ],
)
def test_the_time_of_an_event(
    series: float | None, last: float | None, at: float | None, expected: float | None
) -> None:
    said = CoreEvent(
        series=None if series is None else EventSeries(last_observed_time=rfc(series)),
        last_timestamp=None if last is None else rfc(last),
        event_time=None if at is None else rfc(at),
    )
    assert event_time(said) == (None if expected is None else EPOCH + expected)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_a_malformed_time_is_none(text: str) -> None:
    assert parse_time(text) is None


@given(
    st.sampled_from(["Pod", "ConfigMap", "NodeClaim", "", "Node"]),
    st.sampled_from(["cluster-autoscaler", "karpenter", ""]),
    st.sampled_from(["TriggeredScaleUp", "NotTriggerScaleUp", "ScaleUpFailed", "Nominated", "x"]),
    st.text(max_size=80),
)
def test_no_text_raises(kind: str, source: str, reason: str, text: str) -> None:
    read_event(event(reason, text, kind=kind, source=source), STATUS)
