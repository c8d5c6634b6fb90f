"""Commands that are forked end as those that are started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.forked_commands import ForkedCommands
from tests.conftest import pytest_configure

CRASH = "raise KeyError('of this folder')\n"


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with ForkedCommands("scheduler.cli.config") as running:
        yield running


@pytest.mark.slow
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


def wait_for_a_signal() -> None:
    # A read, because a signal that comes just before `signal.pause()` does not end that.
    waiting, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    print("begun", flush=True)
    os.read(waiting, 1)


@pytest.fixture(scope="module")
def waiting() -> Iterator[ForkedCommands]:
    with ForkedCommands(entry=f"{__name__}:{wait_for_a_signal.__name__}") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_call_ends_with_the_process_that_asked_for_it(
    waiting: ForkedCommands, number: signal.Signals
) -> None:
    with subprocess.Popen(waiting.program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        # The end of its output: no process can write any more.
        assert process.communicate(timeout=600)[0] == ""
    assert process.returncode == -number


def test_an_interrupted_call_has_its_traceback(waiting: ForkedCommands) -> None:
    with subprocess.Popen(
        waiting.program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=600)[1]
    assert process.returncode == 1


@pytest.mark.slow
def test_what_a_script_runs_in_the_background_hears_an_interrupt() -> None:
    """A shell without job control starts it with SIGINT ignored, which its processes inherit."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pytest_configure()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
