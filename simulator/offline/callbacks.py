"""Callbacks that keep nothing alive, and that let nothing be reported twice."""

from __future__ import annotations

from asyncio import CancelledError, Task
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakMethod


def weak(method: Callable[..., None]) -> Callable[..., None]:
    """Return a call of a method that does nothing once its object is gone."""
    reference = WeakMethod(method)

    def call(*arguments: Any) -> None:
        found = reference()
        if found is not None:
            found(*arguments)

    return call


def retrieve(task: Task[Any]) -> None:
    """Take note of the end of a cancelled task, so that asyncio does not report it."""
    with suppress(CancelledError):
        task.exception()
