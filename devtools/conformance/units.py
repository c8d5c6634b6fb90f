"""Unit vectors: small inputs and outputs of kube-scheduler's helpers, against ours.

Each file of `vectors/unit` has one checker here; it compares every expected field and returns what
differs. A field without a checker is a difference too, so that a richer vector file cannot pass
unnoticed. Running the files and printing tables is the command's business (`python -m
tests.conformance`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from devtools.conformance.upstream_faults import exempt_aspects
from plugins.dynamic_resources.allocator import Allocator
from plugins.dynamic_resources.devices import DeviceID, SliceView
from plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import SliceIndex
from plugins.dynamic_resources.search import Allocated
from plugins.dynamic_resources.selectors import Selectors
from scheduler.api.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.meta import LabelSelector
from scheduler.api.node import Node, Taint
from scheduler.api.node_selectors import (
    compile_node_selector,
    compile_preferred_terms,
    compile_required_node_affinity,
)
from scheduler.api.pod import NodeSelector, Pod, PreferredSchedulingTerm, Toleration
from scheduler.api.ports import HostPort, conflicts, host_port
from scheduler.api.quantity import Quantity, QuantityError, parse
from scheduler.api.requests import (
    Resources,
    assigned_requests,
    incoming_requests,
    non_zero_requests,
    pod_limits,
    pod_requests,
)
from scheduler.api.selectors import SelectorError, compile_label_selector
from scheduler.api.tolerations import first_untolerated, tolerates
from scheduler.cel import (
    CompileError,
    DeviceSelector,
    EvaluationCancelledError,
    EvaluationError,
    device_value,
)

VECTOR_DIRECTORY: Final = Path(__file__).parents[2] / "tests" / "conformance" / "vectors" / "unit"
"""The committed vectors."""

SUFFIX: Final = ".jsonl.gz"

T = TypeVar("T")

Vector = dict[str, Any]
"""One line of a file: id, input, expected."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One expected field that came out otherwise."""

    field: str
    expected: object
    actual: object

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected!r}, got {self.actual!r}"


