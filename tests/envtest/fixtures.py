"""Pytest fixtures for a real control plane, and the marker `envtest`.

Loaded as a plugin, by `conftest.py` here or by `pytest_plugins = ["tests.envtest.fixtures"]` in the
top-level conftest. A test marked `envtest` is skipped where the binaries are missing; with
`KUBESTOW_REQUIRE_ENVTEST=1` it fails instead, so that CI cannot pass by skipping. The marker takes
the names of further commands that the test needs: `@pytest.mark.envtest("kube-scheduler")`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import (
    ApiServerOptions,
    Binaries,
    BinariesMissingError,
    ControlPlane,
)

MARKER: Final = "envtest"
REQUIRE_VARIABLE: Final = "KUBESTOW_REQUIRE_ENVTEST"

ControlPlaneFactory = Callable[[ApiServerOptions], ControlPlane]

_SHARED: Final = pytest.StashKey[ControlPlane]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for `--strict-markers`."""
    config.addinivalue_line(
        "markers", f"{MARKER}(*commands): runs against a real API server, see tests/envtest"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a marked test whose binaries are missing, before its fixtures are set up."""
    marker = item.get_closest_marker(MARKER)
    if marker is not None:
        find_binaries(*marker.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """End what a test that fails has started on a control plane that later tests use too.

    A scheduler that it left behind would schedule their pods.
    """
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if not isinstance(plane, ControlPlane):
        return (yield)
    with plane.processes.killed_on_error():
        return (yield)


@pytest.fixture(scope="session")
def envtest_binaries() -> Binaries:
    """Return the binaries of the control plane; skips the test if there are none."""
    return find_binaries()


@pytest.fixture(scope="session")
def control_plane(
    envtest_binaries: Binaries,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[ControlPlane]:
    """Run one control plane for the whole session.

    Shared: use names or namespaces of your own, and leave its processes alone. Pods and nodes are
    deleted at the end of a file; a test deletes those that another one of its file would meet.
    """
    directory = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(envtest_binaries, directory=directory) as shared:
        request.session.stash[_SHARED] = shared
        yield shared


@pytest.fixture(scope="module", autouse=True)
def _no_file_leaves_pods_or_nodes_to_the_next(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete what a scheduler of another file would schedule, or choose, on the shared plane."""
    yield
    shared = request.session.stash.get(_SHARED, None)
    if shared is None:
        return
    now = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
    ask: Any = shared.admin.request
    pods = ask("GET", "/api/v1/pods")["items"]
    for namespace in {each["metadata"]["namespace"] for each in pods}:
        ask("DELETE", f"/api/v1/namespaces/{namespace}/pods", now)
    ask("DELETE", "/api/v1/nodes", now)


@pytest.fixture
def make_control_plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlaneFactory]:
    """Return a function that starts a control plane; all of them are stopped after the test."""
    with ExitStack() as running:

        def make(options: ApiServerOptions) -> ControlPlane:
            directory = tmp_path_factory.mktemp("control-plane")
            return running.enter_context(ControlPlane(envtest_binaries, options, directory))

        yield make


@pytest.fixture
def fresh_control_plane(make_control_plane: ControlPlaneFactory) -> ControlPlane:
    """Return a running control plane for one test, which may stop and kill its processes."""
    return make_control_plane(ApiServerOptions())


def find_binaries(*commands: str) -> Binaries:
    """Return the binaries; skips or fails the test where one of these commands is missing."""
    try:
        binaries = Binaries.find()
        for command in commands:
            binaries.require(command)
    except BinariesMissingError as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{error} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
        pytest.skip(str(error))
    return binaries
