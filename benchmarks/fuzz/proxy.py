"""A proxy through which kube-scheduler sees everything and changes nothing.

Reads and watches pass. Writes are recorded and stop here: bindings and changes of volumes are
rejected, so that no pod is bound; evictions, status patches and events appear to succeed without
effect. The world is therefore the same after a decision as before it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from aiohttp import web

_REFUSED: Final = frozenset(("persistentvolumes", "persistentvolumeclaims"))
_PASSED: Final = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
_HOP_BY_HOP: Final = frozenset(
    ("host", "connection", "transfer-encoding", "content-length", "keep-alive", "content-encoding")
)
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Write:
    """A request that would have changed something."""

    verb: str
    #: Plural, and subresource if any.
    resource: str
    subresource: str
    namespace: str
    name: str
    body: Any


Listener = Callable[[Write], None]


class WriteProxy:
    """Serves plain HTTP on a port of 127.0.0.1, forwards reads, hands writes to a listener."""

    def __init__(self, url: str, token: str, listener: Listener) -> None:
        self._url = url
        self._token = token
        self._listener = listener
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen on a free port."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=True,
        )
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Cut all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def call(self, method: str, path: str, body: Any = None, *, kind: str = "") -> Any:
        """A request of the harness itself. Raises RuntimeError for a status of 400 and above."""
        assert self._session is not None
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers["Content-Type"] = kind or merge
        async with self._session.request(
            method, self._url + path, data=None if body is None else json.dumps(body),
            headers=headers,
        ) as response:  # fmt: skip
            text = await response.text()
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: HTTP {response.status}: {text[:600]}")
            return json.loads(text)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET" or request.path.startswith(_PASSED):
            return await self._forward(request)
        write = read_write(request.method, request.path, await request.read())
        self._listener(write)
        return _respond(write)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        headers["Authorization"] = f"Bearer {self._token}"
        headers["Accept-Encoding"] = "identity"
        async with self._session.request(
            request.method, self._url + request.raw_path, headers=headers,
            data=await request.read() or None,
        ) as received:  # fmt: skip
            kept = {k: v for k, v in received.headers.items() if k.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=received.status, headers=kept)
            await response.prepare(request)
            try:
                async for chunk in received.content.iter_any():
                    await response.write(chunk)
            except (ConnectionError, asyncio.CancelledError, aiohttp.ClientError):
                return response
            await response.write_eof()
            return response


def read_write(method: str, path: str, raw: bytes) -> Write:
    """Take a request apart. A body that is not JSON counts as None."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    parts += [""] * (3 - len(parts))
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    return Write(method, parts[0], parts[2], namespace, parts[1], body)


def _respond(write: Write) -> web.Response:
    if write.subresource == "binding" or write.resource in _REFUSED:
        status = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "the fuzzer refuses all changes",
        }  # fmt: skip
        return web.json_response(status, status=403)
    if write.verb == "DELETE":
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})
    if write.verb == "POST":
        return web.json_response(write.body, status=201)
    pod = {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": write.name, "namespace": write.namespace},
    }  # fmt: skip
    return web.json_response(pod)
