"""Plugins that run in a thread of their own: they may block, raise, hang, exit and print."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from devtools.loop_time import pass_time
from tests.integration.reload.running import HEADER, Running, running, until

NAME = "example.com/Apart"
CONFIG = (
    HEADER
    + """\
profiles:
- schedulerName: kubestow
  kubestow:
    isolation:
    - {plugin: example.com/Apart, timeout: %s}
  plugins:
    multiPoint:
      enabled:
      - name: reloaded_apart:Apart
- schedulerName: other
"""
)
PLUGIN = """\
import os
import sys
import threading

from scheduler.framework import unschedulable


class Apart:
    name = "example.com/Apart"
    hangs, go_on = threading.Event(), threading.Event()
    threads = set()

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        self.threads.add(threading.current_thread().name)
        if pod.metadata.name == "victim":
            %s
        return unschedulable("not here") if node.name == "forbidden" else None

    def score(self, state, pod, node):
        return 100 if node.name == "best" else 0

    def reserve(self, state, pod, node_name):
        assert threading.current_thread() is threading.main_thread()

    def unreserve(self, state, pod, node_name):
        pass
"""


def write(folder: Path, fault: str = "pass") -> None:
    (folder / "plugins").mkdir()
    (folder / "plugins" / "reloaded_apart.py").write_text(PLUGIN % fault)


def message(world: Running, name: str) -> str:
    pod = world.cluster.get("v1", "Pod", name)
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


async def test_filter_and_score_decide_from_their_thread(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, CONFIG % "5s") as world:
        world.node("forbidden", kind="forbidden")
        for name in ("second", "best"):
            world.node(name)
        for number in range(3):
            world.pod(f"p{number}")
        await until(lambda: not world.unbound())
        assert {world.node_of(f"p{number}") for number in range(3)} == {"best"}
        plugin = world.plugin(NAME)
        assert plugin.threads == {f"plugin {NAME}"}
        assert world.sample("kubestow_isolated_plugin_calls_total") >= 3
        world.pod("rejected", nodeSelector={"kind": "forbidden"})
        await until(lambda: message(world, "rejected"))
        assert "1 not here" in message(world, "rejected")
        world.validate()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("raise ValueError('no gpu')", "no gpu"),
        ("return 'nonsense'", "answered 'nonsense', which is not a Status"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise StopIteration", "StopIteration"),
        ("[0] * 10**15", ""),
        ("print('hello'); raise ValueError('printed')", "printed"),
    ],
)
async def test_a_fault_costs_one_attempt_and_is_named(
    tmp_path: Path, fault: str, text: str
) -> None:
    write(tmp_path, fault)
    async with running(tmp_path, CONFIG % "5s") as world:
        world.node("n1")
        world.pod("victim")
        world.pod("next")
        world.pod("others", scheduler="other")
        await until(lambda: message(world, "victim"))
        await until(lambda: world.node_of("next") and world.node_of("others"))
        assert message(world, "victim").startswith(f'running PreFilter plugin "{NAME}": ')
        assert text in message(world, "victim")
        assert not world.node_of("victim")
        world.validate()


@pytest.mark.slow
async def test_a_call_that_hangs_is_given_up_and_named_until_it_ends(tmp_path: Path) -> None:
    write(tmp_path, "self.hangs.set(); self.go_on.wait(60)")
    async with running(tmp_path, CONFIG % "5s") as world:
        world.node("n1")
        world.pod("victim")
        await until(world.plugin(NAME).hangs.is_set)
        pass_time(5.0)
        await until(lambda: "did not finish within 5s" in message(world, "victim"))
        assert "reloaded_apart.py:" in message(world, "victim"), "file and line"
        world.pod("others", scheduler="other")
        world.pod("next")
        await until(lambda: "an earlier call has not ended" in message(world, "next"))
        await until(lambda: world.node_of("others"))
        hanging = [each for each in threading.enumerate() if each.name == f"plugin {NAME}"]
        assert len(hanging) == 1, "never more than one thread"
        plugin = world.plugin(NAME)
        plugin.go_on.set()
        # Both are tried again with backoff; the thread has ended by then.
        await until(lambda: not world.unbound())
        world.validate()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{plugin: example.com/Apart, timeout: 0s}", "timeout"),
        ("{plugin: NodeResourcesFit}", "in-tree plugins cannot be isolated"),
        ("{plugin: example.com/Other}", "the profile does not enable this plugin"),
        ("{mode: Thread}", "the plugin to isolate"),
        ("{plugin: example.com/Apart}, {plugin: example.com/Apart}", "Duplicate value"),
        ("{plugin: example.com/Apart, mode: Fork}", "Fork"),
    ],
)
async def test_an_entry_that_cannot_work_is_refused(
    tmp_path: Path, entry: str, problem: str
) -> None:
    write(tmp_path)
    async with running(tmp_path, CONFIG % "5s") as world:
        refused = (CONFIG % "5s").replace("{plugin: example.com/Apart, timeout: 5s}", "%s")
        text = refused.replace("- %s", f"- {entry}".replace("}, {", "}\n    - {"))
        assert await world.reload(text) == "invalid"
        assert "kubestow.isolation[" in world.problems()
        assert problem in world.problems()
