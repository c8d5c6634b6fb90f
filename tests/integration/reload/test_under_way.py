"""Reloads while a scheduling cycle is suspended, while a pod waits at Permit, and on standby."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.reload.running import PROFILE, Running, running, until

#: At PreFilter a cycle is suspended, and at Permit the pod waits, as long as `hold` says.
PLUGIN = """\
import asyncio

from scheduler.framework import Code, Status


class Slow:
    name = "Slow"
    timeout = 3600.0

    def __init__(self, args, handle):
        self.handle = handle
        self.hold = ""
        self.cycles, self.resume = 0, asyncio.Event()
        self.nodes, self.ended = set(), []
        handle.subscriptions.on_object("nodes", lambda old, new: self.nodes.add(new.metadata.name))

    async def pre_filter(self, state, pod, nodes):
        self.cycles += 1
        if self.hold == "PreFilter":
            await self.resume.wait()
        return None

    def permit(self, state, pod, node):
        return (Status(Code.WAIT), 900.0) if self.hold == "Permit" else (None, 0.0)

    def reserve(self, state, pod, node):
        return None

    def unreserve(self, state, pod, node):
        self.ended.append(("unreserve", node))

    def post_bind(self, state, pod, node):
        self.ended.append(("post_bind", node))
"""
SLOW = f"""\
{PROFILE}  plugins:
    multiPoint:
      enabled:
      - name: reloaded_plugin:Slow
"""
ONLY_OTHERS = PROFILE.replace("kubestow\n", "other\n")


def write(folder: Path) -> None:
    (folder / "plugins").mkdir()
    (folder / "plugins" / "reloaded_plugin.py").write_text(PLUGIN)


async def held(world: Running, point: str, **spec: Any) -> Any:
    """Let a pod be held at the point, and return the plugin that holds it."""
    plugin = world.plugin("Slow")
    plugin.hold = point
    world.pod("held", **spec)
    await until(lambda: plugin.cycles)
    if point == "Permit":
        await until(lambda: list(plugin.handle.waiting_pods()))
    return plugin


async def test_reload_waits_until_no_cycle_is_suspended(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        world.node("n")
        old = await held(world, "PreFilter")
        before = world.reloader.pause
        reload = asyncio.create_task(world.reload(PROFILE))
        await until(lambda: world.reloader.pause is not before)
        for number in range(20):
            world.node(f"more-{number}")
            await asyncio.sleep(0)
        assert not reload.done()
        assert world.reloader.generation == 1
        old.resume.set()
        assert await reload == "success"
        await until(lambda: old.ended)
        assert old.ended == [("post_bind", world.node_of("held"))]
        world.validate()
        world.pod("next")
        await until(lambda: world.node_of("next"))
        assert old.cycles == 1


async def test_suspended_cycle_of_a_profile_that_disappears_ends_with_its_own_plugins(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        world.node("n")
        old = await held(world, "PreFilter")
        reload = asyncio.create_task(world.reload(ONLY_OTHERS))
        await asyncio.sleep(0)
        old.resume.set()
        assert await reload == "success"
        await until(lambda: old.ended)
        assert old.ended == [("post_bind", "n")]
        assert world.node_of("held") == "n"
        world.validate()


async def test_pod_that_waits_at_permit_ends_with_the_plugins_that_it_began_with(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        world.node("n")
        old = await held(world, "Permit")
        assert await world.reload(PROFILE) == "success"
        world.node("second")
        # Its subscriptions last as long as the pod waits.
        await until(lambda: old.nodes == {"n", "second"})
        (waiting,) = old.handle.waiting_pods()
        waiting.allow("Slow")
        await until(lambda: old.ended)
        assert old.ended == [("post_bind", world.node_of("held"))]
        await until(lambda: not world.reloader.wiring.scheduling.binding.under_way)
        world.node("third")
        world.pod("next", nodeName="")
        await until(lambda: world.node_of("next"))
        assert old.nodes == {"n", "second"}
        world.validate()


async def test_pod_rejected_at_permit_after_a_reload_is_retried_with_the_new_plugins(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        world.node("n")
        old = await held(world, "Permit")
        assert await world.reload(PROFILE) == "success"
        (waiting,) = old.handle.waiting_pods()
        waiting.reject("Slow", "no")
        await until(lambda: world.node_of("held") == "n")
        assert old.ended == [("unreserve", "n")]
        assert old.cycles == 1
        world.validate()


async def test_pod_rejected_at_permit_after_its_profile_disappeared_is_left_to_others(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        world.node("n")
        old = await held(world, "Permit")
        assert await world.reload(ONLY_OTHERS) == "success"
        (waiting,) = old.handle.waiting_pods()
        waiting.reject("Slow", "no")
        await until(lambda: old.ended)
        world.validate()
        assert len(world.reloader.wiring.scheduling.queue) == 0
        assert await world.reload(SLOW) == "success"
        await until(lambda: world.node_of("held") == "n")


async def test_reloads_at_the_same_time_are_taken_over_one_after_the_other(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        world.node("n")
        old = await held(world, "PreFilter")
        first = asyncio.create_task(world.reload(PROFILE))
        await until(lambda: "kubestow" in world.reloader.wiring.profiles.built)
        second = asyncio.create_task(world.reload(ONLY_OTHERS))
        await asyncio.sleep(0)
        old.resume.set()
        # The first may see that the file changes while it is read.
        assert await first in ("success", "changing")
        assert await second == "success"
        assert list(world.reloader.wiring.profiles.built) == ["other"]
        world.pod("theirs", scheduler="other")
        await until(lambda: world.node_of("theirs"))
        world.validate()


async def test_standby_takes_over_changes_silently_and_schedules_by_them_when_it_leads(
    tmp_path: Path,
) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kubestow", "namespace": "default"},
        "spec": {
            "holderIdentity": "another",
            "leaseDurationSeconds": 3600,
            "acquireTime": datetime.now(UTC).isoformat(timespec="microseconds"),
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds"),
        },
    }
    write(tmp_path)
    async with running(tmp_path, PROFILE, lease) as world:
        world.node("n")
        world.pod("waiting")
        await until(lambda: len(world.reloader.wiring.scheduling.queue) == 1)
        for text in (SLOW, PROFILE) * 3:
            assert await world.reload(text) == "success"
            world.validate()
        assert await world.reload(SLOW) == "success"
        assert await world.reload("{") == "invalid"
        assert world.reloader.configz()["kubestow"]["generation"] == 8
        assert world.events() == []
        assert world.unbound() == ["waiting"]
        world.cluster.store.delete("leases.coordination.k8s.io", "default", "kubestow")
        await until(lambda: world.node_of("waiting"))
        assert world.plugin("Slow").cycles == 1
        assert world.plugin("Slow").nodes == {"n"}
