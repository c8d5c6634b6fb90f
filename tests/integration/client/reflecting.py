"""A reflector under test, and a recorder of what it delivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from scheduler.api.node import Node
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions
from scheduler.client.reflector import Reflector
from scheduler.client.resources import NODES
from scheduler.client.rest import ApiClient

NODES_PATH = "/api/v1/nodes"


class Recorder:
    """Keeps batches, and a copy of the store built from deltas alone."""

    def __init__(self) -> None:
        self.batches: list[list[Delta[Any]]] = []
        self.replayed: dict[str, Any] = {}
        self._changed = asyncio.Event()

    def __call__(self, batch: Sequence[Delta[Any]]) -> None:
        self.batches.append(list(batch))
        for delta in batch:
            metadata = delta.object.metadata
            key = f"{metadata.namespace}/{metadata.name}"
            if delta.type is DeltaType.ADDED:
                assert key not in self.replayed, f"{key} added twice"
                self.replayed[key] = delta.object
            elif delta.type is DeltaType.MODIFIED:
                assert self.replayed[key] is delta.old
                self.replayed[key] = delta.object
            else:
                assert self.replayed.pop(key) is delta.old
        self._changed.set()

    @property
    def deltas(self) -> list[tuple[str, str]]:
        return [
            (delta.type.value, delta.object.metadata.name)
            for batch in self.batches
            for delta in batch
        ]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is looked at after each batch and now and then."""
        async with asyncio.timeout(60):
            while not condition():
                self._changed.clear()
                try:
                    async with asyncio.timeout(0.01):
                        await self._changed.wait()
                except TimeoutError:
                    pass


@asynccontextmanager
async def running(reflector: Reflector[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(reflector.run(), name="reflector under test")
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def reflect(
    client: ApiClient, recorder: Recorder, options: ReflectorOptions | None = None, **more: Any
) -> Reflector[Node]:
    return Reflector(
        client, NODES, recorder, options=options or ReflectorOptions(), random=Random(1), **more
    )


def names(reflector: Reflector[Any]) -> list[str]:
    return sorted(item.metadata.name for item in reflector.store.list())


def consistent(reflector: Reflector[Any], recorder: Recorder) -> None:
    """The deltas alone give the store."""
    assert sorted(recorder.replayed.values(), key=id) == sorted(reflector.store.list(), key=id)
