"""`kubestow queue`: which pods wait, where, why, and until when."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.pod_format import decoded, held_by, next_try, one_line, woken_by
from scheduler.cli.tables import FOLDED, NUMBER, WHOLE, Cell, cut, listing, put, wide_console

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.pages import PodView, QueuePage

HELP: Final = """\
Show the pods that wait to be scheduled by a running scheduler.

A pod is `active` (its turn comes), in `backoff` (it failed, and is tried again when the time is
up), `unschedulable` (nothing happened yet that could help it), `gated` (a plugin does not let it
in) or `in-flight` (being scheduled). # is how many pods go before it, HELD BY the plugins that
rejected it or the gate, LAST EVENT what moved it last and the plugin whose hint said that this
might help.

The leader is found by its Lease and asked through the API server, as the user of your kubeconfig.
Who may get the pods of a namespace may ask about that one.

\b
Examples:
  kubestow queue
  kubestow queue --namespace team-a
  kubestow queue --token "$(kubectl -n kubestow-system create token reader)"
"""


@click.command("queue", help=HELP, short_help="Show which pods wait, and why.")
@click.option("--namespace", "-n", metavar="NAME", help="Only pods of this namespace.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Pods shown of each sub-queue.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    show_default=True,
    help="wide: a line per pod, however long, with all of every message.",
)
@endpoint_options
def command(*, endpoint: Endpoint, namespace: str | None, limit: int, output: str) -> None:
    """Show the pods that wait."""
    query = {"limit": str(limit)} | ({"namespace": namespace} if namespace else {})
    body = endpoint.get("/debug/queue", query)
    if output == "json":
        click.echo(body, nl=False)
        return
    from scheduler.pages import QueuePage

    page: QueuePage = decoded(body, QueuePage)
    wide = output == "wide"
    show(page, wide_console(endless=wide), wide=wide)


def show(page: QueuePage, console: Console, *, wide: bool = False) -> None:
    """Print the counts and a table of the pods; `wide` gives each pod a line with everything."""
    console.print(counts(page))
    if not page.pods:
        where = f" in namespace {page.namespace}" if page.namespace else ""
        console.print(f"no pod waits{where}", markup=False)
        return
    # Many pods wait for the same reason: on a terminal the reason is shown once, below.
    reasons = _reasons(page) if console.is_terminal and not wide else {}
    limit = None if wide else PIPED_MESSAGE
    put(console, listing(_COLUMNS, (_cells(view, page.now, reasons, limit) for view in page.pods)))
    if reasons:
        put(console, listing({"": WHOLE, "PODS": NUMBER, "WHY": FOLDED}, _legend(page, reasons)))
    for line in _left_out(page):
        console.print(line, markup=False)


_COLUMNS: Final = {
    "PLACE": WHOLE,
    "#": NUMBER,
    "POD": FOLDED,
    "TRIES": NUMBER,
    "NEXT TRY": FOLDED,
    "HELD BY": FOLDED,
    "LAST EVENT": FOLDED,
}


def counts(page: QueuePage) -> str:
    """Return one line with the size of every sub-queue."""
    numbers = page.statistics
    errors = f" ({numbers.backoff_errors} after an error)" if numbers.backoff_errors else ""
    return (
        f"active {numbers.active}, backoff {numbers.backoff}{errors}, "
        f"unschedulable {numbers.unschedulable}, gated {numbers.gated}, "
        f"in flight {numbers.in_flight}"
    )


def _reasons(page: QueuePage) -> dict[str, int]:
    """Number every distinct message as it first occurs."""
    messages = dict.fromkeys(one_line(view.message) for view in page.pods if view.message)
    return {message: number for number, message in enumerate(messages, 1)}


PIPED_MESSAGE: Final = 80
"""Characters of a message on the one line that a pod has in a pipe; `-o wide` shows all."""


def _cells(
    view: PodView, now: float, reasons: dict[str, int], limit: int | None
) -> tuple[Cell, ...]:
    held, message = held_by(view), one_line(view.message)
    if message in reasons:
        held = f"{held} [{reasons[message]}]".strip()
    elif message:
        message = message if limit is None else cut(message, limit)
        held = f"{held}: {message}" if held else message
    return (
        (view.place, _STYLES.get(view.place, "")),
        "" if view.position is None else str(view.position),
        f"{view.namespace}/{view.name}",
        str(view.attempts),
        next_try(view, now),
        held,
        woken_by(view),
    )


def _legend(page: QueuePage, reasons: dict[str, int]) -> list[tuple[Cell, ...]]:
    pods = Counter(one_line(view.message) for view in page.pods)
    return [(f"[{number}]", str(pods[message]), message) for message, number in reasons.items()]


_STYLES: Final = {
    "active": "green",
    "in-flight": "green",
    "backoff": "yellow",
    "unschedulable": "red",
    "gated": "blue",
}


def _left_out(page: QueuePage) -> list[str]:
    """Return the number of pods beyond the limit; unknown for a single namespace."""
    shown = Counter(str(view.place) for view in page.pods)
    if page.namespace:
        full = [place for place, number in shown.items() if number == page.limit]
        return [f"there may be more in: {', '.join(full)} (--limit)"] if full else []
    numbers = page.statistics
    totals = {
        "active": numbers.active,
        "backoff": numbers.backoff,
        "unschedulable": numbers.unschedulable,
        "gated": numbers.gated,
        "in-flight": numbers.in_flight,
    }
    missing = [
        f"{total - shown[place]} {place}" for place, total in totals.items() if total > shown[place]
    ]
    return [f"not shown: {', '.join(missing)} (--limit)"] if missing else []
