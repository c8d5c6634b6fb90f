"""Redacted vectors: with other names, everything is decided as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from devtools.conformance.comparing import compare, differences, select_aspects
from devtools.conformance.observing import observe
from devtools.conformance.reading import FAMILIES, VECTORS, Vector, VectorFile
from devtools.conformance.redacting import redacted, redacted_allocation
from devtools.conformance.units import SUFFIX, VECTOR_DIRECTORY, allocation
from devtools.conformance.upstream_faults import FAULTS
from devtools.conformance.world import MISSING, World

DEPEND_ON_ORDER: Final = ("message", "message-prefix", "dra")
"""Aspects in which the order of names shows: of reasons in a message, and of devices."""

NAMED_LIKE_WORDS: Final[Mapping[str, frozenset[int]]] = {
    "dra": frozenset((10, 36, 78, 94)),
    "devices137": frozenset((8, 11, 22, 26, 40, 51, 53, 55)),
}
"""Vectors with a message that has, without quotes, a name that is a word of kubestow's messages."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_redacted_vector_is_decided_alike(family: str) -> None:
    aspects = [each for each in select_aspects(()) if each not in DEPEND_ON_ORDER]
    except_for = NAMED_LIKE_WORDS.get(family, frozenset())
    found = []
    for number, vector in enumerate(VectorFile(VECTORS / f"{family}{SUFFIX}", family).vectors(), 1):
        changed = redacted(vector)
        assert changed["input"] != vector["input"]
        compared = compare(changed, observe(World(changed)), aspects, MISSING)
        if number not in except_for:
            found += [(vector["id"], aspect, str(each)) for aspect, each in differences(compared)]
    assert found == []


def slice_order(vector: Vector) -> list[int]:
    """Return the slices in the order of their pools and names, in which devices are tried."""
    slices = vector["input"]["resourceSlices"]

    def names(number: int) -> tuple[str, str, str]:
        spec = slices[number]["spec"]
        return spec["driver"], spec["pool"]["name"], slices[number]["metadata"]["name"]

    return sorted(range(len(slices)), key=names)


@pytest.mark.slow
def test_a_redacted_claim_is_allocated_alike() -> None:
    path, in_order = VECTOR_DIRECTORY / f"dra_allocator{SUFFIX}", 0
    for vector in VectorFile(path, "unit/dra_allocator").vectors():
        if vector["id"] in FAULTS:
            vector["expected"] = allocation(vector, exhaustive=True)
        changed = redacted_allocation(vector)
        expected, actual = changed["expected"], allocation(changed, exhaustive=True)
        compared = ["outcome"]
        if slice_order(changed) == slice_order(vector):
            compared += ["allocations", "steps"]
            in_order += 1
        for key in compared:
            assert (vector["id"], actual.get(key)) == (vector["id"], expected.get(key))
    assert in_order > 150
