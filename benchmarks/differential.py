"""`python -m benchmarks.differential`: one random cluster, scheduled by each scheduler in turn.

The same nodes and pods, drawn from a seed, are created on a fresh control plane for each scheduler,
all pods before it starts. Once nothing changes any more, the results are compared: how many pods
have a node, the message of each pod that has none, and how good the placement is. Both schedulers
break ties at random, so placements differ; the pods that fit nowhere and their messages must not.

A pod is *hopeless* when no node could take it even in the empty cluster: its message does not
depend on where other pods went and must be equal to the letter.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.audit import overfilled
from benchmarks.schedulers import OURS, SCHEDULERS, Scheduler
from benchmarks.templates import HOSTNAME, IMAGE, ZONE, Object
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane
from scheduler.api.quantity import milli_value

NAMESPACE: Final = "default"
_ZONES: Final = ("a", "b", "c")
_QUIET_SECONDS: Final = 4.0
_TIMEOUT_SECONDS: Final = 300.0


# -- the random world ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one template."""

    name: str
    pods: tuple[Object, ...]
    hopeless: bool


@dataclass(frozen=True, slots=True)
class World:
    """Objects to create."""

    nodes: tuple[Object, ...]
    workloads: tuple[Workload, ...]


def draw(seed: int, nodes: int, workloads: int) -> World:
    """A cluster of three zones with nodes of unequal size, and workloads with unequal wishes."""
    source = random.Random(seed)
    return World(
        tuple(_node(source, index) for index in range(nodes)),
        tuple(_workload(source, index, nodes) for index in range(workloads)),
    )


def _node(source: random.Random, index: int) -> Object:
    name = f"node-{index:04d}"
    cpu = source.choice((2, 4, 4, 8, 16))
    resources = {"cpu": str(cpu), "memory": f"{cpu * source.choice((2, 4, 8))}Gi", "pods": "30"}
    labels = {HOSTNAME: name, ZONE: source.choice(_ZONES), "disk": source.choice(("ssd", "hdd"))}
    spec: Object = {}
    if source.random() < 0.15:
        spec["taints"] = [
            {
                "key": "dedicated",
                "value": source.choice(("gpu", "batch")),
                "effect": source.choice(("NoSchedule", "PreferNoSchedule")),
            }
        ]
    if source.random() < 0.05:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _workload(source: random.Random, index: int, nodes: int) -> Workload:
    name = f"work-{index:03d}"
    hopeless = source.random() < 0.2
    replicas = source.randint(1, 3) if hopeless else source.randint(1, max(2, nodes // 4))
    spec = _spec(source, name)
    if hopeless:
        _make_hopeless(source, spec)
    pods = tuple(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number:03d}", "labels": {"app": name}},
            "spec": spec,
        }
        for number in range(replicas)
    )
    return Workload(name, pods, hopeless)


def _spec(source: random.Random, name: str) -> Object:
    requests = {
        "cpu": f"{source.choice((50, 100, 250, 500, 1000))}m",
        "memory": f"{source.choice((64, 128, 512, 1024))}Mi",
    }
    container: Object = {"name": "c", "image": IMAGE, "resources": {"requests": requests}}
    spec: Object = {"containers": [container]}
    selector = {"matchLabels": {"app": name}}
    if source.random() < 0.2:
        spec["nodeSelector"] = {"disk": source.choice(("ssd", "hdd"))}
    if source.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if source.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": source.choice((8080, 9090))}]
    if source.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": source.randint(1, 3),
                "topologyKey": source.choice((ZONE, HOSTNAME)),
                "whenUnsatisfiable": source.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": selector,
            }
        ]
    if source.random() < 0.3:
        spec["affinity"] = _affinity(source, selector)
    return spec


