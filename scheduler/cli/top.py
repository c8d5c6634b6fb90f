"""`kubestow top`: the whole scheduler on one live screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.modes import ModalCommand
from scheduler.sanitizing.escaping import escaped_json

if TYPE_CHECKING:
    from rich.text import Text

    from scheduler.explain.records import NodeFill, SummaryPage

HELP: Final = """\
Show the running scheduler on a live screen.

The queue by sub-queue, attempts a second by result, the sums of the cluster's resources, nodes by
their fullest resource, the last placements, and the pods that have waited longest. `q` or Ctrl-C
ends it. In a pipe, or with --once, one snapshot is printed.

A lost connection or another leader is noted on the screen, and asking continues.
"""

SNAPSHOT_WIDTH: Final = 100
ROWS: Final = 40
"""Asked for of each list; what a screen has no room for is left out."""
BAR: Final = 20


@click.command(
    "top", cls=ModalCommand, help=HELP, short_help="Watch queue, rates and nodes on a live screen."
)
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two requests.",
)
@click.option("--once", is_flag=True, help="Print one snapshot.")
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@endpoint_options
def command(*, endpoint: Endpoint, interval: float, once: bool, output: str) -> None:
    """Show the live screen, or one snapshot."""
    query = {"rows": str(ROWS)}
    if output == "json":
        click.echo(escaped_json(endpoint.get("/debug/summary", query)), nl=False)
        return
    from scheduler.cli.live import watch
    from scheduler.cli.pod_format import decoded, decoded_quietly
    from scheduler.cli.tables import wide_console
    from scheduler.explain.records import SummaryPage

    if not once and sys.stdout.isatty():
        watch(
            lambda: decoded_quietly(endpoint.get("/debug/summary", query), SummaryPage),
            draw,
            interval,
        )
        return
    page: SummaryPage = decoded(endpoint.get("/debug/summary", query), SummaryPage)
    console = wide_console()
    width = console.width if console.is_terminal else SNAPSHOT_WIDTH
    for line in draw(page, width, 10_000, ()):
        console.print(line, soft_wrap=True)


def draw(page: SummaryPage, width: int, height: int, notes: Sequence[str]) -> list[Text]:
    """Return the lines of the screen; the lists share the height that the rest leaves."""
    from scheduler.cli.live import fitted

    head = [fitted(text, width, style) for text, style in _head(page, width, notes)]
    lists = [
        (f"nodes by fill ({page.nodes})", [*_buckets(page, width), *_nodes(page.fullest, width)]),
        ("last placements", list(_placements(page, width))),
        ("waiting longest", list(_oldest(page, width))),
    ]
    lists = [(title, rows) for title, rows in lists if rows]
    lines, left = head, height - len(head)
    for index, (title, rows) in enumerate(lists):
        # A blank line, a heading and at least one row.
        share = left // (len(lists) - index)
        if share < 3:
            continue
        shown = [("", ""), (title, "bold"), *((row, "") for row in rows[: share - 2])]
        lines += [fitted(text, width, style) for text, style in shown]
        left -= len(shown)
    return lines[:height]


def _head(page: SummaryPage, width: int, notes: Sequence[str]) -> Iterator[tuple[str, str]]:
    from scheduler.cli.live import flowed
    from scheduler.explain.records.wording import counted, span

    size = f"{counted(page.nodes, 'node')}, {counted(page.pods, 'pod')}"
    up = f"up {span(page.now - page.started)}"
    title = ["kubestow", size, up, f"{datetime.fromtimestamp(page.now):%H:%M:%S}"]  # noqa: DTZ006 - the reader's own time
    yield from ((line, "bold reverse") for line in flowed(title, width))
    yield from ((f"! {note}", "bold red") for note in notes)
    yield from ((line, "") for line in flowed(_queue(page), width))
    yield from ((line, "") for line in flowed(_attempts(page), width))
    yield from ((line, "") for line in _resources(page, width))


def _queue(page: SummaryPage) -> list[str]:
    numbers = page.queue
    counts = {
        "active": numbers.active,
        "backoff": numbers.backoff,
        "unschedulable": numbers.unschedulable,
        "gated": numbers.gated,
        "in flight": numbers.in_flight,
    }
    return ["queue:", *(f"{name} {count}" for name, count in counts.items())]


def _attempts(page: SummaryPage) -> list[str]:
    from scheduler.explain.records.wording import span

    rates = page.rates
    if not rates.seconds:
        return ["attempts since the start:", *(f"{k} {v}" for k, v in page.attempts.items())]
    found = [f"{result} {rate:.1f}/s" for result, rate in rates.attempts.items()] or ["none"]
    return [f"attempts in {span(rates.seconds)}:", *found]


def _resources(page: SummaryPage, width: int) -> Iterator[str]:
    from scheduler.cli.live import bar
    from scheduler.cli.tables import cut
    from scheduler.explain.records.wording import quantity

    longest = max((len(each.resource) for each in page.resources), default=0)
    name = min(longest, width // 3)
    for each in page.resources:
        percent = 100 * each.requested / each.allocatable if each.allocatable else 0
        amounts = f"{quantity(each.resource, each.requested)} of " + quantity(
            each.resource, each.allocatable
        )
        drawn = bar(percent, min(BAR, max(0, width - name - 30)))
        yield f"{cut(each.resource, name):<{name}} {drawn} {percent:3.0f}%  {amounts}"


def _buckets(page: SummaryPage, width: int) -> Iterator[str]:
    """Yield the numbers of nodes by percentage, where there are more nodes than fit one by one."""
    from scheduler.cli.live import flowed

    if page.nodes <= len(page.fullest):
        return
    names = [f"{10 * at}%" for at in range(len(page.fill) - 1)] + ["full"]
    counts = [f"{name} {count}" for name, count in zip(names, page.fill, strict=True) if count]
    yield from flowed(counts, width)


def _nodes(fullest: Sequence[NodeFill], width: int) -> Iterator[str]:
    from scheduler.cli.live import bar
    from scheduler.cli.tables import shortened
    from scheduler.explain.records.wording import counted

    for each in fullest:
        cordoned = ", cordoned" if each.unschedulable else ""
        drawn = bar(each.percent, BAR if width >= 100 else 8)
        most = f"({each.resource}, {counted(each.pods, 'pod')}{cordoned})"
        head = f"{drawn} {each.percent:3d}%  "
        yield f"{head}{shortened(each.node, width - len(head) - len(most) - 2)}  {most}"


def _placements(page: SummaryPage, width: int) -> Iterator[str]:
    from scheduler.cli.tables import shortened

    for each in page.placed:
        when = f"{datetime.fromtimestamp(each.time):%H:%M:%S}"  # noqa: DTZ006 - the reader's own time
        total = "" if each.score is None else f", total {each.score}"
        took = f", {1000 * each.seconds:.0f} ms" if each.seconds else ", binding"
        tail = f"(attempt {each.attempt}{total}{took})"
        room = width - len(when) - len(tail) - 8
        node = shortened(each.node, room // 2)
        yield f"{when}  {shortened(each.pod, room - len(node))} on {node}  {tail}"


def _oldest(page: SummaryPage, width: int) -> Iterator[str]:
    from scheduler.cli.pod_format import held_by
    from scheduler.cli.tables import shortened
    from scheduler.explain.records.wording import span

    for each in page.oldest:
        held = held_by(each)
        why = f"({each.place}: {held})" if held else f"({each.place})"
        head = f"{span(page.now - each.waiting_since):>6}  "
        name = shortened(f"{each.namespace}/{each.name}", width - len(head) - len(why) - 2)
        yield f"{head}{name}  {why}"
