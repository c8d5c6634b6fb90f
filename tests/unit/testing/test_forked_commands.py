"""Commands that are forked end as those that are started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.forked_commands import ForkedCommands

CRASH = "raise KeyError('of this folder')\n"


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with ForkedCommands("scheduler.cli.config") as running:
        yield running


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("version",), 0), (("nope",), 2), (("config", "validate", "/nonexistent/profile.yaml"), 1)],
)
def test_output_and_exit_code_are_those_of_the_program(
    commands: ForkedCommands, arguments: tuple[str, ...], code: int
) -> None:
    started = subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    forked = commands.run(*arguments)
    assert forked.returncode == started.returncode == code
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)


def test_a_call_has_its_environment_and_leaves_nothing_to_the_next(
    commands: ForkedCommands, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    home = {"HOME": str(tmp_path / "home"), "KUBECONFIG": ""}
    with_one = commands.run("queue", environment={**home, "KUBECONFIG": str(kubeconfig)})
    assert str(kubeconfig) in with_one.stderr
    assert str(kubeconfig) not in commands.run("queue", environment=home).stderr
