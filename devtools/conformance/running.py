"""Running vector files: each vector's differences, counted by family and aspect."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from devtools.conformance.comparing import compare, differences, group
from devtools.conformance.observing import observe
from devtools.conformance.reading import Vector, VectorFile
from devtools.conformance.units import run_unit_file
from devtools.conformance.world import MISSING, World

CRASH = "crash"
"""In place of an aspect where our side raised."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, or why a vector could not be run."""

    vector: str
    note: str
    aspect: str
    text: str


@dataclass(slots=True)
class Tally:
    """Counts of one group of aspects in one family."""

    agree: int = 0
    total: int = 0
    #: Missing plugins that were left out of the comparison because they sat out upstream.
    without: set[str] = field(default_factory=set)


@dataclass(slots=True)
class FamilyResult:
    """One file."""

    family: str
    total: int = 0
    #: Vectors all of whose selected aspects agree.
    agree: int = 0
    groups: dict[str, Tally] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def run_file(file: VectorFile, aspects: Sequence[str]) -> FamilyResult:
    """Run all vectors of a file. VectorError when it cannot be read."""
    result = FamilyResult(file.family)
    if file.unit:
        _run_units(file, result)
        return result
    for vector in file.vectors():
        result.total += 1
        found = _run_vector(vector, aspects, result)
        result.findings += found
        result.agree += not found
    return result


def _run_units(file: VectorFile, result: FamilyResult) -> None:
    for each in run_unit_file(file.path):
        result.total += 1
        result.agree += each.agrees
        result.findings += [
            Finding(each.id, "", difference.field, str(difference))
            for difference in each.differences
        ]


def _run_vector(vector: Vector, aspects: Sequence[str], result: FamilyResult) -> list[Finding]:
    identity, note = vector["id"], vector.get("note", "")
    try:
        compared = compare(vector, observe(World(vector)), aspects, MISSING)
    except Exception:  # noqa: BLE001 - vector boundary: one that cannot be run must not hide the others
        return [Finding(identity, note, CRASH, traceback.format_exc(limit=-4))]
    by_group: dict[str, bool] = {}
    for aspect, each in compared.items():
        name = group(aspect)
        by_group[name] = by_group.get(name, True) and not each.differences
        result.groups.setdefault(name, Tally()).without |= each.without
    for name, agrees in by_group.items():
        result.groups[name].total += 1
        result.groups[name].agree += agrees
    return [
        Finding(identity, note, aspect, str(difference))
        for aspect, difference in differences(compared)
    ]
