"""A plugin that exceeds its time budget too often is switched off for its profile."""

from __future__ import annotations

from pathlib import Path

from tests.integration.reload.running import HEADER, Running, running, until

PLUGIN = """\
import time

from scheduler.framework import Code, Status, unresolvable


class Slow:
    name = "example.com/Slow"
    released = []

    def __init__(self, args, handle):
        pass

    def pre_filter(self, state, pod, table):
        time.sleep(0.03)

    def filter(self, state, pod, node):
        return unresolvable("not on this node") if node.name == "forbidden" else None

    def events_to_register(self):
        return []

    def reserve(self, state, pod, node_name):
        return None

    def unreserve(self, state, pod, node_name):
        self.released.append(pod.metadata.name)

    def permit(self, state, pod, node_name):
        return (Status(Code.WAIT), 600.0) if pod.metadata.name == "waits" else (None, 0.0)
"""
CONFIG = (
    HEADER
    + """\
profiles:
- schedulerName: kubestow
  kubestow: {onOverrun: %s, overrunLimit: 3}
  plugins:
    multiPoint:
      enabled:
      - name: reloaded_slow:Slow
- schedulerName: other
  plugins:
    multiPoint:
      enabled:
      - name: reloaded_slow:Slow
"""
)
NAME = "example.com/Slow"


def enabled(world: Running, profile: str) -> bool:
    return NAME in world.reloader.wiring.profiles.frameworks[profile].plugins


async def test_a_slow_plugin_is_switched_off_until_the_next_reload(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "reloaded_slow.py").write_text(PLUGIN)
    async with running(tmp_path, CONFIG % "Disable") as world:
        world.node("forbidden")
        world.pod("rejected")
        await until(lambda: world.sample("scheduler_schedule_attempts_total"))
        plugin = world.plugin(NAME)
        world.node("n1", kind="good")
        world.pod("waits", nodeSelector={"kind": "good"})
        await until(lambda: len(world.reloader.wiring.state.waiting_pods))
        world.pod("third", nodeSelector={"kind": "good"})
        await until(lambda: not enabled(world, "kubestow"))
        # The rejected pod is tried again without an event of the cluster, and so is the one that
        # waited for the plugin; its reservation was undone.
        await until(lambda: not world.unbound())
        assert world.node_of("waits") == "n1"
        assert plugin.released == ["waits"]
        assert enabled(world, "other"), "switched off for one profile only"
        assert world.sample("kubestow_plugin_switched_off") == 1.0
        assert "exceeded its time budget 3 times" in await world.event("PluginSwitchedOff")
        assert world.reloader.configz()["kubestow"]["switchedOff"][0]["plugin"] == NAME
        faults = world.reloader.wiring.scheduling.plugin_faults("kubestow", ())
        assert faults[NAME][0].startswith("switched off for this profile since ")
        world.validate()
        assert await world.reloader.reload() == "success"
        assert enabled(world, "kubestow")
        assert world.sample("kubestow_plugin_switched_off") == 0.0
        assert "switchedOff" not in world.reloader.configz()["kubestow"]


async def test_a_profile_that_only_reports_keeps_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "reloaded_slow.py").write_text(PLUGIN)
    async with running(tmp_path, CONFIG % "Report") as world:
        world.node("n1")
        for number in range(5):
            world.pod(f"p{number}")
        await until(lambda: not world.unbound())
        assert world.sample("kubestow_plugin_time_budget_exceeded_total") >= 5
        assert enabled(world, "kubestow")
