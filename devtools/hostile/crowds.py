"""Crowds: thousands of objects that are ordinary each, as one tenant may make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from devtools.hostile.case import JsonObject
from devtools.hostile.templates import (
    csi_node,
    disruption_budget,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod,
    resource_quota,
    service,
    storage_class,
    volume_attachment,
)
from plugins.resource_quota.plugin import GATE

HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
ORDINARY: Final = "tenant"

Make = Callable[[str], JsonObject]


def nothing(_nodes: int) -> Iterable[JsonObject]:
    """No other objects."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Objects of a tenant, and pods that come while they are there."""

    #: The objects of one member, by its serial number.
    make: Callable[[int], Iterable[JsonObject]]
    members: int = 2_500
    #: What must exist, by the number of nodes.
    beside: Callable[[int], Iterable[JsonObject]] = nothing
    #: Kinds of pods that are tried, by what they are called.
    pods: Mapping[str, Make]
    gates: Mapping[str, bool] = field(default_factory=dict)


def placed(name: str, serial: int, **spec: Any) -> JsonObject:
    """A pod that its owner put on a node himself."""
    return pod(name, nodeName=f"node-{serial}", **spec)


def of_namespace(made: JsonObject, namespace: str) -> JsonObject:
    """The same object in another namespace."""
    made["metadata"]["namespace"] = namespace
    return made


def labelled(made: JsonObject, labels: Mapping[str, str]) -> JsonObject:
    """The same object with labels."""
    made["metadata"]["labels"] = dict(labels)
    return made


def neighbour(name: str) -> JsonObject:
    """An ordinary pod of another namespace."""
    return of_namespace(labelled(pod(name), {"app": "web", "tier": "front"}), ORDINARY)


def own(name: str) -> JsonObject:
    """An ordinary pod of the crowd's namespace."""
    return labelled(pod(f"own-{name}"), {"app": "web"})


def _term(expressions: list[JsonObject], **parts: Any) -> JsonObject:
    return {"topologyKey": HOST, "labelSelector": {"matchExpressions": expressions}, **parts}


def terms(
    expressions: Callable[[str], list[JsonObject]],
    *,
    number: int = 64,
    side: str = "podAntiAffinity",
    members: int = 2_500,
    preferred: bool = False,
    alike: int = 0,
    **parts: Any,
) -> Crowd:
    """Placed pods with terms; no two the same, or as many templates as `alike`."""

    def make(serial: int) -> Iterable[JsonObject]:
        template = serial % alike if alike else serial
        listed = [_term(expressions(f"{template}-{each}"), **parts) for each in range(number)]
        if preferred:
            weighted = [{"weight": 1 + n % 100, "podAffinityTerm": t} for n, t in enumerate(listed)]
            affinity = {side: {PREFERRED: weighted}}
        else:
            affinity = {side: {REQUIRED: listed}}
        return [placed(f"crowd-{serial}", serial, affinity=affinity)]

    return Crowd(make=make, members=members, pods={"neighbour": neighbour, "own": own})


def _not_in(name: str) -> list[JsonObject]:
    return [{"key": "app", "operator": "NotIn", "values": [f"v{name}"]}]


def _exists(name: str) -> list[JsonObject]:
    return [{"key": f"k{name}", "operator": "Exists"}]


def _does_not_exist(name: str) -> list[JsonObject]:
    return [{"key": f"k{name}", "operator": "DoesNotExist"}]


def _in(name: str) -> list[JsonObject]:
    return [{"key": "app", "operator": "In", "values": ["web", f"v{name}"]}]


# -- objects of their own ------------------------------------------------------------------------


def _quotas(serial: int) -> Iterable[JsonObject]:
    made = resource_quota(
        f"crowd-{serial}",
        {"deferred.kubestow.io/requests.cpu-millis": "100k", "pods": "10k", f"e.x/r{serial}": "1"},
    )
    classes = {"scopeName": "PriorityClass", "operator": "NotIn", "values": [f"c{serial}"]}
    made["spec"]["scopeSelector"] = {"matchExpressions": [classes]}
    return [made]


def _budgets(serial: int) -> Iterable[JsonObject]:
    not_in = {"key": "app", "operator": "NotIn", "values": [f"v{serial}"]}
    made = disruption_budget(f"crowd-{serial}", {"matchExpressions": [not_in]})
    return [made]


def _victims(nodes: int) -> Iterable[JsonObject]:
    """A pod on each node, which leaves no room."""
    request = {"resources": {"requests": {"cpu": "7900m"}}}
    return [
        labelled(placed(f"victim-{number}", number, container=request), {"app": "victim"})
        for number in range(nodes)
    ]


