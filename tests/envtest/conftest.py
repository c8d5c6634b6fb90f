"""Makes the fixtures of `fixtures.py` available to the tests here, with some of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from tests.envtest.devices import Devices, devices_of
from tests.envtest.workload import Workload

PLUGIN: Final = "tests.envtest.fixtures"


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin unless the top-level conftest did.

    Importing the fixtures by name instead would define `control_plane` a second time below this
    folder, and the session would run two API servers.
    """
    config.pluginmanager.import_plugin(PLUGIN)


@pytest.fixture
def devices(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Devices]:
    with devices_of(control_plane, request.node.name) as made:
        yield made


@pytest.fixture
def work(
    control_plane: ControlPlane, kubestow: ManagedProcess, request: pytest.FixtureRequest
) -> Iterator[Workload]:
    """Create a namespace named after the test, for the module's scheduler `kubestow`."""
    with Workload(control_plane, request.node.originalname.replace("_", "-")[:63]) as workload:
        yield workload
        assert kubestow.running, kubestow.describe("ended")
