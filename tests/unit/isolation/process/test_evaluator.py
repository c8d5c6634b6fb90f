"""Processes of a plugin as an evaluator starts, ends and counts them; the plugins are real."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine_world import EngineWorld
from scheduler.framework import ConfigurationError, CycleState, NoArgs, PluginError
from scheduler.isolation.evaluation import PluginTimeoutError
from scheduler.isolation.process import child
from scheduler.isolation.process import evaluator as module
from scheduler.isolation.process.child import ProcessEndedError
from scheduler.isolation.process.evaluator import (
    PluginUnavailableError,
    ProcessEvaluator,
    ProcessSettings,
)

PLUGIN = """\
import os
import time


class Faulty:
    name = "example.com/Faulty"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        match pod.metadata.labels.get("do"):
            case "raise":
                raise ValueError("no gpu")
            case "exit":
                os._exit(3)
            case "sleep":
                time.sleep(600)
            case "end the scheduler":
                os.kill(os.getppid(), 9)
                time.sleep(600)

    def score(self, state, pod, node):
        return node.pod_count


class Unbuildable(Faulty):
    def __init__(self, args, handle):
        raise OSError("no disk")
"""
KILLED = """import asyncio
import sys

import evaluated_plugins
from tests.unit.isolation.process.test_evaluator import Evaluated


async def main():
    one = Evaluated(evaluated_plugins.Faulty, 60.0)
    await one.call()
    print(one.evaluator.pid, flush=True)
    await one.call("end the scheduler")


asyncio.run(main())
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "evaluated_plugins.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__("evaluated_plugins")
    monkeypatch.undo()


class Evaluated:
    def __init__(self, plugin: type[Any], timeout: float) -> None:
        self.world = EngineWorld(4)
        self.ends: list[str] = []
        settings = ProcessSettings("kubestow", {}, timeout, 2 << 30)
        self.evaluator = ProcessEvaluator(
            plugin, NoArgs(), settings, lambda _, reason: self.ends.append(reason)
        )

    async def call(self, do: str = "", **spec: Any) -> list[int]:
        pod = self.world.pod(spec, {"do": do})
        table: Any = self.world.cache.table
        found = await self.evaluator.evaluate(CycleState(0.0), pod, table)
        scores: list[int] = found.scores[table.rows].tolist()
        return scores

    async def call_when_available(self, do: str = "", **spec: Any) -> list[int]:
        while True:
            try:
                return await self.call(do, **spec)
            except PluginUnavailableError:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def evaluated(plugin: type[Any], timeout: float = 60.0) -> AsyncIterator[Evaluated]:
    one = Evaluated(plugin, timeout)
    try:
        yield one
    finally:
        await one.evaluator.closed()


OTHERS: dict[str, Any] = {"priority": 7}


@pytest.mark.slow
async def test_each_call_sees_what_was_placed_before(plugins: Any) -> None:
    async with evaluated(plugins.Faulty) as one:
        assert await one.call() == [0, 0, 0, 0]
        one.world.place(one.world.pod(), 2)
        assert await one.call() == [0, 0, 1, 0]
        with pytest.raises(PluginError, match=r"ValueError: no gpu \(.*evaluated_plugins.py:14 in"):
            await one.call("raise")
        assert await one.call() == [0, 0, 1, 0], "it runs on"
        assert one.ends == []
        assert one.evaluator.faults() == ()


@pytest.mark.slow
async def test_a_process_that_ended_is_started_again_with_the_whole_copy(plugins: Any) -> None:
    async with evaluated(plugins.Faulty) as one:
        one.world.place(one.world.pod(), 2)
        with pytest.raises(ProcessEndedError, match="its process ended: it exited with status 3"):
            await one.call("exit")
        with pytest.raises(PluginUnavailableError, match="status 3; the next one is started in"):
            await one.call(**OTHERS)
        assert await one.call_when_available(**OTHERS) == [0, 0, 1, 0]
        assert one.ends == ["exit"]
        (fault,) = one.evaluator.faults()
        assert fault.startswith("its process ended once since the start, last at ")


@pytest.mark.slow
async def test_pods_like_the_one_that_ended_it_wait_while_others_are_evaluated(
    plugins: Any,
) -> None:
    async with evaluated(plugins.Faulty) as one:
        with pytest.raises(ProcessEndedError):
            await one.call("exit")
        await one.call_when_available(**OTHERS)
        with pytest.raises(PluginUnavailableError, match="once while it evaluated such a pod"):
            await one.call("exit")


@pytest.mark.slow
async def test_a_call_that_hangs_names_its_line(
    plugins: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "TRACE_SECONDS", 60.0)
    async with evaluated(plugins.Faulty, timeout=3.0) as one:
        await one.call_when_available()
        with pytest.raises(PluginTimeoutError, match=r"within 3s: it executes .*plugins.py:18 in"):
            await one.call("sleep")
        assert one.ends == ["timeout"]


@pytest.mark.slow
async def test_a_call_that_is_cancelled_ends_the_process(plugins: Any) -> None:
    async with evaluated(plugins.Faulty) as one:
        await one.call()
        call = asyncio.create_task(one.call("sleep"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await one.evaluator.closed()
        with pytest.raises(PluginUnavailableError, match="a call was cancelled"):
            await one.call()
        assert one.ends == ["cancelled"]


@pytest.mark.slow
def test_a_scheduler_that_is_killed_leaves_no_process_that_hangs(
    plugins: Any, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    pid = int(killed.stdout)
    # The kernel ends it soon.
    deadline = time.monotonic() + 60.0
    while runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
async def test_a_large_cluster_is_copied_in_several_calls(
    plugins: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COPY_SHARE", 0.0)
    monkeypatch.setattr("scheduler.isolation.process.table_copy.BATCH_OBJECTS", 1)
    async with evaluated(plugins.Faulty) as one:
        for copied in (1, 2, 3):
            with pytest.raises(PluginUnavailableError, match=f"its process: {copied} of 4"):
                await one.call()
        assert await one.call() == [0, 0, 0, 0]


@pytest.mark.slow
async def test_a_plugin_that_cannot_be_built_is_named(plugins: Any) -> None:
    async with evaluated(plugins.Unbuildable) as one:
        with pytest.raises(ProcessEndedError, match="could not be loaded: OSError: no disk"):
            await one.call()
        assert one.ends == ["load"]


@pytest.mark.parametrize(
    ("args", "problem"), [(object(), "cannot be sent"), ({"a": "x" * 70_000}, "are too large")]
)
def test_arguments_that_cannot_be_sent_are_refused(
    plugins: Any, args: object, problem: str
) -> None:
    settings = ProcessSettings("kubestow", {}, 1.0, 2 << 30)
    with pytest.raises(ConfigurationError, match=f"example.com/Faulty: .*{problem}"):
        ProcessEvaluator(plugins.Faulty, args, settings, lambda *_: None)
