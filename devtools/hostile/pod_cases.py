"""Hostile pods that are extreme in number, size or uniqueness.

Most are pending pods of this scheduler; the worst also come bound to a node, and as pods of another
scheduler (`ALSO_ELSEWHERE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Make, encode
from devtools.hostile.parts import (
    keys,
    labels,
    words,
)
from devtools.hostile.templates import IMAGE, persistent_volume_claim, pod

HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
NODE: Final = "hostile-node"
"""The node of bound pods."""
FOREIGN: Final = "other-scheduler"
"""The scheduler name of pods that another scheduler places."""

Spec = Callable[[int, int], JsonObject]
"""The parts of a pod's spec by size and serial number."""


def pod_cases() -> Iterator[HostileCase]:
    """Yield pods that are extreme in their spec or status."""
    for case in _pending():
        yield case
        if case.name in ALSO_ELSEWHERE:
            yield _elsewhere(case, "bound", {"nodeName": NODE})
            yield _elsewhere(case, "foreign", {"schedulerName": FOREIGN})


ALSO_ELSEWHERE: Final = (
    "pods-resource-names",
    "pods-anti-affinity-terms",
    "pods-affinity-terms",
    "pods-anti-affinity-preferred",
    "pods-node-affinity-terms",
    "pods-host-ports",
    "pods-claims",
    "pods-containers",
    "pods-argument-long",
    "pods-own-templates",
    "pods-own-labels",
)
"""Cases to repeat with a pod that is bound already, and with one of another scheduler."""


def _elsewhere(case: HostileCase, where: str, spec: JsonObject) -> HostileCase:
    def make(size: int, serial: int) -> JsonObject:
        made = case.make(size, serial)
        made["metadata"]["name"] = f"{where}-{made['metadata']['name']}"
        made["spec"].update(spec)
        return made

    return HostileCase(
        name=case.name.replace("pods-", f"pods-{where}-"),
        plural=case.plural,
        dimension=case.dimension,
        make=make,
        unit=case.unit,
        small=case.small,
        full=case.full,
        verdict=case.verdict,
        beside=case.beside,
    )


def _pending() -> Iterator[HostileCase]:
    yield from _counts()
    yield from _sizes()
    yield from _uniqueness()


# -- count -----------------------------------------------------------------------------------------


def _counts() -> Iterator[HostileCase]:
    yield _count("resource-names", 20_000, resource_names)
    yield _count("resource-names-of-nodes", 9_000, _amounts_of_zero)
    yield _count("node-affinity-terms", 7_000, lambda size, _: node_affinity_terms(size))
    yield _count("node-affinity-preferred", 7_000, _preferred_node_terms)
    yield _count("node-affinity-expressions", 9_000, _node_expressions)
    yield _count("node-affinity-values", 100_000, _node_values)
    yield _count("node-affinity-names", 9_000, _node_names)
    yield _count("node-selector", 20_000, lambda size, _: {"nodeSelector": labels(size)})
    yield _count("affinity-terms", 5_000, affinity_terms("podAffinity"))
    yield _count("anti-affinity-terms", 5_000, affinity_terms("podAntiAffinity"))
    yield _count("anti-affinity-keys", 5_000, affinity_terms("podAntiAffinity", own_keys=True))
    yield _count("affinity-preferred", 5_000, _preferred_terms("podAffinity"))
    yield _count("anti-affinity-preferred", 5_000, _preferred_terms("podAntiAffinity"))
    yield _count("anti-affinity-namespaces", 50_000, _term_namespaces)
    yield _count("anti-affinity-namespace-selectors", 4_000, _namespace_selectors)
    yield _count("anti-affinity-values", 100_000, _term_values)
    yield _count("anti-affinity-expressions", 9_000, _term_expressions)
    yield _count("tolerations", 10_000, _tolerations)
    yield _count("spread-constraints", 1_000, spread_constraints("DoNotSchedule"))
    yield _count("spread-constraints-soft", 1_000, spread_constraints("ScheduleAnyway"))
    yield _count("spread-values", 100_000, _spread_values)
    yield _count("containers", 5_000, _containers("containers"))
    yield _count("init-containers", 5_000, _containers("initContainers"))
    yield _count("host-ports", 10_000, _host_ports)
    yield _count("ports", 10_000, _ports)
    yield _count("volumes", 10_000, _volumes)
    yield _count("claims", 8_000, _claims, beside=_few_claims)
    yield _count("scheduling-gates", 10_000, _gates)
    yield _count("fallback-criteria", 5_000, _fallback_criteria)
    yield _count("conditions", 8_000, _conditions)
    yield _count("container-statuses", 5_000, _container_statuses)


