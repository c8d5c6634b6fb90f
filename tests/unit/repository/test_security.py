"""SECURITY.md promises only what a test shows: each promise names tests that exist."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.repository.tree import ROOT

PROMISES: Final = [
    line
    for line in (ROOT / "SECURITY.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| promise |")
]


def test_there_are_promises() -> None:
    assert len(PROMISES) > 10


@pytest.mark.parametrize("promise", PROMISES, ids=lambda line: str(line[2:40]))
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    _, _, named, _ = promise.split("|")
    paths = re.findall(r"`([^`]+)`", named)
    assert paths, "name the test that shows it"
    for path in paths:
        found = ROOT / path
        files = [found] if found.suffix == ".py" else list(found.glob("test_*.py"))
        assert files, f"{path} holds no tests"
        assert any(
            "\ndef test_" in each.read_text() or "\nasync def test_" in each.read_text()
            for each in files
        )
