"""Removal of what a reload leaves in the process of the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """Take back what the plugin folder does to the process."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [each for each in sys.modules if each.startswith("reloaded_")]:
        del sys.modules[name]
