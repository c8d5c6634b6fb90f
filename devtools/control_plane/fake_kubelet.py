"""The part of a kubelet that forwards ports, for a real API server to call; in a thread.

    with FakeKubelet() as kubelet:
        control_plane.admin.ensure("/api/v1/nodes", kubelet.node("node-1"))

Forwards any port of any pod to that port of 127.0.0.1, by the protocol `v4.channel.k8s.io` as a
kubelet does, so a process on this machine stands for a container. `redirect` sends connections
elsewhere: that is what an attacker on a node could do.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from aiohttp import WSMsgType, web

from devtools.control_plane.ports import LOOPBACK, free_port
from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import ServingTls

PROTOCOL: Final = "v4.channel.k8s.io"
DATA: Final = b"\0"
ERROR: Final = b"\1"


class FakeKubelet:
    """Serves from `start` (or `with`) to `stop`."""

    def __init__(self) -> None:
        self.port = free_port()
        #: Ports by the ports that are asked for; for others, the port itself.
        self._redirected: dict[int, int] = {}
        #: Pods whose ports were forwarded, as `namespace/name`.
        self.asked: list[str] = []
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake kubelet", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def node(self, name: str) -> dict[str, object]:
        """Return a Node object that leads the API server here."""
        return {
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            },
        }

    @contextmanager
    def redirect(self, port: int, target: int) -> Iterator[None]:
        """Forward a port to another one."""
        self._redirected[port] = target
        try:
            yield
        finally:
            del self._redirected[port]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        runner = web.AppRunner(application)
        await runner.setup()
        tls = ServingTls(ServingOptions()).context
        await web.TCPSite(runner, LOOPBACK, self.port, ssl_context=tls).start()
        self._started.set()
        await self._stopped.wait()
        await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.WebSocketResponse:
        self.asked.append(f"{request.match_info['namespace']}/{request.match_info['pod']}")
        port = int(request.query["port"])
        return await forward(request, port, self._redirected.get(port, port))


async def forward(request: web.Request, port: int, target: int) -> web.WebSocketResponse:
    """Open the WebSocket that a request is for, and forward `port` to `target` of 127.0.0.1."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    head = struct.pack("<H", port)
    await socket.send_bytes(DATA + head)
    await socket.send_bytes(ERROR + head)
    try:
        reader, writer = await asyncio.open_connection(LOOPBACK, target)
    except OSError as error:
        text = f"error forwarding port {port} to pod: {error.strerror}"
        await socket.send_bytes(ERROR + text.encode())
        await socket.close()
        return socket
    down = asyncio.create_task(_copy(reader, socket), name="forwarding")
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[:1] == DATA:
            writer.write(message.data[1:])
            await writer.drain()
    writer.close()
    await down
    return socket


async def _copy(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    while data := await reader.read(32 * 1024):
        await socket.send_bytes(DATA + data)
    await socket.close()