@dataclass(frozen=True, slots=True)
class UnitResult:
    """Result of one vector."""

    id: str
    differences: list[Difference] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether every expected field came out as expected."""
        return not self.differences


def run_unit_file(path: Path) -> list[UnitResult]:
    """Check every vector of one file, but for what is a fault of kube-scheduler.

    Raises FileNotFoundError when it is missing and ValueError when no checker knows its name or
    when it holds no vector at all: neither may pass as agreement.
    """
    name = path.name.removesuffix(SUFFIX)
    check = UNIT_FILES.get(name)
    if check is None:
        msg = f"{path}: no checker for unit file {name!r}; known: {', '.join(sorted(UNIT_FILES))}"
        raise ValueError(msg)
    with gzip.open(path, "rb") as lines:
        vectors: list[Vector] = [msgspec.json.decode(line) for line in lines]
    if not vectors:
        msg = f"{path}: holds no vectors"
        raise ValueError(msg)
    return [UnitResult(each["id"], list(_without_faults(each, check(each)))) for each in vectors]


def _without_faults(vector: Vector, differences: Sequence[Difference]) -> Iterator[Difference]:
    exempt = exempt_aspects(vector["id"])
    return (each for each in differences if each.field not in exempt)


def _compare(expected: Mapping[str, Any], actual: Mapping[str, object]) -> list[Difference]:
    missing = "<not computed>"
    return [
        Difference(name, value, actual.get(name, missing))
        for name, value in expected.items()
        if name not in actual or actual[name] != value
    ]


def _quantity(vector: Vector) -> list[Difference]:
    actual: dict[str, object]
    try:
        quantity = parse(vector["input"])
    except QuantityError:
        actual = {"ok": False}
    else:
        actual = {
            "ok": True,
            "canonical": quantity.canonical(),
            "string": str(quantity),
            "sign": quantity.sign,
            "value": quantity.value(),
            "milliValue": quantity.milli_value(),
        }
    return _compare(vector["expected"], actual)


def _quantity_arithmetic(vector: Vector) -> list[Difference]:
    a, b = parse(vector["input"]["a"]), parse(vector["input"]["b"])
    total, difference = a + b, a - b
    actual = {
        "cmp": (a > b) - (a < b),
        "sum": str(total),
        "difference": str(difference),
        "aValue": a.value(),
        "aMilliValue": a.milli_value(),
        "sumValue": total.value(),
        "sumMilliValue": total.milli_value(),
    }
    return _compare(vector["expected"], actual)


def _pod_requests(vector: Vector) -> list[Difference]:
    pod = msgspec.convert(vector["input"], Pod)
    milli_cpu, memory = non_zero_requests(pod)
    actual = {
        "requests": _printed(pod_requests(pod)),
        "limits": _printed(pod_limits(pod)),
        "asIncoming": _resources(incoming_requests(pod)),
        "asAssigned": _resources(assigned_requests(pod)),
        "nonZeroMilli": milli_cpu,
        "nonZeroMem": memory,
    }
    return _compare(vector["expected"], actual)


def _printed(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _resources(resources: Resources) -> dict[str, object]:
    shown: dict[str, object] = {
        "cpuMilli": resources.milli_cpu,
        "memory": resources.memory,
        "ephemeralStorage": resources.ephemeral_storage,
    }
    if resources.scalars:
        shown["scalar"] = dict(resources.scalars)
    return shown


def _label_selector(vector: Vector) -> list[Difference]:
    raw = vector["input"]["selector"]
    selector = None if raw is None else msgspec.convert(raw, LabelSelector)
    actual: dict[str, object]
    try:
        compiled = compile_label_selector(selector)
    except SelectorError:
        actual = {"valid": False}
    else:
        actual = {"valid": True, "matches": compiled.matches(vector["input"]["labels"] or {})}
    return _compare(vector["expected"], actual)


def _node_selector(vector: Vector) -> list[Difference]:
    selector = compile_node_selector(
        msgspec.convert(vector["input"]["nodeSelector"] or {}, NodeSelector)
    )
    node = _node(vector)
    matches = selector.matches(node.metadata.labels, node.name)
    actual = {
        "valid": not selector.errors,
        "matches": matches,
        "matchError": not matches and bool(selector.errors),
    }
    return _compare(vector["expected"], actual)


def _required_node_affinity(vector: Vector) -> list[Difference]:
    spec = msgspec.convert(vector["input"]["pod"], Pod).spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = compile_required_node_affinity(
        spec.node_selector, affinity.required if affinity else None
    )
    node = _node(vector)
    map_matches = required.node_selector.matches(node.metadata.labels)
    matches = required.matches(node.metadata.labels, node.name)
    actual = {
        "matches": matches,
        "matchError": map_matches and not matches and bool(required.errors),
    }
    return _compare(vector["expected"], actual)


def _preferred_node_affinity(vector: Vector) -> list[Difference]:
    terms = msgspec.convert(vector["input"]["preferred"], tuple[PreferredSchedulingTerm, ...])
    preferred = compile_preferred_terms(terms)
    node = _node(vector)
    actual: dict[str, object] = {"valid": preferred.error is None}
    if preferred.error is None:
        actual["score"] = preferred.score(node.metadata.labels, node.name)
    return _compare(vector["expected"], actual)


def _toleration(vector: Vector) -> list[Difference]:
    toleration = msgspec.convert(vector["input"]["toleration"], Toleration)
    taint = msgspec.convert(vector["input"]["taint"], Taint)
    return _compare(vector["expected"], {"tolerates": tolerates(toleration, taint)})


def _untolerated_taint(vector: Vector) -> list[Difference]:
    taints = msgspec.convert(vector["input"]["taints"] or [], tuple[Taint, ...])
    tolerations = msgspec.convert(vector["input"]["tolerations"] or [], tuple[Toleration, ...])
    found = first_untolerated(taints, tolerations)
    actual: dict[str, object] = {"untolerated": found is not None}
    if found is not None:
        actual["taint"] = msgspec.to_builtins(found)
    return _compare(vector["expected"], actual)


def _host_port(vector: Vector) -> list[Difference]:
    used = [claim for each in vector["input"]["used"] or [] if (claim := _claim(each)) is not None]
    wanted = _claim(vector["input"]["want"])
    conflict = wanted is not None and conflicts(used, wanted)
    return _compare(vector["expected"], {"conflict": conflict})


def _claim(raw: Mapping[str, Any]) -> HostPort | None:
    return host_port(raw.get("hostIP", ""), raw.get("protocol", ""), raw.get("hostPort", 0))


def _dra_cel(vector: Vector) -> list[Difference]:
    stated = vector["input"]
    device = msgspec.convert(stated["device"], Device)
    expected = {"result": vector["expected"]["result"]}
    actual: dict[str, object] = {}
    try:
        selector = DeviceSelector(stated["expression"])
        value = device_value(stated["device"]["driver"], device)
        matches, cost = selector.evaluate(value)
    except CompileError:
        actual["result"] = "compileError"
    except (EvaluationError, EvaluationCancelledError):
        actual["result"] = "runtimeError"
    else:
        actual["result"] = str(matches).lower()
        if "cost" in vector["expected"]:
            expected["cost"] = vector["expected"]["cost"]
            actual["cost"] = cost
    # The texts of errors are cel-go's own, and the estimate is the API server's business.
    return _compare(expected, actual)


_GATES: Final = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions": "binding_conditions",
    "DRADeviceTaints": "device_taints",
    "DRAListTypeAttributes": "list_attributes",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}


def _dra_allocator(vector: Vector) -> list[Difference]:
    actual = allocation(vector, exhaustive=True)
    quick = allocation(vector, exhaustive=False)
    # What the quick search leaves out decides nothing.
    differences = _compare(actual, {**quick, "steps": actual["steps"]})
    expected = _without_compiler_text(vector["expected"], actual)
    return differences + _compare(expected, actual)


def allocation(vector: Vector, *, exhaustive: bool) -> dict[str, object]:
    """Return what the allocator finds for the input of a vector, in the form of `expected`."""
    stated = vector["input"]
    features = Features()
    if "features" in stated:
        features = Features(**{name: gate in stated["features"] for gate, name in _GATES.items()})
    classes = _decoded(stated["deviceClasses"], list[DeviceClass])
    allocator = Allocator(
        features,
        _allocated(stated.get("allocated", {})),
        {each.metadata.name: each for each in classes},
        SliceIndex(map(SliceView, _decoded(stated["resourceSlices"], list[ResourceSlice]))),
        Selectors(),
        lambda: "<uid>",
        exhaustive=exhaustive,
    )
    actual: dict[str, object] = {
        # Upstream has three; the other one that these gates choose knows lists.
        "implementation": "experimental" if features.list_attributes else "incubating"
    }
    try:
        found = allocator.allocate(
            _node(vector), _decoded(stated["resourceClaims"], list[ResourceClaim])
        )
    except NodeAllocationError as error:
        actual |= {"outcome": "nodeError", "error": str(error)}
    except AllocationError as error:
        actual |= {"outcome": "error", "error": str(error)}
    else:
        actual["outcome"] = "none" if found is None else "allocated"
        if found is not None:
            actual["allocations"] = msgspec.json.decode(msgspec.json.encode(found))
    actual["steps"] = allocator.steps
    return actual


def _without_compiler_text(
    expected: Mapping[str, Any], actual: dict[str, object]
) -> dict[str, Any]:
    """Return what is expected; of the compiler's text, only that it complains at that place."""
    where, marker, _ = expected.get("error", "").partition("CEL compile error: ")
    if marker and str(actual.get("error")).startswith(where + marker):
        return {**expected, "error": actual["error"]}
    return dict(expected)


