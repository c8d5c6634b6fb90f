"""Marker and fixtures of the tests with the real Helm.

A test marked `chart` is skipped where Helm is not built; with `KUBESTOW_REQUIRE_HELM=1` it fails
instead, so that CI cannot pass by skipping.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.build import BUILD_DIRECTORY, HELM
from tests.unit.repository.tree import ROOT

MARKER: Final = "chart"
REQUIRE_VARIABLE: Final = "KUBESTOW_REQUIRE_HELM"
CHART: Final = ROOT / "charts" / "kubestow"
NAMESPACE: Final = "kubestow-system"
# Helm takes the version it renders for from flags of its own build, which `go build` does not give.
RENDER: Final = ("template", "kubestow", str(CHART), "--kube-version=1.36.0")


def find_helm() -> Path:
    """Return the binary; skips or fails the test where it is missing."""
    if HELM.is_current(BUILD_DIRECTORY):
        return BUILD_DIRECTORY / HELM.name
    reason = (
        f"no helm, or an old one, in {BUILD_DIRECTORY}: "
        "run `make chart-build` once (it needs Go and takes some minutes)"
    )
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{reason} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a marked test without Helm before its fixtures are set up."""
    if item.get_closest_marker(MARKER) is not None:
        find_helm()


class Helm:
    """The real Helm, with a home of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._binary = find_helm()

    def run(
        self, *arguments: str, values: Mapping[str, object] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it, with `values` as a file; return what it said, whatever its status."""
        options: tuple[str, ...] = ()
        if values is not None:
            file = self._directory / "values.yaml"
            file.write_text(yaml.safe_dump(dict(values)))
            options = ("--values", str(file))
        return subprocess.run(
            [str(self._binary), *arguments, *options],
            env={"HOME": str(self._directory), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def template(
        self,
        values: Mapping[str, object] | None = None,
        *options: str,
        chart: Path = CHART,
        namespace: str = NAMESPACE,
    ) -> str:
        """Render the chart without its tests."""
        command = [str(chart) if each == str(CHART) else each for each in RENDER]
        command += ["--namespace", namespace, "--skip-tests"]
        done = self.run(*command, *options, values=values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(
        self, values: Mapping[str, object] | None = None, *options: str
    ) -> list[dict[str, Any]]:
        """Return the objects of the rendered chart."""
        return [each for each in yaml.safe_load_all(self.template(values, *options)) if each]

    def refusal(self, values: Mapping[str, object]) -> str:
        """Render with wrong values; return the message."""
        done = self.run(*RENDER, "-n", NAMESPACE, values=values)
        assert done.returncode != 0, "accepted"
        return done.stderr


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Return Helm for one test."""
    return Helm(tmp_path)
