"""LimitRanges: the defaults that the admission plugin LimitRanger gives containers."""

from __future__ import annotations

from typing import Final

from scheduler.api.meta import ResourceList
from scheduler.api.policy import LimitRange
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes, containers_of, part

LIMIT_RANGES: Final = "limitranges"
FILLED: Final = "defaults of LimitRange {}"


def admit(pod: JsonObject, existing: Existing, notes: Notes) -> bool:
    """Fill in the requests and limits of containers that state none; return whether any were."""
    if not existing.known(LIMIT_RANGES):
        notes.miss("LimitRanges")
    namespace = (pod.get("metadata") or {}).get("namespace") or "default"
    filled = False
    for each in existing.every(LIMIT_RANGES):
        if each.metadata.namespace == namespace and _fill(pod["spec"], each):
            filled = True
            notes.fill(FILLED.format(each.metadata.name[:80]))
    return filled


def _fill(spec: JsonObject, limit_range: LimitRange) -> bool:
    filled = False
    for field, amounts in zip(("limits", "requests"), defaults_of(limit_range), strict=True):
        for container in containers_of(spec) if amounts else ():
            stated = part(part(container, "resources"), field)
            for name, amount in amounts.items():
                if name not in stated:
                    stated[name], filled = amount, True
    return filled


def defaults_of(limit_range: LimitRange) -> tuple[ResourceList, ResourceList]:
    """Return the limits and requests of a container that states none."""
    limits: ResourceList = {}
    requests: ResourceList = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            limits |= item.default
            requests |= item.default_request
    return limits, requests


def default(limit_range: JsonObject, _notes: Notes) -> None:
    """Fill in the defaults of containers (`SetDefaults_LimitRangeItem`)."""
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**item.get("max", {}), **item.get("default", {})}
            requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
            item |= {"default": limits, "defaultRequest": requests}
