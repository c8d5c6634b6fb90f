"""Names of pods and groups as people write them on command lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.exit_codes import CommandError
from scheduler.cli.hints import given_scheduler
from scheduler.cli.import_without import import_without
from scheduler.cli.same_name import OWNING, in_other_namespaces

if TYPE_CHECKING:
    from scheduler.cli.endpoint import Endpoint

_KINDS: Final = ("pod/", "pods/", "po/", "podgroup/", "podgroups/", "pg/")
"""Beginnings of a name as kubectl takes and prints it."""

MANIFESTS: Final = (".yaml", ".yml", ".json")

_KINDS_OF_OWNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("deploy", "deployment", "deployments"),
    "ReplicaSet": ("rs", "replicaset", "replicasets"),
    "StatefulSet": ("sts", "statefulset", "statefulsets"),
    "DaemonSet": ("ds", "daemonset", "daemonsets"),
    "Job": ("job", "jobs"),
    "CronJob": ("cj", "cronjob", "cronjobs"),
    "ReplicationController": ("rc", "replicationcontroller", "replicationcontrollers"),
}
_OWNERS: Final = {name: kind for kind, names in _KINDS_OF_OWNERS.items() for name in names}
"""Kinds of owners of pods, by the names that kubectl takes and prints."""
_OWNER_PARTS: Final = 3

_LOOKED_AT: Final = 1000
"""Pods of each sub-queue among which one is looked for."""
_NODES_LOOKED_AT: Final = 500
"""Nodes among which one is looked for, as many as a page has."""
_NAMED: Final = 3

NODES: Final = ("no", "node", "nodes")
NO_POD_BUT_NODE: Final = (
    "pods and their owners are explained, not nodes. Whether a pod fits on node {node}:  "
    "kubestow explain POD --node {node}{options}\n"
    "What all nodes hold:  kubestow ui{options}, or kubestow top{options}"
)
TWO_NAMESPACES: Final = (
    "in {name}, {own} is taken for a namespace, and --namespace is {given}: give one of them; "
    "kinds are those of pods and their owners, such as {meant}/{rest}"
)
KIND_MEANT: Final = "\nIf {word} was to be a kind:  kubestow explain {meant}/{name}{options}"
OWNER: Final = "\n{kind} {name} has pods:  kubestow explain {word}/{name} -n {namespace}{options}"
ALIKE: Final = "\nPods that wait, with such a name: {pods}"
ELSEWHERE: Final = (
    "\n`kubestow queue -n {where}{options}` lists the pods that wait there; "
    "-n NAMESPACE names another namespace"
)


def no_pod_but_node(node: str) -> str:
    """Return what to ask about a node instead of explaining it."""
    return NO_POD_BUT_NODE.format(node=node, options=given_scheduler())


def without_kind(name: str) -> str:
    """Return a name without its kind, which kubectl writes in front.

    >>> without_kind("pod/web-0"), without_kind("shop/web-0"), without_kind("shop/pod/web-0")
    ('web-0', 'shop/web-0', 'shop/web-0')
    """
    namespace, _, rest = name.partition("/")
    if "/" in rest and rest.startswith(_KINDS):
        return f"{namespace}/{rest.partition('/')[2]}"
    kind = next((each for each in _KINDS if name.startswith(each)), "")
    return name.removeprefix(kind)


def one_name(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> str:
    """Return a name; like kubectl's, it may be two words, a kind and a name. A callback of Click.

    Raises:
        click.UsageError: there are more words, or it is a file.
    """
    if len(words) == _OWNER_PARTS - 1 and words[0] in NODES:
        raise click.UsageError(no_pod_but_node(words[1][:200]))
    match words:
        case (kind, name) if f"{kind}/" in _KINDS or _owner_kind(kind):
            return f"{kind}/{name}"
        case (name,) if name.endswith(MANIFESTS) and Path(name).is_file():
            raise click.UsageError(f"{name} is a file; about its pod:  kubestow whatif -f {name}")
        case () | (_,):
            return "".join(words)
    meant = kind_meant(words[0]) if len(words) == _OWNER_PARTS - 1 else ""
    near = f"; did you mean {meant} {words[1]:.100}?" if meant else ""
    raise click.UsageError(f"give one pod, not {len(words)}: {' '.join(words):.200}{near}")


def has_namespace(name: str) -> bool:
    """Return whether a name of a pod, a group or an owner of pods begins with its namespace.

    >>> [has_namespace(each) for each in ("shop/web-0", "pod/web-0", "job/sort", "shop/job/sort")]
    [True, False, False, True]
    """
    first, slash, rest = without_kind(name).partition("/")
    return bool(slash) and ("/" in rest or not _owner_kind(first))


def _owner_kind(word: str) -> str:
    """Return the kind of an owner, such as that of `deployment.apps`; empty for other words."""
    return _OWNERS.get(word.lower().partition(".")[0], "")


def kind_meant(word: str) -> str:
    """Return the kind of pods, groups or their owners that a misspelt word means; empty: none.

    A word that is no letters alone is a name.

    >>> kind_meant("deploymet"), kind_meant("Jbos"), kind_meant("shop"), kind_meant("job-a")
    ('deployment', 'jobs', '', '')
    """
    kinds = [*_OWNERS, *(each.rstrip("/") for each in _KINDS)]
    near = get_close_matches(word.lower(), kinds, 1, 0.75) if word.isalpha() else []
    return near[0] if near else ""


def owner_named(name: str, namespace: str) -> str:
    """Return `NAMESPACE/KIND/NAME` where a name is that of an owner of pods, else nothing.

    >>> owner_named("deploy/web", "shop"), owner_named("deployment.apps/web", "shop")
    ('shop/Deployment/web', 'shop/Deployment/web')
    >>> owner_named("shop/job/sort", ""), owner_named("shop/RayCluster/big", "")
    ('shop/Job/sort', 'shop/RayCluster/big')
    >>> owner_named("shop/web-0", "shop"), owner_named("job/", "shop"), owner_named("a/b/c", "")
    ('', '', '')
    """
    parts = name.split("/")
    if not all(parts):
        return ""
    if len(parts) == _OWNER_PARTS:
        namespace, word, owner = parts
        kind = _owner_kind(word) or (word if word[0].isupper() else "")
        return f"{namespace}/{kind}/{owner}" if kind else ""
    kind = _owner_kind(parts[0]) if len(parts) == _OWNER_PARTS - 1 else ""
    return f"{namespace}/{kind}/{parts[1]}" if kind else ""


def check_namespace(name: str, given: str | None) -> None:
    """Check that a name does not begin with another namespace than the one that was given.

    Raises:
        click.UsageError: it does.
    """
    own, _, rest = without_kind(name).partition("/")
    if given and given != own and has_namespace(name):
        meant = kind_meant(own) if "/" not in rest else ""
        words = {"name": name[:200], "own": own[:100], "given": given}
        words |= {"meant": meant or "deployment", "rest": rest[:100] if meant else "web"}
        raise click.UsageError(TWO_NAMESPACES.format(**words))


def namespace_for(endpoint: Endpoint, given: str | None) -> str:
    """Return the namespace that was given, else that of the kubeconfig's context, as kubectl."""
    if given:
        return given
    with import_without("rich"):
        from scheduler.client.configuration import selected_namespace

    return selected_namespace(endpoint.kubeconfig, endpoint.context) or "default"


