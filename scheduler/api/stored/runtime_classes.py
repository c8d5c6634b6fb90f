"""RuntimeClasses: overhead and placement that the admission plugin RuntimeClass adds to pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.api.policy import RuntimeClass, RuntimeClassScheduling
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes

RUNTIME_CLASSES: Final = "runtimeclasses"


def admit(spec: JsonObject, existing: Existing, notes: Notes) -> None:
    """Fill in overhead, node selector and tolerations of the class that a pod names."""
    name = str(spec.get("runtimeClassName") or "")
    if not name:
        return
    found: RuntimeClass | None = existing.get(RUNTIME_CLASSES, name)
    if found is None:
        notes.miss(f"RuntimeClass {name[:80]} (no overhead)")
        return
    if found.overhead.pod_fixed and "overhead" not in spec:
        spec["overhead"] = dict(found.overhead.pod_fixed)
        notes.fill(f"overhead of RuntimeClass {name[:80]}")
    if found.scheduling is not None:
        for field, value in _placement(spec, found.scheduling):
            if value and value != spec.get(field):
                spec[field] = value
                notes.fill(f"{field} of RuntimeClass {name[:80]}")


def _placement(
    spec: JsonObject, scheduling: RuntimeClassScheduling
) -> Iterator[tuple[str, dict[str, str] | list[JsonObject]]]:
    yield "nodeSelector", {**scheduling.node_selector, **spec.get("nodeSelector", {})}
    own = (msgspec.to_builtins(each) for each in scheduling.tolerations)
    yield "tolerations", merged([*spec.get("tolerations", ()), *own])


def merged(tolerations: list[JsonObject]) -> list[JsonObject]:
    """Return tolerations without those that another one includes; of equal ones the first stays.

    As `pkg/util/tolerations: MergeTolerations`.
    """
    kept: list[JsonObject] = []
    for index, each in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != each)
        if not any(_includes(other, each) for other in (*kept, *later)):
            kept.append(each)
    return kept


def _includes(wide: JsonObject, narrow: JsonObject) -> bool:
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if narrow.get("key") != wide.get("key") and (wide.get("key") or not exists):
        return False
    if wide.get("effect") and narrow.get("effect") != wide.get("effect"):
        return False
    seconds = wide.get("tolerationSeconds")
    if wide.get("effect") == "NoExecute" and seconds is not None:
        own = narrow.get("tolerationSeconds")
        if own is None or own > seconds:
            return False
    if exists:
        return True
    equal = ("", "Equal")
    return (
        wide.get("operator", "") in equal
        and narrow.get("operator", "") == "Equal"
        and narrow.get("value", "") == wide.get("value", "")
    )
