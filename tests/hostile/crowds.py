"""Crowds: thousands of objects that are ordinary each, as one tenant may make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.hostile.case import JsonObject
from tests.hostile.templates import pod

HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
ORDINARY: Final = "tenant"

Make = Callable[[str], JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Objects of a tenant, and pods that come while they are there."""

    #: The objects of one member, by its serial number.
    make: Callable[[int], Iterable[JsonObject]]
    members: int = 2_500
    #: What must exist, by the number of nodes.
    beside: Callable[[int], Iterable[JsonObject]] = lambda _nodes: ()
    #: Kinds of pods that are tried, by what they are called.
    pods: Mapping[str, Make]
    configuration: Mapping[str, Any] = field(default_factory=dict)


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
}
