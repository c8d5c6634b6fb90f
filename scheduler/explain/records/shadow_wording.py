"""A shadow's summary in words: one sentence that is the answer, and figures by name."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Final

from scheduler.explain.records.shadow import Counterfactual, ShadowSummary, ShadowVerdict
from scheduler.explain.records.wording import counted, span

MEANINGS: Final = {
    ShadowVerdict.SAME: "the same node",
    ShadowVerdict.TIE: "another node with an equal total",
    ShadowVerdict.WINDOW: "another node, one of the best when it was bound",
    ShadowVerdict.OTHER: "a node with a lower total here",
    ShadowVerdict.WOULD_NOT_FIT: "a node that does not fit here",
    ShadowVerdict.WOULD_HAVE_WAITED: "it would have waited here",
    ShadowVerdict.UNJUDGED: "a plugin failed",
}
"""Each verdict in words, in the order in which they are shown."""

SIDES: Final = (
    'Here is the shadow, there is {}. "The same" covers the same node, a node with an equal total, '
    "and a node that was among the best when the pod was bound."
)
"""Explanation of the words of a summary, with the names that are followed."""

_DIFFERENCES: Final = {
    ShadowVerdict.OTHER: ("other nodes", "mostly because of"),
    ShadowVerdict.WOULD_NOT_FIT: ("nodes that do not fit here", "mostly by"),
    ShadowVerdict.WOULD_HAVE_WAITED: ("would have waited here", "mostly for"),
    ShadowVerdict.UNJUDGED: ("not judged", "mostly by"),
}


def sentence(summary: ShadowSummary) -> str:
    """Return the answer in one sentence.

    >>> sentence(ShadowSummary(began=0, now=600, names=("p",), judged=8,
    ...                        verdicts={"same": 6, "tie": 1, "other": 1}, sooner=2))
    '8 decisions of p in 10m: 87.5 % the same, 12.5 % other nodes; 2 pods placed sooner here'
    """
    noun = "decision" if summary.judged == 1 else "decisions"
    names = " and ".join(summary.names)
    text = f"{summary.judged:,} {noun} of {names} in {span(summary.now - summary.began)}"
    parts = list(_shares(summary))
    text += f": {', '.join(parts)}" if parts else ""
    return "; ".join([text, *_further(summary)])


def _shares(summary: ShadowSummary) -> Iterator[str]:
    if not summary.judged:
        return
    yield f"{percent(summary.agreeing, summary.judged)} the same"
    for verdict, (what, why) in _DIFFERENCES.items():
        count = summary.verdicts.get(verdict, 0)
        if not count:
            continue
        cause = next((each for each in summary.causes if each.verdict == verdict), None)
        named = f", {why} {cause.plugin}" if cause is not None and cause.plugin else ""
        yield f"{percent(count, summary.judged)} {what}{named}"


def _further(summary: ShadowSummary) -> Iterator[str]:
    if summary.sooner:
        yield f"{counted(summary.sooner, 'pod')} placed sooner here"
    if summary.waiting_there:
        yield f"{counted(summary.waiting_there, 'pod')} placed here and waiting there"
    if summary.waiting_both:
        unlike = summary.waiting_both - summary.waiting_same_reason
        other = f", {unlike} for another reason" if unlike else ""
        yield f"{counted(summary.waiting_both, 'pod')} waiting here and there{other}"
    if summary.unseen:
        yield f"{counted(summary.unseen, 'pod')} with a node when first seen, not compared"
    if summary.waiting_more:
        yield f"{counted(summary.waiting_more, 'more pod')} without a node, not compared"
    if summary.silent:
        yield silence(summary)


def silence(summary: ShadowSummary) -> str:
    """Return that nothing is heard, without the reason.

    >>> silence(ShadowSummary(began=0, now=900, names=("a",), judged=0, verdicts={}, silent=720))
    'nothing heard from the API server for the last 12m'
    """
    return f"nothing heard from the API server for the last {span(summary.silent)}"


def percent(count: int, total: int) -> str:
    """Return a share with one decimal; neither none nor all if it is not so.

    >>> percent(1, 3), percent(9999, 10000), percent(1, 10000), percent(0, 9)
    ('33.3 %', '99.9 %', '0.1 %', '0.0 %')
    """
    share = 1000 * count / total
    tenths = floor(share + 0.5)
    if count < total:
        tenths = min(tenths, 999)
    if count:
        tenths = max(tenths, 1)
    return f"{tenths // 10}.{tenths % 10} %"


def figures(summary: ShadowSummary) -> dict[str, float]:
    """Return the figures that assertions read."""
    verdicts = {each.replace("-", "_"): summary.verdicts.get(each, 0) for each in ShadowVerdict}
    return {
        "judged": summary.judged,
        "agreement": summary.percent,
        **verdicts,
        "sooner": summary.sooner,
        "sooner_seconds": summary.sooner_seconds,
        "preempting": summary.preempting,
        "late": summary.late,
        "gone": summary.gone,
        "unseen": summary.unseen,
        "waiting_both": summary.waiting_both,
        "waiting_same_reason": summary.waiting_same_reason,
        "waiting_there": summary.waiting_there,
        "waiting_here": summary.waiting_here,
        "waiting_more": summary.waiting_more,
        "nodes": summary.nodes,
        "pods": summary.pods,
    }


MEASURES: Final = {
    "placed": "pods placed",
    "waiting": "pods waiting at the end",
    "evicted": "pods evicted to make room",
    "wait_mean": "seconds until a pod was placed, on average",
    "wait_p90": "seconds until nine of ten were placed",
    "wait_max": "seconds until the last one was placed",
    "cpu_allocation_mean": "per cent of CPU requested, on average",
    "cpu_fragmentation_mean": "per cent of free CPU where a random pod has no room",
    "memory_allocation_mean": "per cent of memory requested, on average",
}
"""The figures of a counterfactual in words."""


def compared(found: Counterfactual) -> list[tuple[str, str, str]]:
    """Return each figure of a counterfactual in words, with its value there and here.

    >>> compared(Counterfactual(seconds=9, there={"placed": 3.0}, here={"placed": 4.5}))
    [('pods placed', '3', '4.5')]
    """
    return [
        (words, f"{found.there[name]:.4g}", f"{found.here[name]:.4g}")
        for name, words in MEASURES.items()
        if name in found.there and name in found.here
    ]


def cause_line(verdict: ShadowVerdict, plugin: str, pods: int) -> str:
    """Return one line about a cause.

    >>> cause_line(ShadowVerdict.OTHER, "NodeResourcesFit", 3)
    '3 pods: a node with a lower total here (NodeResourcesFit)'
    """
    named = f" ({plugin})" if plugin else ""
    return f"{counted(pods, 'pod')}: {MEANINGS[verdict]}{named}"
