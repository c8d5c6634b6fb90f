"""Observer: sees from one pod watch which pods were tried and where they were bound.

The watch is not decoded: a line is searched for the few bytes that matter, so that observing takes
little of the CPU that the schedulers share with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from scheduler.client.errors import ConnectionFailed
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.http.stream import ResponseStream
from scheduler.client.transport import Transport

TIMEOUT_SECONDS: Final = 600.0
"""How long pods may take, as upstream."""

_CONDITION: Final = b'"type":"PodScheduled"'


class Observer:
    """Follows all pods from a watch that is opened before anything is created."""

    def __init__(self) -> None:
        #: When the binding of a pod was seen, and its node, by `namespace/name`.
        self.bound: dict[str, float] = {}
        self.nodes: dict[str, str] = {}
        self.bound_twice: set[str] = set()
        self._attempted: set[str] = set()
        self._missing: set[str] = set()
        self._until = "Scheduled"
        self._reached = asyncio.Event()
        self._lost = ""
        self._version = "0"

    async def wait(self, keys: Iterable[str], stage: str) -> None:
        """Wait until every pod is bound (`Scheduled`) or at least tried (`Attempted`).

        Raises RuntimeError, naming a pod, when one is deleted or takes longer than ten minutes.
        """
        done = self.bound if stage == "Scheduled" else self._attempted | self.bound.keys()
        self._missing, self._until = {key for key in keys if key not in done}, stage
        if not self._missing:
            return
        self._reached.clear()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._reached.wait()
        except TimeoutError:
            some = min(self._missing)
            msg = f"{len(self._missing)} pods not {stage} after {TIMEOUT_SECONDS} s, e.g. {some}"
            raise RuntimeError(msg) from None
        if self._lost:
            raise RuntimeError(f"pod {self._lost} was deleted while it was waited for")

    async def run(self, transport: Transport, headers: HeaderBlock) -> None:
        """Watch until cancelled.

        The API server drops a watcher that falls behind: go on where it was.
        """
        while True:
            path = f"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
            request = Request("GET", path, headers)
            async with transport.stream(request, idle_timeout=TIMEOUT_SECONDS) as stream:
                rest = b""
                while chunk := await _chunk(stream):
                    now = time.monotonic()
                    lines = (rest + chunk).split(b"\n")
                    rest = lines.pop()
                    for line in lines:
                        self.see(line, now)

    def see(self, line: bytes, now: float) -> None:
        """Take note of one watch event."""
        self._version = _text_after(line, b'"resourceVersion":"') or self._version
        name = _text_after(line, b'"metadata":{"name":"')
        if name is None:
            return
        namespace = _text_after(line, b'"namespace":"')
        key = f"{namespace}/{name}"
        if line.startswith(b'{"type":"DELETED"'):
            if key in self._missing:
                self._lost = key
                self._reached.set()
            return
        node = _text_after(line, b'"nodeName":"')
        if node is not None:
            self._place(key, node, now)
        elif _CONDITION in line and key not in self._attempted:
            self._attempted.add(key)
            if self._until == "Attempted":
                self._strike(key)

    def _place(self, key: str, node: str, now: float) -> None:
        before = self.nodes.setdefault(key, node)
        if before != node:
            self.bound_twice.add(key)
        elif key not in self.bound:
            self.bound[key] = now
            self._strike(key)

    def _strike(self, key: str) -> None:
        self._missing.discard(key)
        if not self._missing:
            self._reached.set()


async def _chunk(stream: ResponseStream) -> bytes:
    """Return the next bytes of the watch; empty when it ended, in order or not."""
    try:
        return await stream.read()
    except ConnectionFailed:
        return b""


def _text_after(line: bytes, marker: bytes) -> str | None:
    start = line.find(marker)
    if start < 0:
        return None
    start += len(marker)
    return line[start : line.index(b'"', start)].decode()