def _affinity(source: random.Random, selector: Object) -> Object:
    kind = source.choice(("podAffinity", "podAntiAffinity"))
    term = {"labelSelector": selector, "topologyKey": HOSTNAME}
    if kind == "podAffinity":
        term["topologyKey"] = ZONE
    if source.random() < 0.5:
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": source.randint(1, 100), "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def _make_hopeless(source: random.Random, spec: Object) -> None:
    """Make a spec fit nowhere, for a reason that other pods have no part in.

    What looks at other pods is taken away, because which node it rejects first depends on them.
    """
    for name in ("topologySpreadConstraints", "affinity"):
        spec.pop(name, None)
    spec["containers"][0].pop("ports", None)
    if source.random() < 0.5:
        spec["containers"][0]["resources"]["requests"]["cpu"] = "64"
    else:
        spec["nodeSelector"] = {"disk": "tape"}


# -- the placement of one scheduler ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placement:
    """Result of scheduling one world with one scheduler."""

    contender: str
    nodes: tuple[Object, ...]
    #: Every pod by name, as the API server has it in the end.
    pods: dict[str, Object] = field(repr=False)

    def node_of(self, name: str) -> str:
        """Return the node of a pod, "" if it has none."""
        return str(self.pods[name]["spec"].get("nodeName", ""))

    def message(self, name: str) -> str:
        """Return the message of the pod's PodScheduled condition."""
        for condition in self.pods[name].get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled":
                return str(condition.get("message", ""))
        return ""


def schedule(world: World, contender: Scheduler) -> Placement:
    """Create the world on a fresh control plane and return the scheduler's placement."""
    options = ApiServerOptions(
        disabled_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "Priority")
    )
    with ControlPlane(options=options) as control_plane:
        admin = control_plane.admin
        for node in world.nodes:
            admin.request("POST", "/api/v1/nodes", node)
        for workload in world.workloads:
            for pod in workload.pods:
                named = {**pod["spec"], "schedulerName": contender.scheduler_name}
                admin.request(
                    "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {**pod, "spec": named}
                )
        contender.start(control_plane)
        pods = _settled(control_plane)
        nodes: Any = admin.request("GET", "/api/v1/nodes")
    return Placement(contender.label, tuple(nodes["items"]), pods)


def _settled(control_plane: ControlPlane) -> dict[str, Object]:
    """All pods, once every one was tried and nothing has been bound for a while."""
    started = changed = time.monotonic()
    before = None
    while True:
        response: Any = control_plane.admin.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")
        pods = {each["metadata"]["name"]: each for each in response["items"]}
        tried = all(each["status"].get("conditions") for each in pods.values())
        bound = sum("nodeName" in each["spec"] for each in pods.values())
        now = time.monotonic()
        if bound != before or not tried:
            before, changed = bound, now
        if now - changed >= _QUIET_SECONDS:
            return pods
        if now - started > _TIMEOUT_SECONDS:
            raise RuntimeError(f"pods keep changing after {_TIMEOUT_SECONDS} s")
        time.sleep(0.5)


