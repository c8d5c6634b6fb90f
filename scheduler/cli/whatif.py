"""`kubestow whatif`: would a pod fit, if something were different."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.exit_codes import DOES_NOT_FIT, NO_SUCH_POD, CommandError
from scheduler.cli.manifests import documents, named
from scheduler.cli.modes import ModalCommand
from scheduler.cli.pod_format import decoded, one_line
from scheduler.cli.pod_names import (
    check_namespace,
    namespace_for,
    no_such_pod,
    one_name,
    owner_named,
    without_kind,
)
from scheduler.cli.tables import say, wide_console
from scheduler.sanitizing.escaping import escaped_json

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.explain.records import Change, NodeToAdd, WhatIfQuestion, WhatIfResult

HELP: Final = """\
Say whether a pod would fit, and where, if something were different.

The running scheduler tries it on its own state, between its other work, and takes everything back:
nothing is scheduled, evicted or reserved. Without changes it says where the pod would go now.

\b
  kubestow whatif default/web-0 --add-node cpu=16,memory=64Gi,label.zone=b
  kubestow whatif default/web-0 --set cpu=2 --cordon zone=a
  kubestow whatif -f pod.yaml --copies 20
  kubestow whatif default/web-0 --drop-node n7 --remove-pod default/old
  kubestow whatif default/web-0 --add rack.yaml

NODE is a name, or KEY=VALUE,... that selects nodes by their labels. SPEC is a list of amounts, and
any of name=, like=NODE, count=, label.KEY=VALUE, taint=KEY=VALUE:EFFECT. What it leaves open is as
on NODE; without one a node has cpu=4,memory=16Gi,pods=110. FIELD is cpu, memory, another resource
of the first container, a path such as spec.priority, spec.containers[1].image or
spec.nodeSelector.topology.kubernetes.io/zone, or a JSON pointer; an empty VALUE removes it.

For the manifest of a controller, as many copies are placed as it has pods at the same time:
spec.replicas, for a Job parallelism and completions, for a DaemonSet one. --copies changes that.

