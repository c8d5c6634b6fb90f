"""Marker and fixtures of the tests with third-party controllers.

`@pytest.mark.thirdparty("kueue")` names the programs that a test needs beside kwok. Where one is
not built, or Go and its module are not there to take its manifests from, the test is skipped; with
`KUBESTOW_REQUIRE_THIRDPARTY=1` it fails instead, so that CI cannot pass by skipping.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final, NoReturn, Protocol

import pytest

from devtools.control_plane.control_plane import ApiServerOptions, Binaries
from devtools.go_programs import BuildError, Program
from tests.envtest.fixtures import find_binaries
from tests.thirdparty.build import BUILD_DIRECTORY, programs
from tests.thirdparty.cluster import Cluster, Installed

MARKER: Final = "thirdparty"
REQUIRE_VARIABLE: Final = "KUBESTOW_REQUIRE_THIRDPARTY"


class ClusterFactory(Protocol):
    """Starts a cluster; its arguments are those of `Cluster`."""

    def __call__(
        self, *, components: Sequence[str] = (), options: ApiServerOptions | None = None
    ) -> Cluster: ...


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a marked test whose programs are missing, before its fixtures are set up."""
    marker = item.get_closest_marker(MARKER)
    if marker is not None:
        find_binaries("kube-controller-manager")
        find_programs("kwok", *marker.args)


@pytest.fixture(scope="module")
def make_cluster(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterFactory]:
    """Return a function that starts a cluster; all of them are stopped after the module's tests."""
    with ExitStack() as running:

        def make(
            *, components: Sequence[str] = (), options: ApiServerOptions | None = None
        ) -> Cluster:
            cluster = Cluster(
                envtest_binaries,
                find_programs,
                tmp_path_factory.mktemp("cluster"),
                components=components,
                options=options,
            )
            return running.enter_context(cluster)

        yield make


def find_programs(*names: str) -> dict[str, Installed]:
    """Return binary and sources of each program; skips or fails the test where one is missing."""
    known = programs()
    missing = [name for name in names if not known[name].is_current(BUILD_DIRECTORY)]
    if missing:
        _give_up(
            f"no {', '.join(missing)}, or an old one, in {BUILD_DIRECTORY}: "
            "run `make thirdparty-build` once (it needs Go and takes some minutes)"
        )
    try:
        return {name: Installed(BUILD_DIRECTORY / name, _sources(known[name])) for name in names}
    except BuildError as error:
        _give_up(str(error))


@cache
def _sources(program: Program) -> Path:
    """Run `go` once: it takes seconds, and every test needs the result."""
    return program.source_directory()


def _give_up(reason: str) -> NoReturn:
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{reason} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)
