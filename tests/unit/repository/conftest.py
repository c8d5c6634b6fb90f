"""The image, built once for all tests of this folder that need it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.repository.container import Image, build, set_writable


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """Build wheel and environment as the Dockerfile says, readable but not writable for its user.

    Not below pytest's own directory, which only its owner may enter.
    """
    root = Path(tempfile.mkdtemp(prefix="kubestow-image-"))
    root.chmod(0o755)
    try:
        built = build(root)
        set_writable(built.prefix, writable=False)
        yield built
    finally:
        set_writable(root, writable=True)
        shutil.rmtree(root)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Return an empty directory that the image's user can read and enter.

    Tests that want it read-only say so when they have filled it.
    """
    directory = Path(tempfile.mkdtemp(prefix="kubestow-cwd-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)
