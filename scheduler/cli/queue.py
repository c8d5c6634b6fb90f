"""`kubestow queue`: which pods wait, where, why, and until when."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.hints import given_scheduler
from scheduler.cli.modes import ModalCommand
from scheduler.cli.pod_format import (
    decoded,
    decoded_quietly,
    first_sentence,
    held_by,
    next_try,
    one_line,
    woken_by,
)
from scheduler.cli.tables import (
    FOLDED,
    MIN_NAME,
    NUMBER,
    WHOLE,
    Cell,
    cut,
    listing,
    put,
    say,
    shortened,
    wide_console,
)
from scheduler.explain.records.wording import counted, span
from scheduler.sanitizing.escaping import escaped_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from scheduler.explain.records import PodView, QueuePage, QueueStatistics

HELP: Final = """\
Show the pods that wait to be scheduled by a running scheduler.

A pod is `active` (its turn comes), in `backoff` (it failed, and is tried again when the time is
up), `unschedulable` (nothing happened yet that could help it), `gated` (a plugin does not let it
in) or `in-flight` (being scheduled). # is how many pods go before it, HELD BY the plugins that
rejected it or the gate. -o wide adds LAST EVENT, what moved it last and the plugin whose hint said
that this might help, and has all of every message. Pods that have a node, but wait for a second or
more to be bound to it, are listed below with what they wait for.

The leader is found by its Lease and asked through the API server, as the user of your kubeconfig.
Who may get the pods of a namespace may ask about that one.

\b
Examples:
  kubestow queue
  kubestow queue --namespace team-a
  kubestow queue --token "$(kubectl -n kubestow-system create token SERVICEACCOUNT)"
