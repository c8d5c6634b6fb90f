"""Waiting for objects in PreBind: woken by what was named, by nothing else, and counted as idle."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.framework import ObjectKey
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.object_waits import ObjectWaits
from scheduler.service.subscriptions import SubscriptionBoard

CLAIM = ObjectKey("persistentvolumeclaims", "default", "c")
VOLUME = ObjectKey("persistentvolumes", "", "v")
LONG = 3600.0


def named(key: ObjectKey) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(namespace=key.namespace, name=key.name))


class Scene:
    """A wait under way, with a script of what each look gives."""

    def __init__(self, *script: Any) -> None:
        self.board = SubscriptionBoard()
        self.slots = BindingSlots(1, asyncio.Event())
        self.slots.take()
        self.waits = ObjectWaits(self.board, self.slots)
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
    assert scene.slots.taken == 1


async def test_looks_again_after_named_changes_only() -> None:
    scene = Scene((CLAIM,), (CLAIM, VOLUME), ())
    task = asyncio.create_task(scene.waits.until(scene.look, LONG))
    await settled()
    assert (scene.looks, len(scene.waits), scene.slots.taken) == (1, 1, 0)

    await scene.change(VOLUME)
    await scene.change(CLAIM._replace(name="other"))
    await scene.change(CLAIM._replace(namespace="other"))
    assert scene.looks == 1
    await scene.change(CLAIM)
    assert scene.looks == 2
    await scene.change(VOLUME, deleted=True)
    assert await task
    assert (len(scene.waits), scene.slots.taken) == (0, 1)


async def test_all_who_wait_for_an_object_are_woken() -> None:
    scene = Scene((CLAIM,), (CLAIM,), (), ())
    tasks = [asyncio.create_task(scene.waits.until(scene.look, LONG)) for _ in range(2)]
    await settled()
    await scene.change(CLAIM)
    assert await asyncio.gather(*tasks) == [True, True]


async def test_time_runs_out() -> None:
    scene = Scene((CLAIM,))
    assert not await scene.waits.until(scene.look, 0)
    assert scene.slots.taken == 1


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
    assert (len(scene.waits), scene.slots.taken) == (0, 1)
    await scene.change(CLAIM)


def test_a_slot_given_back_at_the_limit_wakes_the_loop() -> None:
    wake = asyncio.Event()
    slots = BindingSlots(2, wake)
    for _ in range(3):
        slots.take()
    slots.release()
    assert slots.taken == 2
    assert not wake.is_set()
    slots.release()
    assert not slots.full
    assert wake.is_set()
    assert not slots.idle.is_set()
    slots.release()
    assert slots.idle.is_set()
