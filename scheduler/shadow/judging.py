"""Judging: from a choice, a binding and looks at the node table to one verdict. Pure.

The scheduler in force decided on a state that nobody here has seen: a little older or newer than
what the watch shows. So a pod is looked at in the states between which it lies: that of the
shadow's own choice, and that of the moment before the binding arrived. If the binding is right in
either, the two agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from scheduler.explain.records import NodeScore
from scheduler.explain.records.shadow import ScoreDifference, ShadowVerdict

MAX_MESSAGE: Final = 1024
"""Characters of a message that are kept. A tenant can write some of them."""

_NODES_AVAILABLE: Final = re.compile(r"^.*?0/\d+ nodes are available: ?", re.DOTALL)
_PREEMPTION: Final = re.compile(r"\.?,? ?preemption: .*$", re.DOTALL)
_COUNT: Final = re.compile(r"(?:^|, )\d+ ")


@dataclass(frozen=True, slots=True)
class Look:
    """A decision about a pod in one state of the node table."""

    node: str = ""
    """The node with the highest total; empty if none fits."""
    agrees: bool = False
    """Whether the node of the binding is one of those with the highest total."""
    fits: bool = False
    """Whether the pod fits there."""
    best: NodeScore | None = None
    """The scores of `node`; None where nothing was scored."""
    there: NodeScore | None = None
    """The scores of the node of the binding; None where it was not scored."""
    plugin: str = ""
    """The plugin that rejects the node of the binding, or the pod."""
    message: str = ""
    """Why."""
    error: str = ""
    """The error of a plugin; then nothing else counts."""


@dataclass(frozen=True, slots=True)
class ShadowJudgement:
    """A verdict, and the plugin to which it is due."""

    verdict: ShadowVerdict
    here: str = ""
    """The node that the shadow takes, where it had not chosen before."""
    best: str = ""
    plugin: str = ""
    scores: tuple[ScoreDifference, ...] = ()
    message: str = ""


def judge(looks: Iterable[Look]) -> ShadowJudgement:
    """Judge a binding that differs from the shadow's choice; looks are taken as long as needed.

    The first look, which is nearest to what the other scheduler saw, gives the reason.

    >>> judge([Look("a"), Look("b", agrees=True, fits=True)]).verdict
    <ShadowVerdict.WINDOW: 'window'>
    """
    first: Look | None = None
    for look in looks:
        if look.agrees:
            return ShadowJudgement(ShadowVerdict.WINDOW, best=look.node)
        first = first or look
    return ShadowJudgement(ShadowVerdict.UNJUDGED) if first is None else _against(first)


def judge_late(looks: Iterable[Look], there: str) -> ShadowJudgement:
    """Judge the binding of a pod that the shadow decides only now, by its first look.

    >>> judge_late([Look("a", agrees=True, fits=True)], "b").verdict
    <ShadowVerdict.TIE: 'tie'>
    """
    taken: list[Look] = []

    def first() -> Iterator[Look]:
        for look in looks:
            taken.append(look)
            yield look

    judgement = judge(first())
    look = taken[0]
    if look.agrees:
        verdict = ShadowVerdict.SAME if look.node == there else ShadowVerdict.TIE
        judgement = ShadowJudgement(verdict)
    return replace(judgement, here=look.node)


def _against(look: Look) -> ShadowJudgement:
    if look.error:
        return ShadowJudgement(ShadowVerdict.UNJUDGED, plugin=look.plugin, message=_cut(look.error))
    if look.fits:
        scores = differences(look.best, look.there)
        plugin = scores[0].plugin if scores else ""
        return ShadowJudgement(ShadowVerdict.OTHER, best=look.node, plugin=plugin, scores=scores)
    verdict = ShadowVerdict.WOULD_NOT_FIT if look.node else ShadowVerdict.WOULD_HAVE_WAITED
    return ShadowJudgement(verdict, best=look.node, plugin=look.plugin, message=_cut(look.message))


def differences(best: NodeScore | None, there: NodeScore | None) -> tuple[ScoreDifference, ...]:
    """Return the plugins whose weighted scores differ, the one that favours `best` most first."""
    if best is None or there is None:
        return ()
    others = {each.plugin: each.weighted for each in there.scores}
    found = [
        ScoreDifference(each.plugin, each.weighted, others.get(each.plugin, 0))
        for each in best.scores
        if each.weighted != others.get(each.plugin, 0)
    ]
    return tuple(sorted(found, key=lambda each: (each.there - each.best, each.plugin)))


def same_reasons(here: str, there: str) -> bool:
    """Whether two messages give the same reasons, whatever the numbers of nodes.

    >>> same_reasons(
    ...     "0/3 nodes are available: 2 Insufficient cpu, 1 Too many pods. preemption: none.",
    ...     "0/4 nodes are available: 1 Too many pods, 3 Insufficient cpu.",
    ... )
    True
    """
    return reasons(here) == reasons(there)


def reasons(message: str) -> frozenset[str]:
    """Return the reasons of a message, or the message if it has another form.

    >>> sorted(reasons("0/2 nodes are available: 1 Too many pods, 1 Insufficient cpu."))
    ['Insufficient cpu', 'Too many pods']
    """
    text = _PREEMPTION.sub("", _NODES_AVAILABLE.sub("", message[: 4 * MAX_MESSAGE], count=1))
    parts = (each.strip(" .") for each in _COUNT.split(text))
    return frozenset(each for each in parts if each)


def _cut(message: str) -> str:
    return message[:MAX_MESSAGE]
