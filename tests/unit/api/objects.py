"""Short ways to write objects as the API server would send them."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api import Node, Pod


def pod(spec: dict[str, Any] | None = None, **parts: Any) -> Pod:
    """A pod decoded from JSON: `spec` fields, and whole `metadata` and `status` by keyword."""
    body: dict[str, Any] = {"containers": [container()], **(spec or {})}
    metadata = {"name": "p", "namespace": "default", "uid": "u", **parts.pop("metadata", {})}
    raw = msgspec.json.encode({"metadata": metadata, "spec": body, **parts})
    return msgspec.json.decode(raw, type=Pod)


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    """A container; `requests` and `limits` go where they belong."""
    resources = {key: fields.pop(key) for key in ("requests", "limits") if key in fields}
    return {"name": name, "image": "app:1", "resources": resources, **fields}


def pinned(node: str, **term: Any) -> dict[str, Any]:
    """The affinity that the DaemonSet controller writes."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return required({"matchFields": fields, **term})


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    """An affinity with required node selector terms."""
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def node(name: str = "n", **parts: Any) -> Node:
    """A node decoded from JSON."""
    raw = msgspec.json.encode({"metadata": {"name": name}, **parts})
    return msgspec.json.decode(raw, type=Node)