def _preemptor(name: str) -> JsonObject:
    request = {"resources": {"requests": {"cpu": "1"}}}
    return of_namespace(pod(name, container=request, priority=1000), ORDINARY)


def _volumes(serial: int) -> Iterable[JsonObject]:
    """A volume of local storage that any claim of the class may choose, small for most."""
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"node-{serial}"]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    return [persistent_volume(f"crowd-{serial}", storageClassName="hostile", nodeAffinity=affinity)]


def _claims(serial: int) -> Iterable[JsonObject]:
    """A pod with unbound claims of its own, which wait for it."""
    names = [f"crowd-{serial}-{number}" for number in range(4)]
    waiting = pod(f"crowd-{serial}", volumes=[_claimed(each) for each in names])
    return [*map(persistent_volume_claim, names), waiting]


def _claimed(name: str) -> JsonObject:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def _claiming(name: str) -> JsonObject:
    return pod(f"own-{name}", volumes=[_claimed(f"shared-{number}") for number in range(4)])


def _shared_claims(_nodes: int) -> Iterable[JsonObject]:
    return [
        storage_class("hostile"),
        *(persistent_volume_claim(f"shared-{number}") for number in range(4)),
    ]


def _services(serial: int) -> Iterable[JsonObject]:
    return [service(f"crowd-{serial}", {"app": "web", **({"k": "v"} if serial % 2 else {})})]


def _attached(serial: int) -> Iterable[JsonObject]:
    drivers = [
        {"name": f"d{number}.example", "nodeID": "x", "allocatable": {"count": 3}}
        for number in range(20)
    ]
    attached = volume_attachment(f"crowd-{serial}", nodeName=f"node-{serial}")
    return [csi_node(f"node-{serial}", drivers), attached]


def _crowded_nodes(serial: int) -> Iterable[JsonObject]:
    made = node(f"crowd-{serial}")
    made["metadata"]["labels"] |= {f"k{serial}-{number}": "v" for number in range(200)}
    taints = [{"key": f"t{serial}-{number}", "effect": "PreferNoSchedule"} for number in range(200)]
    made["spec"] = {"taints": taints}
    images = [{"names": [f"i{serial}-{number}"], "sizeBytes": 10**9} for number in range(200)]
    made["status"]["images"] = images
    return [made]


EVERYWHERE: Final[Mapping[str, Any]] = {"namespaceSelector": {}}

CROWDS: Final[dict[str, Crowd]] = {
    "terms-not-in": terms(_not_in, **EVERYWHERE),
    "terms-exists": terms(_exists, **EVERYWHERE),
    "terms-does-not-exist": terms(_does_not_exist, **EVERYWHERE),
    "terms-in": terms(_in, **EVERYWHERE),
    "terms-not-in-16": terms(_not_in, number=16, **EVERYWHERE),
    "terms-not-in-70": terms(_not_in, number=70, **EVERYWHERE),
    "terms-not-in-1": terms(_not_in, number=1, members=5_000, **EVERYWHERE),
    "terms-not-in-own": terms(_not_in),
    "terms-not-in-alike": terms(_not_in, alike=10, **EVERYWHERE),
    "terms-preferred": terms(_not_in, preferred=True, **EVERYWHERE),
    "terms-affinity": terms(_exists, side="podAffinity", **EVERYWHERE),
    "quotas": Crowd(
        make=_quotas,
        pods={"neighbour": neighbour, "own": own},
        gates={GATE: True},
    ),
    "budgets": Crowd(make=_budgets, beside=_victims, pods={"preemptor": _preemptor}),
    "volumes": Crowd(
        make=_volumes,
        members=5_000,
        beside=_shared_claims,
        pods={"neighbour": neighbour, "claiming": _claiming},
    ),
    "claims": Crowd(
        make=_claims, beside=_shared_claims, pods={"neighbour": neighbour, "claiming": _claiming}
    ),
    "classes": Crowd(
        make=lambda serial: [storage_class(f"crowd-{serial}")],
        beside=_shared_claims,
        pods={"claiming": _claiming},
    ),
    "services": Crowd(make=_services, members=5_000, pods={"neighbour": neighbour, "own": own}),
    "attachments": Crowd(
        make=_attached, members=5_000, beside=_shared_claims, pods={"claiming": _claiming}
    ),
    "nodes": Crowd(make=_crowded_nodes, members=500, pods={"neighbour": neighbour}),
}