def _count(what: str, full: int, spec: Spec, **more: Any) -> HostileCase:
    return HostileCase(
        name=f"pods-{what}",
        plural="pods",
        dimension=Dimension.COUNT,
        make=pod_of(what, spec),
        unit=what,
        small=50,
        full=full,
        **more,
    )


def pod_of(what: str, parts: Spec) -> Make:
    """Return a maker of pods with these parts of a spec.

    The keys `metadata` and `status` of the parts go to the pod instead of its spec.
    """

    def make(size: int, serial: int) -> JsonObject:
        spec = parts(size, serial)
        metadata, status = spec.pop("metadata", {}), spec.pop("status", None)
        made = pod(f"{what}-{serial:06d}", **spec)
        made["metadata"].update(metadata)
        if status is not None:
            made["status"] = status
        return made

    return make


def container(**parts: object) -> JsonObject:
    """Return parts of a spec that give its container these fields."""
    return {"container": parts}


def resource_names(size: int, _serial: int = 0) -> JsonObject:
    """Request that many extended resources, none of which any node has."""
    # The API server defaults an extended resource's request to its limit and wants them equal.
    amounts = dict.fromkeys(keys(size, "h.io/"), "1")
    return container(resources={"limits": amounts, "requests": amounts})


def _amounts_of_zero(size: int, _serial: int) -> JsonObject:
    """Request zero of each resource, 100 in each container: all are summed, and fit everywhere."""
    per = 100

    def part(first: int) -> JsonObject:
        amounts = dict.fromkeys(keys(min(per, size - first), "h.io/"), "0")
        resources = {"limits": amounts, "requests": amounts}
        return {"name": f"c{first}", "image": IMAGE, "resources": resources}

    return {"containers": [part(first) for first in range(0, size, per)]}


