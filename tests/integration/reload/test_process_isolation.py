"""Plugins that run in a process of their own: they may hang, crash, exit, eat memory and print."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.isolation.process import child, evaluator
from tests.integration.reload.running import HEADER, Running, running, until
from tests.integration.reload.test_isolation import message

NAME = "example.com/Apart"
CONFIG = (
    HEADER
    + """\
podMaxBackoffSeconds: 1
profiles:
- schedulerName: kubestow
  kubestow:
    isolation:
    - {plugin: example.com/Apart, mode: Process, %s}
  plugins:
    multiPoint:
      enabled:
      - name: reloaded_process:Apart
- schedulerName: other
"""
)
UNLIKE_OTHERS: Final[dict[str, Any]] = {"tolerations": [{"operator": "Exists"}]}
PLUGIN = """\
import ctypes
import os
from functools import partial
import sys
import time

from kubestow.plugin import unschedulable


class Apart:
    name = "example.com/Apart"

    def __init__(self, args, handle):
        self.handle = handle
        print("built for", handle.profile_name)

    def filter(self, state, pod, node):
        if pod.metadata.name == "victim":
            %s
        return unschedulable("not here") if node.name == "forbidden" else None

    def score(self, state, pod, node):
        return 100 - node.pod_count
"""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a process again before the next attempt."""
    monkeypatch.setattr(evaluator, "MAX_PAUSE_SECONDS", 0.1)


def write(folder: Path, fault: str = "pass") -> None:
    (folder / "plugins").mkdir()
    (folder / "plugins" / "reloaded_process.py").write_text(PLUGIN % fault)


def pid_of(world: Running) -> int | None:
    built = world.reloader.wiring.profiles.built["kubestow"].plugins[NAME]
    pid: int | None = built.plugin.evaluator.pid
    return pid


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
async def test_filter_and_score_decide_by_an_up_to_date_copy_of_the_nodes(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, CONFIG % "timeout: 30s") as world:
        world.node("forbidden", kind="forbidden")
        for name in ("n1", "n2", "n3"):
            world.node(name)
        for number in range(9):
            world.pod(f"p{number}")
        await until(lambda: not world.unbound())
        placed = [world.node_of(f"p{number}") for number in range(9)]
        assert sorted(placed) == ["n1"] * 3 + ["n2"] * 3 + ["n3"] * 3
        world.pod("rejected", nodeSelector={"kind": "forbidden"})
        await until(lambda: message(world, "rejected"))
        assert "1 not here" in message(world, "rejected")
        pid = pid_of(world)
        assert pid is not None
        assert os.getpgid(pid) == pid, "a group of its own"
        world.validate()
    # It ends with the scheduler.
    await until(lambda: not runs(pid))


