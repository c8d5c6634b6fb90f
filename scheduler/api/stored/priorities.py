"""Priorities: what the admission plugin Priority does (`plugin/pkg/admission/priority`)."""

from __future__ import annotations

from typing import Final

from scheduler.api.policy import PriorityClass
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes

PRIORITY_CLASSES: Final = "priorityclasses"
BUILT_IN: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The classes that every cluster has, and their values."""
PREEMPT: Final = "PreemptLowerPriority"


def admit(spec: JsonObject, existing: Existing, notes: Notes) -> None:
    """Fill in priority, preemption policy, and the name of the default class."""
    if "priority" in spec:
        # Given by somebody who knows it; an API server refuses another one than that of the class.
        spec.setdefault("preemptionPolicy", PREEMPT)
        return
    name = spec.get("priorityClassName") or ""
    found = class_of(name, existing)
    if found is None:
        if name:
            notes.miss(f"PriorityClass {name[:80]} (priority 0)")
        elif not existing.known(PRIORITY_CLASSES):
            notes.miss("PriorityClasses (priority 0)")
        spec["priority"] = 0
        spec.setdefault("preemptionPolicy", PREEMPT)
        return
    if not name:
        spec["priorityClassName"] = found.metadata.name
    spec["priority"] = found.value
    spec.setdefault("preemptionPolicy", found.preemption_policy or PREEMPT)
    notes.fill(f"priority {found.value} of PriorityClass {found.metadata.name[:80]}")


def class_of(name: str, existing: Existing) -> PriorityClass | None:
    """Return the named class, without a name the global default with the lowest value."""
    if name:
        found: PriorityClass | None = existing.get(PRIORITY_CLASSES, name)
        if found is None and name in BUILT_IN:
            found = PriorityClass(value=BUILT_IN[name])
            found.metadata.name = name
        return found
    defaults = (each for each in existing.every(PRIORITY_CLASSES) if each.global_default)
    return min(defaults, key=lambda each: each.value, default=None)
