"""A shadow's summary for people: lines for a screen, a pipe or the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduler.explain.records.shadow import Counterfactual, PendingPod, ShadowPod, ShadowSummary
from scheduler.explain.records.shadow_wording import (
    MEANINGS,
    cause_line,
    compared,
    percent,
    sentence,
    silence,
)
from scheduler.explain.records.wording import counted, shortened, span

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 100
"""Characters of a foreign message that are shown."""


def draw(summary: ShadowSummary, width: int) -> list[Text]:
    """Return the lines of the live screen."""
    from scheduler.cli.live import fitted

    head, *rest = report(summary)
    return [
        fitted(head, width, "bold reverse"),
        _state(summary, width),
        *(fitted(line, width) for line in rest),
    ]


def _state(summary: ShadowSummary, width: int) -> Text:
    """Return the line of the live screen about the cluster, and how to end it."""
    from scheduler.cli.live import fitted

    if summary.silent:
        return fitted(f"{silence(summary)}: {summary.silent_error}", width, "bold red")
    pods = f"{counted(summary.pods, 'pod')} of {' and '.join(summary.names)}"
    cluster = f"a cluster of {counted(summary.nodes, 'node')}"
    return fitted(f"{pods} in {cluster}; Ctrl-C ends it", width, "dim")


def report(summary: ShadowSummary) -> list[str]:
    """Return the summary as lines, the answer first."""
    from scheduler.cli.tables import printable

    return list(map(printable, _lines(summary)))


def _lines(summary: ShadowSummary) -> Iterator[str]:
    yield sentence(summary)
    if summary.judged:
        yield ""
    for verdict, meaning in MEANINGS.items():
        count = summary.verdicts.get(verdict, 0)
        if count:
            yield f"{count:>8}  {percent(count, summary.judged):>7}  {meaning}"
    if summary.causes:
        yield ""
        yield "because of"
    for each in summary.causes:
        yield f"  {cause_line(each.verdict, each.plugin, each.pods)}"
    if summary.differing:
        yield ""
        yield "last differences"
    yield from (f"  {_difference(each)}" for each in summary.differing)
    if summary.pending:
        yield ""
        yield "pods without a node"
    yield from (f"  {_waiting(each, summary.now)}" for each in summary.pending)
    if summary.counterfactual is not None:
        yield from _counterfactual(summary.counterfactual)


def _counterfactual(found: Counterfactual) -> Iterator[str]:
    yield ""
    head = f"if its decisions had held, in {span(found.seconds)}"
    yield f"{head:<54} {'there':>9} {'here':>9}"
    for words, there, here in compared(found):
        yield f"  {words:<52} {there:>9} {here:>9}"
    yield from (f"  {each}" for each in found.notes)


def _difference(judged: ShadowPod) -> str:
    here = judged.best or judged.here or "none"
    scores = ", ".join(f"{each.plugin} {each.best - each.there:+d}" for each in judged.scores[:3])
    why = scores or f"{judged.plugin}: {shortened(judged.message, WIDTH)}".strip(": ")
    return f"{judged.pod}: {judged.there} there, {here} here ({judged.verdict}; {why})"


def _waiting(pod: PendingPod, now: float) -> str:
    if pod.here:
        ago, there = span(now - pod.since), shortened(pod.message_there, WIDTH)
        return f"{pod.pod}: on {pod.here} here for {ago}; there: {there}"
    text = f"{pod.pod}: {shortened(pod.message, WIDTH)}"
    if pod.victims:
        text += f"; would evict {', '.join(pod.victims[:3])} on {pod.nominated}"
    if pod.message_there and not pod.same_reason:
        text += f"; there: {shortened(pod.message_there, WIDTH)}"
    return text
