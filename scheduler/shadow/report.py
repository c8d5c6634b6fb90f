"""The report of a shadow: one HTML file that begins with the answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

from scheduler.build_info import build_info
from scheduler.explain.records.shadow import Counterfactual, PendingPod, ShadowPod, ShadowSummary
from scheduler.explain.records.shadow_wording import MEANINGS, SIDES, compared, percent, sentence
from scheduler.explain.records.wording import counted, span
from scheduler.sanitizing.html import folded, page, shown, table

WIDTH, HEIGHT = 600, 120
"""Size of a plot."""


def report(summary: ShadowSummary, configuration: str, command: str, failed: list[str]) -> str:
    """Return the page.

    Args:
        summary: what was judged.
        configuration: the text of the file that decided; empty for the default.
        command: the command line.
        failed: the assertions that do not hold.
    """
    return page("Shadow", _parts(summary, configuration, command, failed))


def _parts(
    summary: ShadowSummary, configuration: str, command: str, failed: list[str]
) -> Iterator[str]:
    yield "<h1>Shadow</h1>"
    yield f'<p class="verdict">{shown(sentence(summary))}</p>'
    yield from (f'<p class="bad">Does not hold: {shown(each)}</p>' for each in failed)
    yield f"<p>{shown(_span(summary))}</p>"
    yield f"<p>{shown(SIDES.format(' and '.join(summary.names)))}</p>"
    yield _verdicts(summary)
    yield _besides(summary)
    yield _causes(summary)
    yield _differences(summary.differing)
    yield _waiting(summary)
    if summary.counterfactual is not None:
        yield from _counterfactual(summary.counterfactual)
    text = configuration or "The default profile decided."
    yield f"<h2>Configuration</h2>{folded('What decided', f'<pre>{shown(text)}</pre>')}"
    yield f"<h2>How to repeat it</h2><pre>{shown(command)}</pre>"
    yield (
        f"<p>kubestow {shown(build_info().version)}. The scheduler in force decided on states "
        "that nobody else has seen: docs/shadow.md says what a comparison can hide.</p>"
    )


def _span(summary: ShadowSummary) -> str:
    times = (
        time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(each))
        for each in (summary.began, summary.now)
    )
    size = f"{counted(summary.nodes, 'node')}, {counted(summary.pods, 'pod')}"
    return f"{' to '.join(times)}; {size} at the end."


def _verdicts(summary: ShadowSummary) -> str:
    rows = [
        [str(verdict), f"{count:,}", percent(count, summary.judged), meaning]
        for verdict, meaning in MEANINGS.items()
        if (count := summary.verdicts.get(verdict, 0))
    ]
    headings = ["verdict", "pods", "share", "meaning"]
    return "<h2>Verdicts</h2>" + table(f"{summary.judged:,} pods", headings, rows, (1, 2))


def _besides(summary: ShadowSummary) -> str:
    rows = [
        [name, f"{count:,}", meaning]
        for name, count, meaning in (
            (
                "sooner",
                summary.sooner,
                f"placed here before, {span(summary.sooner_seconds)} in all",
            ),
            ("late", summary.late, "decided here only when the binding arrived"),
            ("preempting", summary.preempting, "attempts for which pods would have been evicted"),
            ("gone", summary.gone, "deleted before the other scheduler had placed them"),
            ("unseen", summary.unseen, "not compared: they had a node when they were seen first"),
        )
        if count
    ]
    return table("Besides", ["figure", "pods", "meaning"], rows, (1,)) if rows else ""


def _causes(summary: ShadowSummary) -> str:
    if not summary.causes:
        return ""
    rows = [
        [each.plugin or "none", f"{each.pods:,}", MEANINGS[each.verdict]] for each in summary.causes
    ]
    return "<h2>Because of</h2>" + table("", ["plugin", "pods", "what"], rows, (1,))


def _differences(judged: tuple[ShadowPod, ...]) -> str:
    if not judged:
        return ""
    rows = [
        [
            each.pod,
            str(each.verdict),
            each.there,
            each.best or each.here or "none",
            ", ".join(f"{one.plugin} {one.best - one.there:+d}" for one in each.scores)
            or f"{each.plugin}: {each.message}".strip(": "),
        ]
        for each in judged
    ]
    headings = ["pod", "verdict", "node there", "node here", "score here minus there, or reason"]
    return "<h2>Differences</h2>" + table("The last ones", headings, rows)


def _waiting(summary: ShadowSummary) -> str:
    if not summary.pending:
        return ""
    rows = [_pending_row(each, summary.now) for each in summary.pending]
    count = summary.waiting_both + summary.waiting_there + summary.waiting_here
    headings = ["pod", "here", "there"]
    return "<h2>Pods without a node</h2>" + table(counted(count, "pod"), headings, rows)


def _counterfactual(found: Counterfactual) -> Iterator[str]:
    yield "<h2>If its decisions had held</h2>"
    caption = f"The same arrivals, run times and nodes, {span(found.seconds)}"
    rows = [list(each) for each in compared(found)]
    yield table(caption, ["figure", "there", "here"], rows, (1, 2))
    for name, words in (("cpu_allocation", "CPU requested (%)"), ("waiting", "pods waiting")):
        yield _curves(found, name, words)
    yield "<ul>" + "".join(f"<li>{shown(each)}</li>" for each in found.notes) + "</ul>"


def _curves(found: Counterfactual, name: str, words: str) -> str:
    """Return a plot of one measure on both sides."""
    sides = (
        ("there", "#d55e00", "6 3", [each.there[name] for each in found.moments]),
        ("here", "#0072b2", "", [each.here[name] for each in found.moments]),
    )
    top = max((max(values, default=0.0) for *_, values in sides), default=0.0) or 1.0
    lines, legend = [], []
    for side, colour, dashes, values in sides:
        points = " ".join(
            f"{WIDTH * at / max(1, len(values) - 1):.1f},{HEIGHT - HEIGHT * value / top:.1f}"
            for at, value in enumerate(values)
        )
        lines.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dashes}" points="{points}"/>'
        )
        legend.append(f'<span style="color:{colour}">{side}</span>')
    return (
        f"<figure><figcaption>{shown(words)}: {' and '.join(legend)}, from 0 to {top:.4g} over "
        f'{span(found.seconds)}</figcaption><svg viewBox="0 -4 {WIDTH} {HEIGHT + 8}" role="img" '
        f'aria-label="{shown(words)}">{"".join(lines)}</svg></figure>'
    )


def _pending_row(pod: PendingPod, now: float) -> list[str]:
    here = f"on {pod.here} for {span(now - pod.since)}" if pod.here else pod.message
    if pod.victims:
        here += f"; would evict {', '.join(pod.victims)} on {pod.nominated}"
    there = "the same reason" if pod.same_reason else pod.message_there or "nothing said yet"
    return [pod.pod, here, there]
