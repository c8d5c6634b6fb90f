"""The answer of `kubestow explain` about all pods of one owner, made of several debug pages."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.explain.records.explain_page import ExplainPage
from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.waiting import OtherScheduler


@dataclass(frozen=True, slots=True)
class OwnerGroup:
    """Pods of the owner that wait for the same."""

    cause: str
    """As in `WaitingGroup`."""
    pods: int
    text: str
    """Both in words, such as `4 lack CPU`."""
    waiting_since: float
    """Wall clock seconds: since when the pod that is explained has waited, the longest of them."""
    explained: ExplainPage | None
    """That pod; null where it is gone, and for all but the largest groups."""


class OwnerPage(DebugPage, frozen=True, tag="OwnerExplanation"):
    """`kubestow explain KIND/NAME`; no path has it."""

    now: float
    leading: bool
    namespace: str
    owner: str
    """Such as `Deployment/web`."""
    waiting: int
    """Pods that wait."""
    placed: int
    """Pods that have a node, or for which one was chosen."""
    group_total: int
    """Groups of the pods that wait."""
    groups: list[OwnerGroup]
    """The largest of them first."""
    others: list[OtherScheduler] = []
    """Pods that name another scheduler; those that have a node are counted in `placed` as well."""
    ending: int = 0
    """The part of `placed` that is being deleted; spread constraints do not count these pods."""
    lacking: str = ""
    """Why the owner has fewer pods than it asks for, from its own object; empty if it has not, or
    if that cannot be read."""
    fewer: str = ""
    """With how many replicas no pod of a Deployment would wait, and how to set that."""
    rollout: str = ""
    """Why a Deployment keeps pods of before while new ones wait, and what ends that."""
