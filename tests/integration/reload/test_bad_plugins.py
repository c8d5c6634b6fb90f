"""Plugins that misbehave: the scheduler stays up, says which plugin, and the others go on.

Every case is one plugin in one profile; a pod of another profile is scheduled beside its victim.
What happens to plugins that block or hang is in test_overruns.py, test_isolation.py and
tests/unit/process/test_watchdog.py; forks are in tests/unit/service/test_forks.py.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from scheduler.reload import reloader
from scheduler.testing import check_plugin
from scheduler.testing.contract import ContractViolation
from tests.integration.reload.running import HEADER, PROFILE, Running, running, until

NAME = "example.com/Bad"
CONFIG = (
    HEADER
    + """\
profiles:
- schedulerName: kubestow
  plugins:
    multiPoint:
      enabled:
      - name: reloaded_bad:Bad
- schedulerName: other
"""
)
PLUGIN = """\
import sys

from scheduler.framework import ActionType, ClusterEvent, ClusterEventWithHint, EventResource


class Bad:
    name = "example.com/Bad"

    def __init__(self, args, handle):
        %(init)s

    def filter(self, state, pod, node):
        if pod.metadata.name == "victim":
            %(filter)s

    def events_to_register(self):
        return %(events)s
"""
CANCEL = "import asyncio; asyncio.current_task().cancel()"
GOOD = {"init": "pass", "filter": "return None", "events": "[]"}


def write(folder: Path, **faults: str) -> None:
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins" / "reloaded_bad.py").write_text(PLUGIN % {**GOOD, **faults})


def message(world: Running, name: str) -> str:
    pod = world.cluster.get("v1", "Pod", name)
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("raise ValueError('no gpu')", "no gpu"),
        ("raise AssertionError", ""),
        ("return 'nonsense'", "answered 'nonsense', which is not a Status"),
        ("return 1", "answered 1, which is not a Status"),
        ("return bytearray(2**62)", ""),
        ("return pod.filter(pod)", "has no attribute 'filter'"),
        ("self.filter(state, pod, node)", "maximum recursion depth exceeded"),
        ("print('hello'); sys.stderr.write('hello'); raise OSError('printed')", "printed"),
    ],
)
async def test_a_fault_costs_one_attempt_and_is_named(
    tmp_path: Path, fault: str, text: str
) -> None:
    write(tmp_path, filter=fault)
    async with running(tmp_path, CONFIG) as world:
        world.node("n1")
        world.pod("victim")
        world.pod("next")
        world.pod("others", scheduler="other")
        await until(lambda: message(world, "victim"))
        assert message(world, "victim").startswith(f'running "{NAME}" filter plugin: ')
        assert text in message(world, "victim")
        await until(lambda: world.node_of("next") and world.node_of("others"))
        assert not world.node_of("victim")
        assert world.sample("kubestow_plugin_exceptions_total")
        world.validate()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"init": "raise OSError('no disk')"}, "no disk"),
        ({"init": "sys.exit(3)"}, "SystemExit"),
        ({"init": CANCEL}, "reload: cancelled by code that it called"),
        ({"events": "None"}, NAME),
        ({"events": "['pods']"}, NAME),
        ({"events": "[ClusterEventWithHint(ClusterEvent('moons', ActionType.ADD))]"}, "moons"),
    ],
)
async def test_a_plugin_that_cannot_be_built_is_refused_by_name(
    tmp_path: Path, fault: dict[str, str], text: str
) -> None:
    """Above all impossible events: nothing of the change is taken over."""
    write(tmp_path, **fault)
    async with running(tmp_path, PROFILE) as world:
        world.node("n1")
        expected = "failed" if CANCEL in fault.values() else "invalid"
        assert await world.reload(CONFIG) == expected
        assert text in world.problems()
        world.pod("next")
        await until(lambda: world.node_of("next"))
        # Reloading goes on.
        assert await world.reload(PROFILE) == "unchanged"
        assert world.problems() == ""


async def test_the_files_are_watched_after_a_constructor_that_cancels_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloader, "PERIOD", 0.01)
    write(tmp_path, init=CANCEL)
    async with running(tmp_path, PROFILE) as world:
        world.config.write_text(CONFIG)
        assert "cancelled by code that it called" in await world.event("ReloadFailed")
        write(tmp_path)
        await until(lambda: world.reloader.generation == 2)


def test_the_contract_suite_finds_changes_of_shared_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, filter="pass\n        pod.metadata.labels['seen'] = node.name")
    monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
    sys.modules.pop("reloaded_bad", None)
    plugin = importlib.import_module("reloaded_bad").Bad
    with pytest.raises(ContractViolation, match="objects are shared with the whole scheduler"):
        check_plugin(plugin)
