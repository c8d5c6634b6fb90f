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
    "page",
    "e2e",
    "e2e-short",
    "e2e-build",
    "bench",
    "conformance",
    "wheel",
    "packages",
    "check-packages",
    "lock",
    "lint-workflows",
    "test-lowest",
    "audit",
    "sbom",
    "docs",
    "references",
    "clean",
}


LOCKS: Final = ("", "-build", "-dev", "-tools", "-docs")
PIN: Final = re.compile(
    r"([\w.-]+)==([\w.]+)(?: ; .+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}[ \\]*\n)+)"
)


def requirements() -> list[tuple[str, Requirement]]:
    """Return each requirement with the suffix of the lock file that pins it."""
    optional = PROJECT["project"]["optional-dependencies"]
    runtime = PROJECT["project"]["dependencies"]
    # The image can send traces; tests have everything.
    groups = {
        "": [*runtime, *optional["otel"]],
        "-dev": [*runtime, *(line for lines in optional.values() for line in lines)],
    }
    found = [(lock, Requirement(line)) for lock, lines in groups.items() for line in lines]
    for group, lines in PROJECT["dependency-groups"].items():
        found += [(f"-{group}", Requirement(line)) for line in lines if isinstance(line, str)]
    return found


def locked(suffix: str) -> dict[str, Version]:
    """Return the pinned version of each distribution in a lock file."""
    text = (ROOT / f"requirements{suffix}.lock").read_text()
    pins = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
    found = list(PIN.finditer(pins))
    assert pins == "".join(pin[0] for pin in found), "only exact pins with hashes, and comments"
    return {canonicalize_name(pin[1]): Version(pin[2]) for pin in found}


@pytest.mark.parametrize("requirement", [each for _, each in requirements()], ids=str)
def test_a_dependency_has_a_reason_beside_it(requirement: Requirement) -> None:
    line = next(each for each in PROJECT_TEXT.splitlines() if f'"{requirement.name}>=' in each)
    _, _, reason = line.partition("#")
    if not reason:
        # Lines too long for it have it above.
        reason = PROJECT_TEXT.split(line)[0].splitlines()[-1].partition("#")[2]
    assert len(reason.split()) >= 2, f"say why {requirement.name} is needed: {line!r}"


@pytest.mark.parametrize(("lock", "requirement"), requirements(), ids=str)
def test_a_dependency_has_a_lower_bound_and_the_lock_is_within(
    lock: str, requirement: Requirement
) -> None:
    assert ">=" in {specifier.operator for specifier in requirement.specifier}
    pinned = locked(lock)[canonicalize_name(requirement.name)]
    assert pinned in requirement.specifier, f"{requirement} but locked {pinned}: make lock"


@pytest.mark.parametrize("line", PROJECT["project"]["dependencies"])
def test_a_run_time_dependency_is_capped_only_where_a_break_is_known(line: str) -> None:
    """A cap keeps a user of the package from combining it with others."""
    requirement = Requirement(line)
    operators = {specifier.operator for specifier in requirement.specifier}
    assert operators <= {">=", "<", "!="}
    capped = operators != {">="}
    (text,) = [each for each in PROJECT_TEXT.splitlines() if f'"{line}"' in each]
    assert not capped or "breaks:" in text, f"write 'breaks: ...' beside {line}, or drop its cap"


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement(line)
        for lines in PROJECT["dependency-groups"].values()
        for line in lines
        if isinstance(line, str)
    ],
    ids=str,
)
def test_what_only_developers_install_is_capped(requirement: Requirement) -> None:
    """A new major version of a linter or test runner comes with a commit of its own."""
    assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}


def test_the_tests_run_with_what_the_image_gets() -> None:
    for suffix in ("", "-build"):
        assert locked(suffix).items() <= locked("-dev").items()


def test_the_wheel_gives_one_program_and_its_names_as_a_plugin_of_kubectl() -> None:
    names = ("kubestow", "kubectl-kubestow", "kubectl_complete-kubestow")
    assert PROJECT["project"]["scripts"] == dict.fromkeys(names, "kubestow.command:main")


def test_the_source_distribution_has_every_package_of_the_wheel() -> None:
    """A release builds its wheel from the source distribution."""
    targets = PROJECT["tool"]["hatch"]["build"]["targets"]
    packages = {f"/{each}" for each in targets["wheel"]["packages"]}
    assert packages <= set(targets["sdist"]["include"])


def test_every_lint_rule_that_is_off_has_a_reason() -> None:
    section = PROJECT_TEXT[PROJECT_TEXT.index("\nignore = [") :]
    section = section[: section.index("[tool.ruff.lint.flake8")]
    bare = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]+\d*",\s*$', line)]
    assert not bare


def targets() -> Iterator[tuple[str, str]]:
    """Yield name and rest of the line of each target that is not a file."""
    phony = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
    for name, rest in re.findall(r"^([a-z][a-z0-9-]*):(.*)$", MAKEFILE, re.MULTILINE):
        assert name in phony, f"{name} is not declared .PHONY"
        yield name, rest


def test_every_target_is_described() -> None:
    assert not [name for name, rest in targets() if not re.search(r"## \w.{10,}", rest)]


def test_the_promised_targets_exist_and_help_is_the_default() -> None:
    assert {name for name, _ in targets()} >= GATES
    assert ".DEFAULT_GOAL := help" in MAKEFILE
