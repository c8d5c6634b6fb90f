"""Devices, claims and the pods that use them, of upstream's workloads (`scheduler_perf/dra`).

Nodes have two devices each instead of ten, so that a cluster of many nodes can be filled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

DRIVER: Final = "test-driver.cdi.k8s.io"
CLASS: Final = "test-class"
CLASSES: Final = 25
DEVICES: Final = 2
"""Devices of a node."""
SHARERS: Final = 5
"""Pods that use one claim."""

_IMPLICIT: Final = "deviceclass.resource.kubernetes.io"


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _device(number: int, **more: Any) -> dict[str, Any]:
    attributes = {
        "model": {"string": "LATEST-GPU-MODEL"},
        "family": {"string": "GPU"},
        "driverVersion": {"version": "1.0.0"},
        "dra.example.com/numa": {"int": number},
    }
    capacity = {"memory": {"value": "1Gi"}}
    return {"name": f"instance-{number}", "attributes": attributes, "capacity": capacity, **more}


def _slice(index: int, **more: Any) -> dict[str, Any]:
    node = f"scheduler-perf-{index:05d}"
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(number, **more) for number in range(DEVICES)],
    }
    return _object("ResourceSlice", node, spec)


def _class(name: str, expression: str = "", resource: str = "") -> dict[str, Any]:
    selected = expression or f'device.driver == "{DRIVER}"'
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": selected}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return _object("DeviceClass", name, spec)


def _claimed(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"devices": {"requests": list(requests)}}


def _one(**more: Any) -> dict[str, Any]:
    return _claimed({"name": "req-0", "exactly": {"deviceClassName": CLASS, **more}})


def _template(spec: dict[str, Any]) -> dict[str, Any]:
    return _object("ResourceClaimTemplate", "test-claim-template", {"spec": spec})


_ALTERNATIVES: Final = _claimed(
    {
        "name": "req-0",
        "firstAvailable": [
            {"name": "sub-0", "deviceClassName": "no-such-device"},
            {"name": "sub-1", "deviceClassName": CLASS},
        ],
    }
)
_TAINT: Final = {"key": "example.com/taint", "value": "tainted", "effect": "NoSchedule"}
_TOLERATION: Final = {"key": "example.com/taint", "operator": "Exists", "effect": "NoSchedule"}
_SHARED_CAPACITY: Final = {
    "memory": {
        "value": "80Gi",
        "requestPolicy": {
            "default": "1Gi",
            "validRange": {"min": "1Gi"},
        },
    }
}


_COUNTERS: Final = tuple(f"counter{number}" for number in range(1, 5))
_ON_DEVICE_NODES: Final = {"key": "node-with-dra", "operator": "In", "values": ["true"]}


def _partition(index: int, name: str, *counters: str) -> dict[str, Any]:
    """Return a part of the device of a pool, which takes some of its counters."""
    amounts = {each: {"value": "1"} for each in counters}
    return {
        "name": name,
        "attributes": {
            "preallocate": {"bool": name == "device-2-counters-1"},
            "dra.example.com/slice": {"int": index},
        },
        "capacity": {"counters": {"value": str(len(counters))}},
        "consumesCounters": [{"counterSet": "counter-set", "counters": amounts}],
    }


def _partitions(index: int) -> dict[str, Any]:
    """Return the devices of a pool: halves and quarters of four counters."""
    halves = [
        _partition(index, f"device-2-counters-{number + 1}", *_COUNTERS[2 * number :][:2])
        for number in range(2)
    ]
    quarters = [
        _partition(index, f"device-1-counter-{number}", each)
        for number, each in enumerate(_COUNTERS, start=1)
    ]
    return _of_pool(index, "devices", devices=halves + quarters)


def _counters(index: int) -> dict[str, Any]:
    counters = {each: {"value": "1"} for each in _COUNTERS}
    return _of_pool(
        index, "countersets", sharedCounters=[{"name": "counter-set", "counters": counters}]
    )


def _of_pool(index: int, part: str, **content: Any) -> dict[str, Any]:
    spec = {
        "driver": DRIVER,
        "pool": {"name": f"resourceslice-{index}", "generation": 1, "resourceSliceCount": 2},
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [_ON_DEVICE_NODES]}]},
        **content,
    }
    return _object("ResourceSlice", f"resourceslice-{part}-{index}", spec)


_LARGE: Final = f"device.capacity['{DRIVER}'].counters.compareTo(quantity('2')) >= 0"
_PREALLOCATED: Final = {
    "cel": {"expression": f"{_LARGE} &&\ndevice.attributes['{DRIVER}'].preallocate"}
}
_TWO_OF_ONE_POOL: Final = {
    "devices": {
        **_one(count=2)["devices"],
        "constraints": [{"requests": ["req-0"], "matchAttribute": "dra.example.com/slice"}],
    }
}


def _pod(name: str, claim: dict[str, str], resource: str = "") -> dict[str, Any]:
    container: dict[str, Any] = {"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if resource:
        container["resources"] = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    else:
        container["resources"] = {"claims": [{"name": "resource"}]}
        spec["resourceClaims"] = [{"name": "resource", **claim}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


DEVICE_TEMPLATES: Final[dict[str, Callable[[int, int], dict[str, Any]]]] = {
    "device-slice": lambda i, _n: _slice(i),
    "tainted-slice": lambda i, _n: _slice(i, taints=[_TAINT]),
    "shareable-slice": lambda i, _n: _slice(
        i, allowMultipleAllocations=True, capacity=_SHARED_CAPACITY
    ),
    "device-class": lambda _i, _n: _class(CLASS),
    "never-matching-class": lambda _i, _n: _class("no-such-device", "false"),
    "numbered-class": lambda i, _n: _class(f"{CLASS}-{i}", resource=f"example.com/gpu-{i}"),
    "plain-numbered-class": lambda i, _n: _class(f"{CLASS}-{i}"),
    "claim-template": lambda _i, _n: _template(_one()),
    "tolerating-claim-template": lambda _i, _n: _template(_one(tolerations=[_TOLERATION])),
    "prioritised-claim-template": lambda _i, _n: _template(_ALTERNATIVES),
    "capacity-claim-template": lambda _i, _n: _template(
        _one(capacity={"requests": {"memory": "40Gi"}})
    ),
    "partitions-slice": lambda i, _n: _partitions(i),
    "counters-slice": lambda i, _n: _counters(i),
    "preallocated-claim-template": lambda _i, _n: _template(_one(selectors=[_PREALLOCATED])),
    "two-partitions-claim-template": lambda _i, _n: _template(_TWO_OF_ONE_POOL),
    "scoring-class": lambda i, _n: _class(f"scoring-{CLASS}-{i}", resource="example.com/gpu"),
    "pod-with-scored-resource": lambda i, _n: _pod(f"scored-{i}", {}, "example.com/gpu"),
    "shared-claim": lambda i, _n: _object("ResourceClaim", f"test-claim-{i}", _one()),
    "pod-with-claim-template": lambda i, _n: _pod(
        f"claiming-{i}", {"resourceClaimTemplateName": "test-claim-template"}
    ),
    "pod-with-shared-claim": lambda i, _n: _pod(
        f"sharing-{i}", {"resourceClaimName": f"test-claim-{i // SHARERS}"}
    ),
    "pod-with-extended-resource": lambda i, _n: _pod(
        f"extended-{i}", {}, f"example.com/gpu-{i % CLASSES}"
    ),
    "pod-with-implicit-resource": lambda i, _n: _pod(
        f"implicit-{i}", {}, f"{_IMPLICIT}/{CLASS}-{i % CLASSES}"
    ),
}
"""Templates as in `benchmarks.templates`."""
