"""Pods and owners of one exact name in other namespances, where that of the question has none.

The scheduler answers, which knows what waits. It shows all namespaces only to users who may see
them; others learn nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.hints import given_scheduler
from scheduler.sanitizing.names import is_namespace_name, is_object_name

if TYPE_CHECKING:
    from scheduler.cli.endpoint import Endpoint
    from scheduler.explain.records import WaitingPage

MAX_NAMED: Final = 3
LOOKED_AT: Final = 200
"""Pods, and groups of pods, with the name in theirs, among which the exact one is looked for."""
OWNING: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job")
"""Kinds of owners that are looked for where there is no pod of a name."""
ELSEWHERE: Final = "\nWaiting in another namespace:{commands}"


def in_other_namespaces(endpoint: Endpoint, key: str, kind: str = "") -> str:
    """Return how to ask about what has the name of `NAMESPACE/NAME` in other namespaces.

    Args:
        endpoint: what is asked.
        key: what does not exist.
        kind: of the owner that was meant; empty: a pod was, and an owner may be.

    Returns:
        Lines, each with a line break before it; empty where nothing is known, or may be known.
    """
    from scheduler.cli.pod_format import decoded_quietly
    from scheduler.explain.records import WaitingPage

    namespace, _, name = key.partition("/")
    if not is_object_name(name):
        return ""
    query = {"words": name, "limit": str(LOOKED_AT), "groups": str(LOOKED_AT)}
    try:
        page: WaitingPage = decoded_quietly(endpoint.get("/debug/waiting", query), WaitingPage)
    except click.ClickException:
        # Such as a user who may not see all namespaces.
        return ""
    found = sorted(each for each in _named(page, name, kind) if each[0] != namespace)
    options = given_scheduler()
    lines = [f"kubestow explain {word} -n {of}{options}" for of, word in found[:MAX_NAMED]]
    if len(found) > MAX_NAMED:
        lines.append(f"and {len(found) - MAX_NAMED} more")
    return ELSEWHERE.format(commands="\n  ".join(["", *lines])) if lines else ""


def _named(page: WaitingPage, name: str, kind: str) -> set[tuple[str, str]]:
    """Return the namespace, and the word for `kubestow explain`, of all that has the name."""
    kinds = (kind,) if kind else OWNING
    found = {
        (each.namespace, f"{of.lower()}/{name}")
        for each in page.groups
        for of in kinds
        if each.owner == f"{of}/{name}"
    }
    if not kind:
        found |= {(each.pod.namespace, name) for each in page.pods if each.pod.name == name}
    return {each for each in found if is_namespace_name(each[0])}
