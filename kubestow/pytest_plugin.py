"""The pytest plugin: the fixture `cluster`, and the option `--update-decisions`.

An installed kubestow brings it (entry point `pytest11`), so pytest imports this module in every run
of that environment. It must stay small: the scheduler is imported when a test asks for the fixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kubestow.testing import Cluster

FOLDER = "decisions"
"""The folder beside the test that has its snapshots."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("kubestow").addoption(
        "--update-decisions",
        action="store_true",
        help="write the files of `cluster.assert_decisions()` instead of comparing with them",
    )


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield a `kubestow.testing.Cluster` with the default plugins; `enable` adds yours."""
    from kubestow.testing import Cluster, Snapshot

    test = re.sub(r"[^\w.=-]+", "-", request.node.name).strip("-")
    file = request.path.parent / FOLDER / f"{request.path.stem}.{test}.txt"
    update = bool(request.config.getoption("--update-decisions"))
    with Cluster(snapshot=Snapshot(file, update)) as found:
        yield found
