"""The layers hold, every package belongs to one, and each package names what is public."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from devtools.report import longest_chain
from tests.unit.repository.tree import ROOT

PACKAGES: Final = (
    "scheduler.sanitizing",
    "scheduler.files",
    "scheduler.api",
    "scheduler.cel",
    "scheduler.explain",
    "scheduler.framework",
    "scheduler.groups",
    "scheduler.cache",
    "scheduler.queue",
    "scheduler.engine",
    "scheduler.history",
    "scheduler.extenders",
    "scheduler.client",
    "scheduler.metrics",
    "scheduler.controllers",
    "scheduler.service",
    "scheduler.tracing",
    "scheduler.isolation",
    "scheduler.permissions",
    "scheduler.stages",
    "scheduler.reload",
    "scheduler.recording",
    "scheduler.process",
    "scheduler.offline",
    "scheduler.shadow",
    "scheduler.testing",
    "scheduler.cli",
    "plugins",
    "config",
    "simulator",
    "kubestow",
)


def layer_contract() -> set[str]:
    """Return the packages of the layers contract; one whose modules are named there counts once."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    names = (name.strip() for layer in layers for name in re.split("[|:]", layer))
    return {".".join(name.split(".")[:2]) for name in names}


def test_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_has_a_layer() -> None:
    top_level = {path.parent.name for path in ROOT.glob("*/py.typed")} - {
        "scheduler",
        "benchmarks",
        "devtools",
    }
    below = {f"scheduler.{path.parent.name}" for path in (ROOT / "scheduler").glob("*/__init__.py")}
    assert layer_contract() == top_level | below


def test_this_file_knows_every_layer() -> None:
    assert layer_contract() == set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_package_exports_is_listed_and_exists(name: str) -> None:
    package = importlib.import_module(name)
    public: list[str] = getattr(package, "__all__", [])
    assert len(set(public)) == len(public)
    missing = [each for each in public if not hasattr(package, each)]
    assert not missing
    assert not [each for each in public if each.startswith("_")]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_it_is_for(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize(("package", "depth"), [("scheduler.engine", 9), ("scheduler.service", 6)])
def test_chains_of_imports_stay_short(package: str, depth: int) -> None:
    chain = longest_chain(package)
    assert len(chain) <= depth, chain
