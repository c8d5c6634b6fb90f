"""Objects that the simulator's tests are about."""

from __future__ import annotations

from typing import Final

from simulator.objects import JsonObject

START: Final = 1_790_000_000.0


def namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod(name: str, *, gates: tuple[str, ...] = (), **spec: object) -> JsonObject:
    made: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    if gates:
        made["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return made


def node(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def binding(name: str, to: str, **meta: object) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **meta},
        "target": {"kind": "Node", "name": to},
    }
