"""Validation of spread constraints: the rules of v1.37, and those of `fallbackCriteria`.

Checked in new pods and in templates. A pod's constraints cannot change later. Left out: label
selectors, matchLabelKeys and the two node inclusion policies, which are kept as they come.
"""

from __future__ import annotations

from typing import Any, Final

from simulator.errors import (
    FieldCause,
    duplicate_value,
    invalid_value,
    required_field,
    unsupported_value,
)
from simulator.fallback_criteria import validate_fallback
from simulator.objects import JsonObject, encode_json

_WHEN: Final = ("DoNotSchedule", "ScheduleAnyway")
_POSITIVE: Final = "must be greater than zero"


def validate_spread(spec: JsonObject, path: str) -> list[FieldCause]:
    """Return violated rules of the constraints of a pod spec at `path`."""
    entries: Any = spec.get("topologySpreadConstraints")
    if not isinstance(entries, list):
        return []
    causes: list[FieldCause] = []
    for place, entry in enumerate(entries):
        where = f"{path}.topologySpreadConstraints[{place}]"
        causes += _basics(entry, where)
        if any(_identity(entry) == _identity(other) for other in entries[place + 1 :]):
            causes.append(
                duplicate_value(
                    f"{where}.{{topologyKey, whenUnsatisfiable}}",
                    f"{{{', '.join(_identity(entry))}}}",
                )
            )
    return causes + validate_fallback(spec, path)


def _identity(entry: JsonObject) -> tuple[str, str]:
    return str(entry.get("topologyKey", "")), str(entry.get("whenUnsatisfiable", ""))


def _basics(entry: JsonObject, where: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    skew, domains, when = entry.get("maxSkew", 0), entry.get("minDomains"), _identity(entry)[1]
    if skew <= 0:
        causes.append(invalid_value(f"{where}.maxSkew", encode_json(skew).decode(), _POSITIVE))
    if not entry.get("topologyKey"):
        causes.append(required_field(f"{where}.topologyKey", "can not be empty"))
    if when not in _WHEN:
        causes.append(unsupported_value(f"{where}.whenUnsatisfiable", when, _WHEN))
    if domains is not None:
        shown = encode_json(domains).decode()
        if domains <= 0:
            causes.append(invalid_value(f"{where}.minDomains", shown, _POSITIVE))
        if when != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
            causes.append(invalid_value(f"{where}.minDomains", shown, why))
    return causes
