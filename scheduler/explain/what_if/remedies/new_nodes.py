"""Steps that add a node: like one that there is, as large as the pod needs, with its labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.api.node import HOSTNAME, Node, NodeStatus
from scheduler.api.requests import node_allocatable
from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.changes import as_json
from scheduler.explain.what_if.remedies.node_steps import (
    HARD,
    UNSCHEDULABLE_TAINT,
    wanted_labels,
)
from scheduler.explain.what_if.remedies.resource_steps import amounts, quantity, spoken
from scheduler.explain.what_if.remedies.situation import Situation

NAME: Final = "new-node"
KINDS: Final = 3
"""Kinds of nodes that are tried."""
LOOKED_AT: Final = 200
"""Nodes among which kinds are told apart."""


def like_the_best(situation: Situation) -> Iterator[Step]:
    """Add a node like each of a few different ones, without taints, large enough.

    Nodes that take pods come first as models.
    """
    table = situation.table
    kinds: dict[frozenset[tuple[str, str]], Node] = {}
    found = [table.nodes[row] for row in table.rows[:LOOKED_AT].tolist()]
    for node in sorted(filter(None, found), key=_takes_none):
        labels = node.metadata.labels.items()
        kinds.setdefault(frozenset(each for each in labels if each[0] != HOSTNAME), node)
    chosen = sorted(
        kinds.values(), key=lambda each: (len(wanted_labels(situation, each)), _takes_none(each))
    )
    for node in chosen[:KINDS]:
        yield _like(situation, node)
    if not chosen:
        yield _like(situation, Node())


def _takes_none(node: Node) -> bool:
    return node.spec.unschedulable or any(each.effect in HARD for each in node.spec.taints)


def _like(situation: Situation, like: Node) -> Step:
    name = NAME
    while situation.table.row_of(name) is not None:
        name += "-x"
    made = as_json(like) if like.metadata.name else {"status": {}}
    wanted = wanted_labels(situation, msgspec.structs.replace(like))
    labels = {**made.get("metadata", {}).get("labels", {}), **wanted, HOSTNAME: name}
    labels = {key: value for key, value in labels.items() if value is not None}
    status = made.get("status", {})
    own = dict(status.get("allocatable", {}))
    larger = _enlarge(situation, own)
    features = {*status.get("declaredFeatures", []), *situation.pod.signature.required_features}
    value: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": own,
            "capacity": own,
            "declaredFeatures": sorted(features),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    texts = [f"{key}={each}" for key, each in wanted.items() if each is not None]
    text = f"add a node like {like.metadata.name}" if like.metadata.name else "add a node"
    if larger:
        text += f" with at least {' and '.join(larger)}"
    if texts:
        text += f", labelled {', '.join(texts)}"
    if any(each.key != UNSCHEDULABLE_TAINT for each in like.spec.taints):
        text += ", without its taints"
    cost = 8.0 + len(larger) + 0.3 * len(texts)
    return Step(Code.ADD_NODE, text, (Change("add", "Node", name, value=value),), cost, name)


def _enlarge(situation: Situation, own: dict[str, Any]) -> list[str]:
    """Raise amounts to what the pod needs; return the texts of those raised."""
    stated, pods = node_allocatable(Node(status=NodeStatus(allocatable=own)))
    have, texts = amounts(stated), []
    for key, need in amounts(situation.pod.signature.requests).items():
        if need > have.get(key, 0):
            own[key] = quantity(key, need)
            texts.append(f"{spoken(key, need)} {key}")
    if pods < 1:
        own["pods"] = "110"
        texts.append("110 pods")
    return texts
