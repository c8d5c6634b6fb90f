"""`kubestow demo` in processes that are forked, as it is and in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from devtools.forked_commands import ForkedCommands

STORIES: Final = ("gang", "gpu_queue", "morning", "zone_stockout")
MODULES: Final = (
    "scheduler.cli.demo",
    "scheduler.process.application",
    "plugins",
    "simulator.demos.runner",
    *(f"simulator.demos.{each}.story" for each in STORIES),
)


@pytest.fixture(scope="session")
def demo() -> Iterator[ForkedCommands]:
    with ForkedCommands(*MODULES, entry="scheduler.cli.demo:command") as commands:
        yield commands


@pytest.fixture(scope="session")
def virtual_demo() -> Iterator[ForkedCommands]:
    virtual = f"{__package__}.in_virtual_time"
    with ForkedCommands(virtual, *MODULES, entry=f"{virtual}:main") as commands:
        yield commands
