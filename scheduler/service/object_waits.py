"""ObjectWaits: waits of binding cycles for changes of objects, such as volumes.

A wait checks its condition only when an object that it named has changed. Meanwhile its binding
cycle releases its slot, since it sends no requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from scheduler.framework import ObjectKey
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.subscriptions import SubscriptionBoard


class ObjectWaits:
    """All waits of the process. Touched from one event loop."""

    def __init__(self, subscriptions: SubscriptionBoard, slots: BindingSlots) -> None:
        self._subscriptions = subscriptions
        self._slots = slots
        self._waiters: dict[ObjectKey, set[asyncio.Future[None]]] = {}
        self._subscribed: set[str] = set()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    async def until(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        """Implement `framework.ApiWriter.wait_for`."""
        keys = look()
        if not keys:
            return True
        self._waiting += 1
        self._slots.release()
        try:
            async with asyncio.timeout(seconds) as limit:
                while keys:
                    await self._change_of(keys)
                    keys = look()
        except TimeoutError:
            if not limit.expired():
                raise
            return False
        finally:
            self._waiting -= 1
            self._slots.take()
        return True

    async def _change_of(self, keys: Collection[ObjectKey]) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._subscribe(key.plural)
            self._waiters.setdefault(key, set()).add(changed)
        try:
            await changed
        finally:
            for key in keys:
                waiters = self._waiters.get(key)
                if waiters is not None:
                    waiters.discard(changed)
                    if not waiters:
                        del self._waiters[key]

    def _subscribe(self, plural: str) -> None:
        if plural in self._subscribed:
            return
        self._subscribed.add(plural)

        def published(old: Any | None, new: Any | None) -> None:
            item = old if new is None else new
            if self._waiters and item is not None:
                self._changed(ObjectKey(plural, item.metadata.namespace, item.metadata.name))

        self._subscriptions.on_object(plural, published)

    def _changed(self, key: ObjectKey) -> None:
        for waiter in self._waiters.get(key, ()):
            if not waiter.done():
                waiter.set_result(None)
