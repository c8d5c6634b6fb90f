"""`fallbackCriteria` of a spread constraint (KEP-3990) as a native API server treats it.

Rules: each criterion is supported and stands once; the list is legal only with `whenUnsatisfiable:
DoNotSchedule`; an empty list is legal anywhere and means never. What the list does is the
scheduler's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simulator.errors import (
    FieldCause,
    bad_request,
    duplicate_value,
    invalid_value,
    unsupported_value,
)
from simulator.objects import JsonObject, encode_json

FIELD: Final = "fallbackCriteria"
SUPPORTED: Final = ("NodeProvisioningFailed", "PreemptionFailed")
ONLY_WITH_HARD: Final = "can only use fallbackCriteria if whenUnsatisfiable=DoNotSchedule"


def _constraints(spec: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    entries = spec.get("topologySpreadConstraints")
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            yield place, entry


def has_criteria(spec: JsonObject) -> bool:
    """Whether a constraint of a pod spec has criteria. An empty list is none."""
    return any(entry.get(FIELD) for _, entry in _constraints(spec))


def clear_criteria(spec: JsonObject) -> None:
    """Take the field out of every constraint, in place."""
    for _, entry in _constraints(spec):
        entry.pop(FIELD, None)


def check_form(kind: str, version: str, spec: JsonObject, path: str) -> None:
    """Raise 400, naming the field, where the value is no list of strings."""
    for place, entry in _constraints(spec):
        value: Any = entry.get(FIELD)
        if value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            continue
        where = f"{path}.topologySpreadConstraints[{place}].{FIELD}"
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {where}: '
            f"want a list of strings, not {encode_json(value).decode()}"
        )


def validate_fallback(spec: JsonObject, path: str) -> list[FieldCause]:
    """Return violated rules of all constraints of a pod spec at `path`."""
    causes: list[FieldCause] = []
    for place, entry in _constraints(spec):
        criteria = entry.get(FIELD)
        if not criteria:
            continue
        where = f"{path}.topologySpreadConstraints[{place}].{FIELD}"
        if entry.get("whenUnsatisfiable") != "DoNotSchedule":
            causes.append(invalid_value(where, encode_json(criteria).decode(), ONLY_WITH_HARD))
        for number, criterion in enumerate(criteria):
            if criterion not in SUPPORTED:
                causes.append(unsupported_value(f"{where}[{number}]", criterion, SUPPORTED))
            elif criterion in criteria[:number]:
                causes.append(duplicate_value(f"{where}[{number}]", criterion))
    return causes
