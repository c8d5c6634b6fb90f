"""The situation in which a step is looked for: one rejection of a pod, within a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine import Framework
from scheduler.explain.owners import have_same_owner
from scheduler.explain.records import Change
from scheduler.explain.what_if.changes import JsonObject, as_json
from scheduler.explain.what_if.trial import WhatIfTrial
from scheduler.framework import Status
from scheduler.framework.near_labels import (
    MAX_WANTED,
    keys_of_nodes,
    nearest_key,
    nearest_value,
    values_of_nodes,
)


@dataclass(slots=False)
class Situation:
    """A pod, the node that is looked at, and why it was rejected there."""

    trial: WhatIfTrial
    table: NodeTable
    framework: Framework
    pod: Pod
    status: Status
    #: None: the rejection concerns all nodes, or the node does not matter.
    node: Node | None

    @cached_property
    def spec(self) -> JsonObject:
        """The `spec` of the pod, as in its manifest. Do not modify it."""
        found: JsonObject = as_json(self.pod).get("spec", {})
        return found

    @property
    def reasons(self) -> str:
        """The reasons of the rejection, in one text."""
        return "; ".join(self.status.reasons)

    def pods_on_node(self) -> list[Pod]:
        """Return the pods of the node."""
        row = None if self.node is None else self.table.row_of(self.node.name)
        return [] if row is None else list(self.table.pods[row].values())

    def evictable(self) -> list[Pod]:
        """Return the pods of the node that are not in the pod's own group or of its owner."""
        return [each for each in self.pods_on_node() if not self.is_own_member(each)]

    def is_own_member(self, other: Pod) -> bool:
        """Whether another pod is in the pod's own group, or of its owner.

        To evict it would be no help: its group breaks, or its owner makes another that waits.
        """
        if have_same_owner(self.pod, other):
            return True
        grouping = self.framework.grouping
        if grouping is None:
            return False
        own = grouping.group_name(self.pod)
        return own is not None and grouping.group_name(other) == own

    def label_values(self, key: str) -> list[tuple[str, int]]:
        """Return `values_of_nodes` of a label; a pod may ask for the same one in many terms."""
        found = self._label_values.get(key)
        if found is None:
            found = self._label_values[key] = values_of_nodes(self.table, key)
        return found

    def key_meant(self, key: str) -> str:
        """Return the key of a label similar to this one, which no node has; empty: another case."""
        return "" if self.label_values(key) else nearest_key(key, keys_of_nodes(self.table))

    def meant(self, kind: str, absent: Sequence[str]) -> dict[str, str]:
        """Return, by names that no object has, similar ones of objects that the pod may use."""
        if not absent:
            return {}
        places = ("", self.pod.metadata.namespace)
        found = (each.metadata for each in self.trial.objects(kind))
        known = [(each.name, 1) for each in found if each.namespace in places]
        near = {name: nearest_value((name,), known)[1] for name in absent[:MAX_WANTED]}
        return {name: each for name, each in near.items() if each}

    @cached_property
    def _label_values(self) -> dict[str, list[tuple[str, int]]]:
        return {}

    def set_pod(self, path: str, value: Any) -> Change:
        """Return a change of one field of the pod; None removes it."""
        return Change("set", "Pod", self.pod.key, path, value)


def set_node(node: Node, path: str, value: Any) -> Change:
    """Return a change of one field of a node; None removes it."""
    return Change("set", "Node", node.name, path, value)


def evictions(pods: list[Pod]) -> tuple[Change, ...]:
    """Return the removal of these pods."""
    return tuple(removed(each.key) for each in pods)


def removed(key: str) -> Change:
    """Return the removal of a pod."""
    return Change("remove", "Pod", key)


def names(pods: list[Pod]) -> str:
    """Return the keys of some pods, for a text."""
    return listed([each.key for each in pods])


def listed(keys: Sequence[str], most: int = 4) -> str:
    """Return the first of some keys, for a text.

    >>> listed(["a/p", "a/q"]), listed(["a/p", "a/q", "a/r"], 2)
    ('a/p, a/q', 'a/p, a/q and 1 more')
    """
    shown = ", ".join(keys[:most])
    return shown if len(keys) <= most else f"{shown} and {len(keys) - most} more"
