"""The annotation with the fallback criteria of hard constraints (docs/topology-spread-fallback.md).

    value   = entry *( ";" entry )
    entry   = ( topologyKey / "*" ) "=" criterion *( "+" criterion )

A stock API server drops the native field `fallbackCriteria`, but keeps metadata. The topology key
names a hard constraint of a pod uniquely; `*` stands for every hard constraint that no entry names.

Invariant: all or nothing. One mistake invalidates the whole annotation. The scheduler and the
validation of manifests use the same function.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

ANNOTATION: Final = "kubestow.io/topology-spread-fallback"

NODE_PROVISIONING_FAILED: Final = "NodeProvisioningFailed"
PREEMPTION_FAILED: Final = "PreemptionFailed"
CRITERIA: Final = (NODE_PROVISIONING_FAILED, PREEMPTION_FAILED)

EVERY_KEY: Final = "*"

Criteria = tuple[str, ...]


class FallbackAnnotationError(ValueError):
    """The annotation is invalid as a whole; the text names the mistake and the correction."""


def parse_fallback_annotation(value: str, hard_keys: Collection[str]) -> Mapping[str, Criteria]:
    """Parse criteria by topology key, or by `*`, for a pod with these DoNotSchedule constraints.

    >>> parse_fallback_annotation("zone=NodeProvisioningFailed + PreemptionFailed", ["zone"])
    {'zone': ('NodeProvisioningFailed', 'PreemptionFailed')}

    Raises:
        FallbackAnnotationError: no part of the annotation may be used.
    """
    if not value.strip():
        raise FallbackAnnotationError(
            "the value is empty: want <topologyKey|*>=<criterion>[+<criterion>][;...], "
            "or no annotation"
        )
    found: dict[str, Criteria] = {}
    for entry in value.split(";"):
        key, criteria = _entry(entry)
        if key in found:
            raise FallbackAnnotationError(f'topology key "{key}" is named twice: name it once')
        _check_key(key, hard_keys)
        found[key] = criteria
    return found


def criteria_by_key(
    entries: Mapping[str, Criteria], hard_keys: Collection[str]
) -> Mapping[str, Criteria]:
    """Resolve `*`: return the criteria of each hard constraint that has any.

    >>> criteria_by_key({"*": ("PreemptionFailed",)}, ["zone"])
    {'zone': ('PreemptionFailed',)}
    """
    rest = entries.get(EVERY_KEY, ())
    return {key: criteria for key in hard_keys if (criteria := entries.get(key, rest))}


def _entry(text: str) -> tuple[str, Criteria]:
    key, equals, listed = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise FallbackAnnotationError(
            f'entry "{text.strip()}": want <topologyKey|*>=<criterion>[+<criterion>]'
        )
    criteria = tuple(each.strip() for each in listed.split("+"))
    for index, each in enumerate(criteria):
        if each not in CRITERIA:
            known = " or ".join(CRITERIA)
            raise FallbackAnnotationError(
                f'topology key "{key}": unknown criterion "{each}": want {known}'
            )
        if each in criteria[:index]:
            raise FallbackAnnotationError(f'topology key "{key}": criterion {each} is named twice')
    return key, criteria


def _check_key(key: str, hard_keys: Collection[str]) -> None:
    if key in hard_keys or (key == EVERY_KEY and hard_keys):
        return
    known = ", ".join(f'"{each}"' for each in hard_keys) or "none"
    raise FallbackAnnotationError(
        f'topology key "{key}": the pod has no such constraint with whenUnsatisfiable: '
        f"DoNotSchedule (it has {known})"
    )