def owner_of_that_name(endpoint: Endpoint, key: str) -> str:
    """Return how to ask about the owner of pods of this name; empty if the scheduler knows none."""
    from scheduler.cli.pod_format import decoded_quietly
    from scheduler.explain.records import WaitingPage

    namespace, _, name = key.partition("/")
    for kind in OWNING:
        owner = f"{namespace}/{kind}/{name}"
        query = {"namespace": namespace, "owner": owner, "placed": "1", "groups": "0"}
        try:
            page: WaitingPage = decoded_quietly(endpoint.get("/debug/waiting", query), WaitingPage)
        except click.ClickException:
            return ""
        if page.selected or page.placed or page.others:
            word = kind.lower()
            return OWNER.format(
                kind=kind, name=name, word=word, namespace=namespace, options=given_scheduler()
            )
    return ""


def node_name(name: str) -> str:
    """Return the name of a node without its kind, which kubectl writes in front.

    >>> node_name("node/n1"), node_name("n1")
    ('n1', 'n1')
    """
    kind, slash, rest = name.partition("/")
    return rest if slash and kind in NODES else name


def no_such_node(endpoint: Endpoint, names: Collection[str], error: CommandError) -> CommandError:
    """Return an error about a node that does not exist, with one that may be meant.

    Args:
        endpoint: what was asked.
        names: the nodes of the question.
        error: the answer, which may be about the pod.
    """
    from scheduler.cli.pod_format import decoded_quietly
    from scheduler.explain.records import NodeList
    from scheduler.explain.records.wording import one_of

    missing = next((each for each in names if f'no node "{each}"' in error.message), "")
    if not missing:
        return error
    try:
        body = endpoint.get("/debug/nodes", {"limit": str(_NODES_LOOKED_AT)})
        page: NodeList = decoded_quietly(body, NodeList)
    except click.ClickException:
        return error
    near = get_close_matches(missing, [each.name for each in page.nodes], n=_NAMED)
    text = f"; did you mean {one_of(near)}?" if near else ""
    return CommandError(error.message + text, error.exit_code)


def no_such_pod(endpoint: Endpoint, key: str, error: CommandError, kind: str = "") -> CommandError:
    """Return an error about a pod that does not exist, with pods that may be meant.

    Args:
        endpoint: what was asked.
        key: `namespace/name`.
        error: the answer.
        kind: of the owner that the name is of; empty: of a pod.
    """
    from scheduler.cli.owner_object import no_namespace
    from scheduler.cli.pod_format import decoded
    from scheduler.explain.records import QueuePage

    namespace, _, name = key.partition("/")
    absent, elsewhere = no_namespace(endpoint, namespace), in_other_namespaces(endpoint, key, kind)
    kind_hint = ""
    if meant := kind_meant(namespace):
        words = {"word": namespace, "meant": meant, "name": name}
        kind_hint = KIND_MEANT.format(options=given_scheduler(), **words)
    if absent or elsewhere:
        text = (absent or error.message) + elsewhere + (kind_hint if absent else "")
        return CommandError(text, error.exit_code)
    try:
        query = {"namespace": namespace, "limit": str(_LOOKED_AT)}
        page: QueuePage = decoded(endpoint.get("/debug/queue", query), QueuePage)
    except CommandError:
        return CommandError(error.message + kind_hint, error.exit_code)
    waiting = [each.name for each in page.pods]
    alike = [each for each in waiting if each.startswith(f"{name}-")]
    alike = alike or get_close_matches(name, waiting, n=_NAMED)
    if not alike:
        elsewhere = ELSEWHERE.format(where=namespace, options=given_scheduler())
        return CommandError(error.message + elsewhere + kind_hint, error.exit_code)
    pods = ", ".join(f"{namespace}/{each}" for each in alike[:_NAMED])
    if len(alike) > _NAMED:
        pods += f" and {len(alike) - _NAMED} more"
    return CommandError(error.message + ALIKE.format(pods=pods), error.exit_code)
