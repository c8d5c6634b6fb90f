"""Pod groups: the progress of each (`/debug/gangs`)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.pages.page import DebugPage


@dataclass(frozen=True, slots=True)
class GroupView:
    """One pod group."""

    group: str
    """`namespace/name`."""
    source: str
    """`CRD` of scheduling.x-k8s.io, or `Native` of scheduling.k8s.io."""
    stage: str
    """Its progress in one word, such as `Unschedulable` or `AllBound`."""
    minimum: int
    """Pods that start together; 0 if each starts for itself, or there is no object."""
    bound: int
    """Members with a node."""
    succeeded: int
    """Members that ended well, up to the minimum."""
    reserved: int
    """Members with room on a node that are being bound."""
    pending: int
    """Members that wait for a node."""
    gated: int
    """Members with scheduling gates."""
    foreign: int
    """Members that wait for other schedulers."""
    text: str
    """Its progress in a sentence."""


class GroupList(DebugPage, frozen=True, tag="GroupList"):
    """`/debug/gangs`."""

    now: float
    leading: bool
    """False on a replica that stands by: it decides nothing."""
    total: int
    """Groups that exist, of the namespace if one was asked for."""
    groups: tuple[GroupView, ...]
    """By name; those that have what they need come last."""
