"""An explanation on a terminal: sentences first, tables where they are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from scheduler.cli.group_explanation import show_group
from scheduler.cli.pod_format import held_by, next_try, one_line, woken_by
from scheduler.cli.tables import FOLDED, NUMBER, WHOLE, Cell, listing, put, say
from scheduler.explain.records import (
    Decision,
    Examination,
    ExplainPage,
    NodeCheck,
    NodeReport,
    NodeScore,
    NotRemembered,
    PodExplanation,
    Rejection,
    Remedies,
    RemedySearch,
)
from scheduler.explain.records.story import compared
from scheduler.explain.records.wording import counted, quantity, span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SCORE: Final = {"justify": "right", "overflow": "fold"}
_RESOLVABLE: Final = {
    "Unschedulable": "might help",
    "UnschedulableAndUnresolvable": "cannot help",
    "Pending": "not needed",
}
_PASSED: Final = "Success"
ONLY_WITH_PAGE: Final = (
    "{options}: left out, as you may not get /debug/explain (ClusterRole kubestow-explainer)."
)
MAX_REASONS: Final = 9
"""Of one plugin for one node."""
_NO_HISTORY: Final = {
    NotRemembered.OFF: "remembering is switched off (kubestow.decisionHistory.pods is 0)",
    NotRemembered.EARLIER: "the pod was bound before this scheduler began to lead",
    NotRemembered.EVICTED: "later decisions took the memory (kubestow.decisionHistory.pods)",
    NotRemembered.NO_ATTEMPT: "no attempt has ended yet",
    NotRemembered.NOT_OURS: "another scheduler decides about the pod",
}


def show(
    page: ExplainPage,
    console: Console,
    *,
    history: bool = False,
    verbose: bool = False,
    search: str = RemedySearch.ALL,
    more_nodes: Sequence[ExplainPage] = (),
    pods: int = 1,
    node: bool = False,
) -> None:
    """Print an explanation; `search` is what was asked for about remedies.

    The pod stands for `pods` pods, of which only it was tried. `more_nodes` are answers about the
    same pod that have reports about further nodes. `node`: whether such a report was asked for.
    """
    from rich.text import Text

    pod = page.pod
    if page.group is not None:
        show_group(page.group, pod.now, console)
        say(console, "")
    title = Text(one_line(f"{pod.namespace}/{pod.name}"), "bold")
    details = f"{pod.state}, profile {pod.profile}, priority {pod.priority}"
    details += f", uid {pod.uid}" if verbose else ""
    title.append(f"  {one_line(details)}", "not bold")
    console.print(title, soft_wrap=not console.is_terminal)
    for sentence in page.story or [pod.summary]:
        say(console, one_line(sentence))
    for plugin, lines in () if pod.nodes is None else pod.nodes.explanations.items():
        _heading(console, plugin)
        for line in lines:
            say(console, one_line(line))
    if page.restricted:
        given = {"--node": node, f"--remedies {search}": search == RemedySearch.ALL}
        if names := " and ".join(name for name, is_given in given.items() if is_given):
            say(console, ONLY_WITH_PAGE.format(options=names))
    if page.remedies is not None:
        _show_remedies(console, page.remedies, search, pods)
    said: dict[str, str] = {}
    for each in (page, *more_nodes):
        if each.pod.report is not None:
            _show_report(console, each, each.pod.report, said)
    if history:
        _show_history(console, page)
    if verbose:
        _show_tables(console, pod)
        _show_chosen(console, page)


def _show_remedies(console: Console, found: Remedies, search: str, pods: int) -> None:
    if found.remedies:
        it = "it" if pods == 1 else f"this pod, one of {pods:,},"
        then = f"{found.before}Then {it}" if found.first else f"{it[0].upper()}{it[1:]}"
        heading = f"{then} would be scheduled after one of these changes, least first"
        _heading(console, one_line(heading))
    for number, remedy in enumerate(found.remedies, 1):
        where = f" (goes to {remedy.node})" if remedy.node else ""
        say(console, one_line(f"{number}. {remedy.text}{where}"))
    if not found.remedies and found.note:
        say(console, one_line(f"What would have to change: {found.note}"))
    elif not found.remedies and not found.fits:
        tried = counted(found.tried, "trial")
        say(console, f"No single change that would place it was found in {tried}.")
    if not found.complete:
        longer = ": --remedies all takes more time" if search == RemedySearch.QUICK else ""
        say(console, f"There may be others, which were not tried in the time{longer}.")


# -- one node ------------------------------------------------------------------------------------


def _show_report(
    console: Console, page: ExplainPage, report: NodeReport, said: dict[str, str]
) -> None:
    """Print the report about a node; `said` are details of plugins, by the node that had them."""

    def detail(check: NodeCheck) -> str:
        # Many are about the whole cluster, such as the pods in each domain.
        first = said.setdefault(f"{check.plugin} {check.detail}", report.node)
        return check.detail if first == report.node or not check.detail else f"see {first}"

    _heading(console, f"Node {report.node}")
    for sentence in _verdict(page, report):
        say(console, one_line(sentence))
    rows: list[tuple[Cell, ...]] = [
        (
            each.plugin,
            _result(each.status),
            one_line("; ".join(filter(None, (*each.reasons[:MAX_REASONS], detail(each))))),
        )
        for each in report.checks
    ]
    if rows:
        say(console, "")
        put(console, listing({"FILTER": FOLDED, "RESULT": WHOLE, "REASONS": FOLDED}, rows))
    if report.room:
        say(console, "")
        put(console, listing(_ROOM, (_room_cells(report, at) for at in range(len(report.room)))))
    if report.score is not None:
        say(console, "")
        put(console, listing(_SCORES, _score_rows(report.score)))


_ROOM: Final = {"RESOURCE": FOLDED, "REQUESTED": NUMBER, "FREE": NUMBER, "OF": NUMBER, "": WHOLE}
_SCORES: Final = {"SCORE": FOLDED, "RAW": NUMBER, "NORMALIZED": NUMBER, "WEIGHTED": NUMBER}


def _verdict(page: ExplainPage, report: NodeReport) -> Iterator[str]:
    pod = page.pod
    chosen = _remembered_choice(page)
    if chosen is not None:
        yield from _beside(*chosen, report.node)
    copy = "a copy of the pod" if pod.node else "the pod"
    rejecting = [each for each in report.checks if each.status != _PASSED]
    if not report.fits:
        lacking = [each for each in report.room if each.requested > each.free]
        lacks = ", ".join(
            f"{quantity(each.resource, each.requested - each.free)} {each.resource}"
            for each in lacking
        )
        by = ", ".join(each.plugin for each in rejecting)
        yield f"Now it rejects {copy}: {by}." + (f" It lacks {lacks}." if lacks else "")
    elif report.score is None:
        yield f"Now {copy} fits on it; scores decide nothing."
    else:
        place = f"place {report.rank} of {report.feasible} that fit"
        yield f"Now {copy} fits on it, with total {report.score.total}: {place}."


def _remembered_choice(page: ExplainPage) -> tuple[Decision, NodeScore] | None:
    if not page.decisions or not page.pod.node:
        return None
    last = page.decisions[-1]
    found = next((each for each in last.best if each.node == page.pod.node), None)
    return None if found is None else (last, found)


def _beside(decision: Decision, chosen: NodeScore, node: str) -> Iterator[str]:
    if node == chosen.node:
        return
    other = next((each for each in decision.best if each.node == node), None)
    if other is not None:
        difference = compared(chosen, other)
        yield (
            f"When {chosen.node} was chosen (total {chosen.total}), {node} had {other.total}: "
            f"{difference}."
        )
    elif decision.feasible > len(decision.best):
        lowest = min(each.total for each in decision.best)
        yield (
            f"When {chosen.node} was chosen (total {chosen.total}), {node} was not among the "
            f"{len(decision.best)} best: it had at most {lowest}, or did not fit."
        )
    else:
        yield f"When {chosen.node} was chosen, {node} did not fit or was not looked at."


def _room_cells(report: NodeReport, at: int) -> tuple[Cell, ...]:
    each = report.room[at]
    missing = each.requested - each.free
    amounts = (each.requested, each.free, each.allocatable)
    note = f"lacks {quantity(each.resource, missing)}" if missing > 0 else ""
    return (each.resource, *(quantity(each.resource, one) for one in amounts), (note, "red"))


def _result(status: str) -> Cell:
    return ("passes", "green") if status == _PASSED else ("rejects", "red")


def _score_rows(score: NodeScore) -> Iterator[tuple[Cell, ...]]:
    for each in score.scores:
        yield each.plugin, str(each.raw), str(each.normalized), str(each.weighted)
    yield "total", "", "", str(score.total)


# -- attempts ------------------------------------------------------------------------------------


_HIDDEN: Final = "-"
"""Where a value is not for who may get the pods of one namespace only."""
_HISTORY: Final = {
    "TRY": NUMBER,
    "WHEN": WHOLE,
    "FROM": FOLDED,
    "WOKEN BY": FOLDED,
    "RESULT": FOLDED,
    "FITS": NUMBER,
    "TOOK": NUMBER,
    "WHY": FOLDED,
}


def _show_history(console: Console, page: ExplainPage) -> None:
    _heading(console, "Attempts")
    if not page.decisions:
        why = page.not_remembered
        say(console, "none are remembered" + ("" if why is None else f": {_NO_HISTORY[why]}"))
        return
    put(console, listing(_HISTORY, (_attempt(each, page.pod.now) for each in page.decisions)))
    for each in page.decisions:
        if each.phases:
            phases = ", ".join(f"{name} {_duration(took)}" for name, took in each.phases.items())
            say(console, one_line(f"attempt {each.attempt}: {phases}"))


def _attempt(decision: Decision, now: float) -> tuple[Cell, ...]:
    hint = f" (hint of {decision.hint_plugin})" if decision.hint_plugin else ""
    placed = decision.node and not decision.message
    why = f"on {decision.node}" if placed else one_line(decision.message)
    took = decision.seconds or sum(decision.phases.values())
    if decision.victims:
        why += one_line(f"; evicts {', '.join(decision.victims)}")
    return (
        str(decision.attempt),
        f"{_clock(decision.time)} ({span(now - decision.time)} ago)",
        decision.queue,
        f"{decision.event}{hint}" or _HIDDEN,
        (str(decision.result), "green" if placed else "red"),
        f"{decision.feasible} of {decision.evaluated}",
        _duration(took) if took else _HIDDEN,
        why or _HIDDEN,
    )


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%H:%M:%S}"  # noqa: DTZ006 - the reader's own time


def _duration(seconds: float) -> str:
    """Write a short time.

    >>> _duration(0.00123), _duration(0.5), _duration(61)
    ('1.2ms', '500ms', '1m1s')
    """
    milliseconds = seconds * 1000
    if milliseconds < 10:
        return f"{milliseconds:.1f}ms"
    return f"{milliseconds:.0f}ms" if seconds < 10 else span(seconds)


# -- tables --------------------------------------------------------------------------------------


def _show_tables(console: Console, pod: PodExplanation) -> None:
    if pod.queue is not None:
        say(console, "")
        put(console, listing({"": {"style": "bold", "no_wrap": True}, " ": FOLDED}, _facts(pod)))
    if pod.nodes is not None:
        _show_nodes(console, pod.nodes)


def _facts(pod: PodExplanation) -> list[tuple[Cell, ...]]:
    view = pod.queue
    assert view is not None
    place = view.place if not view.position else f"{view.place}, {view.position} before it"
    attempts = counted(view.attempts, "attempt")
    facts = {
        "Queue": f"{place}; {attempts}, there for {span(pod.now - view.timestamp)}",
        "Next try": next_try(view, pod.now),
        "Held by": held_by(view),
        "Message": one_line(view.message),
        "Last event": woken_by(view),
        "Nominated to": view.nominated_node,
    }
    for each in pod.awaits:
        facts[f"{each.plugin} awaits"] = ", ".join(each.events)
    return [(name, value) for name, value in facts.items() if value]


def _show_nodes(console: Console, nodes: Examination) -> None:
    if nodes.error:
        _heading(console, "An attempt would end with an error")
        say(console, one_line(nodes.error))
    if nodes.rejections:
        rejected = sum(each.nodes for each in nodes.rejections)
        _heading(console, f"{rejected} of {nodes.nodes} nodes reject the pod")
        put(console, _rejections(nodes.rejections, piped=not console.is_terminal))
    if nodes.feasible:
        _heading(console, f"It fits on {nodes.feasible} of {nodes.nodes} nodes")
        if nodes.best and nodes.weights:
            put(console, _scores(nodes.best, nodes.weights, piped=not console.is_terminal))
        elif nodes.best:
            say(console, ", ".join(each.node for each in nodes.best))
    for note in _notes(nodes):
        say(console, f"note: {note}")


def _show_chosen(console: Console, page: ExplainPage) -> None:
    """Print the scores that were remembered when a bound pod was placed."""
    chosen = _remembered_choice(page)
    if chosen is None:
        return
    decision, _ = chosen
    weights = _weights(decision.best)
    if weights:
        _heading(console, f"The best of {counted(decision.feasible, 'node')} when it was placed")
        put(console, _scores(decision.best, weights, piped=not console.is_terminal))


def _weights(best: Sequence[NodeScore]) -> dict[str, int]:
    """Return the weights of plugins that gave one of the nodes more than 0."""
    return {
        each.plugin: each.weighted // each.normalized
        for node in best
        for each in node.scores
        if each.normalized
    }


def _heading(console: Console, text: str) -> None:
    say(console, "")
    say(console, text, "bold")


def _rejections(rejections: tuple[Rejection, ...], *, piped: bool) -> Table:
    columns = {
        "NODES": NUMBER,
        "PLUGIN": FOLDED,
        "REASONS": FOLDED,
        "PREEMPTION": WHOLE,
        "SUCH AS": FOLDED,
    }
    rows = []
    for each in rejections:
        reasons = one_line("; ".join(each.reasons))
        if each.detail:
            reasons += f" ({one_line(each.detail)})"
        if each.only_nominated:
            reasons += " (counting pods nominated to the node)"
        more = ("...",) if each.examples and each.nodes > len(each.examples) else ()
        examples = (", " if piped else "\n").join((*each.examples, *more))
        preemption = _RESOLVABLE.get(each.status, each.status)
        rows.append((str(each.nodes), each.plugin, reasons, preemption, examples))
    return listing(columns, rows)


def _scores(best: Sequence[NodeScore], weights: Mapping[str, int], *, piped: bool) -> Table:
    headings = [
        f"{plugin} x{weight}" if piped else f"{_broken(plugin)}\nx{weight}"
        for plugin, weight in weights.items()
    ]
    scores = dict.fromkeys(headings, _SCORE)
    rows = [(each.node, str(each.total), *_score_cells(each, weights)) for each in best]
    return listing({"NODE": FOLDED, "TOTAL": NUMBER} | scores, rows)


def _score_cells(node: NodeScore, weights: Mapping[str, int]) -> list[str]:
    known = {score.plugin: score for score in node.scores}
    cells = []
    for plugin in weights:
        score = known.get(plugin)
        if score is None:
            cells.append("")
        elif score.raw == score.normalized:
            cells.append(str(score.normalized))
        else:
            cells.append(f"{score.raw}>{score.normalized}")
    return cells


def _broken(name: str) -> str:
    """Break a plugin's name into several lines, for a narrow column.

    >>> _broken("NodeResourcesBalancedAllocation").split()
    ['Node', 'Resources', 'Balanced', 'Allocation']
    """
    return "\n".join(re.findall(r"[A-Z]+[^A-Z]*|[^A-Z]+", name))


def _notes(nodes: Examination) -> list[str]:
    notes = list(nodes.notes)
    if len(nodes.best) < nodes.feasible and nodes.best:
        notes.append(f"{nodes.feasible - len(nodes.best)} more fit (--nodes)")
    if nodes.tied > 1 and nodes.weights:
        notes.append(f"{nodes.tied} nodes share the highest total: the tie rule picks one")
    if nodes.skipped_filters:
        notes.append(f"filters with nothing to check: {', '.join(nodes.skipped_filters)}")
    if nodes.skipped_scores:
        notes.append(f"scores with nothing to say: {', '.join(nodes.skipped_scores)}")
    return notes
