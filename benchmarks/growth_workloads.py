"""Workloads of `benchmarks.growth`: kinds of pods, and clusters for preemption, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.engine_world import HOST, RACK, ZONE, EngineWorld, node
from scheduler.api.pod import Pod

TEMPLATES: Final = 20
"""Workloads that existing pods belong to."""

_APP: Final = {"app": "measured"}
_SELECTOR: Final = {"matchLabels": _APP}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _spread(key: str, when: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": _SELECTOR,
    }  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}


def _required(side: str, key: str) -> dict[str, Any]:
    return {"affinity": {side: {_REQUIRED: [{"topologyKey": key, "labelSelector": _SELECTOR}]}}}


def _preferred(side: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": _SELECTOR}
    return {"affinity": {side: {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}


def _on_racks() -> dict[str, Any]:
    values = [f"rack-{number}" for number in range(50)]
    expression = {"key": RACK, "operator": "In", "values": values}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {_REQUIRED: term}}}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pod to schedule."""

    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    cpu: str = "100m"
    #: Whether it finds a node.
    fits: bool = True


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("plain"),
        Kind("node affinity", _on_racks()),
        Kind("hard spread", _spread(ZONE, "DoNotSchedule")),
        Kind("soft spread", _spread(ZONE, "ScheduleAnyway")),
        Kind("required affinity", _required("podAffinity", ZONE)),
        Kind("required anti-affinity", _required("podAntiAffinity", HOST)),
        Kind("preferred affinity", _preferred("podAffinity", HOST)),
        Kind("preferred anti-affinity", _preferred("podAntiAffinity", HOST)),
        Kind("unschedulable", cpu="1000", fits=False),
    )
}


def pod(world: EngineWorld, kind: Kind, template: int = 0) -> Pod:
    """A pod of a kind; templates differ in what they request."""
    cpu = f"{100 + template}m" if kind.fits else kind.cpu
    return world.pod(kind.spec, _APP, cpu=cpu)


def fill(world: EngineWorld, per_node: int) -> None:
    """Place `per_node` pods of ordinary workloads on every node, some with affinity terms."""
    for index in range(world.nodes):
        for number in range(per_node):
            template = (index * per_node + number) % TEMPLATES
            labels = {"app": f"app-{template}"}
            world.place(world.pod(_existing(template), labels, cpu=f"{50 + template}m"), index)


def _existing(template: int) -> Mapping[str, Any]:
    own = {"matchLabels": {"app": f"app-{template}"}}
    if template % 5 == 0:
        term = {"topologyKey": ZONE, "labelSelector": own}
        preferred = [{"weight": 1, "podAffinityTerm": term}]
        return {"affinity": {"podAffinity": {_PREFERRED: preferred}}}
    return {}


# -- preemption ----------------------------------------------------------------------------------

HIGH: Final = 1000
"""Priority of the incoming pod, and of pods it cannot evict."""

NODE_CPU: Final = "4"

_PORT: Final = {"container": {"ports": [{"containerPort": 80, "hostPort": 8080}]}}


@dataclass(frozen=True, slots=True)
class PreemptionScenario:
    """A cluster full of low-priority pods and a pod that wants in."""

    name: str
    #: One pod of high priority for every node but the first few, or None.
    guards: Callable[[EngineWorld], Pod] | None
    incoming: Callable[[EngineWorld], Pod]
    fruitful: bool = False


PREEMPTION_SCENARIOS: Final = {
    each.name: each
    for each in (
        PreemptionScenario(
            "fruitful", None, lambda w: w.pod(cpu="2", priority=HIGH), fruitful=True
        ),
        PreemptionScenario(
            "fruitful, with anti-affinity",
            None,
            lambda w: w.pod(
                _required("podAntiAffinity", HOST), {"app": "measured"}, cpu="2", priority=HIGH
            ),
            fruitful=True,
        ),
        PreemptionScenario("resources", None, lambda w: w.pod(cpu="1000", priority=HIGH)),
        PreemptionScenario(
            "resources, held by others",
            lambda w: w.pod(cpu="3", priority=HIGH),
            lambda w: w.pod(cpu="2", priority=HIGH),
        ),
        PreemptionScenario(
            "anti-affinity",
            lambda w: w.pod(labels=_APP, cpu="0", priority=HIGH),
            lambda w: w.pod(
                _required("podAntiAffinity", HOST), {"app": "other"}, cpu="2", priority=HIGH
            ),
        ),
        PreemptionScenario(
            "anti-affinity of others",
            lambda w: w.pod(
                _required("podAntiAffinity", HOST), {"app": "other"}, cpu="0", priority=HIGH
            ),
            lambda w: w.pod(labels=_APP, cpu="2", priority=HIGH),
        ),
        PreemptionScenario(
            "ports",
            lambda w: w.pod(_PORT, cpu="0", priority=HIGH),
            lambda w: w.pod(_PORT, cpu="2", priority=HIGH),
        ),
        PreemptionScenario(
            "spread",
            lambda w: w.pod(labels=_APP, cpu="0", priority=HIGH),
            lambda w: w.pod(_spread(HOST, "DoNotSchedule"), _APP, cpu="2", priority=HIGH),
        ),
    )
}


def struggle(world: EngineWorld, what: PreemptionScenario, low: int) -> None:
    """Fill nodes of 4 cores with `low` low-priority pods altogether, and place the guards.

    Node 0 is cordoned and has no guard, so that a spread constraint finds an empty domain.
    """
    nodes = world.nodes
    per_node = max(low // nodes, 1)
    share = f"{4000 // per_node}m"
    for number in range(low):
        world.place(world.pod(cpu=share, labels={"app": "low"}), number % nodes)
    world.cache.set_node(node(0, NODE_CPU, cordoned=True))
    if what.guards is not None:
        for index in range(1, nodes):
            world.place(what.guards(world), index)
