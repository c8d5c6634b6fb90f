"""The fallback criteria of a pod's hard constraints, from the native field and the annotation.

Rules S1 and S14 of docs/topology-spread-fallback.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from plugins.pod_topology_spread.constraints import Written
from plugins.pod_topology_spread.fallback_annotation import (
    ANNOTATION,
    EVERY_KEY,
    Criteria,
    FallbackAnnotationError,
    criteria_by_key,
    parse_fallback_annotation,
)
from scheduler.api.pod import Pod


class FallbackSpec(NamedTuple):
    """The criteria of one pod, from the native field or the annotation."""

    #: Topology key of a hard constraint to its criteria, in the order of the constraints.
    criteria: Mapping[str, Criteria]
    #: Why the whole annotation is ignored; empty for a valid annotation or none.
    invalid: str = ""
    #: Topology keys for which the annotation contradicts the native field, which takes precedence.
    overruled: tuple[str, ...] = ()


_NO_CRITERIA: Final = FallbackSpec({})


def fallback_spec(pod: Pod, written: Written) -> FallbackSpec:
    """Merge the criteria of the native field with those of the annotation; the field wins."""
    native = written.criteria
    text = pod.metadata.annotations.get(ANNOTATION)
    if text is None:
        return FallbackSpec(native) if native else _NO_CRITERIA
    own_keys = written.hard_keys if written.own else ()
    try:
        entries = parse_fallback_annotation(text, own_keys)
    except FallbackAnnotationError as error:
        return FallbackSpec(native, invalid=str(error))
    annotated = criteria_by_key(entries, own_keys)
    merged = {
        key: criteria
        for key in written.hard_keys
        if (criteria := native.get(key) or annotated.get(key, ()))
    }
    overruled = tuple(
        key
        for key in own_keys
        if key in native
        and key in entries
        and key != EVERY_KEY
        and set(native[key]) != set(entries[key])
    )
    return FallbackSpec(merged, overruled=overruled)
