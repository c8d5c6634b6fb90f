"""All unit vectors of kube-scheduler agree, and the checkers can tell when one would not."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.conformance.units import SUFFIX, UNIT_FILES, VECTOR_DIRECTORY, run_unit_file
from devtools.conformance.upstream_faults import FAULTS

COUNTS = {
    "dra_allocator": 318,
    "dra_cel": 167,
    "host_port": 160,
    "label_selector": 243,
    "node_selector": 200,
    "pod_requests": 279,
    "preferred_node_affinity": 200,
    "quantity": 266,
    "quantity_arithmetic": 131,
    "required_node_affinity": 200,
    "toleration": 220,
    "untolerated_taint": 120,
}


def test_every_committed_file_has_a_checker_and_every_checker_a_file() -> None:
    files = {path.name.removesuffix(SUFFIX) for path in VECTOR_DIRECTORY.iterdir()}
    assert files == set(UNIT_FILES) == set(COUNTS)


@pytest.mark.parametrize("name", sorted(UNIT_FILES))
def test_unit_vectors_agree(name: str) -> None:
    results = run_unit_file(VECTOR_DIRECTORY / f"{name}{SUFFIX}")
    assert len(results) == COUNTS[name]
    assert [(each.id, each.differences) for each in results if not each.agrees] == []


def first_vector(name: str) -> dict[str, Any]:
    with gzip.open(VECTOR_DIRECTORY / f"{name}{SUFFIX}") as lines:
        vectors: Iterator[dict[str, Any]] = map(json.loads, lines)
        return next(each for each in vectors if each["id"] not in FAULTS)


@pytest.mark.parametrize("name", sorted(UNIT_FILES))
def test_a_checker_reports_each_expected_field_that_differs(name: str) -> None:
    vector = first_vector(name)
    for field in vector["expected"]:
        spoilt = copy.deepcopy(vector)
        spoilt["expected"][field] = "something else"
        assert [each.field for each in UNIT_FILES[name](spoilt)] == [field]


def test_an_expected_field_that_is_not_computed_is_a_difference() -> None:
    vector = first_vector("toleration")
    vector["expected"]["colour"] = "blue"
    (difference,) = UNIT_FILES["toleration"](vector)
    assert str(difference) == "colour: expected 'blue', got '<not computed>'"


def test_missing_empty_and_unknown_files_cannot_pass_as_agreement(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_unit_file(tmp_path / f"quantity{SUFFIX}")
    empty = tmp_path / f"toleration{SUFFIX}"
    empty.write_bytes(gzip.compress(b""))
    with pytest.raises(ValueError, match="holds no vectors"):
        run_unit_file(empty)
    with pytest.raises(ValueError, match="no checker for unit file 'weather'"):
        run_unit_file(tmp_path / f"weather{SUFFIX}")
