"""`kubestow explain deployment/web`: all pods of one owner, those that wait for the same once.

The running scheduler counts them, and explains the pod of each group that has waited longest. The
numbers of groups that are listed and explained are bounded, whatever the owner has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.cli.exit_codes import NO_SUCH_POD, CommandError
from scheduler.cli.hints import given_scheduler, kubectl
from scheduler.cli.owner_object import field_of, quoted
from scheduler.cli.pod_format import decoded, one_line
from scheduler.cli.tables import say
from scheduler.explain.records import (
    ExplainPage,
    OtherScheduler,
    OwnerGroup,
    OwnerPage,
    WaitingGroup,
    WaitingPage,
)
from scheduler.explain.records.causes import of_pods
from scheduler.explain.records.wording import counted, span

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.cli.endpoint import Endpoint

MAX_EXPLAINED: Final = 3
"""Groups of which a pod is explained; each takes up to half a second, with its remedies."""
MAX_LISTED: Final = 20

NO_PODS: Final = (
    "the scheduler knows no pod of {owner} in namespace {namespace}: none waits for it, and none "
    "has a node.\nDoes it exist, and has it made its pods?  {kubectl} -n {namespace} describe "
    "{kind} {name}\nIts pods wait for this scheduler only if their template has its schedulerName."
)


def ask(endpoint: Endpoint, key: str, query: Mapping[str, str]) -> OwnerPage:
    """Ask about the pods of an owner, `NAMESPACE/KIND/NAME`; `query` is for the explained pods."""
    namespace, _, owner = key.partition("/")
    about = {"namespace": namespace, "owner": key, "placed": "1", "groups": str(MAX_LISTED)}
    page: WaitingPage = decoded(endpoint.get("/debug/waiting", about), WaitingPage)
    groups = [
        _group(endpoint, each, query if number < MAX_EXPLAINED else None)
        for number, each in enumerate(page.groups[:MAX_LISTED])
    ]
    return OwnerPage(
        now=page.now,
        leading=page.leading,
        namespace=namespace,
        owner=owner,
        waiting=page.selected,
        placed=page.placed or 0,
        ending=page.ending,
        group_total=page.group_total,
        groups=groups,
        others=page.others,
    )


def no_pods(owner: str) -> CommandError:
    """Return the error that the scheduler knows no pod of `NAMESPACE/KIND/NAME`."""
    namespace, kind, name = owner.split("/")
    text = NO_PODS.format(
        owner=f"{kind}/{name}", namespace=namespace, kind=kind.lower(), name=name, kubectl=kubectl()
    )
    return CommandError(text, NO_SUCH_POD)


def _group(endpoint: Endpoint, group: WaitingGroup, query: Mapping[str, str] | None) -> OwnerGroup:
    text = of_pods(group.pods, group.cause)
    found = OwnerGroup(group.cause, group.pods, text, group.waiting_since, None)
    if query is None:
        return found
    pod = {"pod": f"{group.namespace}/{group.pod}", **query}
    try:
        return replace(found, explained=decoded(endpoint.get("/debug/explain", pod), ExplainPage))
    except CommandError as error:
        # It is gone since.
        if error.exit_code != NO_SUCH_POD:
            raise
        return found


KEEPS: Final[Mapping[str, str]] = {
    "Job": "; a Job keeps its template: delete it, and create it anew",
    "CronJob": "; Jobs that it has made keep theirs",
    **dict.fromkeys(
        ("ReplicaSet", "ReplicationController", "StatefulSet"),
        "; its pods keep theirs until they are deleted",
    ),
}
"""What a change of the template does not do, by the kind of the owner."""


def _other(other: OtherScheduler, kind: str) -> Iterator[str]:
    """Say of pods that name another scheduler what they wait for, or who placed them."""
    name, pending = quoted(other.name), other.pods - other.placed
    if pending:
        asking = f"{counted(pending, 'pod')} {'asks' if pending == 1 else 'ask'} for scheduler"
        if other.near:
            meant = one_line(other.near)
            change = f"Change {field_of(kind)}{KEEPS.get(kind, '')}."
            yield f"{asking} {name}: did you mean {meant}? {change}"
        else:
            yield f"{asking} {name}, which is not this one ({field_of(kind)})."
    if other.placed:
        were = "was" if other.placed == 1 else "were"
        yield f"{counted(other.placed, 'pod')} {were} placed by scheduler {name}, not by this one."


def show(page: OwnerPage, console: Console, *, history: bool, verbose: bool, search: str) -> None:
    """Print the answer."""
    from scheduler.cli.explanation import show as show_pod

    pending = sum(each.pods - each.placed for each in page.others)
    pods = page.waiting + page.placed + pending
    total = f"{pods:,} pod{'s' * (pods != 1)}"
    wait = f"{page.waiting:,} wait{'s' * (page.waiting == 1)}"
    placed = f"{page.placed:,} {'has' if page.placed == 1 else 'have'} a node"
    if page.ending:
        placed += f" ({page.ending:,} {'is' if page.ending == 1 else 'are'} being deleted)"
    title = f"{page.namespace}/{page.owner}: {total}, {placed}, {wait}"
    if not pods:
        title = f"{page.namespace}/{page.owner}: no pod waits or has a node"
    if pending:
        title += f", {pending:,} {'asks' if pending == 1 else 'ask'} for another scheduler"
    say(console, one_line(title), "bold")
    if page.lacking:
        say(console, page.lacking)
    kind = page.owner.partition("/")[0]
    for other in page.others:
        for line in _other(other, kind):
            say(console, one_line(line))
    gang = None
    for each in page.groups:
        say(console, "")
        longest = f", the longest for {span(page.now - each.waiting_since)}"
        if each.explained is None:
            say(console, one_line(f"{each.text}{longest}"), "bold")
            continue
        such_as = "such as this one" if each.pods > 1 else "this one"
        say(console, one_line(f"{each.text}{longest}, {such_as}:"), "bold")
        explained = each.explained
        if explained.group is not None and gang is not None:
            # Its pod group was shown with the pod before.
            explained = msgspec.structs.replace(explained, group=None)
        gang = each.explained.group or gang
        show_pod(
            explained, console, history=history, verbose=verbose, search=search, pods=each.pods
        )
    rest = page.group_total - len(page.groups)
    if rest > 0:
        where = f"-n {page.namespace}{given_scheduler()}"
        say(console, f"and {counted(rest, 'other cause')}: kubestow queue {where}")
    for text in filter(None, (page.fewer, page.rollout)):
        say(console, "")
        say(console, text)
