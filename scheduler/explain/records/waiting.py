"""Pending pods by owner and by what they wait for (`/debug/waiting`)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.queue import PodView


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """A cause, and how many pods it keeps waiting."""

    cause: str
    """Such as `lack CPU`: the words of a reason that is known, else the plugin."""
    pods: int
    text: str
    """Both in words, such as `1 lacks CPU`."""


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """Pods of one owner that wait for the same."""

    namespace: str
    owner: str
    """Such as `Deployment/web`: of a pod group, else of the controller; empty for pods of none."""
    cause: str
    pods: int
    pod: str
    """The name of the pod that has waited longest."""
    waiting_since: float
    """Wall clock seconds: since when it has."""
    text: str = ""
    """Why that pod waits, in a sentence."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """One of the selected pods."""

    pod: PodView
    owner: str
    """As in `WaitingGroup`."""
    cause: str


@dataclass(frozen=True, slots=True)
class OtherScheduler:
    """Pods of an owner that name a scheduler which is not this one."""

    name: str
    """Their `schedulerName`, cut after 253 characters."""
    pods: int
    placed: int
    """Those of them that have a node."""
    near: str = ""
    """The profile of this scheduler whose name is nearly the same; empty if none is."""


class WaitingPage(DebugPage, frozen=True, tag="WaitingList"):
    """`/debug/waiting`. Times are wall clock seconds."""

    now: float
    leading: bool
    namespace: str
    """The only namespace counted; empty for all."""
    total: int
    """Pods that wait."""
    headline: str
    """The causes in a sentence."""
    causes: list[WaitingCause]
    """Of all of them, the most frequent first."""
    selected: int
    """Pods selected by owner, cause and words."""
    group_total: int
    """Groups of these."""
    groups: list[WaitingGroup]
    """The largest of these groups, at most `?groups=`."""
    pods: list[WaitingPod]
    """Those of the selected pods that have waited longest, at most `?limit=`."""
    placed: int | None = None
    """With `?placed=1`: pods of `?owner=` that have a node, or for which one was chosen."""
    ending: int = 0
    """The part of `placed` that is being deleted."""
    others: list[OtherScheduler] = []
    """With `?placed=1`: pods of `?owner=` that name another scheduler, the most frequent first."""
