"""The answer about one pod (`/debug/explain`)."""

from __future__ import annotations

from enum import StrEnum

from scheduler.explain.records.decision import Decision
from scheduler.explain.records.explanation import PodExplanation
from scheduler.explain.records.gangs import GroupExplanation
from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.remedies import Remedies


class NotRemembered(StrEnum):
    """Reason for which no decision about a pod is remembered."""

    #: `kubestow.decisionHistory.pods` is 0.
    OFF = "off"
    #: The pod was bound before this process began to lead.
    EARLIER = "earlier"
    #: Decisions about many other pods came later, and memory is limited.
    EVICTED = "evicted"
    #: No attempt has ended yet.
    NO_ATTEMPT = "no-attempt"
    #: Another scheduler decides about the pod.
    NOT_OURS = "not-ours"


class ExplainPage(DebugPage, frozen=True, tag="PodExplanation"):
    """`/debug/explain`."""

    leading: bool
    pod: PodExplanation
    story: list[str] = []
    """The explanation in plain words, a sentence or two each."""
    decisions: list[Decision] = []
    """The decisions about the pod that are remembered, the last one last."""
    not_remembered: NotRemembered | None = None
    """Why `decisions` is empty."""
    remedies: Remedies | None = None
    """What would have to change for a pending pod to fit; with `?remedies=quick` or `all` only."""
    group: GroupExplanation | None = None
    """The pod group of the pod."""
    restricted: bool = False
    """Whether it is for a user who may not get `/debug/explain`, without what is not theirs."""
