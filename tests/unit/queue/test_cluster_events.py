"""Fine-grained events of updates, upstream's and kubestow's own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api.meta import Condition, ObjectMeta
from scheduler.api.node import Node, NodeSpec, NodeStatus, Taint
from scheduler.api.pod import (
    Container,
    ContainerStatus,
    Pod,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
)
from scheduler.framework import ActionType
from scheduler.queue import EventFeatures, node_events, pod_events
from tests.unit.queue.doubles import make_pod

FALLBACK = "kubestow.io/topology-spread-fallback"


def node(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> Node:
    return Node(
        metadata=ObjectMeta(name="n", labels=labels or {}, annotations=annotations or {}),
        spec=NodeSpec(**(spec or {})),
        status=NodeStatus(**status),
    )


READY = Condition(type="Ready", status="True")
TAINT = Taint(key="k", effect="NoSchedule")


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (node(spec={"unschedulable": True}), node(), ["NodeUpdateNodeTaint"]),
        (node(), node(spec={"unschedulable": True}), []),
        (node(allocatable={"cpu": "2"}), node(allocatable={"cpu": "1"}),
         ["NodeUpdateNodeAllocatable"]),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "1000m"}), []),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "1", "gpu": "0"}),
         ["NodeUpdateNodeAllocatable"]),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "nonsense"}),
         ["NodeUpdateNodeAllocatable"]),
        (node(capacity={"cpu": "2"}), node(capacity={"cpu": "1"}), []),
        (node(conditions=(READY,)), node(), ["NodeUpdateNodeCondition"]),
        (node(), node(conditions=(READY,)), ["NodeUpdateNodeCondition"]),
        (node(conditions=(READY,)),
         node(conditions=(Condition(type="Ready", status="True", reason="r", message="m"),)), []),
        (node(), node(annotations={"a": "b"}), ["NodeUpdateNodeAnnotation"]),
        (node(), node(labels={"a": "b"}, spec={"taints": (TAINT,)}),
         ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"]),
        (node(spec={"unschedulable": True}), node(spec={"taints": (TAINT,)}),
         ["NodeUpdateNodeTaint"]),
        (node(spec={"taints": (TAINT,)}),
         node(spec={"taints": (Taint(key="k", effect="NoSchedule", time_added="now"),)}),
         ["NodeUpdateNodeTaint"]),
        (node(), node(declared_features=("F",)), ["NodeUpdateNodeDeclaredFeature"]),
        (node(declared_features=("F",)), node(declared_features=("G",)),
         ["NodeUpdateNodeDeclaredFeature"]),
        (node(declared_features=("F",)), node(declared_features=("F",)), []),
    ],
)  # fmt: skip
def test_node_updates(old: Node, new: Node, labels: list[str]) -> None:
    assert [event.label for event in node_events(new, old)] == labels


def test_all_changes_of_a_node_are_reported_in_order() -> None:
    new = node(
        labels={"a": "b"},
        annotations={"a": "b"},
        spec={"taints": (TAINT,)},
        allocatable={"cpu": "1"},
        conditions=(READY,),
        declared_features=("F",),
    )
    assert [event.action_type for event in node_events(new, node())] == [
        ActionType.UPDATE_NODE_ALLOCATABLE,
        ActionType.UPDATE_NODE_LABEL,
        ActionType.UPDATE_NODE_TAINT,
        ActionType.UPDATE_NODE_CONDITION,
        ActionType.UPDATE_NODE_ANNOTATION,
        ActionType.UPDATE_NODE_DECLARED_FEATURE,
    ]


def test_declared_features_count_only_with_their_gate() -> None:
    features = EventFeatures(node_declared_features=False)
    assert node_events(node(declared_features=("F",)), node(), features) == []


def pod(cpu: str = "100m", *, spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    return Pod(
        metadata=ObjectMeta(name="a", namespace="default", uid="u"),
        spec=PodSpec(containers=(container,), **(spec or {})),
        status=PodStatus(**status),
    )


CLAIMS = tuple(PodResourceClaimStatus(name=name, resource_claim_name=name) for name in "ab")
SCHEDULED_FALSE = Condition(type="PodScheduled", status="False", reason="Unschedulable")
ACTUATED = ContainerStatus(
    name="c",
    resources=ResourceRequirements(requests={"cpu": "2"}),
    allocated_resources={"cpu": "2"},
)
REFUSED = Condition(type="PodResizePending", status="True", reason="Infeasible")


@pytest.mark.parametrize(
    ("old", "new", "suffixes"),
    [
        (make_pod("a"), make_pod("a", labels={"x": "1"}), ["UpdatePodLabel"]),
        (pod("101m"), pod("100m"), ["UpdatePodScaleDown"]),
        (pod("100m"), pod("101m"), ["Update"]),
        (pod("1"), pod("nonsense"), ["Update"]),
        # A node that refuses a resize for good lets the smaller size count.
        (pod("4", container_statuses=(ACTUATED,)),
         pod("4", container_statuses=(ACTUATED,), conditions=(REFUSED,)), ["UpdatePodScaleDown"]),
        (pod("4", container_statuses=(ACTUATED,), conditions=(REFUSED,)),
         pod("4", container_statuses=(ACTUATED,)), ["Update"]),
        (make_pod("a"), make_pod("a", annotations={"x": "1"}), ["Update"]),
        (make_pod("a", gates=["x"]), make_pod("a"), ["UpdatePodSchedulingGatesEliminated"]),
        (make_pod("a", gates=["x", "y"]), make_pod("a", gates=["x"]), ["Update"]),
        (pod(), pod(spec={"tolerations": (Toleration(key="k"),)}), ["UpdatePodToleration"]),
        (pod(spec={"tolerations": (Toleration(toleration_seconds=1),)}),
         pod(spec={"tolerations": (Toleration(toleration_seconds=2),)}), ["Update"]),
        (pod(), pod(resource_claim_statuses=CLAIMS), ["UpdatePodGeneratedResourceClaim"]),
        (pod(resource_claim_statuses=CLAIMS), pod(resource_claim_statuses=CLAIMS[::-1]),
         ["UpdatePodGeneratedResourceClaim"]),
        (pod(), pod(extended_resource_claim_status={"resourceClaimName": "c"}),
         ["UpdatePodGeneratedResourceClaim"]),
        (make_pod("a"), make_pod("a"), ["Update"]),
        (pod(), pod(conditions=(SCHEDULED_FALSE,)), ["Update", "UpdatePodSchedulingStatus"]),
        (pod(conditions=(SCHEDULED_FALSE,)),
         pod(conditions=(msgspec.structs.replace(SCHEDULED_FALSE, message="m"),)), ["Update"]),
        (pod(conditions=(SCHEDULED_FALSE,)),
         pod(conditions=(msgspec.structs.replace(SCHEDULED_FALSE, reason="SchedulingGated"),)),
         ["Update", "UpdatePodSchedulingStatus"]),
        (pod(), pod(conditions=(Condition(type="NodeProvisioningInProgress", status="False"),)),
         ["Update", "UpdatePodSchedulingStatus"]),
        (pod(), pod(conditions=(Condition(type="kubestow.io/Any", status="True"),)),
         ["Update", "UpdatePodSchedulingStatus"]),
        (pod(), pod(conditions=(Condition(type="Ready", status="False"),)), ["Update"]),
        (make_pod("a"), make_pod("a", nominated="n"), ["Update", "UpdatePodSchedulingStatus"]),
        (make_pod("a"), make_pod("a", annotations={FALLBACK: "z"}),
         ["Update", "UpdatePodAnnotation"]),
        (make_pod("a", annotations={FALLBACK: "z"}), make_pod("a", labels={"x": "1"}),
         ["UpdatePodLabel", "UpdatePodAnnotation"]),
    ],
)  # fmt: skip
def test_pod_updates(old: Pod, new: Pod, suffixes: list[str]) -> None:
    assert [event.label for event in pod_events(new, old)] == [
        f"TargetPod{suffix}" for suffix in suffixes
    ]


def test_a_bound_pod_gives_upstreams_events_for_the_assigned_resource_only() -> None:
    old = pod("2", conditions=(SCHEDULED_FALSE,), nominated_node_name="n")
    new = pod("1", spec={"node_name": "n"})
    new.metadata.labels = {"x": "1"}
    new.metadata.annotations = {FALLBACK: "z"}
    assert [event.label for event in pod_events(new, old)] == [
        "AssignedPodUpdatePodLabel", "AssignedPodUpdatePodScaleDown",
    ]  # fmt: skip


def test_claim_statuses_count_only_with_their_gate() -> None:
    features = EventFeatures(dynamic_resource_allocation=False)
    events = pod_events(pod(resource_claim_statuses=CLAIMS), pod(), features)
    assert [event.label for event in events] == ["TargetPodUpdate"]
