"""Short ways to write nodes, pods, tables and affinity terms for cache tests; pods are interned."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api import Node, Pod, PodSignatures
from scheduler.cache import NodeTable
from scheduler.cache.label_columns import LabelColumns

SIGNATURES = PodSignatures()


def node(name: str, **parts: Any) -> Node:
    """A node: `labels`, `annotations`, `taints`, `unschedulable`; the rest goes into its status."""
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    raw = {
        "metadata": {
            "name": name,
            "labels": parts.pop("labels", {}),
            "annotations": parts.pop("annotations", {}),
        },
        "spec": {
            "taints": parts.pop("taints", []),
            "unschedulable": parts.pop("unschedulable", False),
        },
        "status": {**status, **parts},
    }
    return msgspec.convert(raw, Node)


def pod(uid: str, node_name: str = "", **parts: Any) -> Pod:
    """A pod with one container: `requests`, `ports`, `claims`, and parts of a spec.

    The rest goes into its metadata.
    """
    container = {
        "name": "c",
        "resources": {"requests": parts.pop("requests", {})},
        "ports": [{"containerPort": 1, **each} for each in parts.pop("ports", [])],
    }
    volumes = [
        {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
        for claim in parts.pop("claims", [])
    ]
    spec: dict[str, Any] = {
        key: parts.pop(key) for key in ("priority", "schedulerName", "affinity") if key in parts
    }
    metadata: dict[str, Any] = {"name": uid, "namespace": "default", "uid": uid, **parts}
    raw = {
        "metadata": metadata,
        "spec": spec | {"nodeName": node_name, "containers": [container], "volumes": volumes},
    }
    made = msgspec.convert(raw, Pod)
    SIGNATURES.intern(made)
    return made


def taint(key: str, effect: str = "NoSchedule", **more: str) -> dict[str, str]:
    """A taint."""
    return {"key": key, "effect": effect, **more}


def image(*names: str, size: int = 1) -> dict[str, Any]:
    """An image on a node."""
    return {"names": list(names), "sizeBytes": size}


def table_with(*nodes: Node) -> NodeTable:
    """A table of these nodes."""
    table = NodeTable()
    for each in nodes:
        table.set_node(each)
    return table


def row_of(table: NodeTable, name: str) -> int:
    """The row of a node that exists."""
    found = table.row_of(name)
    assert found is not None
    return found


def labelled(uid: str, app: str, **metadata: Any) -> Pod:
    """A pod on n1 with the label app."""
    return pod(uid, "n1", labels={"app": app}, **metadata)


def label_keys(*keys: str) -> LabelColumns:
    """The label keys of a cluster with one node, which has these."""
    columns = LabelColumns(1)
    columns.write(0, None, node("n1", labels=dict.fromkeys(keys, "")))
    return columns


def with_anti_affinity(*terms: dict[str, Any], uid: str = "owner", **metadata: Any) -> Pod:
    """A pod with required anti-affinity terms."""
    listed = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return pod(uid, affinity={"podAntiAffinity": listed}, **metadata)


def anti(app: str, key: str = "zone", uid: str = "owner") -> Pod:
    """A pod that has the same anti-affinity term twice."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return with_anti_affinity(term, term, uid=uid)


def crowd(number: int, terms: int = 100) -> list[Pod]:
    """Pods with terms of their own, each of which matches most pods of all namespaces.

    Every other term is about the topology key "zone", the others about a key of their own.
    """
    owners = []
    for owner in range(number):
        listed = [
            {
                "topologyKey": ("zone", f"absent-{owner}-{each}")[each % 2],
                "namespaceSelector": {},
                "labelSelector": {
                    "matchExpressions": [
                        {"key": f"k{owner}-{each}", "operator": "DoesNotExist"},
                        {"key": "role", "operator": "NotIn", "values": ["hermit"]},
                    ]
                },
            }
            for each in range(terms)
        ]
        owners.append(with_anti_affinity(*listed, uid=f"{owner}"))
    return owners
