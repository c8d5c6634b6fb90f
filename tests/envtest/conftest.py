"""Makes the fixtures of `fixtures.py` available to the tests here."""

from __future__ import annotations

from typing import Final

import pytest

PLUGIN: Final = "tests.envtest.fixtures"


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin unless the top-level conftest did.

    Importing the fixtures by name instead would define `control_plane` a second time below this
    folder, and the session would run two API servers.
    """
    config.pluginmanager.import_plugin(PLUGIN)
