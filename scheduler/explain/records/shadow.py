"""A shadow's judgements of pods, and their sums (`kubestow shadow`).

`here` is the shadow, `there` the scheduler in force.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scheduler.explain.records.page import DebugPage


class ShadowVerdict(StrEnum):
    """The judgement of a pod that the scheduler in force has bound."""

    #: The same node.
    SAME = "same"
    #: Another node, with an equal total when the shadow decided.
    TIE = "tie"
    #: Another node, but one of the best when the binding arrived.
    WINDOW = "window"
    #: A node with a lower total.
    OTHER = "other"
    #: A node that a filter of the shadow rejects, while others fit.
    WOULD_NOT_FIT = "would-not-fit"
    #: The shadow would not have placed the pod: no node fits, or a plugin holds it.
    WOULD_HAVE_WAITED = "would-have-waited"
    #: A plugin failed.
    UNJUDGED = "unjudged"


AGREEING = (ShadowVerdict.SAME, ShadowVerdict.TIE, ShadowVerdict.WINDOW)


class ScoreDifference(msgspec.Struct, frozen=True):
    """The weighted scores of one plugin on two nodes."""

    plugin: str
    best: int
    there: int


class ShadowPod(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one pod. Times are wall clock seconds."""

    pod: str
    """`namespace/name`."""
    uid: str
    profile: str
    """`spec.schedulerName`."""
    verdict: ShadowVerdict
    here: str = ""
    """The node that the shadow had chosen; empty where it had not."""
    there: str
    """The node that the pod is on."""
    decided: float = 0.0
    """When the shadow chose; 0 where it had not."""
    late: bool = False
    """Whether the shadow decided only when the binding arrived: the other one was quicker."""
    bound: float
    """When the binding was seen."""
    sooner: float = 0.0
    """Seconds from the choice to the binding, of a pod that the other scheduler had rejected."""
    best: str = ""
    """The node with the highest total when the binding arrived, where that was looked at."""
    plugin: str = ""
    """The plugin to which the difference is due, or that rejects the node or the pod."""
    scores: tuple[ScoreDifference, ...] = ()
    """By plugin the scores of `best` and `there`, those that differ most first."""
    message: str = ""
    """Why the pod does not fit, or waits."""


class PendingPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that the scheduler in force has not placed."""

    pod: str
    profile: str
    here: str = ""
    """The node that the shadow has chosen; empty if it waits here as well."""
    since: float = 0.0
    """Since when the shadow has chosen it; 0 if it waits here as well."""
    message: str = ""
    """Why it waits here."""
    message_there: str = ""
    """Why it waits there, as its condition PodScheduled says."""
    same_reason: bool = False
    victims: tuple[str, ...] = ()
    """`namespace/name` of the pods that the shadow would evict for it."""
    nominated: str = ""
    """The node on which it would."""


class Cause(msgspec.Struct, frozen=True):
    """The number of pods of one verdict that are due to one plugin."""

    verdict: ShadowVerdict
    plugin: str
    pods: int


class ShadowMoment(msgspec.Struct, frozen=True):
    """Measures of both sides at one time: per cent of `cpu_allocation` and the like, `waiting`."""

    time: float
    """Seconds since the begin."""
    there: dict[str, float]
    here: dict[str, float]


class Counterfactual(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of both sides: as it was, and as it would have been."""

    seconds: float
    there: dict[str, float]
    here: dict[str, float]
    moments: tuple[ShadowMoment, ...] = ()
    notes: tuple[str, ...] = ()
    """Facts that cannot be known."""


class ShadowSummary(DebugPage, frozen=True, tag="ShadowSummary"):
    """All judgements of a span of time."""

    began: float
    now: float
    names: tuple[str, ...]
    """The scheduler names that are followed."""
    judged: int
    verdicts: dict[str, int]
    """How many pods have each verdict."""
    causes: tuple[Cause, ...] = ()
    """The most frequent first."""
    sooner: int = 0
    """Pods that the shadow had placed while they waited there."""
    sooner_seconds: float = 0.0
    """The sum of their times."""
    preempting: int = 0
    """Attempts for which the shadow would have evicted pods."""
    late: int = 0
    """Pods that the shadow decided only when their binding arrived."""
    gone: int = 0
    """Pods that went away before the other scheduler had placed them."""
    unseen: int = 0
    """Pods that had a node when they were seen first, so that nothing was compared: bound while the
    connection was lost, or created with a node."""
    waiting_both: int = 0
    waiting_same_reason: int = 0
    """The part of `waiting_both` whose reasons are the same."""
    waiting_there: int = 0
    """Pods that the shadow has placed, and the other scheduler has rejected."""
    waiting_here: int = 0
    """Pods that wait here, and about which the other scheduler has said nothing."""
    waiting_more: int = 0
    """Further pods without a node, which are not compared: they are too many."""
    pods: int = 0
    """Pods of these names that exist, with or without a node."""
    nodes: int = 0
    silent: float = 0.0
    """Seconds since the API server last sent anything; 0 while that is not longer than usual."""
    silent_error: str = ""
    """Why, as far as is known."""
    differing: tuple[ShadowPod, ...] = ()
    """The last pods that were not agreed about, the newest first."""
    pending: tuple[PendingPod, ...] = ()
    """Some of the pods that wait, those first that do not wait in both."""
    counterfactual: Counterfactual | None = None
    """Only at the end, and where it was asked for."""

    @property
    def agreeing(self) -> int:
        """Pods whose verdict is one of agreement."""
        return sum(self.verdicts.get(each, 0) for each in AGREEING)

    @property
    def percent(self) -> float:
        """The share of `agreeing`; 100 while nothing was judged."""
        return 100.0 * self.agreeing / self.judged if self.judged else 100.0
