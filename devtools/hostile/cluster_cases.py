"""Hostile nodes, namespaces, workloads, budgets, quotas, classes, leases and Events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Make, Verdict
from devtools.hostile.parts import (
    BAD_QUANTITIES,
    ODD_TEXTS,
    QUANTITIES,
    TIMES,
    keys,
    labels,
    nested_lists,
    text,
    words,
)
from devtools.hostile.templates import (
    TEMPLATES,
    disruption_budget,
    event,
    lease,
    node,
    priority_class,
    replica_set,
    replication_controller,
    resource_quota,
    service,
    stateful_set,
)

ALIASES: Final = "kubestow.io/deferred-keys"
INFLIGHT: Final = "kubestow.io/inflight"
"""Annotations of quotas that hold JSON."""


def cluster_cases() -> Iterator[HostileCase]:
    """Objects that are no pods and no storage, extreme in their spec or status."""
    yield from _nodes()
    yield from _owners()
    yield from _budgets()
    yield from _quotas()
    yield from _classes()
    yield from _leases()
    yield from _events()


def counted(
    plural: str, what: str, full: int, make: Make, *, small: int = 50, **more: Any
) -> HostileCase:
    """A case of COUNT."""
    return HostileCase(
        name=f"{plural}-{what}",
        plural=plural,
        dimension=Dimension.COUNT,
        make=make,
        unit=what,
        small=small,
        full=full,
        **more,
    )


def long(plural: str, what: str, make: Make, *, full: int = 1_000_000) -> HostileCase:
    """A case of SIZE."""
    return HostileCase(
        name=f"{plural}-{what}",
        plural=plural,
        dimension=Dimension.SIZE,
        make=make,
        unit="bytes",
        small=10_000,
        full=full,
    )


def odd(
    plural: str,
    what: str,
    dimension: Dimension,
    make: Callable[[str], JsonObject],
    verdict: Verdict = Verdict.STORED,
) -> HostileCase:
    """A case without a size; `make` gets the name."""
    return HostileCase(
        name=f"{plural}-{what}",
        plural=plural,
        dimension=dimension,
        make=lambda _size, serial: make(f"{what}-{serial:06d}"),
        verdict=verdict,
    )


# -- nodes -----------------------------------------------------------------------------------------


def _nodes() -> Iterator[HostileCase]:
    yield counted("nodes", "resources", 20_000, _node_resources)
    yield counted("nodes", "taints", 10_000, _node_taints)
    yield counted("nodes", "images", 10_000, _node_images)
    yield counted("nodes", "image-names", 20_000, _node_image_names)
    yield counted("nodes", "conditions", 5_000, _node_conditions)
    yield counted("nodes", "declared-features", 10_000, _node_features)
    yield long("nodes", "image-name-long", lambda size, n: _images(n, ["x" * size]))
    yield long(
        "nodes", "provider-id-long", lambda size, n: _node(n, spec={"providerID": "x" * size})
    )
    for name, amount in {**QUANTITIES, **BAD_QUANTITIES}.items():
        refused = name in BAD_QUANTITIES
        for resource in ("cpu", "memory", "pods"):
            fractional = resource == "pods" and name in _FRACTIONS
            yield odd(
                "nodes",
                f"allocatable-{resource}-{name}",
                Dimension.NUMBERS,
                _allocatable(resource, amount),
                Verdict.REFUSED if refused or fractional else Verdict.STORED,
            )
    for name, escapes in ODD_TEXTS.items():
        yield HostileCase(
            name=f"nodes-image-{name}",
            plural="nodes",
            dimension=Dimension.TEXT,
            make=_odd_image(escapes),
        )
    smallest = {"status": {"images": [{"names": ["a"], "sizeBytes": -(1 << 63)}]}}
    yield odd("nodes", "image-size-min", Dimension.NUMBERS, _node_with(smallest))
    for name, parts in _NODE_TYPES.items():
        verdict = Verdict.STORED if name.startswith("null-") else Verdict.REFUSED
        yield odd("nodes", name, Dimension.TYPES, _node_with(parts), verdict)


_FRACTIONS: Final = frozenset(
    {"one-nano", "below-nano", "e-minus-300", "decimals-400", "fraction-exbi"}
)

_NODE_TYPES: Final[dict[str, JsonObject]] = {
    "null-spec": {"spec": None},
    "null-status": {"status": None},
    "null-lists": {"spec": {"taints": None}, "status": {"images": None, "conditions": None}},
    "null-allocatable": {"status": {"allocatable": None}},
    "null-image-names": {"status": {"images": [{"names": None, "sizeBytes": 1}]}},
    "image-size-beyond": {"status": {"images": [{"names": ["a"], "sizeBytes": 1 << 80}]}},
    "taint-null": {"spec": {"taints": [None]}},
    "unschedulable-text": {"spec": {"unschedulable": "yes"}},
    "allocatable-list": {"status": {"allocatable": []}},
}


def _node(serial: int, **parts: Any) -> JsonObject:
    """A node with more; what is under `status` is merged."""
    status = parts.pop("status", {})
    made = node(f"odd-{serial:06d}", **parts)
    made["status"] = {**made["status"], **status}
    return made


def _node_with(parts: JsonObject) -> Callable[[str], JsonObject]:
    return lambda name: node(name, **parts)


def _node_resources(size: int, serial: int) -> JsonObject:
    many = {"cpu": "8", "memory": "16Gi", "pods": "110", **dict.fromkeys(keys(size, "n.io/"), "1")}
    return _node(serial, status={"allocatable": many, "capacity": {}})


def _node_taints(size: int, serial: int) -> JsonObject:
    taints = [{"key": key, "value": "a", "effect": "NoSchedule"} for key in keys(size)]
    return _node(serial, spec={"taints": taints})


def _images(serial: int, names: list[Any]) -> JsonObject:
    return _node(serial, status={"images": [{"names": names, "sizeBytes": 1 << 30}]})


def _node_images(size: int, serial: int) -> JsonObject:
    images = [{"names": [f"registry.example/{word}:1"], "sizeBytes": 1} for word in words(size)]
    return _node(serial, status={"images": images})


def _node_image_names(size: int, serial: int) -> JsonObject:
    return _images(serial, [f"registry.example/{word}:1" for word in words(size)])


def _odd_image(escapes: str) -> Make:
    return lambda _size, serial: _images(serial, [text(escapes)])


def _node_conditions(size: int, serial: int) -> JsonObject:
    conditions = [{"type": key, "status": "True", "message": "x" * 100} for key in keys(size)]
    return _node(serial, status={"conditions": conditions})


def _node_features(size: int, serial: int) -> JsonObject:
    features = [f"Hostile{number:06d}" for number in range(size)]
    return _node(serial, status={"declaredFeatures": features})


def _allocatable(resource: str, amount: str) -> Callable[[str], JsonObject]:
    def make(name: str) -> JsonObject:
        size = {"cpu": "8", "memory": "16Gi", "pods": "110", resource: amount}
        return node(name, status={"allocatable": size, "capacity": size})

    return make


# -- owners ----------------------------------------------------------------------------------------


def _owners() -> Iterator[HostileCase]:
    def selector(make: Callable[..., JsonObject]) -> Make:
        return lambda size, serial: make(f"odd-{serial:06d}", labels(size))

    # A workload has its selector's labels in its template, too.
    yield counted("services", "selector", 20_000, selector(service))
    yield counted("replicationcontrollers", "selector", 10_000, selector(replication_controller))
    yield counted("replicasets", "selector", 10_000, selector(replica_set))
    yield counted("statefulsets", "selector", 10_000, selector(stateful_set))
    for plural in ("replicasets", "statefulsets"):
        yield counted(plural, "selector-values", 50_000, _selector_values(plural))
    for plural, field in (
        ("services", {"selector": None}),
        ("replicationcontrollers", {"selector": None}),
        ("replicasets", {"replicas": None}),
    ):
        yield odd(plural, "null-field", Dimension.TYPES, _spec_with(plural, field))
    for plural in ("services", "replicasets", "statefulsets", "replicationcontrollers"):
        wrong = _spec_with(plural, {"selector": "app"})
        yield odd(plural, "selector-text", Dimension.TYPES, wrong, Verdict.REFUSED)


def _selector_values(plural: str) -> Make:
    def make(size: int, serial: int) -> JsonObject:
        made = TEMPLATES[plural](f"odd-{serial:06d}")
        expression = {"key": "app", "operator": "In", "values": words(size)}
        made["spec"]["selector"] = {"matchExpressions": [expression]}
        made["spec"]["template"]["metadata"]["labels"] = {"app": words(1)[0]}
        return made

    return make


def _spec_with(plural: str, parts: JsonObject) -> Callable[[str], JsonObject]:
    def make(name: str) -> JsonObject:
        made = TEMPLATES[plural](name)
        made["spec"].update(parts)
        return made

    return make


# -- budgets, quotas, classes, leases --------------------------------------------------------------


def _budgets() -> Iterator[HostileCase]:
    plural = "poddisruptionbudgets"

    def selector(size: int, serial: int) -> JsonObject:
        absent = [{"key": key, "operator": "DoesNotExist"} for key in keys(size)]
        return disruption_budget(f"odd-{serial:06d}", {"matchExpressions": absent})

    def values(size: int, serial: int) -> JsonObject:
        expression = {"key": "app", "operator": "In", "values": words(size)}
        return disruption_budget(f"odd-{serial:06d}", {"matchExpressions": [expression]})

    def disrupted(size: int, serial: int) -> JsonObject:
        made = disruption_budget(f"odd-{serial:06d}")
        pods = dict.fromkeys(words(size), "2026-01-01T00:00:00Z")
        made["status"] = _budget_status(disruptedPods=pods)
        return made

    def allowed(number: int) -> Callable[[str], JsonObject]:
        status = _budget_status(disruptionsAllowed=number)
        return lambda name: {**disruption_budget(name), "status": status}

    yield counted(plural, "selector", 9_000, selector)
    yield counted(plural, "selector-values", 100_000, values)
    yield counted(plural, "disrupted-pods", 20_000, disrupted)
    for name, number in {"max": (1 << 31) - 1, "beyond": 1 << 40}.items():
        verdict = Verdict.STORED if name == "max" else Verdict.REFUSED
        yield odd(plural, f"allowed-{name}", Dimension.NUMBERS, allowed(number), verdict)
    yield odd(plural, "null-selector", Dimension.TYPES, _spec_with(plural, {"selector": None}))


def _budget_status(**parts: object) -> JsonObject:
    known = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {**known, **parts}


def _quotas() -> Iterator[HostileCase]:
    plural = "resourcequotas"

    def hard(size: int, serial: int) -> JsonObject:
        return resource_quota(f"odd-{serial:06d}", dict.fromkeys(keys(size, "requests.h.io/"), "1"))

    def used(size: int, serial: int) -> JsonObject:
        made = hard(size, serial)
        amounts = made["spec"]["hard"]
        return {**made, "status": {"hard": amounts, "used": amounts}}

    def classes(size: int, serial: int) -> JsonObject:
        made = resource_quota(f"odd-{serial:06d}", {"pods": "1"})
        expression = {"scopeName": "PriorityClass", "operator": "In", "values": words(size)}
        made["spec"]["scopeSelector"] = {"matchExpressions": [expression]}
        return made

    def amount(key: str, number: str) -> Callable[[str], JsonObject]:
        return lambda name: resource_quota(name, {key: number})

    yield counted(plural, "hard", 20_000, hard)
    yield counted(plural, "used", 7_000, used)
    yield counted(plural, "priority-classes", 100_000, classes)
    for name, number in {**QUANTITIES, **BAD_QUANTITIES}.items():
        refused = name in BAD_QUANTITIES
        for key in ("requests.cpu", "requests.memory", "requests.hostile.example/device"):
            verdict = Verdict.REFUSED if refused else Verdict.STORED
            short = key.rpartition(".")[2].replace("example/", "")
            make = amount(key, number)
            yield odd(plural, f"hard-{short}-{name}", Dimension.NUMBERS, make, verdict)
    for what, annotation in (("aliases", ALIASES), ("inflight", INFLIGHT)):
        for name, value in _ODD_JSON.items():
            make = _annotated(annotation, value)
            yield odd(plural, f"{what}-{name}", Dimension.TEXT, make)
    yield odd(plural, "null-hard", Dimension.TYPES, _spec_with(plural, {"hard": None}))


_ODD_JSON: Final[dict[str, str]] = {
    "empty": "",
    "no-json": "{",
    "list": "[]",
    "null": "null",
    "values": '{"a": 1, "b": null, "c": {}}',
    "number": '{"a": 1e999}',
    "deep": bytes(nested_lists(60_000)).decode(),
    "deep-objects": '{"a":' * 30_000 + "1" + "}" * 30_000,
    "escapes": '{"\\ud800": "\\udfff\\u0000"}',
    "wide": "{" + ",".join(f'"k{number}":"v"' for number in range(10_000)) + "}",
}


def _annotated(annotation: str, value: str) -> Callable[[str], JsonObject]:
    def make(name: str) -> JsonObject:
        made = resource_quota(name)
        made["metadata"]["annotations"] = {annotation: value}
        return made

    return make


def _classes() -> Iterator[HostileCase]:
    for name, value in {
        "max": 1_000_000_000,
        "min": -(1 << 31),
        "reserved": 1_000_000_001,
        "beyond": 1 << 40,
    }.items():
        verdict = Verdict.STORED if name in ("max", "min") else Verdict.REFUSED
        yield HostileCase(
            name=f"priorityclasses-value-{name}",
            plural="priorityclasses",
            dimension=Dimension.NUMBERS,
            make=_class_of(name, value),
            verdict=verdict,
        )


def _class_of(name: str, value: int) -> Make:
    return lambda _size, serial: priority_class(f"hostile-{name}-{serial:06d}", value)


def _leases() -> Iterator[HostileCase]:
    yield long(
        "leases",
        "holder-long",
        lambda size, serial: lease(f"odd-{serial:06d}", holderIdentity="x" * size),
    )
    for name, escapes in ODD_TEXTS.items():
        yield odd(
            "leases", f"holder-{name}", Dimension.TEXT, _lease_of(holderIdentity=text(escapes))
        )
    for name, time in TIMES.items():
        # Six decimals are demanded.
        micro = time[:19] + ".000000" + time[19:].lstrip(".0123456789")
        renewed = _lease_of(renewTime=micro, acquireTime=micro)
        yield odd("leases", f"renewed-{name}", Dimension.NUMBERS, renewed)
    for name, parts in {
        "duration-max": {"leaseDurationSeconds": (1 << 31) - 1},
        "transitions-max": {"leaseTransitions": (1 << 31) - 1},
    }.items():
        yield odd("leases", name, Dimension.NUMBERS, _lease_of(**parts))


def _lease_of(**spec: object) -> Callable[[str], JsonObject]:
    return lambda name: lease(name, **spec)


# -- Events ----------------------------------------------------------------------------------------


def _events() -> Iterator[HostileCase]:
    yield long("events", "message-long", lambda size, n: _event(n, message="x" * size))
    yield long("events", "reason-long", lambda size, n: _event(n, reason="x" * size))
    yield long("events", "object-name-long", lambda size, n: _event_about(n, "x" * size))
    for name, escapes in ODD_TEXTS.items():
        yield HostileCase(
            name=f"events-message-{name}",
            plural="events",
            dimension=Dimension.TEXT,
            make=_odd_event(escapes),
        )
    for name, time in TIMES.items():
        last = {"firstTimestamp": time, "lastTimestamp": time}
        yield odd("events", f"last-{name}", Dimension.NUMBERS, _event_of(last))
    for name, parts in {
        "count-max": {"count": (1 << 31) - 1},
        "count-min": {"count": -(1 << 31)},
    }.items():
        yield odd("events", name, Dimension.NUMBERS, _event_of(parts))
    nulls = {"lastTimestamp": None, "series": None, "source": {"component": "cluster-autoscaler"}}
    yield odd("events", "null-times", Dimension.TYPES, _event_of(nulls))


def _event(serial: int, **parts: Any) -> JsonObject:
    return event(f"odd-{serial:06d}", **parts)


def _event_about(serial: int, name: str) -> JsonObject:
    made = _event(serial)
    made["involvedObject"]["name"] = name
    return made


def _odd_event(escapes: str) -> Make:
    return lambda _size, serial: _event(serial, message=text(escapes), reason=text(escapes))


def _event_of(parts: JsonObject) -> Callable[[str], JsonObject]:
    return lambda name: event(name, **parts)