def node_affinity_terms(size: int, serial: int = 0) -> JsonObject:
    """Return required node affinity with that many terms; serial numbers share no term."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "Exists"}]}
        for key in keys(size, offset=serial * size)
    ]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def required_node_affinity(**term: object) -> JsonObject:
    """Return required node affinity of one term."""
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


def _preferred_node_terms(size: int, _serial: int) -> JsonObject:
    terms = [
        {
            "weight": 1 + number % 100,
            "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]},
        }
        for number, key in enumerate(keys(size))
    ]
    return {"affinity": {"nodeAffinity": {PREFERRED: terms}}}


def _node_expressions(size: int, _serial: int) -> JsonObject:
    absent = [{"key": key, "operator": "DoesNotExist"} for key in keys(size)]
    return required_node_affinity(matchExpressions=absent)


def _node_values(size: int, _serial: int) -> JsonObject:
    one = {"key": HOST, "operator": "NotIn", "values": words(size)}
    return required_node_affinity(matchExpressions=[one])


def _node_names(size: int, _serial: int) -> JsonObject:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [word]}]}
        for word in words(size)
    ]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def affinity_terms(kind: str, *, own_keys: bool = False) -> Spec:
    """Return required terms of pod affinity or anti-affinity, each with its own selector."""

    def spec(size: int, _serial: int) -> JsonObject:
        topology = keys(size) if own_keys else [HOST] * size
        terms = [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"hostile": word}}}
            for key, word in zip(topology, words(size), strict=True)
        ]
        return {"affinity": {kind: {REQUIRED: terms}}}

    return spec


def _preferred_terms(kind: str) -> Spec:
    def spec(size: int, _serial: int) -> JsonObject:
        terms = [
            {
                "weight": 1 + number % 100,
                "podAffinityTerm": {
                    "topologyKey": HOST,
                    "labelSelector": {"matchLabels": {"hostile": word}},
                },
            }
            for number, word in enumerate(words(size))
        ]
        return {"affinity": {kind: {PREFERRED: terms}}}

    return spec


def _anti_affinity(**term: object) -> JsonObject:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, **term}]}}}


def _term_namespaces(size: int, _serial: int) -> JsonObject:
    return _anti_affinity(namespaces=words(size), labelSelector={"matchLabels": {"a": "b"}})


def _namespace_selectors(size: int, _serial: int) -> JsonObject:
    terms = [
        {
            "topologyKey": HOST,
            "labelSelector": {"matchLabels": {"hostile": "none"}},
            "namespaceSelector": {"matchLabels": {"hostile": word}},
        }
        for word in words(size)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def _one_of(size: int) -> JsonObject:
    return {"matchExpressions": [{"key": "a", "operator": "In", "values": words(size)}]}


def _term_values(size: int, _serial: int) -> JsonObject:
    return _anti_affinity(labelSelector=_one_of(size))


def _term_expressions(size: int, _serial: int) -> JsonObject:
    absent = [{"key": key, "operator": "DoesNotExist"} for key in keys(size)]
    present = {"key": "never", "operator": "Exists"}
    return _anti_affinity(labelSelector={"matchExpressions": [*absent, present]})


def _tolerations(size: int, _serial: int) -> JsonObject:
    return {"tolerations": [{"key": key, "operator": "Exists"} for key in keys(size)]}


def spread_constraints(action: str) -> Spec:
    """Return topology spread constraints, each with its own key, with this whenUnsatisfiable."""

    def spec(size: int, _serial: int) -> JsonObject:
        constraints = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": action,
                "labelSelector": {"matchLabels": {"hostile": key[-6:]}},
            }
            for key in keys(size)
        ]
        return {"topologySpreadConstraints": constraints}

    return spec


def _spread_values(size: int, _serial: int) -> JsonObject:
    one = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": _one_of(size)}]}


def _containers(field: str) -> Spec:
    def spec(size: int, _serial: int) -> JsonObject:
        resources = {"requests": {"cpu": "1n"}}
        made = [
            {"name": f"c{number}", "image": f"i{number}", "resources": resources}
            for number in range(size)
        ]
        return {field: made}

    return spec


def _host_ports(size: int, _serial: int) -> JsonObject:
    ports = [{"containerPort": port, "hostPort": port} for port in range(1, size + 1)]
    return container(ports=ports)


def _ports(size: int, _serial: int) -> JsonObject:
    return container(ports=[{"containerPort": port} for port in range(1, size + 1)])


def _volumes(size: int, _serial: int) -> JsonObject:
    return {"volumes": [{"name": word, "emptyDir": {}} for word in words(size)]}


def _claims(size: int, _serial: int) -> JsonObject:
    volumes = [
        {"name": word, "persistentVolumeClaim": {"claimName": f"claim-{number % 50}"}}
        for number, word in enumerate(words(size))
    ]
    return {"volumes": volumes}


def _few_claims(_size: int, _serial: int) -> Iterator[JsonObject]:
    for number in range(50):
        yield persistent_volume_claim(f"claim-{number}")


def _gates(size: int, _serial: int) -> JsonObject:
    return {"schedulingGates": [{"name": key} for key in keys(size)]}


def _fallback_criteria(size: int, _serial: int) -> JsonObject:
    spec = spread_constraints("DoNotSchedule")(2, 0)
    criteria = {HOST: ["NodeProvisioningFailed"] * size}
    annotation = encode(criteria).decode()
    return {**spec, "metadata": {"annotations": {FALLBACK_ANNOTATION: annotation}}}


FALLBACK_ANNOTATION: Final = "kubestow.io/topology-spread-fallback"


def _conditions(size: int, _serial: int) -> JsonObject:
    conditions = [{"type": key, "status": "True", "message": "x" * 50} for key in keys(size)]
    return {"status": {"conditions": conditions}}


def _container_statuses(size: int, _serial: int) -> JsonObject:
    spec = _containers("containers")(size, 0)
    statuses = [
        {
            "name": f"c{number}",
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "resources": {"requests": {"cpu": "1m"}},
            "allocatedResources": {"cpu": "1m"},
        }
        for number in range(size)
    ]
    return {**spec, "status": {"containerStatuses": statuses}}


# -- size ------------------------------------------------------------------------------------------


def _sizes() -> Iterator[HostileCase]:
    million = 1_000_000
    yield _size("argument-long", million, lambda size, _: container(args=["x" * size]))
    yield _size("image-long", million, lambda size, _: container(image="x" * size))
    yield _size("scheduler-name-long", million, lambda size, _: {"scheduler_name": "x" * size})
    # Of the letters of a name of ours, and so compared with it.
    yield _size("scheduler-name-similar", million, _similar)
    yield _size("disk-name-long", million, _disk)
    yield _size("condition-message-long", million, _message)
    yield _size("status-message-long", million, lambda size, _: {"status": {"message": "x" * size}})


def _size(what: str, full: int, spec: Spec) -> HostileCase:
    return HostileCase(
        name=f"pods-{what}",
        plural="pods",
        dimension=Dimension.SIZE,
        make=pod_of(what, spec),
        unit="bytes",
        small=10_000,
        full=full,
    )


def _similar(size: int, _serial: int) -> JsonObject:
    return {"scheduler_name": ("wotsebuk" * size)[:size]}


def _disk(size: int, _serial: int) -> JsonObject:
    return {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "x" * size}}]}


def _message(size: int, _serial: int) -> JsonObject:
    condition = {"type": "PodScheduled", "status": "False", "message": "x" * size}
    return {"status": {"conditions": [condition]}}


# -- uniqueness ------------------------------------------------------------------------------------


def _uniqueness() -> Iterator[HostileCase]:
    yield _unique("own-templates", 3_000, _own_template)
    yield _unique("own-labels", 6_000, _own_labels)
    yield _unique("own-node-affinity", 7_000, node_affinity_terms)
    yield _unique("own-anti-affinity", 5_000, _own_anti_affinity)


def _unique(what: str, full: int, spec: Spec) -> HostileCase:
    return HostileCase(
        name=f"pods-{what}",
        plural="pods",
        dimension=Dimension.UNIQUENESS,
        make=pod_of(what, spec),
        unit=what,
        small=20,
        full=full,
    )


def _own_template(size: int, serial: int) -> JsonObject:
    """Return requests, node selector, tolerations and an image that no other pod has."""
    first = serial * size
    absent = [{"key": key, "operator": "DoesNotExist"} for key in keys(size, offset=first)]
    return {
        **required_node_affinity(matchExpressions=absent),
        "tolerations": [{"key": key, "operator": "Exists"} for key in keys(size, offset=first)],
        "container": {
            "image": f"image-{serial}",
            "resources": {"requests": {"cpu": f"{1 + serial % 10_000}n", "memory": str(serial)}},
        },
    }


def _own_labels(size: int, serial: int) -> JsonObject:
    return {"metadata": {"labels": labels(size, offset=serial * size)}}


def _own_anti_affinity(size: int, serial: int) -> JsonObject:
    terms = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"hostile": word}}}
        for word in words(size, offset=serial * size)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}
