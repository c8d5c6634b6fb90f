"""Waiting for objects in PreBind: woken by what was named, by nothing else, and counted as idle."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.framework import ObjectKey
from scheduler.service.handle import SubscriptionBoard
from scheduler.service.object_waits import ObjectWaits
from tests.unit.service.harness import Service

CLAIM = ObjectKey("persistentvolumeclaims", "default", "c")
VOLUME = ObjectKey("persistentvolumes", "", "v")
LONG = 3600.0


def named(key: ObjectKey) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(namespace=key.namespace, name=key.name))


class Scene:
    """A wait under way, with a script of what each look gives."""

    def __init__(self, *script: Any) -> None:
        self.board = SubscriptionBoard()
        self.waits = ObjectWaits(self.board)
        self.counted: list[bool] = []
        self.waits.on_wait = self.counted.append
        self.script = list(script)
        self.looks = 0

    def look(self) -> tuple[ObjectKey, ...]:
        self.looks += 1
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return tuple(found)

    async def change(self, key: ObjectKey, *, deleted: bool = False) -> None:
        item = named(key)
        self.board.publish_object(key.plural, item, None if deleted else item)
        await settled()


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_nothing_to_wait_for_is_no_wait() -> None:
    scene = Scene(())
    assert await scene.waits.until(scene.look, LONG)
    assert scene.counted == []


async def test_looks_again_after_named_changes_only() -> None:
    scene = Scene((CLAIM,), (CLAIM, VOLUME), ())
    task = asyncio.create_task(scene.waits.until(scene.look, LONG))
    await settled()
    assert (scene.looks, len(scene.waits), scene.counted) == (1, 1, [True])

    await scene.change(VOLUME)
    await scene.change(CLAIM._replace(name="other"))
    await scene.change(CLAIM._replace(namespace="other"))
    assert scene.looks == 1
    await scene.change(CLAIM)
    assert scene.looks == 2
    await scene.change(VOLUME, deleted=True)
    assert await task
    assert (len(scene.waits), scene.counted) == (0, [True, False])


async def test_all_who_wait_for_an_object_are_woken() -> None:
    scene = Scene((CLAIM,), (CLAIM,), (), ())
    tasks = [asyncio.create_task(scene.waits.until(scene.look, LONG)) for _ in range(2)]
    await settled()
    await scene.change(CLAIM)
    assert await asyncio.gather(*tasks) == [True, True]


async def test_time_runs_out() -> None:
    scene = Scene((CLAIM,))
    assert not await scene.waits.until(scene.look, 0)
    assert scene.counted == [True, False]


async def test_a_look_may_give_up_and_a_wait_may_be_cancelled() -> None:
    scene = Scene((CLAIM,), ValueError("hopeless"), (CLAIM,))
    task = asyncio.create_task(scene.waits.until(scene.look, LONG))
    await settled()
    await scene.change(CLAIM)
    with pytest.raises(ValueError, match="hopeless"):
        await task
    task = asyncio.create_task(scene.waits.until(scene.look, LONG))
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(scene.waits), scene.counted) == (0, [True, False] * 2)
    await scene.change(CLAIM)


def test_a_cycle_that_waits_holds_no_binding_slot() -> None:
    service = Service()
    ended: list[int] = []
    service.binding.active = 2
    service.binding.on_end = lambda: ended.append(service.binding.active)
    service.binding.waits(True)
    assert (service.binding.active, ended) == (1, [1])
    service.binding.waits(False)
    assert (service.binding.active, ended) == (2, [1])
