"""`kubestow gangs`: pod groups, the members that they have and need, and why they wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.modes import ModalCommand
from scheduler.cli.tables import FOLDED, NUMBER, WHOLE, Cell, listing, put, say, wide_console
from scheduler.explain.records.wording import counted
from scheduler.sanitizing.escaping import escaped_json

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.explain.records import GroupList

HELP: Final = """\
Show the pod groups of a running scheduler, those that wait first.

MIN is the number of pods that start together, HAVE the members that have a node or succeeded, NOW
those that are being bound, and WAIT those that wait, with scheduling gates or without. STATE is one
of WaitingForMembers, Pending, Unschedulable, Reserved, Partial, MinimumBound, AllBound,
Finished and Invalid.

\b
Examples:
  kubestow gangs
  kubestow gangs --namespace team-a
"""


@click.command(
    "gangs", cls=ModalCommand, help=HELP, short_help="Show pod groups, and why they wait."
)
@click.option("--namespace", "-n", metavar="NAME", help="Only groups of this namespace.")
@click.option("--all-namespaces", "-A", is_flag=True, help="Groups of all namespaces: the default.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, help="Groups shown."
)
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@endpoint_options
def command(
    *, endpoint: Endpoint, namespace: str | None, all_namespaces: bool, limit: int, output: str
) -> None:
    """Show the groups."""
    query = {"limit": str(limit)} | (
        {"namespace": namespace} if namespace and not all_namespaces else {}
    )
    body = endpoint.get("/debug/gangs", query)
    if output == "json":
        click.echo(escaped_json(body), nl=False)
        return
    from scheduler.cli.owner_object import no_namespace
    from scheduler.cli.pod_format import decoded
    from scheduler.explain.records import GroupList

    page: GroupList = decoded(body, GroupList)
    show(page, wide_console())
    if (
        "namespace" in query
        and not page.groups
        and (absent := no_namespace(endpoint, query["namespace"]))
    ):
        click.echo(absent)


def show(page: GroupList, console: Console) -> None:
    """Print the table."""
    if not page.leading:
        say(console, "This replica stands by and decides nothing.")
    if not page.groups:
        say(console, "There are no pod groups.")
        return
    columns = {
        "GROUP": FOLDED,
        "SOURCE": WHOLE,
        "STATE": WHOLE,
        "MIN": NUMBER,
        "HAVE": NUMBER,
        "NOW": NUMBER,
        "WAIT": NUMBER,
        "WHY": FOLDED,
    }
    put(console, listing(columns, _rows(page)))
    left = page.total - len(page.groups)
    if left > 0:
        say(console, f"and {counted(left, 'other group')}")


def _rows(page: GroupList) -> Iterator[tuple[Cell, ...]]:
    for each in page.groups:
        numbers = (
            each.minimum,
            each.bound + each.succeeded,
            each.reserved,
            each.pending + each.gated,
        )
        why = each.text.removeprefix(f"pod group {each.group}: ")
        yield (each.group, each.source, each.stage, *map(str, numbers), why)
