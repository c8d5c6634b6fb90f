"""pyproject.toml, its lock file and the Makefile say what they promise to say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.unit.repository.tree import ROOT

PROJECT_TEXT: Final = (ROOT / "pyproject.toml").read_text()
PROJECT: Final[dict[str, Any]] = tomllib.loads(PROJECT_TEXT)
MAKEFILE: Final = (ROOT / "Makefile").read_text()
GATES: Final = {
    "help",
    "venv",
    "demo",
    "test",
    "lint",
    "types",
    "fmt",
    "envtest",
    "envtest-build",
    "bench",
    "conformance",
    "wheel",
    "clean",
}


def requirements() -> list[Requirement]:
    """Return what the project needs at run time and for development."""
    lines = PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]
    return [Requirement(line) for line in lines]


def locked() -> dict[str, Version]:
    """Return the pinned version of each distribution in the lock file."""
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    pins = [
        re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if not line.startswith("#")
    ]
    assert all(pins), "the lock file holds exact pins and comments only"
    return {canonicalize_name(pin[1]): Version(pin[2]) for pin in pins if pin}


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_dependency_has_a_reason_beside_it(requirement: Requirement) -> None:
    line = next(each for each in PROJECT_TEXT.splitlines() if f'"{requirement.name}>=' in each)
    _, _, reason = line.partition("#")
    assert len(reason.split()) >= 2, f"say why {requirement.name} is needed: {line!r}"


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_dependency_has_both_bounds_and_the_lock_is_within(requirement: Requirement) -> None:
    operators = {specifier.operator for specifier in requirement.specifier}
    assert operators == {">=", "<"}
    pinned = locked()[canonicalize_name(requirement.name)]
    assert pinned in requirement.specifier, f"{requirement} but locked {pinned}: make lock"


def test_the_wheel_gives_one_command() -> None:
    assert PROJECT["project"]["scripts"] == {"kubestow": "scheduler.cli:main"}


def test_every_lint_rule_that_is_off_has_a_reason() -> None:
    section = PROJECT_TEXT[PROJECT_TEXT.index("\nignore = [") :]
    section = section[: section.index("[tool.ruff.lint.flake8")]
    bare = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]+\d*",\s*$', line)]
    assert not bare


def targets() -> Iterator[tuple[str, str]]:
    """Yield name and rest of the line of each target that is not a file."""
    phony = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
    for name, rest in re.findall(r"^([a-z][a-z-]*):(.*)$", MAKEFILE, re.MULTILINE):
        assert name in phony, f"{name} is not declared .PHONY"
        yield name, rest


def test_every_target_is_described() -> None:
    assert not [name for name, rest in targets() if not re.search(r"## \w.{10,}", rest)]


def test_the_promised_targets_exist_and_help_is_the_default() -> None:
    assert {name for name, _ in targets()} >= GATES
    assert ".DEFAULT_GOAL := help" in MAKEFILE
