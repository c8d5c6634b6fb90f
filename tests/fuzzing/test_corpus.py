"""Inputs that once reached new code, or found a fault, are handled today."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.fuzzing.json_mutator import mutate
from tests.fuzzing.targets import TARGETS

CORPUS = Path(__file__).with_name("corpus")
FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_is_handled(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_inputs_and_every_folder_a_target() -> None:
    assert {path.parent.name for path in FILES} == set(TARGETS)


def test_a_fault_is_found() -> None:
    """Checks the harness: a target that raises no error would prove nothing."""
    with pytest.raises(AttributeError):
        TARGETS["quantity"](None)  # type: ignore[arg-type]


def test_a_mutation_changes_one_place_of_a_document() -> None:
    document = b'{"a": [1, {"b": "c"}]}'
    changed = {mutate(document, Random(seed)) for seed in range(50)}
    assert len(changed) > 10
    assert all(isinstance(json.loads(each or b""), dict) for each in changed)
    assert mutate(document, Random(1)) == mutate(document, Random(1))


@pytest.mark.parametrize("data", [b"", b"no JSON", b"1", b"[]", b"[" * 100_000])
def test_an_input_without_a_container_is_not_mutated(data: bytes) -> None:
    assert mutate(data, Random(1)) is None
