"""The question and the answer of `kubestow whatif` (`POST /debug/whatif`)."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.remedies import Change

MAX_SECONDS = 30.0
MAX_COPIES = 100


class NodeToAdd(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A node to add, like one that there is where `like` names it."""

    name: str = "new-node"
    like: str = ""
    resources: dict[str, str] = {}
    """Allocatable amounts, such as `{"cpu": "16"}`. Where absent, those of `like`; without it 4
    CPUs, 16Gi of memory and 110 pods."""
    labels: dict[str, str] = {}
    """Added to those of `like`."""
    taints: list[str] = []
    """`key=value:Effect`, besides those of `like` that do not tell the state of that node."""
    count: int = 1


class WhatIfQuestion(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The body of `POST /debug/whatif`."""

    pod: str = ""
    """A pending pod, `namespace/name`; or else `manifest`."""
    manifest: dict[str, Any] | None = None
    """A pod that does not exist."""
    fields: dict[str, Any] = {}
    """Fields of the pod to set: JSON pointer to value; null removes one."""
    add_nodes: list[NodeToAdd] = []
    drop_nodes: list[str] = []
    """Names or label selectors of nodes to remove, with their pods."""
    cordon: list[str] = []
    """Names or label selectors of nodes to cordon."""
    remove_pods: list[str] = []
    """Pods to remove, `namespace/name`."""
    changes: list[Change] = []
    """Any other changes, as a remedy has them; made after the ones above."""
    copies: int = 1
    """How many of the pod to place."""
    seconds: float = 5.0
    """Time for the answer."""


class WhatIfResult(DebugPage, frozen=True, tag="WhatIfResult"):
    """`/debug/whatif`. Nothing was reserved: another pod may take the room at any moment."""

    leading: bool
    now: float
    resource_version: str
    """Of the newest change of pods and nodes that the scheduler knew of, before the question."""
    changed: bool
    """The state changed while the question was answered: slices saw different states."""
    pod: str
    """`namespace/name`."""
    fits: bool
    """All copies do."""
    node: str
    """Of the first copy; empty: it fits nowhere."""
    feasible: int
    """Nodes that were found to fit the first copy."""
    nodes: int
    """Nodes there were, with the changes."""
    message: str
    """Why the first copy, or the next one, does not fit."""
    plugins: list[str]
    """The plugins that rejected it."""
    preemption_node: str
    """Where preemption would make room for a pod that does not fit."""
    victims: list[str]
    """The pods that it would evict there; nobody was."""
    copies: int
    """Copies that fit."""
    by_node: dict[str, int]
    """Copies on each node."""
    complete: bool
    """False: the time was over; `copies` is then the least that fit."""
    slices: int
    """Pieces in which the scheduler answered, between others of its work."""
    longest_slice: float
    """Seconds."""
    notes: list[str]
    """What was not considered."""
    why: str = ""
    """`message` in the words of `kubestow explain`, with numbers; empty if it is not known."""
