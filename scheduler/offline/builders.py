"""Builders of nodes and pods: ordinary JSON objects, as in a manifest.

A builder fills in what every object needs, and passes everything else through, so that whatever a
manifest can say can be said here. Quantities are numbers or Kubernetes' texts (`"500m"`, `"2Gi"`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]
"""A Kubernetes object, or a part of one, with the names of JSON."""

Quantity = int | float | str
"""An amount: a number, or a text with a suffix."""


def node(  # noqa: PLR0913 - each is a field of its own, with a default
    name: str = "node",
    *,
    cpu: Quantity = 4,
    memory: Quantity = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: tuple[str, ...] = (),
    unschedulable: bool = False,
    resources: Mapping[str, Quantity] | None = None,
) -> JsonObject:
    """Return a ready node.

    Args:
        name: of the node, and the label `kubernetes.io/hostname` unless `labels` has one.
        cpu: allocatable CPUs.
        memory: allocatable memory.
        pods: allocatable pods.
        labels: further labels.
        annotations: of the node.
        taints: `key=value:Effect` or `key:Effect`.
        unschedulable: cordoned.
        resources: further allocatable resources, such as `{"nvidia.com/gpu": 8}`.

    >>> node("n1", taints=("gpu:NoSchedule",))["spec"]
    {'taints': [{'key': 'gpu', 'value': '', 'effect': 'NoSchedule'}]}
    """
    amounts: JsonObject = {
        "cpu": cpu,
        "memory": memory,
        "pods": pods,
        "ephemeral-storage": "100Gi",
        **(resources or {}),
    }
    spec: JsonObject = {}
    if taints:
        spec["taints"] = [_taint(each) for each in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(  # noqa: PLR0913 - each is a field of its own, with a default
    name: str = "pod",
    *,
    namespace: str = "default",
    cpu: Quantity = "100m",
    memory: Quantity = "128Mi",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int = 0,
    node: str = "",
    resources: Mapping[str, Quantity] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> JsonObject:
    """Return a pod with one container.

    Args:
        name: of the pod.
        namespace: of the pod.
        cpu: requested CPUs.
        memory: requested memory.
        labels: of the pod.
        annotations: of the pod.
        priority: `spec.priority`.
        node: where it runs already; empty: it is pending.
        resources: further requests, which are limits as well, such as `{"nvidia.com/gpu": 1}`.
        spec: further fields of the spec, with the names of JSON: `{"nodeSelector": {...}}`.

    >>> pod("web", node="n1")["spec"]["nodeName"]
    'n1'
    """
    requests = {"cpu": cpu, "memory": memory, **(resources or {})}
    container: JsonObject = {"name": "main", "image": "app", "resources": {"requests": requests}}
    if resources:
        container["resources"]["limits"] = dict(resources)
    whole: JsonObject = {"containers": [container], "priority": priority, **(spec or {})}
    if node:
        whole["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": whole,
        "status": {"phase": "Running" if node else "Pending"},
    }


def renamed(obj: Mapping[str, Any], name: str) -> JsonObject:
    """Return a copy of an object under another name, without UID; a node's hostname follows."""
    metadata = {key: each for key, each in obj.get("metadata", {}).items() if key != "uid"}
    before = metadata.get("name")
    metadata["name"] = name
    labels = metadata.get("labels") or {}
    if obj.get("kind") == "Node" and labels.get("kubernetes.io/hostname") == before:
        metadata["labels"] = {**labels, "kubernetes.io/hostname": name}
    return {**obj, "metadata": metadata}


def _taint(text: str) -> JsonObject:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(
            f"taint {text!r}: give key=value:Effect, with the effect NoSchedule, PreferNoSchedule "
            "or NoExecute"
        )
    return {"key": key, "value": value, "effect": effect}