# -- quality ---------------------------------------------------------------------------------------


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of a placement."""

    contender: str
    pods: int
    placed: int
    #: Standard deviation over nodes of the share of CPU and of memory in use; lower is more even.
    cpu_spread: float
    memory_spread: float
    #: Mean over workloads with a soft constraint of the largest difference between domains.
    soft_skew: float
    #: Mean share of the pods with a preference for the company of their kind that have it.
    preferred: float
    #: What must not be: overfilled nodes, hard constraints violated.
    violations: tuple[str, ...]


def evaluate(world: World, placement: Placement) -> Quality:
    """Measure a placement."""
    names = [pod["metadata"]["name"] for workload in world.workloads for pod in workload.pods]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in placement.nodes}
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        for resource, amount in _requests(placement.pods[name]).items():
            used[placement.node_of(name)][resource] += milli_value(amount)
    soft: list[float] = []
    wishes: list[float] = []
    violations = [
        f"{name} overfilled" for name in overfilled(placement.nodes, placement.pods.values())
    ]
    for workload in world.workloads:
        places = [labels[node] for pod in workload.pods if (node := _node_of(placement, pod))]
        spec = workload.pods[0]["spec"]
        for constraint in spec.get("topologySpreadConstraints", ()):
            skew = _skew(constraint, places, labels.values())
            if constraint["whenUnsatisfiable"] == "ScheduleAnyway":
                soft.append(skew)
        violations += _violated(workload, places)
        wishes += _wishes(spec, places)
    return Quality(
        contender=placement.contender,
        pods=len(names),
        placed=sum(bool(placement.node_of(name)) for name in names),
        cpu_spread=_deviation(placement.nodes, used, "cpu"),
        memory_spread=_deviation(placement.nodes, used, "memory"),
        soft_skew=fmean(soft) if soft else 0.0,
        preferred=fmean(wishes) if wishes else 1.0,
        violations=tuple(violations),
    )


def _requests(pod: Object) -> dict[str, str]:
    return dict(pod["spec"]["containers"][0]["resources"]["requests"])


def _node_of(placement: Placement, pod: Object) -> str:
    return placement.node_of(pod["metadata"]["name"])


def _deviation(nodes: Sequence[Object], used: dict[str, Counter[str]], resource: str) -> float:
    return pstdev(
        used[node["metadata"]["name"]][resource]
        / milli_value(node["status"]["allocatable"][resource])
        for node in nodes
        if not node["spec"].get("unschedulable")
    )


def _skew(constraint: Object, places: Sequence[Object], every: Any) -> int:
    key = constraint["topologyKey"]
    counts = Counter(place[key] for place in places)
    return max(counts.values(), default=0) - min(counts[labels[key]] for labels in every)


def _violated(workload: Workload, places: Sequence[Object]) -> list[str]:
    affinity = workload.pods[0]["spec"].get("affinity", {})
    hosts = Counter(place[HOSTNAME] for place in places)
    zones = {place[ZONE] for place in places}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if required in affinity.get("podAntiAffinity", {}) and max(hosts.values(), default=0) > 1:
        return [f"{workload.name}: two pods on a host against their anti-affinity"]
    if required in affinity.get("podAffinity", {}) and len(zones) > 1:
        return [f"{workload.name}: pods in {len(zones)} zones against their affinity"]
    return []


def _wishes(spec: Object, places: Sequence[Object]) -> list[float]:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = spec.get("affinity", {})
    if not places:
        return []
    if preferred in affinity.get("podAffinity", {}):
        return [max(Counter(place[ZONE] for place in places).values()) / len(places)]
    if preferred in affinity.get("podAntiAffinity", {}):
        return [len({place[HOSTNAME] for place in places}) / len(places)]
    return []


# -- comparison ------------------------------------------------------------------------------------


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Difference between two results for one world."""

    seed: int
    #: Pods placed: ours, theirs.
    placed: tuple[int, int]
    #: Messages of hopeless pods: compared, and those that are not equal (pod, ours, theirs).
    compared: int
    unequal: tuple[tuple[str, str, str], ...]
    #: Of pods that neither side placed: how many, and whose reasons (without numbers) differ.
    unplaced_by_both: int
    other_reasons: tuple[tuple[str, str, str], ...]
    quality: tuple[Quality, Quality]


def compare(seed: int, world: World, ours: Placement, theirs: Placement) -> Difference:
    """Compare the placements of two schedulers."""
    hopeless = [
        pod["metadata"]["name"]
        for workload in world.workloads
        if workload.hopeless
        for pod in workload.pods
    ]
    neither = [
        name
        for name in ours.pods
        if name not in hopeless and not ours.node_of(name) and not theirs.node_of(name)
    ]
    qualities = evaluate(world, ours), evaluate(world, theirs)
    return Difference(
        seed=seed,
        placed=(qualities[0].placed, qualities[1].placed),
        compared=len(hopeless),
        unequal=tuple(
            (name, ours.message(name), theirs.message(name))
            for name in hopeless
            if ours.message(name) != theirs.message(name)
        ),
        unplaced_by_both=len(neither),
        other_reasons=tuple(
            (name, ours.message(name), theirs.message(name))
            for name in neither
            if reasons(ours.message(name)) != reasons(theirs.message(name))
        ),
        quality=qualities,
    )