Exits with 0 if the pod (all copies) would fit, 3 if not.
"""
COPIES: Final = "copies"
NO_OWNER: Final = (
    "{name} is an owner of pods, and the question is about one pod: give a pod, or the manifest of "
    "the owner with -f, about all its replicas; `kubestow explain` takes owners"
)
TOO_MANY: Final = (
    "{source}: {field} is {number}, and a question may place {most} copies: ask about fewer with "
    "--copies, or count all that fit with `kubestow simulate --how-many-fit`"
)
OF_DAEMON_SET: Final = (
    "a DaemonSet makes a pod for each node; the answer is about one pod, on any of them"
)
SHOWN_NODES: Final = 12
SHOWN_VICTIMS: Final = 8
_RESOURCE: Final = re.compile(
    r"cpu|memory|ephemeral-storage|hugepages-\w+|[^/.\[\]]+(\.[^/\[\]]+)*/.+"
)

_IN_MAP: Final = re.compile(
    r"\.(nodeSelector|labels|annotations|matchLabels|requests|limits|overhead)\.(.+)"
)
"""A key of a map of texts or amounts, in a path: all the rest is the key, which may have dots."""
_WITHOUT_ABOVE: Final = re.compile(r"(nodeSelector|labels|annotations|overhead)\.", re.IGNORECASE)
"""The beginning of a path without `spec` or `metadata`; with a slash it looks like a resource."""
POINTER: Final = (
    "'{field}': a key with a slash is written in a JSON pointer, with ~1 for the slash, such as "
    "/spec/nodeSelector/topology.kubernetes.io~1zone=b"
)
NO_AMOUNT: Final = (
    "{resource} is taken for a resource, and '{amount}' is no amount of it; a label of the node is "
    "spec.nodeSelector.{resource}, one of the pod metadata.labels.{resource}"
)
_KEYS: Final = {
    "name": "name=NAME",
    "like": "like=NODE",
    "count": "count=NUMBER",
    "taint": "taint=KEY=VALUE:EFFECT",
    "label": "label.KEY=VALUE",
}
"""Keys of a SPEC besides amounts, and how each is written."""

FILE: Final = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.command(
    "whatif", cls=ModalCommand, help=HELP, short_help="Say whether a pod would fit after a change."
)
@click.argument("pod", metavar="[NAMESPACE/]POD", nargs=-1, callback=one_name)
@click.option(
    "--namespace", "-n", metavar="NAME",
    help="Namespace of a POD given without one. Default: that of the kubeconfig's context, or "
    "default.",
)  # fmt: skip
@click.option(
    "--filename", "-f", type=FILE, metavar="FILE",
    help="Manifest of a pod that does not exist, or of a controller with a pod template; - reads "
    "standard input.",
)  # fmt: skip
@click.option("--add-node", multiple=True, metavar="SPEC", help="Add a node.")
@click.option("--drop-node", multiple=True, metavar="NODE", help="Remove nodes with their pods.")
@click.option(
    "--add", multiple=True, type=FILE, metavar="FILE",
    help="Add or replace the objects of a manifest: claims, classes, custom resources that a "
    "plugin reads.",
)  # fmt: skip
@click.option("--cordon", multiple=True, metavar="NODE", help="Make nodes unschedulable.")
@click.option("--remove-pod", multiple=True, metavar="NAMESPACE/POD", help="Remove a pod.")
@click.option("--set", "fields", multiple=True, metavar="FIELD=VALUE", help="Change the pod.")
@click.option(
    "--copies", type=click.IntRange(1, 100),
    help="How many of the pod to place. Default: as many as the controller of -f makes, else 1.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0.1, 30), default=5.0, show_default=True,
    help="Time for the answer.",
)  # fmt: skip
@click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@endpoint_options
def command(
    *, endpoint: Endpoint, pod: str, namespace: str | None, filename: Any, output: str, **asked: Any
) -> None:
    """Ask, print the answer, and exit with 3 if it is no."""
    import msgspec

    from scheduler.explain.records import WhatIfResult

    pod = without_kind(pod)
    if bool(pod) == (filename is not None):
        raise click.UsageError("give either a pod or -f FILE")
    if owner_named(pod, "x"):
        raise click.UsageError(NO_OWNER.format(name=pod[:200]))
    if not asked["add"]:
        check_namespace(pod, namespace)
    namespace = namespace_for(endpoint, namespace)
    key = "" if not pod else pod if "/" in pod else f"{namespace}/{pod}"
    manifest, noun = None, COPIES
    if filename is not None:
        found = _manifest(filename)
        manifest = pod_manifest(found, namespace, named(filename))
        if asked["copies"] is None:
            asked["copies"], noun = _wanted(found, named(filename))
    question = _question(key, manifest, asked, namespace)
    asking = msgspec.json.encode(question)
    try:
        body = endpoint.post("/debug/whatif", asking, timeout=question.seconds + 30.0)
    except CommandError as error:
        if error.exit_code != NO_SUCH_POD or not key:
            raise
        raise no_such_pod(endpoint, key, error) from error
    page: WhatIfResult = decoded(body, WhatIfResult)
    if output == "json":
        click.echo(escaped_json(body), nl=False)
    else:
        show(page, question.copies, wide_console(), noun)
    if not page.fits:
        raise SystemExit(DOES_NOT_FIT)


def show(page: WhatIfResult, copies: int, console: Console, noun: str = COPIES) -> None:
    """Print the answer for people; `noun` names the copies that were asked about."""
    for line in _lines(page, copies, noun):
        text = line.lstrip(" ")
        say(console, text, indent=len(line) - len(text))


def _lines(page: WhatIfResult, copies: int, noun: str) -> list[str]:
    found = [_verdict(page, copies, noun)]
    if copies > 1 and page.by_node:
        shown = list(page.by_node.items())[:SHOWN_NODES]
        more = len(page.by_node) - len(shown)
        text = ", ".join(f"{one_line(node)} {count}" for node, count in shown)
        found.append(f"  on {text}{f' and {more} more nodes' if more else ''}")
    if not page.fits and (page.why or page.message):
        found.append(f"  {one_line(page.why or page.message)}")
    if page.victims:
        victims = ", ".join(one_line(each) for each in page.victims[:SHOWN_VICTIMS])
        more = len(page.victims) - SHOWN_VICTIMS
        found.append(
            f"  preemption would evict {victims}{f' and {more} more' if more > 0 else ''} "
            f"from {one_line(page.preemption_node)}"
        )
    if not page.complete:
        found.append("  the time was over before the answer was complete")
    if page.changed:
        found.append("  the cluster changed meanwhile; ask again to be sure")
    version = one_line(page.resource_version) or "?"
    found.append(
        "nothing is reserved: this holds while the cluster stays as it is (resourceVersion "
        f"{version})"
    )
    found += [f"note: {one_line(each)}" for each in page.notes]
    return found


def _verdict(page: WhatIfResult, copies: int, noun: str) -> str:
    from scheduler.explain.records.wording import counted

    pod, node = one_line(page.pod), one_line(page.node)
    if copies > 1:
        least = "" if page.complete else "at least "
        return f"{least}{page.copies} of {copies} {noun} of {pod} would fit"
    if page.fits:
        return f"{pod} would go to {node}, {_among(page.feasible, page.nodes)}"
    if not page.complete:
        return f"{pod}: not known"
    return f"{pod} would fit on none of {counted(page.nodes, 'node')}"


def _among(feasible: int, nodes: int) -> str:
    """Say how many nodes fit.

    >>> _among(1, 40), _among(24, 40)
    ('the only one of 40 nodes that fits', 'one of 24 that fit, of 40 nodes')
    """
    from scheduler.explain.records.wording import counted

    if feasible == 1:
        return f"the only one of {counted(nodes, 'node')} that fits"
    return f"one of {feasible} that fit, of {counted(nodes, 'node')}"


# -- the question --------------------------------------------------------------------------------


def _question(
    pod: str, manifest: dict[str, Any] | None, asked: dict[str, Any], namespace: str
) -> WhatIfQuestion:
    from scheduler.explain.records import WhatIfQuestion

    return WhatIfQuestion(
        pod=pod,
        manifest=manifest,
        fields=dict(field_of(each) for each in asked["fields"]),
        add_nodes=[node_of(each) for each in asked["add_node"]],
        drop_nodes=list(asked["drop_node"]),
        cordon=list(asked["cordon"]),
        remove_pods=list(asked["remove_pod"]),
        changes=[change for file in asked["add"] for change in _additions(file, namespace)],
        copies=asked["copies"] or 1,
        seconds=asked["seconds"],
    )


def _manifest(file: str) -> Any:
    found = documents(file, "-f")
    if len(found) != 1:
        text = f"{named(file)} has {len(found)} objects; give one"
        raise click.BadParameter(text, param_hint="'-f'")
    return found[0]


def _wanted(found: Any, source: str) -> tuple[int, str]:
    """Return how many copies a manifest asks for, and what they are; say what that leaves out."""
    from scheduler.api.pod_templates import NoPodError, pod_count
    from scheduler.explain.records.what_if import MAX_COPIES

    try:
        count = pod_count(found)
    except NoPodError as error:
        text = f"{source} {one_line(str(error))}"
        raise click.BadParameter(text, param_hint="'-f'") from error
    if count.number > MAX_COPIES:
        raise click.BadParameter(
            TOO_MANY.format(source=source, field=count.field, number=count.number, most=MAX_COPIES),
            param_hint="'-f'",
        )
    if found.get("kind") == "DaemonSet":
        click.echo(f"{source}: {OF_DAEMON_SET}", err=True)
    elif not count.number:
        click.echo(f"{source}: {count.field} is 0; the answer is about one pod", err=True)
    noun = "replicas" if count.field.endswith(".replicas") else "pods"
    return max(1, count.number), noun


def _additions(file: str, namespace: str) -> list[Change]:
    return additions(documents(file, "--add"), namespace, named(file))


def additions(documents: list[Any], namespace: str, source: str) -> list[Change]:
    """Return the additions of all objects of a manifest.

    `namespace` is that of pods and claims that name none; objects of other kinds keep theirs.

    >>> rack = {"apiVersion": "example.com/v1", "kind": "Rack", "metadata": {"name": "r1"}}
    >>> [change] = additions([rack], "default", "rack.yaml")
    >>> change.action, change.kind, change.name
    ('add', 'Rack', 'r1')
    """
    from scheduler.explain.records import Change

    found = []
    for each in documents:
        metadata = each.get("metadata") if isinstance(each, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not name or not each.get("kind"):
            text = f"{source}: an object has no kind or no metadata.name"
            raise click.BadParameter(text, param_hint="'--add'")
        if each["kind"] in ("Pod", "PersistentVolumeClaim", "ResourceClaim"):
            metadata = {"namespace": namespace, **metadata}
        own = metadata.get("namespace")
        key = f"{own}/{name}" if own else str(name)
        found.append(Change("add", str(each["kind"]), key, value={**each, "metadata": metadata}))
    return found


def pod_manifest(found: Any, namespace: str, source: str, option: str = "-f") -> dict[str, Any]:
    """Return the pod of a manifest (`scheduler.api.pod_templates`); say what it does not have.

    >>> pod_manifest({"kind": "Pod", "metadata": {"name": "a"}}, "x", "f")["metadata"]
    {'name': 'a', 'namespace': 'x'}
    """
    from scheduler.api.pod_templates import NoPodError, pod_of

    try:
        made = pod_of(found)
    except NoPodError as error:
        text = f"{source} {one_line(str(error))}"
        raise click.BadParameter(text, param_hint=f"'{option}'") from error
    if made.left_out:
        click.echo(f"{source}: {made.left_out}", err=True)
    metadata = made.pod["metadata"]
    metadata["namespace"] = metadata.get("namespace") or namespace
    return made.pod


def field_of(text: str) -> tuple[str, Any]:
    """Return the JSON pointer and the value of `FIELD=VALUE`.

    >>> field_of("cpu=2"), field_of("spec.containers[1].image=a:b")
    (('/spec/containers/0/resources/requests/cpu', 2), ('/spec/containers/1/image', 'a:b'))
    >>> field_of("spec.nodeSelector="), field_of("/metadata/labels/a~1b=x")
    (('/spec/nodeSelector', None), ('/metadata/labels/a~1b', 'x'))
    >>> field_of("spec.nodeSelector.topology.kubernetes.io/zone=b")
    ('/spec/nodeSelector/topology.kubernetes.io~1zone', 'b')
    """
    import yaml

    field, equals, value = text.partition("=")
    if not equals or not field:
        raise click.BadParameter(f"{text!r}: write FIELD=VALUE", param_hint="'--set'")
    try:
        parsed = yaml.safe_load(value) if value else None
    except yaml.YAMLError as error:
        raise click.BadParameter(
            f"{text!r}: {one_line(str(error))}", param_hint="'--set'"
        ) from error
    if field.startswith("/"):
        return field, parsed
    is_path = field.startswith(("spec.", "metadata.")) or _WITHOUT_ABOVE.match(field)
    if _RESOURCE.fullmatch(field) and not is_path:
        if fault := _fault_of_request(field, parsed if isinstance(parsed, str) else value):
            raise click.BadParameter(one_line(fault), param_hint="'--set'")
        return f"/spec/containers/0/resources/requests/{_escaped(field)}", parsed
    if not field.startswith(("spec.", "metadata.")):
        near = f"did you mean {_field_like(field)}? Else " if _field_like(field) else ""
        raise click.BadParameter(
            f"{field!r}: {near}write cpu, memory, spec.… or metadata.…, or a JSON pointer",
            param_hint="'--set'",
        )
    above, of_map, key = field, "", ""
    if found := _IN_MAP.search(field):
        above, of_map, key = field[: found.start()], found[1], found[2]
    if "/" in above:
        raise click.BadParameter(POINTER.format(field=field[:200]), param_hint="'--set'")
    parts = [*re.sub(r"\[(\d+)\]", r".\1", above).split("."), of_map, key]
    return "".join(f"/{_escaped(part)}" for part in parts if part), parsed


def _fault_of_request(resource: str, amount: str) -> str:
    """Return why a container cannot request this; empty: it can, or the request is removed.

    >>> _fault_of_request("example.com/rack", "b").partition(";")[0]
    "example.com/rack is taken for a resource, and 'b' is no amount of it"
    """
    from scheduler.api.node_amounts import amount_fault

    fault = amount_fault(resource, amount) if amount else ""
    if not fault or "/" not in resource:
        return fault
    return NO_AMOUNT.format(resource=resource[:80], amount=amount[:40])


def _escaped(key: str) -> str:
    """Return a key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _field_like(field: str) -> str:
    """Return the path of a field of a pod that is named without `spec` or `metadata`, or nearly."""
    import msgspec

    from scheduler.api.meta import ObjectMeta
    from scheduler.api.pod import PodSpec

    first, dot, rest = re.sub(r"\[", ".[", field).partition(".")
    known = {
        each.encode_name: under
        for under, kind in (("metadata", ObjectMeta), ("spec", PodSpec))
        for each in msgspec.structs.fields(kind)
    }
    near = get_close_matches(first, known, 1)
    return f"{known[near[0]]}.{near[0]}{dot}{rest}".replace(".[", "[") if near else ""


