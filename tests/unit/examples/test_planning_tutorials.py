"""The tutorials about capacity do what they say; they need no cluster, and no kubectl."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devtools.forked_commands import ForkedCommands
from devtools.markdown import blocks
from devtools.shell_session import ShellSession

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def kubestow() -> Iterator[ForkedCommands]:
    with ForkedCommands("scheduler.cli.simulate", "scheduler.offline", "simulator.sweeps") as found:
        yield found


@pytest.mark.parametrize("name", ["capacity", "compare", "consolidation"])
def test_a_tutorial_without_a_cluster(kubestow: ForkedCommands, name: str, tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    kubestow.script(commands / "kubestow")
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    work = tmp_path / "work"
    work.mkdir()
    with ShellSession(work, environment) as session:
        session.follow(blocks(ROOT / "docs" / "tutorials" / f"{name}.md", ROOT))
