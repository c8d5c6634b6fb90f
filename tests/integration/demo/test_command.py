"""The whole command in a process of its own: output, exit codes, signals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from devtools.forked_commands import ForkedCommands
from scheduler.cli.demo import command
from scheduler.cli.main import program
from simulator.demos.morning.objects import SCHEDULER

LIMIT = 600
"""Seconds after which a run counts as hung."""
TOTALS = re.compile(r"kubestow demo: (\d+) bound, (\d+) waiting")
LAST = "kubestow demo: 203 bound, 6 waiting"


@contextmanager
def running(demo: ForkedCommands, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*demo.program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    assert process.stdout is not None
    read = []
    for line in process.stdout:
        read.append(line)
        found = re.search(pattern, line)
        if found is not None:
            return found
    raise AssertionError(f"no line with {pattern!r} in:\n{''.join(read)}")


@pytest.mark.slow
def test_fast_prints_all_events_and_ends_with_the_totals(
    demo: ForkedCommands, tmp_path: Path
) -> None:
    log = tmp_path / "scheduler.log"
    done = demo.run("--fast", "--log-file", str(log))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == LAST
    for expected in (
        "lose their gate", "prepare on", "joins with 8 GPUs", "big-train-1 on gpu-1b-3",
        "general-1c-6 is uncordoned", "ledger-0 on general-1c-6", "giant-1: insufficient cpu",
    ):  # fmt: skip
        assert any(expected in line for line in lines), expected
    times = [float(found[1]) for found in map(re.compile(r" *([0-9.]+) s  ").match, lines) if found]
    assert len(times) > 10
    assert times == sorted(times)
    assert "\x1b" not in done.stdout
    assert "synced" in log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_terminal_gets_a_live_view_and_no_log(demo: ForkedCommands) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*demo.program, "--fast"],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "35"},
    ) as process:  # fmt: skip
        os.close(theirs)
        seen = b""
        # Linux returns EIO once no writer is left.
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:
            pass
        finally:
            os.close(ours)
    assert process.returncode == 0
    text = seen.decode()
    assert "waiting, and why" in text
    assert "\x1b[?25h" in text, "the cursor was not shown again"
    assert text.splitlines()[-1] == LAST
    assert "pod not scheduled" not in text


@pytest.mark.slow
def test_serve_goes_on_scheduling_until_interrupted(demo: ForkedCommands) -> None:
    with running(demo, "--fast", "--serve") as process:
        kubeconfig = Path(read_until(process, r"export KUBECONFIG=(\S+)")[1])
        assert read_until(process, TOTALS.pattern)[0] == LAST
        server = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        containers = [{"name": "main", "image": "nginx"}]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hello"},
            "spec": {"schedulerName": SCHEDULER, "containers": containers},
        }
        url = f"{server['server']}/api/v1/namespaces/default/pods"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(pod).encode(), headers)
        with urllib.request.urlopen(request, timeout=LIMIT) as response:
            assert response.status == 201
        read_until(process, "placed hello on ")
        asked = CliRunner().invoke(
            # All of them, because a quick search ends after a third of a second.
            program,
            ["explain", "batch/giant-1", "--remedies", "all", "--kubeconfig", str(kubeconfig)],
        )
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=LIMIT)
    assert (process.returncode, problems) == (0, "")
    assert rest.splitlines()[-1] == "kubestow demo: 204 bound, 6 waiting"
    assert (asked.exit_code, asked.stderr) == (0, "")
    assert "request at most 15.4 cpu (goes to general-1c-6)" in asked.stdout
    assert not kubeconfig.parent.exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_show_prints_its_progress(
    demo: ForkedCommands, number: signal.Signals
) -> None:
    with running(demo, "--duration", "600") as process:
        read_until(process, "0 of 209 pods bound")
        process.send_signal(number)
        rest, problems = process.communicate(timeout=LIMIT)
    assert (process.returncode, problems) == (130, "")
    assert TOTALS.fullmatch(rest.splitlines()[-1])


def test_a_taken_port_is_named(demo: ForkedCommands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = demo.run("--fast", "--port", str(port))
    assert done.returncode == 1
    assert f"cannot listen on port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    wanted = tmp_path / "missing" / "log"
    done = CliRunner().invoke(command, ["--fast", "--log-file", str(wanted)])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit), "no traceback"
    assert str(wanted) in done.stderr


def test_help_shows_examples() -> None:
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    for option in ("serve", "duration", "fast", "seed", "port", "log-file"):
        assert f"--{option}" in done.output
    assert "\n    kubestow demo --serve    " in done.output, "examples have lines of their own"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nope"], "no story 'nope'; there are:"),
        (["--fast", "zone-stockout"], "--fast stands before zone-stockout: write options behind"),
    ],
)
def test_an_unknown_story_is_named(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert told in done.output


@pytest.mark.slow
def test_a_configuration_brings_plugins_of_its_own(demo: ForkedCommands) -> None:
    example = Path(__file__).parents[3] / "examples" / "gate_until"
    ended = demo.run(
        "--fast", "--config", str(example / "config.yaml"), "--plugin-dir", str(example)
    )
    assert ended.returncode == 0, ended.stderr
    assert TOTALS.fullmatch(ended.stdout.splitlines()[-1])


def test_a_configuration_for_other_pods_ends_the_demo(demo: ForkedCommands, tmp_path: Path) -> None:
    profile = tmp_path / "profile.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile.write_text(yaml.safe_dump({**kind, "profiles": [{"schedulerName": "other"}]}))
    ended = demo.run("--fast", "--config", str(profile))
    assert ended.returncode == 1
    assert f"no profile has schedulerName: {SCHEDULER}" in ended.stderr


def test_a_plugin_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    ended = CliRunner().invoke(command, ["--plugin-dir", str(tmp_path)])
    assert ended.exit_code == 2
    assert "needs --config" in ended.stderr
