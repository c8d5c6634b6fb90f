"""A TCP proxy on the loopback interface whose connections can stall or break.

A stalled connection keeps its sockets open and delivers nothing, as when packets are dropped; when
the client gives up, what was held back for the server is discarded. A broken one is reset.
"""

from __future__ import annotations

import asyncio
import threading
from enum import Enum
from typing import Final, Self

from devtools.control_plane.ports import LOOPBACK, free_port

CHUNK_BYTES: Final = 64 * 1024
START_TIMEOUT_SECONDS: Final = 10.0


class Mode(Enum):
    """Treatment of connections by the proxy."""

    OPEN = "open"
    STALLED = "stalled"
    RESET = "reset"


class Proxy:
    """Forwards connections to one port of this machine; runs an event loop in a thread of its own.

    Use it in a `with` statement; `set_mode` may be called from any thread.
    """

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self._target = target_port
        self._mode = Mode.OPEN
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy")
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_SECONDS):
            msg = f"the proxy for port {self._target} did not start"
            raise RuntimeError(msg)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def set_mode(self, mode: Mode) -> None:
        """Change what happens to all connections, those that are open and those to come."""
        self._loop.call_soon_threadsafe(self._apply, mode)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._flowing = asyncio.Event()
        self._flowing.set()
        async with await asyncio.start_server(self._accept, LOOPBACK, self.port) as server:
            self._started.set()
            await self._stop.wait()
            server.close()
            self._apply(Mode.RESET)
            connections = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*connections, return_exceptions=True)

    def _apply(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.STALLED:
            self._flowing.clear()
            return
        if mode is Mode.RESET:
            for writer in self._writers:
                writer.transport.abort()
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        server: asyncio.StreamWriter | None = None
        try:
            if self._mode is Mode.RESET:
                return
            responses, server = await asyncio.open_connection(LOOPBACK, self._target)
            self._writers.add(server)
            pumps = [
                asyncio.create_task(self._pump(reader, server), name="proxy requests"),
                asyncio.create_task(self._pump(responses, writer), name="proxy responses"),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            # The server behind is away: the client sees its connection end.
            return
        finally:
            for each in (writer, server):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if not self._flowing.is_set():
                await self._flowing_or_gone(writer)
            writer.write(data)
            await writer.drain()

    async def _flowing_or_gone(self, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        if writer.is_closing():
            raise ConnectionResetError
