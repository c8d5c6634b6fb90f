"""A recording of a scheduler on a real API server, with preemption, is reproduced."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from scheduler.recording.reading import open_bundle
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

CLASS: Final = "recording-high"


@pytest.fixture
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    control_plane.admin.ensure(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": CLASS}, "value": 1000},
    )
    settings = {"clientConnection": {"qps": 1000, "burst": 1000}, "podInitialBackoffSeconds": 1}
    process = start_kubestow(control_plane, settings, name="kubestow-recording")
    yield process
    process.stop()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scheduler", *arguments]


def _begun(folder: Path) -> bool:
    """Whether a file that is being written to has its first bytes."""
    return any(each.stat().st_size for each in folder.iterdir() if each.name != "log")


@pytest.mark.parametrize("options", [(), ("--redact",)])
def test_a_recording_is_reproduced(
    control_plane: ControlPlane,
    kubestow: ManagedProcess,
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    path = tmp_path / "r"
    server = ("--server", f"https://localhost:{kubestow.port}", "--insecure-skip-tls-verify")
    token = ("--token", control_plane.admin_token)
    # A namespace that no other run has, because Events of an earlier one would end this one.
    with Workload(control_plane, f"recording-{uuid.uuid4().hex[:8]}") as work:
        for number in range(4):
            work.node(f"n{number}", cpu="2")
        work.pod("early", cpu="800m", terminationGracePeriodSeconds=0)
        work.until_bound("early")
        log = (tmp_path / "log").open("w")
        recorder = subprocess.Popen(
            # Much longer than it takes until a pod is preempted.
            command("record", "--for", "20s", "-o", str(path), *options, *server, *token),
            stdout=log,
            stderr=log,
        )
        # The nodes are full soon, and preemption ends when all their pods have the high priority.
        until(lambda: _begun(tmp_path), "the recording")
        number = 0
        while recorder.poll() is None and not work.events("Preempted"):
            work.pod(f"low-{number}", cpu="800m", terminationGracePeriodSeconds=0)
            work.pod(f"high-{number}", cpu="800m", priorityClassName=CLASS)
            until(lambda: kubestow.running, "it runs")
            number += 1
        recorder.wait()
        log.close()
        assert recorder.returncode == 0, (tmp_path / "log").read_text()
    found = subprocess.run(
        command("replay", str(path), "-o", "json"), capture_output=True, text=True, check=False
    )
    judged = [json.loads(line) for line in found.stdout.splitlines()]
    assert {each["result"] for each in judged} == {"reproduced"}, found.stdout + found.stderr
    assert [each for each in judged if each["recorded"].get("victims")]
    assert found.returncode == 0
    assert open_bundle(path).manifest.end == "time-limit"
    text = gzip.decompress(path.read_bytes()).decode()
    assert bool(re.search(r"\bhigh-\d", text)) != open_bundle(path).header.redacted
