"""Plugins whose binding cycles wait: at Permit, in PreBind and in Bind.

A folder for plugins of worlds: it is on the path while `tests` is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from scheduler.framework import SKIP, Code, Status, unschedulable

DELAY = "example.com/delay"
POINT = "example.com/waits-at"


def waits(pod: Any, point: str) -> bool:
    """Whether the pod wants to wait at this point."""
    return bool(pod.metadata.annotations.get(POINT) == point)


def delay(pod: Any) -> float:
    """Return the seconds for which the pod wants to wait."""
    return float(pod.metadata.annotations.get(DELAY, "0"))


class Slow:
    """Waits at Permit or in PreBind, as annotations of the pod say.

    A pod that waits for no time at Permit is let go at last: it would be tried for hours.
    """

    name = "example.com/Slow"

    def __init__(self, args: object, handle: object) -> None:
        self._waits: Counter[str] = Counter()

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status | None, float]:
        """Let the wait end in a rejection."""
        seconds = delay(pod)
        self._waits[pod.uid] += not seconds
        if not waits(pod, "Permit") or self._waits[pod.uid] > 10:
            return None, 0.0
        return Status(Code.WAIT), seconds

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Status | None:
        """Skip unless there is something to wait for."""
        return None if waits(pod, "PreBind") else SKIP

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        """Wait; pods of a name that ends in 7 are rejected then."""
        await asyncio.sleep(delay(pod))
        return unschedulable("unlucky") if pod.metadata.name.endswith("7") else None


class SlowBinder:
    """Waits in Bind, and gives up after ten seconds."""

    name = "example.com/SlowBinder"

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle

    async def bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        """Wait, and bind."""
        if not waits(pod, "Bind"):
            return SKIP
        try:
            async with asyncio.timeout(10.0):
                await asyncio.sleep(delay(pod))
        except TimeoutError:
            return unschedulable("too slow")
        status: Status | None = await self._handle.api.bind(pod, node_name, None)
        return status


class Raising:
    """Raises at pods whose names begin with `bad`."""

    name = "example.com/Raising"

    def __init__(self, args: object, handle: object) -> None:
        """Need nothing."""

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        """Accept every node."""
        if pod.metadata.name.startswith("bad"):
            raise ValueError("on purpose")
        return None
