"""The objects of the story `kubestow demo gang`: two racks of two nodes, and groups of pods."""

from __future__ import annotations

from typing import Final

from scheduler.api.pod_groups import POD_GROUP_LABEL
from simulator.controllers.kubelet import RUN_SECONDS
from simulator.objects import JsonObject, priority_class
from simulator.resources import Resource

NAMESPACE: Final = "default"
RACK: Final = "example.com/rack"
TOPOLOGY_REQUIRED: Final = "kubestow.io/topology-required"
POD_GROUPS: Final = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", subresources=("status",)
)
URGENT, NORMAL, BATCH = "urgent", "normal", "batch"
CPUS: Final = 4
"""CPUs of a node; each pod has one."""


def base() -> list[JsonObject]:
    """Return the nodes and the priority classes."""
    nodes = [_node(f"{rack}-{number}", rack) for rack in ("rack-1", "rack-2") for number in (1, 2)]
    classes = {URGENT: 1000, NORMAL: 100, BATCH: 10}
    return [*nodes, *(priority_class(name, value) for name, value in classes.items())]


def group(name: str, minimum: int, *, one_rack: bool = False) -> JsonObject:
    """Return a PodGroup."""
    annotations = {TOPOLOGY_REQUIRED: RACK} if one_rack else {}
    return {
        "apiVersion": POD_GROUPS.group_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"minMember": minimum},
    }


def pods(
    name: str,
    count: int,
    *,
    priority: str = NORMAL,
    seconds: float = 0,
    grouped: bool = True,
) -> list[JsonObject]:
    """Return pods of one CPU, members of the group `name` or single ones; 0 seconds: for ever."""
    labels = {"app": name}
    if grouped:
        labels[POD_GROUP_LABEL] = name
    spec: JsonObject = {
        "schedulerName": "kubestow",
        "priorityClassName": priority,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
    }
    annotations = {RUN_SECONDS: str(seconds)} if seconds else {}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": spec,
        }
        for number in range(count)
    ]


def _node(name: str, rack: str) -> JsonObject:
    amounts = {"cpu": str(CPUS), "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, RACK: rack}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
