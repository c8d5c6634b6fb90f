"""The wait for binding conditions: drivers prepare devices before the pod is bound.

Upstream: `dynamicresources.go: isPodReadyForBinding, hasDeviceBindingStatus` (gate
DRADeviceBindingConditions).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from plugins.dynamic_resources.claims import (
    NOT_FOUND,
    DeviceNotReadyError,
    has_binding_conditions,
    is_ready,
)
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.permissions import CLAIMS
from scheduler.api.devices import ResourceClaim
from scheduler.api.pod import Pod
from scheduler.framework import Handle, Metric, ObjectKey

PENDING: Final = "BindingConditionsPending"
ACTION: Final = "Scheduling"
NOTE: Final = "waiting for binding conditions for device on node {node}"
TIMEOUT: Final = "device binding timeout: claim={claim}"
DEADLINE: Final = "device binding timeout: context deadline exceeded"

ALLOCATIONS: Final = "scheduler_dra_bindingconditions_allocations_total"
WAIT_DURATION: Final = "scheduler_dra_bindingconditions_wait_duration_seconds"
_LABELS: Final = ("profile", "driver", "status")

METRICS: Final = (
    Metric(
        ALLOCATIONS,
        "counter",
        "Number of devices with binding conditions that were waited for.",
        _LABELS,
    ),
    Metric(
        WAIT_DURATION,
        "histogram",
        "Time in seconds spent waiting for binding conditions.",
        _LABELS,
        buckets=tuple(0.1 * 2**power for power in range(14)),
    ),
)


class NotReadyError(Exception):
    """The devices did not become ready; `status` is the label of the metrics."""

    def __init__(self, text: str, status: str) -> None:
        super().__init__(text)
        self.status = status


def is_broken(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Whether devices of an allocated claim failed, or were not ready within `timeout`."""
    try:
        return not is_ready(claim) and _expires(claim, timeout) <= now
    except DeviceNotReadyError:
        return True


async def wait_until_ready(
    handle: Handle, devices: ClusterDevices, pod: Pod, node: str, names: list[str], timeout: float
) -> None:
    """Wait until all devices of the named claims are ready; raises `NotReadyError`."""
    namespace = pod.metadata.namespace
    waiting = [
        claim
        for name in names
        if (claim := devices.claims.get(name, namespace)) and has_binding_conditions(claim)
    ]
    if not waiting:
        return
    handle.events.record(pod, "Normal", PENDING, ACTION, NOTE.format(node=node))
    began = handle.clock.now()
    first_expiry = min(_expires(each, timeout) for each in waiting)
    status = "success"

    def look() -> tuple[ObjectKey, ...]:
        return tuple(_unready(devices, namespace, names, handle.clock.now(), timeout))

    try:
        seconds = max(0.0, min(timeout, first_expiry - began))
        if not await handle.api.wait_for(look, seconds) and look():
            raise NotReadyError(DEADLINE, "timeout")
    except DeviceNotReadyError as error:
        status = "failure"
        raise NotReadyError(str(error), status) from error
    except NotReadyError as error:
        status = error.status
        raise
    finally:
        _measure(handle, waiting, status, handle.clock.now() - began)


def _unready(
    devices: ClusterDevices, namespace: str, names: list[str], now: float, timeout: float
) -> Iterator[ObjectKey]:
    for name in names:
        claim = devices.claims.get(name, namespace)
        if claim is None:
            raise NotReadyError(NOT_FOUND.format(claim=f"{namespace}/{name}"), "error")
        if is_ready(claim):
            continue
        if _expires(claim, timeout) <= now:
            raise NotReadyError(TIMEOUT.format(claim=claim.metadata.name), "timeout")
        yield ObjectKey(CLAIMS, namespace, name)


def _expires(claim: ResourceClaim, timeout: float) -> float:
    """Return the time at which the wait for a claim ends; infinity without an allocation time."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp:
        return float("inf")
    if not has_binding_conditions(claim):
        return float("inf")
    try:
        allocated = dt.datetime.fromisoformat(allocation.allocation_timestamp)
    except ValueError:
        return float("inf")
    return allocated.timestamp() + timeout


def _measure(handle: Handle, claims: list[ResourceClaim], status: str, seconds: float) -> None:
    for claim in claims:
        allocation = claim.status.allocation
        for each in () if allocation is None else allocation.devices.results:
            labels = handle.profile_name, each.driver, status
            handle.metrics.observe(WAIT_DURATION, *labels, value=seconds)
            if each.binding_conditions:
                handle.metrics.count(ALLOCATIONS, *labels)
