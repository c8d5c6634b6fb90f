"""A waiting pod in one line: time of the next attempt, what holds it, and the last event.

Texts for the records of `/debug/queue` and `/debug/explain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from scheduler.cli.hints import kubectl
from scheduler.explain.records.wording import span

if TYPE_CHECKING:
    from scheduler.explain.records import PodView

STANDS_BY: Final = (
    "this replica stands by: it schedules nothing, and its queue is not the leader's. The leader "
    "holds the Lease: {kubectl} -n kubestow-system get lease kubestow"
)
NOT_UNDERSTOOD: Final = (
    "the scheduler is of another version and answered something unknown ({error}); "
    "-o json shows it as it is"
)


def decoded(body: bytes, kind: type[Any]) -> Any:
    """Decode a page into its record, and note on standard error a replica that does not lead.

    Raises:
        click.ClickException: the body is no such record.
    """
    page = decoded_quietly(body, kind)
    if not page.leading:
        click.echo(f"note: {STANDS_BY.format(kubectl=kubectl())}", err=True)
    return page


def decoded_quietly(body: bytes, kind: type[Any]) -> Any:
    """Decode a page into its record.

    Raises:
        click.ClickException: the body is no such record.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise click.ClickException(NOT_UNDERSTOOD.format(error=error)) from error


def one_line(text: str) -> str:
    r"""Put a message of a plugin into one line, without terminal controls.

    >>> one_line("0/3 nodes:\n  \x1b[31mred")
    '0/3 nodes: ?[31mred'
    """
    line = " ".join(text.split())
    return "".join(each if each.isprintable() else "?" for each in line)


_NEXT_TRY: Final = {
    "gated": "when the gate opens",
    "unschedulable": "after an event",
    "in-flight": "now",
}


def first_sentence(message: str) -> str:
    """Return the first sentence of a message: without what preemption could not do.

    >>> first_sentence("0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are")
    '0/2 nodes are available: 2 Insufficient cpu'
    """
    return one_line(message).split(". ")[0].rstrip(".")


def next_try(view: PodView, now: float) -> str:
    """Return the time of the next attempt."""
    if view.next_retry is not None:
        return f"in {span(view.next_retry - now)}: {view.next_retry_reason}"
    return _NEXT_TRY.get(view.place, view.next_retry_reason)


def held_by(view: PodView) -> str:
    """Return the gate, or the plugins that rejected the pod last."""
    if view.gating_plugin:
        return f"gate {view.gating_plugin}"
    pending = [f"{plugin} (pending)" for plugin in view.pending_plugins]
    others = [each for each in view.unschedulable_plugins if each not in view.pending_plugins]
    return ", ".join([*pending, *others])


_MOVES: Final = {
    "ScheduleAttemptFailure": "its attempt failed",
    "BackoffComplete": "its backoff ended",
    "UnschedulableTimeout": "its time was up (periodic flush)",
    "ForceActivate": "a plugin activated it",
}
"""What moved a pod, where that was no change of an object."""


def woken_by(view: PodView) -> str:
    """Return the event that moved the pod last, and the plugin whose hint returned Queue."""
    event = _MOVES.get(view.last_event, view.last_event)
    return f"{event} (hint of {view.last_hint})" if view.last_hint else event


def at(found: Any, path: str) -> Any:
    """Return a field of an object that somebody wrote; None if it has none there.

    >>> at({"spec": {"replicas": 1}}, "spec.replicas"), at({"spec": []}, "spec.replicas")
    (1, None)
    """
    for each in path.split("."):
        found = found.get(each) if isinstance(found, dict) else None
    return found
