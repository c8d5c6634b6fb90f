"""Hostile pods with one odd value: an extreme number, an odd text, a null or a wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Verdict
from devtools.hostile.parts import (
    BAD_QUANTITIES,
    INTEGERS,
    ODD_TEXTS,
    QUANTITIES,
    nested_lists,
    text,
)
from devtools.hostile.pod_cases import (
    FALLBACK_ANNOTATION,
    HOST,
    REQUIRED,
    Spec,
    container,
    pod_of,
    required_node_affinity,
    spread_constraints,
)
from devtools.hostile.templates import IMAGE


def pod_value_cases() -> Iterator[HostileCase]:
    """Yield pods that have one odd value each, in their spec, status or annotations."""
    yield from _numbers()
    yield from _texts()
    yield from _types()


# -- numbers ---------------------------------------------------------------------------------------

_FRACTIONS: Final = frozenset(
    {"one-nano", "below-nano", "e-minus-300", "fraction-exbi", "decimals-400"}
)
"""Quantities that the API server rejects for extended resources."""


def _numbers() -> Iterator[HostileCase]:
    for name, amount in QUANTITIES.items():
        for resource in ("cpu", "memory", "ephemeral-storage"):
            yield _odd(f"request-{resource}-{name}", Dimension.NUMBERS, _request(resource, amount))
        verdict = Verdict.REFUSED if name in _FRACTIONS else Verdict.STORED
        spec = _limit("hostile.example/device", amount)
        yield _odd(f"request-extended-{name}", Dimension.NUMBERS, spec, verdict)
        yield _odd(f"requests-summed-{name}", Dimension.NUMBERS, _summed(amount))
    for name, amount in BAD_QUANTITIES.items():
        spec = _request("cpu", amount)
        yield _odd(f"request-cpu-{name}", Dimension.NUMBERS, spec, Verdict.REFUSED)
    for name, value in INTEGERS.items():
        for operator in ("Gt", "Lt"):
            compared = _compared(operator, value)
            # The API server wants valid label values here.
            label = value.isascii() and value == value.strip("+- ")
            verdict = Verdict.STORED if label else Verdict.REFUSED
            yield _odd(f"node-affinity-{operator}-{name}", Dimension.NUMBERS, compared, verdict)
    for name, parts in _EXTREME_FIELDS.items():
        yield _odd(name, Dimension.NUMBERS, _always(parts))


def _odd(
    what: str, dimension: Dimension, spec: Spec, verdict: Verdict = Verdict.STORED
) -> HostileCase:
    name = what.lower()
    return HostileCase(
        name=f"pods-{name}",
        plural="pods",
        dimension=dimension,
        make=pod_of(name, spec),
        verdict=verdict,
    )


def _always(spec: JsonObject) -> Spec:
    # A copy: `pod` takes parts out of it.
    return lambda _size, _serial: dict(spec)


def _request(resource: str, amount: object) -> Spec:
    return _always(container(resources={"requests": {resource: amount}}))


def _limit(resource: str, amount: object) -> Spec:
    amounts = {resource: amount}
    return _always(container(resources={"limits": amounts, "requests": amounts}))


def _summed(amount: str) -> Spec:
    """Return four equal containers: the sum exceeds 64 bits where one amount nearly does."""
    one = {"image": IMAGE, "resources": {"requests": {"cpu": amount, "memory": amount}}}
    return _always({"containers": [{"name": f"c{number}", **one} for number in range(4)]})


def _compared(operator: str, value: str) -> Spec:
    expression = {"key": "hostile.example/size", "operator": operator, "values": [value]}
    return _always(required_node_affinity(matchExpressions=[expression]))


_MAX_INT32: Final = (1 << 31) - 1
_MAX_INT64: Final = (1 << 63) - 1
_EVICT: Final[JsonObject] = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
_SPREAD: Final[JsonObject] = {
    "topologyKey": HOST,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {},
}

_EXTREME_FIELDS: Final[dict[str, JsonObject]] = {
    "grace-period-max": {"terminationGracePeriodSeconds": _MAX_INT64},
    "deadline-max": {"activeDeadlineSeconds": _MAX_INT32},
    "toleration-seconds-max": {"tolerations": [{**_EVICT, "tolerationSeconds": _MAX_INT64}]},
    "toleration-seconds-min": {"tolerations": [{**_EVICT, "tolerationSeconds": -_MAX_INT64}]},
    "skew-max": {"topologySpreadConstraints": [{**_SPREAD, "maxSkew": _MAX_INT32}]},
    "domains-max": {
        "topologySpreadConstraints": [{**_SPREAD, "maxSkew": 1, "minDomains": _MAX_INT32}]
    },
    "host-port-max": {"container": {"ports": [{"containerPort": 65535, "hostPort": 65535}]}},
    "request-whole-number": {"container": {"resources": {"requests": {"cpu": 1}}}},
    "request-float": {"container": {"resources": {"requests": {"cpu": 0.1}}}},
    "request-exponent": {"container": {"resources": {"requests": {"cpu": msgspec.Raw(b"1E-3")}}}},
    "start-year-1": {"status": {"startTime": "0001-01-01T00:00:01Z"}},
    "start-year-9999": {"status": {"startTime": "9999-12-31T23:59:59Z"}},
    "transition-year-9999": {
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastTransitionTime": "9999-12-31T23:59:59Z",
                }
            ]
        }
    },
}


# -- text ------------------------------------------------------------------------------------------


def _texts() -> Iterator[HostileCase]:
    fields: dict[str, Callable[[object], JsonObject]] = {
        "image": lambda odd: container(image=odd),
        "scheduler-name": lambda odd: {"scheduler_name": odd},
        "disk-name": lambda odd: {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": odd}}]},
        "condition-message": lambda odd: {
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": odd}]}
        },
        "status-reason": lambda odd: {"status": {"reason": odd, "message": odd}},
        "fallback": lambda odd: {
            **spread_constraints("DoNotSchedule")(1, 0),
            "metadata": {"annotations": {FALLBACK_ANNOTATION: odd}},
        },
    }
    for name, escapes in ODD_TEXTS.items():
        for field, spec in fields.items():
            refused = field == "image" and name == "blank"
            yield _odd(
                f"{field}-{name}",
                Dimension.TEXT,
                _always(spec(text(escapes))),
                Verdict.REFUSED if refused else Verdict.STORED,
            )
    for name, annotation in _FALLBACK_TEXTS.items():
        spec_of = _always(fields["fallback"](annotation))
        yield _odd(f"fallback-{name}", Dimension.TEXT, spec_of)


_FALLBACK_TEXTS: Final[dict[str, str]] = {
    "empty": "",
    "no-json": "{",
    "list": "[]",
    "null": "null",
    "number": "1e999",
    "deep": bytes(nested_lists(50_000)).decode(),
    "deep-objects": '{"a":' * 30_000 + "1" + "}" * 30_000,
    "unicode": '{"\\ud800": ["\\udfff"]}',
}
"""Texts in an annotation that should hold JSON."""


# -- nulls and wrong types -------------------------------------------------------------------------


def _types() -> Iterator[HostileCase]:
    for name, spec in _NULLS.items():
        yield _odd(f"null-{name}", Dimension.TYPES, _always(spec))
    for name, spec in _WRONG.items():
        yield _odd(f"wrong-{name}", Dimension.TYPES, _always(spec), Verdict.REFUSED)


_NULLS: Final[dict[str, JsonObject]] = {
    "lists": {
        "tolerations": None,
        "topologySpreadConstraints": None,
        "schedulingGates": None,
        "volumes": None,
        "initContainers": None,
    },
    "affinity": {
        "affinity": {"nodeAffinity": None, "podAffinity": None, "podAntiAffinity": {REQUIRED: None}}
    },
    "selector": {"nodeSelector": None},
    "requests": {"container": {"resources": {"requests": None, "limits": None}}},
    "request": {"container": {"resources": {"requests": {"cpu": None}}}},
    "ports": {"container": {"ports": None, "resources": None}},
    "priority": {"priority": None},
    # Unknown fields: the API server drops what is below the second level.
    "affinity-deep": {"affinity": msgspec.Raw(b'{"nodeAffinity":' * 3_000 + b"{}" + b"}" * 3_000)},
}

_WRONG: Final[dict[str, JsonObject]] = {
    "containers-null": {"containers": None},
    "containers-object": {"containers": {}},
    "containers-nulls": {"containers": [None]},
    "tolerations-text": {"tolerations": "all"},
    "priority-text": {"priority": "high"},
    "priority-beyond-int32": {"priority": 1 << 40},
    "node-name-number": {"nodeName": 1},
    "affinity-list": {"affinity": []},
    "selector-number": {"nodeSelector": {"a": 1}},
    "request-list": {"container": {"resources": {"requests": {"cpu": []}}}},
    "request-boolean": {"container": {"resources": {"requests": {"cpu": True}}}},
    "port-beyond": {"container": {"ports": [{"containerPort": 1, "hostPort": 1 << 70}]}},
    "operator": {"tolerations": [{"operator": 1}]},
}
