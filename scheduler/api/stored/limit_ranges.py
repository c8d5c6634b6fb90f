"""LimitRanges: the defaults that the admission plugin LimitRanger gives containers."""

from __future__ import annotations

from typing import Final

from scheduler.api.meta import ResourceList
from scheduler.api.policy import LimitRange, LimitRangeItem
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes, containers_of, part

LIMIT_RANGES: Final = "limitranges"
FILLED: Final = "defaults of LimitRange {}"


def admit(pod: JsonObject, existing: Existing, notes: Notes) -> None:
    """Fill in the requests and limits of containers that state none."""
    if not existing.known(LIMIT_RANGES):
        notes.miss("LimitRanges")
    namespace = (pod.get("metadata") or {}).get("namespace") or "default"
    for each in existing.every(LIMIT_RANGES):
        if each.metadata.namespace == namespace:
            _fill(pod["spec"], each, notes)


def _fill(spec: JsonObject, limit_range: LimitRange, notes: Notes) -> None:
    limits, requests = defaults_of(limit_range)
    for container in containers_of(spec):
        resources = part(container, "resources")
        for field, amounts in (("limits", limits), ("requests", requests)):
            missing = {
                name: amount
                for name, amount in amounts.items()
                if name not in resources.get(field, ())
            }
            if missing:
                part(resources, field).update(missing)
                notes.fill(FILLED.format(limit_range.metadata.name[:80]))


def defaults_of(limit_range: LimitRange) -> tuple[ResourceList, ResourceList]:
    """Return the limits and requests of a container that states none."""
    limits: ResourceList = {}
    requests: ResourceList = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            own_limits, own_requests = _completed(item)
            limits |= own_limits
            requests |= own_requests
    return limits, requests


def _completed(item: LimitRangeItem) -> tuple[ResourceList, ResourceList]:
    """Return limits and requests as `SetDefaults_LimitRangeItem` completes them."""
    limits = {**item.max, **item.default}
    return limits, {**item.min, **limits, **item.default_request}
