"""Restores what `--plugin-dir` does to the process, after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """Restore the path, and forget the modules of plugins."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for file in EXAMPLES.glob("*/*.py"):
        sys.modules.pop(file.stem, None)
    for file in EXAMPLES.glob("*/*/__init__.py"):
        package = file.parent.name
        for name in [each for each in sys.modules if each.partition(".")[0] == package]:
            del sys.modules[name]
