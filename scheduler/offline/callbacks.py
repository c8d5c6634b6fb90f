"""Callbacks that keep nothing alive, and that let nothing be reported twice."""

from __future__ import annotations

from asyncio import CancelledError, Task
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakMethod

from scheduler.offline.tables import Handlers, Tables
from scheduler.offline.virtual_time import Step, VirtualLoop


def weak(method: Callable[..., None]) -> Callable[..., None]:
    """Return a call of a method that does nothing once its object is gone."""
    reference = WeakMethod(method)

    def call(*arguments: Any) -> None:
        found = reference()
        if found is not None:
            found(*arguments)

    return call


class Deliveries:
    """Has the scheduler shown, in the next turn, what changes while a world runs."""

    __slots__ = ("_loop", "_step", "running")

    def __init__(self, loop: VirtualLoop, tables: Tables, handlers: Handlers) -> None:
        self._loop = loop
        self._step = Step(partial(tables.deliver, handlers))
        tables.on_change.subscribe(self.note)
        #: Set by the world.
        self.running = False

    def note(self) -> None:
        """Take note of the first change since the last delivery."""
        if self.running:
            self._loop.add_step(self._step)


def retrieve(task: Task[Any]) -> None:
    """Take note of the end of a cancelled task, so that asyncio does not report it."""
    with suppress(CancelledError):
        task.exception()
