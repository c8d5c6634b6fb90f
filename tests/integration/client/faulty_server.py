"""A tiny API server on a loopback socket that misbehaves on command.

Each test scripts the responses it needs: `server.on("GET", "/api/v1/nodes", handler,
...)`. The handlers of a route are used in order and the last one stays. A handler is a coroutine
function that gets the request; the builders below make the usual ones. Requests that are not
scripted receive 501 and fail the test at the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from devtools.loop_time import pass_time

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class FaultyServer:
    """Scripted routes, and a record of what came in."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.unexpected: list[str] = []
        self.url = ""
        self._routes: dict[tuple[str, str], list[Handler]] = {}
        self.forever = asyncio.Event()
        """Set at the end, so that hanging handlers end."""

    def on(self, method: str, path: str, *handlers: Handler) -> None:
        """Script a route; a watch is the method WATCH."""
        self._routes[method, path] = list(handlers)

    def requests(self, method: str, path: str | None = None) -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method and path in (None, seen.path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method = "WATCH" if request.query.get("watch") else request.method
        body = await request.read()
        self.seen.append(
            Seen(method, request.path, dict(request.query), dict(request.headers), body)
        )
        handlers = self._routes.get((method, request.path))
        if not handlers:
            self.unexpected.append(f"{method} {request.path}")
            return web.Response(status=501)
        handler = handlers.pop(0) if len(handlers) > 1 else handlers[0]
        return await handler(request)

    # Answers ----------------------------------------------------------------------------------

    def json(
        self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Handler:
        async def handler(_: web.Request) -> web.StreamResponse:
            return web.json_response(body, status=status, headers=headers)

        return handler

    def status(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Handler:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message}
        return self.json(body, code, headers)

    def text(self, body: bytes, status: int = 200) -> Handler:
        async def handler(_: web.Request) -> web.StreamResponse:
            return web.Response(body=body, status=status)

        return handler

    def cut(self, then: Callable[[web.Request], None] | None = None) -> Handler:
        """Do `then`, but lose the connection instead of responding."""

        async def handler(request: web.Request) -> web.StreamResponse:
            if then is not None:
                then(request)
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        return handler

    def hang(
        self, then: Callable[[web.Request], None] | None = None, *, seconds: float = 0.0
    ) -> Handler:
        """Do `then`, and never respond; so many seconds pass at once."""

        async def handler(request: web.Request) -> web.StreamResponse:
            if then is not None:
                then(request)
            pass_time(seconds)
            await self.forever.wait()
            return web.Response(status=503)

        return handler

    def page(self, items: Iterable[Any], version: str = "1", continue_token: str = "") -> Handler:
        metadata = {"resourceVersion": version}
        if continue_token:
            metadata["continue"] = continue_token
        return self.json({"kind": "List", "metadata": metadata, "items": list(items)})

    def watch(self, chunks: Sequence[bytes] = (), *, end: str = "open") -> Handler:
        """Stream chunks, then: stay "open", "close" in order, or "cut" the connection."""

        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            if end == "open":
                await self.forever.wait()
            elif end == "cut":
                assert request.transport is not None
                # The bytes above must leave before the reset overtakes them.
                await asyncio.sleep(0.01)
                request.transport.abort()
            return response

        return handler


def line(kind: str, item: Any) -> bytes:
    """One watch line."""
    return json.dumps({"type": kind, "object": item}, separators=(",", ":")).encode() + b"\n"


def bookmark(version: str) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": version}})


def expired() -> bytes:
    status = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old resource version",
    }
    return line("ERROR", status)


def node(name: str, version: str = "1", uid: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": version}
    return {"metadata": metadata, **more}


def pod(name: str, version: str = "1", uid: str = "", node_name: str = "") -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": version,
    }
    spec = {"nodeName": node_name} if node_name else {}
    return {"metadata": metadata, "spec": spec}


async def until(condition: Callable[[], object], pause: float = 0.001) -> None:
    """Wait until `condition` holds, for what happens on the other side of a socket."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (conditions are about objects without events)
            await asyncio.sleep(pause)


@asynccontextmanager
async def running_server() -> AsyncIterator[FaultyServer]:
    """Serve on a free loopback port."""
    server = FaultyServer()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.forever.set()
        await runner.cleanup()
    assert not server.unexpected, f"unexpected requests: {server.unexpected}"
