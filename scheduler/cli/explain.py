"""`kubestow explain`: the state of one pod, and the result of every node for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.pod_format import decoded, held_by, next_try, one_line, span, woken_by
from scheduler.cli.reporting import counted
from scheduler.cli.tables import FOLDED, NUMBER, WHOLE, listing, put, wide_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scheduler.pages import (
        Examination,
        ExplainPage,
        NodeScore,
        PodExplanation,
        PodView,
        Rejection,
    )

HELP: Final = """\
Show where a pod stands and what every node would say to it now.

For nodes that reject the pod: the first plugin that does, and its reasons. For nodes where it fits:
the score of each plugin, as `raw>normalized` if the two differ; the total is the sum of normalized
scores times weights. A cycle would take the node with the highest total.

The running scheduler works this out when asked, from what it knows at that moment; nothing is
scheduled, evicted or remembered. Preemption, Reserve and Permit are not tried.

The leader is found by its Lease and asked through the API server, as the user of your kubeconfig.

\b
Examples:
  kubestow explain default/web-0
  kubectl kubestow explain web-0 --namespace default --context production
"""

_SCORE: Final = {"justify": "right", "overflow": "fold"}
_RESOLVABLE: Final = {
    "Unschedulable": "might help",
    "UnschedulableAndUnresolvable": "cannot help",
    "Pending": "not needed",
}


@click.command("explain", help=HELP, short_help="Show why a pod is where it is.")
@click.argument("pod", metavar="[NAMESPACE/]POD")
@click.option("--namespace", "-n", default="default", show_default=True, help="Of POD alone.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="Feasible nodes shown with their scores, best first.",
)
@click.option(
    "--examples",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="Nodes named for each reason of a rejection.",
)
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@endpoint_options
def command(
    *, endpoint: Endpoint, pod: str, namespace: str, nodes: int, examples: int, output: str
) -> None:
    """Show where a pod stands."""
    if pod.count("/") > 1 or not all(pod.split("/")):
        raise click.BadParameter(f"{pod!r}: write NAMESPACE/POD, or POD alone", param_hint="'POD'")
    key = pod if "/" in pod else f"{namespace}/{pod}"
    query = {"pod": key, "nodes": str(nodes), "examples": str(examples)}
    body = endpoint.get("/debug/explain", query)
    if output == "json":
        click.echo(body, nl=False)
        return
    from scheduler.pages import ExplainPage

    page: ExplainPage = decoded(body, ExplainPage)
    show(page.pod, wide_console())


def show(pod: PodExplanation, console: Console) -> None:
    """Print an explanation."""
    from rich.text import Text

    title = Text(f"{pod.namespace}/{pod.name}", "bold")
    details = f"  {pod.state}, profile {pod.profile}, priority {pod.priority}, uid {pod.uid}"
    console.print(title.append(details, "not bold"))
    console.print(one_line(pod.summary), markup=False)
    if pod.queue is not None:
        console.print()
        put(console, _facts(pod.queue, pod.now))
    if pod.nodes is not None:
        _show_nodes(console, pod.nodes)


def _facts(view: PodView, now: float) -> Table:
    from rich.table import Table
    from rich.text import Text

    place = view.place if not view.position else f"{view.place}, {view.position} before it"
    attempts = counted(view.attempts, "attempt")
    facts = {
        "Queue": f"{place}; {attempts}, there for {span(now - view.timestamp)}",
        "Next try": next_try(view, now),
        "Held by": held_by(view),
        "Message": one_line(view.message),
        "Last event": woken_by(view),
        "Nominated to": view.nominated_node,
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            table.add_row(name, Text(value))
    return table


def _show_nodes(console: Console, nodes: Examination) -> None:
    if nodes.error:
        _heading(console, "An attempt would end with an error")
        console.print(one_line(nodes.error), markup=False)
    if nodes.rejections:
        rejected = sum(each.nodes for each in nodes.rejections)
        _heading(console, f"{rejected} of {nodes.nodes} nodes reject the pod")
        put(console, _rejections(nodes.rejections, piped=not console.is_terminal))
    if nodes.feasible:
        _heading(console, f"It fits on {nodes.feasible} of {nodes.nodes} nodes")
        if nodes.best and nodes.weights:
            put(console, _scores(nodes, piped=not console.is_terminal))
        elif nodes.best:
            console.print(", ".join(each.node for each in nodes.best), markup=False)
    for plugin, lines in nodes.explanations.items():
        _heading(console, plugin)
        for line in lines:
            console.print(one_line(line), markup=False)
    for note in _notes(nodes):
        console.print(f"note: {note}", markup=False)


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, markup=False, style="bold")


def _rejections(rejections: tuple[Rejection, ...], *, piped: bool) -> Table:
    columns = {
        "NODES": NUMBER,
        "PLUGIN": FOLDED,
        "REASONS": FOLDED,
        "PREEMPTION": WHOLE,
        "SUCH AS": {"no_wrap": True, "overflow": "ellipsis"},
    }
    rows = []
    for each in rejections:
        reasons = one_line("; ".join(each.reasons))
        if each.only_nominated:
            reasons += " (counting pods nominated to the node)"
        more = ("...",) if each.examples and each.nodes > len(each.examples) else ()
        examples = (", " if piped else "\n").join((*each.examples, *more))
        preemption = _RESOLVABLE.get(each.status, each.status)
        rows.append((str(each.nodes), each.plugin, reasons, preemption, examples))
    return listing(columns, rows)


def _scores(nodes: Examination, *, piped: bool) -> Table:
    headings = [
        f"{plugin} x{weight}" if piped else f"{_broken(plugin)}\nx{weight}"
        for plugin, weight in nodes.weights.items()
    ]
    scores = dict.fromkeys(headings, _SCORE)
    rows = [(each.node, str(each.total), *_score_cells(each, nodes.weights)) for each in nodes.best]
    return listing({"NODE": FOLDED, "TOTAL": NUMBER} | scores, rows)


def _score_cells(node: NodeScore, weights: dict[str, int]) -> list[str]:
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
        notes.append(f"{nodes.tied} nodes share the highest total: one is picked at random")
    if nodes.skipped_filters:
        notes.append(f"filters with nothing to check: {', '.join(nodes.skipped_filters)}")
    if nodes.skipped_scores:
        notes.append(f"scores with nothing to say: {', '.join(nodes.skipped_scores)}")
    return notes
