"""The difference between two versions of a node, in groups of columns."""

from __future__ import annotations

from scheduler.api.node import Node
from scheduler.framework.nodes import Columns

UNGROUPED = int(Columns.ALL & ~Columns.EXISTENCE)
"""Mask for a change outside all columns: results that depend on any group are evaluated again."""


def changed_groups(old: Node, new: Node) -> int:
    """Return the column groups, as a `Columns` mask, in which two versions of a node differ."""
    changed = 0
    if old.status.allocatable != new.status.allocatable:
        changed |= Columns.ALLOCATABLE
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        changed |= Columns.TAINTS
    if old.metadata.labels != new.metadata.labels:
        changed |= Columns.LABELS
    if old.status.images != new.status.images:
        changed |= Columns.IMAGES
    if old.status.declared_features != new.status.declared_features:
        changed |= Columns.FEATURES
    return int(changed)


def ungrouped_changes(old: Node, new: Node) -> bool:
    """Whether a field without a column changed that a plugin may read from the node object.

    Heartbeat and transition times of conditions do not count: kubelets renew them constantly.
    """
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.status.capacity != new.status.capacity
        or _conditions(old) != _conditions(new)
    )


def _conditions(node: Node) -> list[tuple[str, str, str]]:
    return [(each.type, each.status, each.reason) for each in node.status.conditions]
