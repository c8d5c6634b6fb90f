"""The explanation of a pod group on a terminal: sentences, then tables of the room for its pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from scheduler.cli.pod_format import one_line
from scheduler.cli.tables import FOLDED, NUMBER, Cell, listing, put, say
from scheduler.explain.records import GroupExplanation, GroupRules, GroupTemplate
from scheduler.explain.records.wording import counted, quantity, span

if TYPE_CHECKING:
    from rich.console import Console

_ROOM: Final = {
    "PODS LIKE": FOLDED,
    "COUNT": NUMBER,
    "NODES": NUMBER,
    "ROOM": NUMBER,
    "RESOURCE": FOLDED,
    "REQUEST": NUMBER,
    "FREE": NUMBER,
    "ROOM BY IT": NUMBER,
}
_DOMAINS: Final = {"DOMAIN": FOLDED, "NODES": NUMBER, "ROOM": NUMBER, "PLACED": NUMBER}


def show_group(group: GroupExplanation, now: float, console: Console) -> None:
    """Print the explanation of one group at the time `now`."""
    from rich.text import Text

    view = group.view
    title = Text(one_line(f"pod group {view.group}"), "bold")
    details = f"{view.stage}, {view.source}, minimum {view.minimum}"
    title.append(f"  {one_line(details)}", "not bold")
    console.print(title, soft_wrap=not console.is_terminal)
    for sentence in _sentences(group, now):
        say(console, one_line(sentence))
    if group.templates:
        say(console, "")
        say(console, "Room on all nodes together", "bold")
        rows = [row for each in group.templates for row in _template_rows(each)]
        put(console, listing(_ROOM, rows))
    if group.more_templates:
        say(console, f"and {counted(group.more_templates, 'other template')}")
    for label in group.topology:
        demand = "required" if label.required else "preferred"
        say(console, "")
        say(console, one_line(f"Domains of {label.key} ({demand})"), "bold")
        if not label.best:
            say(console, "no node has the label")
            continue
        domains = (
            (one_line(each.domain), str(each.nodes), str(each.room), str(each.placed))
            for each in label.best
        )
        put(console, listing(_DOMAINS, domains))
        more = label.total - len(label.best)
        if more > 0:
            say(console, f"and {counted(more, 'other domain')} with less room")


def _sentences(group: GroupExplanation, now: float) -> Iterator[str]:
    view, attempt, plan, kept = group.view, group.attempt, group.plan, group.reservation
    text = view.text.removeprefix(f"pod group {view.group}: ")
    yield f"{text}."
    members = [f"{each.count} {each.state}{_named(each.examples)}" for each in group.members]
    if view.succeeded:
        members.append(f"{view.succeeded} succeeded")
    yield f"Members: {'; '.join(members) or 'none'}."
    if group.rules is not None:
        yield from _rules(group.rules)
    if attempt is not None:
        yield f"Last attempt: {span(now - attempt.time)} ago, {_result(group, text)}."
    if plan is not None:
        yield (
            f"Preemption: {counted(plan.victims, 'pod')}{_named(plan.examples)} must leave; "
            f"members are nominated to {', '.join(plan.nodes) or 'no node'}. Nobody else is "
            f"evicted for it within {span(plan.until - now)}."
        )
    if kept is not None:
        yield (
            f"Reservation: room for {counted(kept.members, 'pod')} on "
            f"{counted(kept.nodes, 'node')}{_named(kept.examples)} is kept from pods of priority "
            f"{kept.priority} or lower, for {span(kept.until - now)} at most."
        )
    if group.next is not None:
        latest = group.next.time
        limit = "" if latest is None else f"; at the latest in {span(latest - now)}"
        yield f"Next attempt: when {group.next.text}{limit}."


def _rules(rules: GroupRules) -> Iterator[str]:
    if rules.required_key:
        yield f"All members must be in one domain of {rules.required_key}."
    if rules.preferred_keys:
        yield f"They should be in few domains of {', then of '.join(rules.preferred_keys)}."
    parts = []
    if rules.priority is not None:
        parts.append(f"its priority is {rules.priority}")
    if not rules.preempts:
        parts.append("it evicts no pods")
    if rules.disruption == "PodGroup":
        parts.append("its members are evicted together")
    if parts:
        yield f"By its {rules.resource}, {', '.join(parts)}."
    for fault in rules.ignored:
        yield f"Ignored: {fault}."


def _result(group: GroupExplanation, shown: str) -> str:
    attempt = group.attempt
    assert attempt is not None
    took = f"took {attempt.seconds * 1000:.0f} ms"
    place = f" {attempt.place}" if attempt.place else ""
    if attempt.scheduled:
        more = f"; {attempt.message}" if attempt.message else ""
        return f"{took}, placed {counted(attempt.fit, 'pod')}{place}{more}"
    # The same text was printed before, in most cases.
    why = "" if attempt.message in shown else f": {attempt.message}"
    return f"{took}, failed{why}"


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _template_rows(template: GroupTemplate) -> Iterator[tuple[Cell, ...]]:
    room = "unknown" if template.room is None else str(template.room)
    first = (one_line(template.example), str(template.pods), str(template.nodes), room)
    if not template.resources:
        yield (*first, one_line(template.rejected), "", "", "")
    for number, each in enumerate(template.resources):
        amounts = (quantity(each.resource, each.requested), quantity(each.resource, each.free))
        yield (*(first if not number else ("",) * 4), each.resource, *amounts, str(each.room))
