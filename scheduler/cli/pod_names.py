"""Names of pods and groups as people write them on command lines."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.exit_codes import CommandError
from scheduler.cli.import_without import import_without

if TYPE_CHECKING:
    from scheduler.cli.endpoint import Endpoint

_KINDS: Final = ("pod/", "pods/", "po/", "podgroup/", "podgroups/", "pg/")
"""Beginnings of a name as kubectl takes and prints it."""

_OWNERS: Final = (
    "deploy", "deployment", "rs", "replicaset", "sts", "statefulset", "ds", "daemonset", "job",
    "cronjob",
)  # fmt: skip
"""Kinds of which people write the name where a pod is asked for."""

_LOOKED_AT: Final = 1000
"""Pods of each sub-queue among which one is looked for."""
_NAMED: Final = 3

ALIKE: Final = "\nPods that wait, with such a name: {pods}"
ELSEWHERE: Final = (
    "\n`kubestow queue` lists the pods that wait; -n NAMESPACE names another namespace than {where}"
)


def without_kind(name: str) -> str:
    """Return a name without its kind, which kubectl writes in front.

    >>> without_kind("pod/web-0"), without_kind("shop/web-0")
    ('web-0', 'shop/web-0')
    """
    kind = next((each for each in _KINDS if name.startswith(each)), "")
    return name.removeprefix(kind)


def one_name(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> str:
    """Return a name; like kubectl's, it may be two words, a kind and a name. A callback of Click.

    Raises:
        click.UsageError: there are more words.
    """
    match words:
        case (kind, name) if f"{kind}/" in _KINDS or kind in _OWNERS:
            return f"{kind}/{name}"
        case () | (_,):
            return "".join(words)
    raise click.UsageError(f"give one pod, not {len(words)}: {' '.join(words):.200}")


def namespace_for(endpoint: Endpoint, given: str | None) -> str:
    """Return the namespace that was given, else that of the kubeconfig's context, as kubectl."""
    if given:
        return given
    with import_without("rich"):
        from scheduler.client.configuration import selected_namespace

    return selected_namespace(endpoint.kubeconfig, endpoint.context) or "default"


def no_such_pod(endpoint: Endpoint, key: str, where: str, error: CommandError) -> CommandError:
    """Return an error about a pod that does not exist, with pods that may be meant.

    Args:
        endpoint: what was asked.
        key: `namespace/name`, or the kind and the name of an owner of pods.
        where: the namespace of names without one.
        error: the answer.
    """
    from scheduler.cli.pod_format import decoded
    from scheduler.explain.records import QueuePage

    namespace, _, name = key.partition("/")
    namespace = where if namespace in _OWNERS else namespace
    try:
        query = {"namespace": namespace, "limit": str(_LOOKED_AT)}
        page: QueuePage = decoded(endpoint.get("/debug/queue", query), QueuePage)
    except CommandError:
        return error
    waiting = [each.name for each in page.pods]
    alike = [each for each in waiting if each.startswith(f"{name}-")]
    alike = alike or get_close_matches(name, waiting, n=_NAMED)
    if not alike:
        return CommandError(error.message + ELSEWHERE.format(where=namespace), error.exit_code)
    pods = ", ".join(f"{namespace}/{each}" for each in alike[:_NAMED])
    if len(alike) > _NAMED:
        pods += f" and {len(alike) - _NAMED} more"
    return CommandError(error.message + ALIKE.format(pods=pods), error.exit_code)
