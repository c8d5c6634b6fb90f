"""The nodes of `--add-node`: the same ones in worlds and in questions about the live state."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.api.node import HOSTNAME, Node
from scheduler.api.node_amounts import amount_fault, name_fault
from scheduler.explain.records import NodeToAdd

JsonObject = dict[str, Any]

DEFAULTS: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}
"""Amounts of a node that is like none that exists, where nothing else is asked for."""
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_OF_ONE_NODE: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "DeletionCandidate",
)
"""Prefixes of taints that tell the state of one node."""


def node_manifest(asked: NodeToAdd, name: str, like: Node | None) -> JsonObject:
    """Return a node as it is asked for, with this name. Raises ValueError, naming the fault.

    It has the amounts, labels and taints of `like`, and over them those that were asked for. What
    tells the state of that node only is left out: cordon, conditions as taints, annotations.
    """
    amounts: dict[str, Any] = dict(DEFAULTS)
    labels: dict[str, str] = {}
    taints: list[JsonObject] = []
    if like is not None:
        amounts = dict(like.status.allocatable)
        labels = dict(like.metadata.labels)
        taints = kept_taints(like)
    for resource, amount in asked.resources.items():
        if fault := name_fault(resource) or amount_fault(resource, amount):
            raise ValueError(fault)
    amounts |= asked.resources
    own = [taint(each) for each in asked.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, HOSTNAME: name, **asked.labels}},
        "spec": {"taints": [*taints, *own]},
        "status": {
            "allocatable": amounts,
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def kept_taints(node: Node) -> list[JsonObject]:
    """Return the taints of a node that others like it have as well."""
    return [
        msgspec.to_builtins(each)
        for each in node.spec.taints
        if not each.key.startswith(_OF_ONE_NODE)
    ]


def taint(text: str) -> JsonObject:
    """Return the taint of `KEY=VALUE:EFFECT` or `KEY:EFFECT`. Raises ValueError."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    if not key or effect not in EFFECTS:
        raise ValueError(
            f"taint {text!r:.200}: write KEY=VALUE:EFFECT or KEY:EFFECT, with the effect "
            f"{', '.join(EFFECTS[:-1])} or {EFFECTS[-1]}"
        )
    return {"key": key, "value": value, "effect": effect}