@pytest.mark.slow
async def test_what_it_started_in_another_session_ends_with_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    write(
        tmp_path,
        "import subprocess; child = subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        f"open('{started}', 'w').write(f'{{child.pid}}\\n'); os._exit(3)",
    )
    async with running(tmp_path, CONFIG % "timeout: 30s") as world:
        world.node("n1")
        world.pod("victim", **UNLIKE_OTHERS)
        await until(lambda: "exited with status 3" in message(world, "victim"))
        pid = int(started.read_text())
        await until(lambda: not runs(pid))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("raise ValueError('no gpu')", "ValueError: no gpu ("),
        ("sys.exit(3)", "SystemExit: 3"),
        ("return 'nonsense'", "answered 'nonsense', which is not a Status"),
        ("self.handle.activate([])", "handle.activate cannot be used with isolation"),
        ("self.kept = bytearray(1 << 40)", "MemoryError"),
        ("os._exit(3)", "its process ended: it exited with status 3"),
        ("ctypes.string_at(0)", "its process ended: it was killed by SIGSEGV"),
        ("os.close(int(sys.argv[1]))", "its process ended: "),
        ("os.write(int(sys.argv[1]), b'nonsense' * 9)", "its process ended: it sent a response of"),
        ("os.fork(); os.wait()", ""),
    ],
)
async def test_a_fault_costs_an_attempt_and_others_are_scheduled(
    tmp_path: Path, fault: str, text: str
) -> None:
    write(tmp_path, fault)
    async with running(tmp_path, CONFIG % "timeout: 30s") as world:
        world.node("n1")
        world.pod("victim", **UNLIKE_OTHERS)
        world.pod("next")
        world.pod("others", scheduler="other")
        messages = partial(world.conditions.messages, "victim")
        await until(lambda: messages() if text else world.node_of("victim"))
        await until(lambda: world.node_of("next") and world.node_of("others"))
        if text:
            # Of the first attempt: another one may have followed meanwhile, with other words.
            assert messages()[0].startswith(f'running PreFilter plugin "{NAME}": ')
            assert text in messages()[0]
            assert not world.node_of("victim")
        world.validate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "limits", "text", "reason"),
    [
        ("time.sleep(60)", "timeout: 2s", "did not finish within 2s: it executes ", "timeout"),
        (
            "kept = [bytearray(1 << 20) for _ in iter(int, 1)]",
            "timeout: 30s, memoryLimit: 256Mi",
            "MemoryError",
            "",
        ),
        (
            "for _ in iter(int, 1): print('x' * 1000)",
            "timeout: 30s",
            "it printed too much in one call",
            "output",
        ),
        ("os._exit(3)", "timeout: 30s", "it exited with status 3", "exit"),
    ],
)
async def test_a_process_that_cannot_go_on_is_ended_and_started_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    limits: str,
    text: str,
    reason: str,
) -> None:
    monkeypatch.setattr(child, "TRACE_SECONDS", 60.0)
    write(tmp_path, fault)
    async with running(tmp_path, CONFIG % limits) as world:
        world.node("n1")
        world.pod("first")
        await until(lambda: world.node_of("first"))
        before = pid_of(world)
        assert before is not None
        world.pod("victim", **UNLIKE_OTHERS)
        messages = partial(world.conditions.messages, "victim")
        await until(lambda: any(text in each for each in messages()))
        world.pod("others", scheduler="other")
        world.pod("next")
        await until(lambda: world.node_of("next") and world.node_of("others"))
        failures = world.sample("kubestow_plugin_process_failures_total")
        assert (failures >= 1) == bool(reason)
        if reason:
            await until(lambda: not runs(before))
        else:
            assert runs(before)
        faults = world.reloader.wiring.scheduling.plugin_faults("kubestow", [NAME])
        assert any("its process ended" in each for each in faults.get(NAME, ())) == bool(reason)
        world.validate()


@pytest.mark.slow
async def test_a_reload_ends_the_process_of_a_plugin_that_is_replaced(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, CONFIG % "timeout: 30s") as world:
        world.node("n1")
        world.pod("first")
        await until(lambda: world.node_of("first"))
        before = pid_of(world)
        assert before is not None
        assert await world.reload(CONFIG % "timeout: 20s") == "success"
        await until(lambda: not runs(before))
        world.pod("second")
        await until(lambda: world.node_of("second"))
        assert pid_of(world) not in (None, before)


@pytest.mark.parametrize(
    ("plugin", "entry", "problem"),
    [
        ("", "memoryLimit: 1Mi", "must be at least 64Mi"),
        ("", "memoryLimit: many", "invalid quantity"),
        ("", "mode: Thread, memoryLimit: 1Gi", "only a plugin with mode: Process"),
        ("def reserve(self, state, pod, name): ...", "", "it can have no reserve"),
        ("required_resources = ('services',)", "", "it can have no required_resources"),
        ("def events_to_register(self): return []", "", "hints static methods"),
    ],
)
async def test_an_entry_that_cannot_work_is_refused(
    tmp_path: Path, plugin: str, entry: str, problem: str
) -> None:
    write(tmp_path)
    path = tmp_path / "plugins" / "reloaded_process.py"
    path.write_text(f"{path.read_text()}\n    {plugin}\n")
    text = CONFIG % entry
    if "mode: Thread" in entry:
        text = text.replace("mode: Process, ", "")
    async with running(tmp_path) as world:
        assert await world.reload(text.replace(", }", "}")) == "invalid"
        assert "kubestow.isolation[" in world.problems()
        assert problem in world.problems()
