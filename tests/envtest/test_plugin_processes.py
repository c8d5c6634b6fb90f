"""Plugins in processes of their own, in the program and on a real API server.

Each fault ends a process and names its plugin, all other pods are scheduled, and neither a reload
nor the end of the scheduler leaves a process behind.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

NAMESPACE: Final = "plugin-processes"
PLUGIN: Final = """
import ctypes
import os
import subprocess
import time


class {name}:
    name = "example.com/{name}"

    def __init__(self, args, handle):
        self.started = subprocess.Popen(["sleep", "600"])

    def filter(self, state, pod, node):
        if pod.metadata.name == "{victim}":
            {fault}
"""
FAULTS: Final = {
    "Hangs": ("time.sleep(600)", "did not finish within 5s: it executes "),
    "Exits": ("os._exit(3)", "it exited with status 3"),
    "Crashes": ("ctypes.string_at(0)", "it was killed by SIGSEGV"),
    "Eats": ("kept = [bytearray(1 << 20) for _ in iter(int, 1)]", "MemoryError"),
    "Floods": ("for _ in iter(int, 1): print('x' * 1000)", "it printed too much in one call"),
}


def children_of(pid: int) -> list[int]:
    """Return the processes that run as descendants of a process, zombies left out."""
    all_pids = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    parents = {each: parent_of(each) for each in all_pids}
    descendants = [pid]
    for parent in descendants:
        descendants += [each for each, found in parents.items() if found == parent]
    return descendants[1:]


def running(pids: list[int]) -> list[int]:
    """Return those of the processes that still run."""
    return [each for each in pids if parent_of(each) is not None]


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; None if it has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def profile(**limits: str) -> dict[str, Any]:
    return {
        "schedulerName": "kubestow",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": f"kubestow_process_{each.lower()}:{each}"} for each in FAULTS]
            }
        },
        "kubestow": {
            "isolation": [
                {"plugin": f"example.com/{each}", "mode": "Process", "memoryLimit": "256Mi"}
                | limits
                for each in FAULTS
            ]
        },
    }


def write_plugins(folder: Path) -> None:
    for name, (fault, _) in FAULTS.items():
        text = PLUGIN.format(name=name, victim=name.lower(), fault=fault)
        (folder / f"kubestow_process_{name.lower()}.py").write_text(text)


def test_each_fault_is_named_and_no_process_is_left_behind(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    write_plugins(tmp_path)
    others = {"schedulerName": "other"}
    with Workload(control_plane, NAMESPACE) as work:
        work.node("process-1", cpu="64")
        kubestow = start_kubestow(
            control_plane,
            {"profiles": [profile(), others]},
            [f"--plugin-dir={tmp_path}"],
            name="plugin-processes",
        )
        work.pod("first")
        work.until_bound("first")
        before = children_of(kubestow.pid)
        assert len(before) == 2 * len(FAULTS), "each plugin has a process, which started another"
        for name in FAULTS:
            work.pod(name.lower(), labels={"fault": name}, tolerations=[{"key": name}])
        work.pod("usual")
        work.pod("beside", scheduler_name="other")
        work.until_bound("usual", "beside")
        for name, (_, text) in FAULTS.items():
            until(partial(named, work, name.lower(), text), f"the condition of {name}")
        for name in FAULTS:
            # New processes do not know them, and their next attempt would end one.
            work.delete_pod(name.lower())
        present = children_of(kubestow.pid)

        file = control_plane.files.directory / "plugin-processes.config"
        configuration = json.loads(file.read_text())
        configuration["profiles"] = [profile(timeout="6s"), others]
        file.write_text(json.dumps(configuration))
        until(lambda: not running([*before, *present]), "the end of the replaced processes")
        work.pod("last")
        work.until_bound("last")
        present = children_of(kubestow.pid)
        assert len(present) == 2 * len(FAULTS), "all processes are new, and none of them failed"
        kubestow.stop_cleanly()
        until(lambda: not running(present), "the end of all processes")


def named(work: Workload, pod: str, text: str) -> bool:
    """Whether the condition of a pod has a text."""
    return text in work.condition(pod).get("message", "")