def _allocated(stated: Mapping[str, Any]) -> Allocated:
    return Allocated(
        frozenset(map(_device_id, stated.get("devices", ()))),
        frozenset(map(_device_id, stated.get("shared", ()))),
        {
            _device_id(device): {name: parse(each) for name, each in amounts.items()}
            for device, amounts in stated.get("capacity", {}).items()
        },
    )


def _device_id(text: str) -> DeviceID:
    return DeviceID(*text.split("/"))


def _decoded(objects: Any, kind: type[T]) -> T:
    # By way of JSON: parameters of drivers are kept as text.
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)


def _node(vector: Vector) -> Node:
    return msgspec.convert(vector["input"]["node"], Node)


UNIT_FILES: Final[Mapping[str, Callable[[Vector], list[Difference]]]] = {
    "dra_allocator": _dra_allocator,
    "dra_cel": _dra_cel,
    "host_port": _host_port,
    "label_selector": _label_selector,
    "node_selector": _node_selector,
    "pod_requests": _pod_requests,
    "preferred_node_affinity": _preferred_node_affinity,
    "quantity": _quantity,
    "quantity_arithmetic": _quantity_arithmetic,
    "required_node_affinity": _required_node_affinity,
    "toleration": _toleration,
    "untolerated_taint": _untolerated_taint,
}
"""Checker by file name without `.jsonl.gz`; it takes one vector and returns what differs."""
