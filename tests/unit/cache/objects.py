"""Short ways to write nodes and pods for cache tests; pods come interned."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api import Node, Pod, PodSignatures

SHAPES = PodSignatures()


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
    SHAPES.intern(made)
    return made


def taint(key: str, effect: str = "NoSchedule", **more: str) -> dict[str, str]:
    """A taint."""
    return {"key": key, "effect": effect, **more}


def image(*names: str, size: int = 1) -> dict[str, Any]:
    """An image on a node."""
    return {"names": list(names), "sizeBytes": size}
