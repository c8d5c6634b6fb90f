"""`kubestow explain`: why a pod, or a pod group, is pending, or why it is where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.exit_codes import NO_SUCH_POD, NOT_PERMITTED, UNREACHABLE, CommandError
from scheduler.cli.hints import given_scheduler
from scheduler.cli.modes import ModalCommand
from scheduler.cli.pod_names import (
    NODES,
    check_namespace,
    namespace_for,
    no_pod_but_node,
    no_such_node,
    no_such_pod,
    node_name,
    one_name,
    owner_named,
    owner_of_that_name,
    without_kind,
)
from scheduler.cli.same_name import in_other_namespaces
from scheduler.sanitizing.escaping import escaped_json

if TYPE_CHECKING:
    from scheduler.explain.records import ExplainPage

LIMITS: Final = {"quick": 3, "all": 20, "none": 1}
"""Remedies that are shown, the least first, by `--remedies`."""
MAX_NODES_ASKED: Final = 10
"""Nodes that one command compares; each is a question to the scheduler."""
SEARCHES: Final = ("quick", "all", "none")
"""As of `RemedySearch`, which is not imported for `--help`."""

WITHOUT_SCHEDULER: Final = (NOT_PERMITTED, UNREACHABLE)
"""Statuses of errors before the scheduler has said anything about the pod."""

HELP: Final = """\
Say why a pod is pending, or why it is on its node; or say it for all pods of a Deployment or Job.

A pending pod: where it stands, why no node takes it, what would wake it, and when it is tried
again at the latest; then what would have to change, the least first, each tried on the live
state (--remedies). A bound pod: the node that was chosen, its total, and by how much each plugin
preferred the next best node. Where a decision is not remembered, the answer says why. A pending
pod of another scheduler: what this one sees, were it to place the pod.

The running scheduler works this out when asked, from what it knows at that moment; nothing is
scheduled, evicted or remembered. Reserve and Permit are not tried.

An owner of pods (deployment/web, job/sort, NAMESPACE/KIND/NAME): how many pods have a node, and how
many wait; pods that wait for the same are explained once, by the one that has waited longest. Pods
that name another scheduler are counted. If it has no pods, the cluster is asked whether it exists.

For a pod in a pod group, the group comes first: its members by state, its last attempt and the next
one, for how many of its pods there is room, by template, resource and topology domain, and what is
evicted or kept for it. --group shows this alone.

With -v, tables: for nodes that reject the pod, the first plugin that does, and its reasons; for
nodes where it fits, the score of each plugin, as `raw>normalized` if the two differ. The total is
the sum of normalized scores times weights. A cycle would take the node with the highest total. For
a bound pod, the scores are those of the best nodes when it was placed.

The leader is found by its Lease and asked through the API server, as the user of your kubeconfig.

\b
Examples:
  kubestow explain default/web-0
  kubestow explain deployment/web -n shop       all its pods, by what they wait for
  kubestow explain web-0 -n shop -v             with tables: nodes, reasons, scores
  kubestow explain default/web-0 --node n7      why not n7, and what it lacks; --node n8 as well
  kubestow explain default/web-0 --history      every attempt that is remembered
  kubestow explain --group team-a/train         a pod group
