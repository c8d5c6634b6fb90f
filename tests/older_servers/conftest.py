"""Marker and fixtures of the tests against older API servers.

A test is skipped for each release that is not built; with `KUBESTOW_REQUIRE_OLDER_SERVERS=1` it
fails instead, so that a run cannot pass by skipping.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from devtools.control_plane.binaries import Binaries, BinariesMissingError
from devtools.control_plane.control_plane import ControlPlane
from tests.older_servers.build import find, releases

REQUIRE_VARIABLE: Final = "KUBESTOW_REQUIRE_OLDER_SERVERS"


@pytest.fixture(scope="session", params=releases())
def release(request: pytest.FixtureRequest) -> str:
    """Return a release that can be built; the tests run for each."""
    return str(request.param)


@pytest.fixture(scope="session")
def older_binaries(release: str) -> Binaries:
    """Return the binaries of the release; skips or fails the test where they are not built."""
    try:
        return find(release)
    except BinariesMissingError as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{error} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def older(
    release: str, older_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run one control plane with the API server of the release, for all tests."""
    directory = tmp_path_factory.mktemp(f"older-{release}")
    with ControlPlane(older_binaries, directory=directory) as running:
        yield running