def _fault_of_amount(key: str, value: str) -> str:
    """Return why this is no amount of a node, nor another key of a SPEC; empty: it is one."""
    from scheduler.api.node_amounts import amount_fault, name_fault, nearest

    fault = name_fault(key)
    if fault and not nearest(key):
        near = get_close_matches(key.partition(".")[0], _KEYS, 1)
        if near:
            return f"{key!r:.80} is unknown; did you mean {_KEYS[near[0]]}?"
    return fault or amount_fault(key, value)


def node_of(text: str) -> NodeToAdd:
    """Return the node of a SPEC.

    >>> node = node_of("like=n3,cpu=16,label.zone=b,taint=gpu=x:NoSchedule,count=2")
    >>> node.like, node.resources, node.labels, node.taints, node.count
    ('n3', {'cpu': '16'}, {'zone': 'b'}, ['gpu=x:NoSchedule'], 2)
    """
    from scheduler.explain.records import NodeToAdd

    plain: dict[str, str] = {}
    resources: dict[str, str] = {}
    labels: dict[str, str] = {}
    taints: list[str] = []
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or not key or not value:
            raise click.BadParameter(f"{part!r}: write KEY=VALUE", param_hint="'--add-node'")
        if key.startswith("label."):
            labels[key.removeprefix("label.")] = value
        elif key == "taint":
            taints.append(value)
        elif key in ("name", "like", "count"):
            plain[key] = value
        elif fault := _fault_of_amount(key, value):
            raise click.BadParameter(one_line(fault), param_hint="'--add-node'")
        else:
            resources[key] = value
    count = plain.get("count", "1")
    if not (count.isascii() and count.isdecimal() and len(count) < 6):
        raise click.BadParameter(
            f"count={count!r:.40}: write a number up to 99999", param_hint="'--add-node'"
        )
    return NodeToAdd(
        name=plain.get("name", "new-node"),
        like=plain.get("like", ""),
        resources=resources,
        labels=labels,
        taints=taints,
        count=int(count),
    )
