"""Continues a coroutine in a task, after its first step was made outside of one."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def continued(begun: Coroutine[Any, Any, T], awaited: Any) -> T:
    """Await the rest of a coroutine whose first `send(None)` returned `awaited`."""
    return await _rest(begun, awaited)


@coroutine
def _rest(begun: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 - the coroutine handles it, as in a task
            step = partial(begun.throw, error)
        else:
            step = partial(begun.send, sent)
        try:
            awaited = step()
        except StopIteration as end:
            result: T = end.value
            return result