def reasons(message: str) -> frozenset[str]:
    """The reasons in a failure message, without how many nodes gave each.

    >>> sorted(reasons("0/4 nodes are available: 1 Insufficient cpu, 3 Too many pods."))
    ['Insufficient cpu', 'Too many pods']
    """
    _, _, listed = message.partition("nodes are available: ")
    listed = listed.split(" preemption: ")[0].rstrip(".")
    return frozenset(re.sub(r"^\d+ ", "", each) for each in listed.split(", "))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seed", default=1, help="First world; each further one adds 1.")
@click.option("--worlds", default=3, help="How many random worlds.")
@click.option("--nodes", default=60, help="Nodes of a world.")
@click.option("--workloads", default=40, help="Workloads of a world.")
@click.option(
    "--rival",
    default="kube-scheduler",
    type=click.Choice(sorted(set(SCHEDULERS) - {OURS})),
    help="The scheduler to compare with.",
)
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write everything here.")
def main(
    seed: int, worlds: int, nodes: int, workloads: int, rival: str, output: Path | None
) -> None:
    """Let kubestow and kube-scheduler schedule the same random worlds, and compare.

    Needs the binaries of `make envtest-build`. Ends with status 1 when a hard rule was violated or
    a message of a pod that fits nowhere differs.
    """
    console = Console()
    found = []
    for each in range(seed, seed + worlds):
        world = draw(each, nodes, workloads)
        with console.status(f"world {each}: {OURS}"):
            ours = schedule(world, SCHEDULERS[OURS])
        with console.status(f"world {each}: {rival}"):
            theirs = schedule(world, SCHEDULERS[rival])
        found.append(compare(each, world, ours, theirs))
        console.print(_line(found[-1]), highlight=False, soft_wrap=True)
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    console.print(_table(found))
    for difference in found:
        for name, ours_says, theirs_says in (*difference.unequal, *difference.other_reasons):
            console.print(f"world {difference.seed}, {name}:", style="bold", highlight=False)
            console.print(f"  {OURS}: {ours_says}\n  {rival}: {theirs_says}", highlight=False)
        for quality in difference.quality:
            for violation in quality.violations:
                console.print(f"{quality.contender}: {violation}", style="bold red")
    if any(each.unequal or any(q.violations for q in each.quality) for each in found):
        raise SystemExit(1)


def _line(found: Difference) -> str:
    ours, theirs = found.placed
    return (
        f"world {found.seed}: {ours} and {theirs} of {found.quality[0].pods} pods placed; "
        f"{found.compared - len(found.unequal)} of {found.compared} messages equal; "
        f"{len(found.other_reasons)} of {found.unplaced_by_both} other unplaced pods have other "
        "reasons"
    )


def _table(found: Sequence[Difference]) -> Table:
    view = Table(title="placement quality, mean over the worlds")
    for heading in ("scheduler", "placed", "CPU spread", "memory spread", "soft skew", "wishes"):
        view.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for side in (0, 1):
        each = [difference.quality[side] for difference in found]
        view.add_row(
            each[0].contender,
            f"{sum(q.placed for q in each)}/{sum(q.pods for q in each)}",
            f"{fmean(q.cpu_spread for q in each):.4f}",
            f"{fmean(q.memory_spread for q in each):.4f}",
            f"{fmean(q.soft_skew for q in each):.2f}",
            f"{fmean(q.preferred for q in each):.3f}",
        )
    return view


if __name__ == "__main__":
    main()