"""


@click.command("explain", cls=ModalCommand, help=HELP, short_help="Show why a pod is where it is.")
@click.argument("pod", metavar="[NAMESPACE/]POD|KIND/NAME", nargs=-1, callback=one_name)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    help="Namespace of a name given without one. Default: that of the kubeconfig's context, or "
    "default.",
)
@click.option(
    "--group", metavar="[NAMESPACE/]NAME", default="", help="Explain this pod group, and no pod."
)
@click.option(
    "--node",
    metavar="NAME",
    multiple=True,
    help="Compare this node with the chosen one; of a pending pod, say why it is rejected. May be "
    "given several times.",
)
@click.option(
    "--remedies",
    type=click.Choice(SEARCHES),
    default="quick",
    show_default=True,
    help="Changes that would let a pending pod be placed. quick: up to 3, found within 0.3 s; all: "
    "up to 20, found within 5 s; none.",
)
@click.option("--history", is_flag=True, help="Show the attempts that are remembered.")
@click.option("--verbose", "-v", is_flag=True, help="Show tables of nodes, reasons and scores.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="Feasible nodes shown with their scores, best first.",
)
@click.option(
    "--examples",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="Nodes named for each reason of a rejection.",
)
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@endpoint_options
def command(  # noqa: PLR0913 - one argument per option
    *,
    endpoint: Endpoint,
    pod: str,
    namespace: str | None,
    group: str,
    node: tuple[str, ...],
    remedies: str,
    history: bool,
    verbose: bool,
    nodes: int,
    examples: int,
    output: str,
) -> None:
    """Show where a pod, or a group, stands."""
    pod, group = without_kind(pod), without_kind(group)
    if bool(pod) is bool(group):
        raise click.UsageError(
            "give either a pod or --group, or all pods of an owner as KIND/NAME; "
            f"`kubestow queue{given_scheduler()}` lists the pods that wait"
        )
    check_namespace(group or pod, namespace)
    namespace = namespace_for(endpoint, namespace)
    if group:
        _explain_group(endpoint, _key(group, namespace, "NAME", "--group"), output)
        return
    query = {"nodes": str(nodes), "examples": str(examples)}
    names = list(dict.fromkeys(node_name(each) for each in node))
    if len(names) > (MAX_NODES_ASKED if output == "table" else 1):
        limit = f"at most {MAX_NODES_ASKED} nodes, and 1 with -o json"
        raise click.UsageError(f"--node compares {limit}; {len(names)} are given")
    # The answer to this question is the report about the node.
    if not names:
        query |= {"remedies": remedies, "limit": str(LIMITS[remedies])}
    shown: dict[str, Any] = {"history": history, "verbose": verbose, "search": remedies}
    if owner := owner_named(pod, namespace):
        if node:
            raise click.UsageError(f"--node compares a node for one pod, and {pod} has several")
        _explain_owner(endpoint, owner, query, output, shown)
        return
    key = _key(pod, namespace, "POD", "'POD'")
    try:
        body, *others = [
            endpoint.get("/debug/explain", {"pod": key, **query, **asked})
            for asked in ([{"node": each} for each in names] or [{}])
        ]
    except CommandError as error:
        if error.exit_code not in {*WITHOUT_SCHEDULER, NO_SUCH_POD}:
            raise
        raise _unanswered(endpoint, key, names, error) from error
    if output == "json":
        click.echo(escaped_json(body), nl=False)
        return
    from scheduler.cli.explanation import show
    from scheduler.cli.pod_format import decoded
    from scheduler.cli.tables import wide_console
    from scheduler.explain.records import ExplainPage

    page: ExplainPage = decoded(body, ExplainPage)
    more: list[ExplainPage] = [decoded(each, ExplainPage) for each in others]
    show(page, wide_console(), more_nodes=more, node=bool(names), **shown)


def _unanswered(
    endpoint: Endpoint, key: str, nodes: list[str], error: CommandError
) -> CommandError:
    """Return the error of a question about a pod, with what the user may have meant."""
    if error.exit_code in WITHOUT_SCHEDULER:
        from scheduler.cli.stored_condition import stored_condition

        return CommandError(error.message + stored_condition(endpoint, key), error.exit_code)
    if nodes:
        return no_such_node(endpoint, nodes, error)
    namespace, _, name = key.partition("/")
    text = f"\n{no_pod_but_node(name)}" if namespace in NODES else ""
    if text := text or owner_of_that_name(endpoint, key):
        return CommandError(f"{error.message}{text}", NO_SUCH_POD)
    return no_such_pod(endpoint, key, error)


def _key(name: str, namespace: str, noun: str, option: str) -> str:
    """Return a name with its namespace.

    Raises:
        click.BadParameter: it is no name.
    """
    if name.count("/") > 1 or not all(name.split("/")):
        msg = f"{name!r}: write NAMESPACE/{noun}, or {noun} alone"
        if noun == "POD":
            msg += "; an owner of pods is written shop/Deployment/web"
        raise click.BadParameter(msg, param_hint=option)
    return name if "/" in name else f"{namespace}/{name}"


def _explain_owner(
    endpoint: Endpoint, owner: str, query: dict[str, str], output: str, shown: dict[str, Any]
) -> None:
    import msgspec

    from scheduler.cli import owner_explanation, owner_object
    from scheduler.cli.tables import wide_console

    page = owner_explanation.ask(endpoint, owner, query)
    if page.groups or page.placed or page.others:
        found = owner_object.read(endpoint, page)
        lacking = owner_object.lacking(endpoint, found, page)
        rollout = owner_object.rollout(found, page)
        cured = rollout or shown["search"] == "none"
        fewer = "" if cured else owner_object.fewer(found, page)
    else:
        fewer, lacking, rollout = "", _without_pods(endpoint, owner), ""
    page = msgspec.structs.replace(page, lacking=lacking, fewer=fewer, rollout=rollout)
    if output == "json":
        click.echo(escaped_json(msgspec.json.encode(page)))
        return
    owner_explanation.show(page, wide_console(), **shown)


def _without_pods(endpoint: Endpoint, owner: str) -> str:
    """Say why an owner has no pods.

    Raises:
        CommandError: it does not exist, or nothing is known of it.
    """
    from scheduler.cli import owner_explanation, owner_object

    namespace, kind, name = owner.split("/")
    try:
        text = owner_object.about(endpoint, owner)
    except CommandError as error:
        elsewhere = in_other_namespaces(endpoint, f"{namespace}/{name}", kind)
        raise CommandError(error.message + elsewhere, NO_SUCH_POD) from error
    if not text:
        unknown = owner_explanation.no_pods(owner)
        raise no_such_pod(endpoint, f"{namespace}/{name}", unknown, kind)
    return text


def _explain_group(endpoint: Endpoint, key: str, output: str) -> None:
    try:
        body = endpoint.get("/debug/gang", {"name": key})
    except CommandError as error:
        from scheduler.cli.owner_object import no_namespace

        absent = error.exit_code == NO_SUCH_POD and no_namespace(endpoint, key.partition("/")[0])
        if not absent:
            raise
        raise CommandError(absent, NO_SUCH_POD) from error
    if output == "json":
        click.echo(escaped_json(body), nl=False)
        return
    from scheduler.cli.group_explanation import show_group
    from scheduler.cli.pod_format import decoded
    from scheduler.cli.tables import wide_console
    from scheduler.explain.records import GroupPage

    page: GroupPage = decoded(body, GroupPage)
    for group in page.groups:
        show_group(group, page.now, wide_console())