"""

NOT_OURS: Final = (
    "A pod that is pending all the same asks for another scheduler, perhaps by a slip:\n"
    "  kubestow explain NAMESPACE/POD{options}"
)


@click.command("queue", cls=ModalCommand, help=HELP, short_help="Show which pods wait, and why.")
@click.option("--namespace", "-n", metavar="NAME", help="Only pods of this namespace.")
@click.option("--all-namespaces", "-A", is_flag=True, help="Pods of all namespaces: the default.")
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
    help="wide: a line per pod, however long, with the last event and the whole message.",
)
@click.option("--watch", "-w", is_flag=True, help="Show it on a live screen; in a pipe once.")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two requests.",
)
@endpoint_options
def command(
    *,
    endpoint: Endpoint,
    namespace: str | None,
    all_namespaces: bool,
    limit: int,
    output: str,
    watch: bool,
    interval: float,
) -> None:
    """Show the pods that wait."""
    query = {"limit": str(limit)} | (
        {"namespace": namespace} if namespace and not all_namespaces else {}
    )
    if watch and output == "table" and sys.stdout.isatty():
        _watch(endpoint, query, interval)
        return
    body = endpoint.get("/debug/queue", query)
    if output == "json":
        click.echo(escaped_json(body), nl=False)
        return
    from scheduler.cli.owner_object import no_namespace
    from scheduler.explain.records import QueuePage

    page: QueuePage = decoded(body, QueuePage)
    wide = output == "wide"
    show(page, wide_console(endless=wide), wide=wide)
    if not page.pods and not page.binding:
        absent = no_namespace(endpoint, page.namespace) if page.namespace else ""
        click.echo(absent or NOT_OURS.format(options=given_scheduler()))


def _watch(endpoint: Endpoint, query: dict[str, str], interval: float) -> None:
    from scheduler.cli import live
    from scheduler.explain.records import QueuePage

    live.watch(
        lambda: decoded_quietly(endpoint.get("/debug/queue", query), QueuePage), draw, interval
    )


def draw(page: QueuePage, width: int, height: int, notes: Sequence[str]) -> list[Text]:
    """Return the lines of the live screen: a line for each pod, after the reasons.

    The last line says how many have no room.
    """
    from scheduler.cli.live import fitted

    reasons = _reasons(page)
    pods = Counter(_reason(view) for view in page.pods)
    told = [f"[{at}] {counted(pods[reason], 'pod')}: {reason}" for reason, at in reasons.items()]
    shown = max(1, height // 3)
    texts = [(f"! {note}", "bold red") for note in notes]
    texts += [(counts(_statistics(page)), "bold"), *((each, "") for each in told[:shown])]
    if len(told) > shown:
        texts.append((f"and {counted(len(told) - shown, 'other reason')}", ""))
    texts += (
        [("", ""), *_screen_rows(page, reasons, width)]
        if page.pods
        else [("" if page.binding else "no pod waits", "")]
    )
    texts += [(line, "") for line in _binding(page)]
    texts += [(line, "") for line in _left_out(page)]
    if len(texts) > height:
        more = counted(len(texts) - height + 1, "more line")
        texts = [*texts[: height - 1], (more, "bold")]
    return [fitted(text, width, style) for text, style in texts]


def _screen_rows(page: QueuePage, reasons: dict[str, int], width: int) -> Iterator[tuple[str, str]]:
    """Yield the lines of the pods with their styles; names give way to the other columns."""
    rows = [tuple(_NARROW), *_narrow_rows(page, reasons)]
    texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    texts = [[name, *(cut(text, MAX_CELL) for text in others)] for name, *others in texts]
    taken = [max(len(row[at]) for row in texts) for at in range(1, len(_NARROW))]
    room = max(MIN_NAME, width - sum(taken) - 2 * len(taken))
    longest = min(room, max(len(row[0]) for row in texts))
    for row, (name, *others) in zip(rows, texts, strict=True):
        cells = (text.rjust(size) for text, size in zip(others, taken, strict=True))
        line = "  ".join((shortened(name, longest).ljust(longest), *cells)).rstrip()
        heading = "bold" if row is rows[0] else ""
        yield line, heading if isinstance(row[0], str) else row[0][1]


def show(page: QueuePage, console: Console, *, wide: bool = False) -> None:
    """Print the counts and the pods: in a pipe, and `wide`, a line for each.

    Only the `wide` lines have the last event, and all of every message.
    """
    say(console, counts(_statistics(page)))
    if not page.pods:
        where = f" in namespace {page.namespace}" if page.namespace else ""
        say(console, "" if page.binding else f"no pod waits{where}")
    elif console.is_terminal and not wide:
        _show_narrow(page, console)
    else:
        rows = [_cells(view, page.now, wide=wide) for view in page.pods]
        put(console, listing({**_COLUMNS, **(_WIDE if wide else _PIPED)}, rows))
    for line in (*_binding(page), *_left_out(page)):
        say(console, line)


def _show_narrow(page: QueuePage, console: Console) -> None:
    """Print the pods by sub-queue; many wait for the same reason, which is shown once, below."""
    reasons = _reasons(page)
    put(console, listing(_NARROW, _narrow_rows(page, reasons)))
    pods = Counter(_reason(view) for view in page.pods)
    for reason, number in reasons.items():
        say(console, f"[{number}] {counted(pods[reason], 'pod')}: {reason}")


MAX_HELD: Final = 200
"""Characters of what holds a pod, in a line of a pipe."""
MAX_CELL: Final = 24
"""Columns beside names on the live screen."""

_NARROW: Final = {
    "POD": FOLDED,
    "TRIES": NUMBER,
    "WAITING": NUMBER,
    "NEXT TRY": FOLDED,
    "WHY": NUMBER,
}


def _narrow_rows(page: QueuePage, reasons: dict[str, int]) -> Iterator[tuple[Cell, ...]]:
    place = ""
    for view in page.pods:
        if view.place != place:
            place = view.place
            yield (place, f"bold {_STYLES.get(place, '')}"), "", "", "", ""
        number = reasons.get(_reason(view))
        yield (
            f"  {view.namespace}/{view.name}",
            str(view.attempts),
            span(page.now - view.waiting_since) if view.waiting_since else "",
            _short_retry(view, page.now),
            "" if number is None else f"[{number}]",
        )


def _short_retry(view: PodView, now: float) -> str:
    if view.next_retry is not None:
        return f"in {span(view.next_retry - now)}"
    if view.position is not None:
        return f"{view.position} before it" if view.position else "it is next"
    return next_try(view, now)


_COLUMNS: Final = {
    "PLACE": WHOLE,
    "#": NUMBER,
    "POD": FOLDED,
    "TRIES": NUMBER,
    "NEXT TRY": FOLDED,
}
# A message may be long: as the last column it makes no other line longer.
_PIPED: Final = {"HELD BY": FOLDED}
_WIDE: Final = {"LAST EVENT": FOLDED, **_PIPED}


def _statistics(page: QueuePage) -> QueueStatistics:
    """Return the counts of what the page is about; of one namespace, those of the shown pods."""
    if not page.namespace:
        return page.statistics
    shown = Counter(str(view.place) for view in page.pods)
    return replace(
        page.statistics,
        active=shown["active"],
        backoff=shown["backoff"],
        backoff_errors=0,
        unschedulable=shown["unschedulable"],
        gated=shown["gated"],
        in_flight=shown["in-flight"],
    )


def counts(numbers: QueueStatistics) -> str:
    """Return one line with the size of every sub-queue."""
    errors = f" ({numbers.backoff_errors} after an error)" if numbers.backoff_errors else ""
    return (
        f"active {numbers.active}, backoff {numbers.backoff}{errors}, "
        f"unschedulable {numbers.unschedulable}, gated {numbers.gated}, "
        f"in flight {numbers.in_flight}"
    )


def _reasons(page: QueuePage) -> dict[str, int]:
    """Number every distinct reason as it first occurs."""
    reasons = dict.fromkeys(_reason(view) for view in page.pods)
    return {each: number for number, each in enumerate(filter(None, reasons), 1)}


def _reason(view: PodView) -> str:
    """Return what holds a pod, and its message without what preemption could not do."""
    return _held(view, first_sentence(view.message))


def _held(view: PodView, message: str) -> str:
    return ": ".join(each for each in (held_by(view), message) if each)


def _cells(view: PodView, now: float, *, wide: bool) -> tuple[Cell, ...]:
    held = _held(view, one_line(view.message)) if wide else cut(_reason(view), MAX_HELD)
    return (
        (view.place, _STYLES.get(view.place, "")),
        "" if view.position is None else str(view.position),
        f"{view.namespace}/{view.name}",
        str(view.attempts),
        next_try(view, now),
        *((woken_by(view), held) if wide else (held,)),
    )


_STYLES: Final = {
    "active": "green",
    "in-flight": "green",
    "backoff": "yellow",
    "unschedulable": "red",
    "gated": "blue",
}


def _binding(page: QueuePage) -> Iterator[str]:
    """Yield lines about pods that have a node and are not bound yet."""
    if page.binding:
        yield f"{counted(len(page.binding), 'pod')} in no queue any more, not bound yet:"
    for each in page.binding:
        yield f"  {each.namespace}/{each.name}: {one_line(each.text)}"


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
