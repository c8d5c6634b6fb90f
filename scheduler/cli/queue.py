"""`kubestow queue`: which pods wait, where, why, and until when."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scheduler.queue import PodView
    from scheduler.service.pod_pages import QueuePage

PIPED_WIDTH: Final = 10_000
"""Columns of a pipe: a pod is one line there, for grep and awk."""


HELP: Final = """\
Show the pods that wait to be scheduled by a running scheduler.

A pod is `active` (its turn comes), in `backoff` (it failed, and is tried again when the time is
up), `unschedulable` (nothing happened yet that could help it), `gated` (a plugin does not let it
in) or `in-flight` (being scheduled). # is how many pods go before it, HELD BY the plugins that
rejected it or the gate, LAST EVENT what moved it last and the plugin whose hint said that this
might help.

\b
Through a tunnel, as the user of your kubeconfig:
  kubectl -n kubestow-system port-forward deployment/kubestow 10259 &
  kubestow queue --insecure-skip-tls-verify

\b
In the pod, as its service account:
  kubectl -n kubestow-system exec deployment/kubestow -- \\
      kubestow queue --insecure-skip-tls-verify

\b
As somebody else; whoever asks needs permission to get /debug/queue:
  kubestow queue --ca-file kubestow.crt \\
      --token "$(kubectl -n kubestow-system create token reader)"
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
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@endpoint_options
def command(*, endpoint: Endpoint, namespace: str | None, limit: int, output: str) -> None:
    """Show the pods that wait."""
    query = {"limit": str(limit)} | ({"namespace": namespace} if namespace else {})
    body = endpoint.ask("/debug/queue", query)
    if output == "json":
        click.echo(body, nl=False)
        return
    from scheduler.cli.pod_words import STANDS_BY, decoded
    from scheduler.service.pod_pages import QueuePage

    page: QueuePage = decoded(body, QueuePage)
    if not page.leading:
        click.echo(f"note: {STANDS_BY}", err=True)
    show(page, wide_console())


def show(page: QueuePage, console: Console) -> None:
    """Print the counts and a table of the pods."""
    console.print(counts(page))
    if not page.pods:
        where = f" in namespace {page.namespace}" if page.namespace else ""
        console.print(f"no pod waits{where}", markup=False)
        return
    console.print(_table(page, piped=not console.is_terminal))
    for line in _left_out(page):
        console.print(line, markup=False)


def wide_console() -> Console:
    """A console as wide as the terminal, and without end in a pipe."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def counts(page: QueuePage) -> str:
    """One line with the size of every sub-queue."""
    numbers = page.statistics
    errors = f" ({numbers.backoff_errors} after an error)" if numbers.backoff_errors else ""
    return (
        f"active {numbers.active}, backoff {numbers.backoff}{errors}, "
        f"unschedulable {numbers.unschedulable}, gated {numbers.gated}, "
        f"in flight {numbers.in_flight}"
    )


def _table(page: QueuePage, *, piped: bool) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("PLACE", no_wrap=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("POD", overflow="fold")
    table.add_column("TRIES", justify="right", no_wrap=True)
    table.add_column("NEXT TRY", overflow="fold")
    table.add_column("HELD BY", overflow="fold")
    table.add_column("LAST EVENT", overflow="fold")
    for view in page.pods:
        table.add_row(*_cells(view, page.now, piped=piped))
    return table


def _cells(view: PodView, now: float, *, piped: bool) -> tuple[Any, ...]:
    from rich.text import Text

    from scheduler.cli.pod_words import held_by, next_try, woken_by

    position = "" if view.position is None else str(view.position)
    held = Text(held_by(view))
    if view.message:
        held.append(": " if piped and held else "\n" if held else "")
        held.append(_one_line(view.message), "" if piped else "dim")
    return (
        Text(view.place, "" if piped else _STYLES.get(view.place, "")),
        position,
        Text(f"{view.namespace}/{view.name}"),
        str(view.attempts),
        Text(next_try(view, now)),
        held,
        Text(woken_by(view)),
    )


_STYLES: Final = {
    "active": "green",
    "in-flight": "green",
    "backoff": "yellow",
    "unschedulable": "red",
    "gated": "blue",
}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _left_out(page: QueuePage) -> list[str]:
    """What the limit kept from being shown; unknown for a single namespace."""
    shown: dict[str, int] = {}
    for view in page.pods:
        shown[view.place] = shown.get(view.place, 0) + 1
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
        f"{total - shown.get(place, 0)} {place}"
        for place, total in totals.items()
        if total > shown.get(place, 0)
    ]
    return [f"not shown: {', '.join(missing)} (--limit)"] if missing else []
