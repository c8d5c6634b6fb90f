"""Endpoints of a shadow, by plain HTTP: health, metrics, and the page for this machine alone.

Nobody can be authenticated with the rights to read alone: the API server reviews tokens only for
those who may create reviews. So what names pods or quotes tenants is served to clients of the same
machine, or pod, only, which `kubectl port-forward` makes of whoever may use it. Metrics have counts
and names of plugins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Final

import msgspec
from aiohttp import web

from scheduler.explain.records.shadow_wording import SIDES, sentence
from scheduler.service.options import ServingOptions
from scheduler.service.serving import json_body
from scheduler.service.serving.server import HttpsServer
from scheduler.shadow.wiring import ShadowWiring

PAGE: Final = "/debug/shadow"
PAGE_ROWS: Final = 200
HEALTH: Final = ("/healthz", "/livez", "/readyz")
LOCAL_ONLY: Final = "this page is for clients of the same machine: use kubectl port-forward\n"


class ShadowEndpoints:
    """The handler of requests."""

    def __init__(self, wiring: ShadowWiring) -> None:
        self._wiring = wiring

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        path = request.path
        if path in HEALTH:
            return self._health(path)
        if path == "/metrics":
            metrics = self._wiring.connections.metrics
            metrics.refresh()
            body, kind = metrics.exposition()
            return web.Response(body=body, headers={"Content-Type": kind})
        if path == PAGE:
            if not _is_local(request.remote):
                return web.Response(status=403, text=LOCAL_ONLY)
            return web.Response(
                body=json_body.redact_and_indent(self._page()),
                content_type="application/json",
            )
        return web.Response(status=404, text="404 page not found\n")

    def _page(self) -> bytes:
        summary = self._wiring.summary(PAGE_ROWS)
        words = {
            "sentence": sentence(summary),
            "sides": SIDES.format(" and ".join(summary.names)),
        }
        return json_body.encode({**msgspec.to_builtins(summary), **words})

    def _health(self, path: str) -> web.Response:
        missing = self._wiring.state.permissions.ready()
        if missing is not None:
            return web.Response(status=500, text=f"{missing}\n")
        synced = all(each.synced.is_set() for each in self._wiring.reflectors)
        if path == "/readyz" and not synced:
            return web.Response(status=500, text="the first lists have not arrived\n")
        return web.Response(text="ok")


@asynccontextmanager
async def served(address: tuple[str, int] | None, wiring: ShadowWiring) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port, 0 without an address.

    Raises:
        ServingError: the address cannot be listened on.
    """
    if address is None:
        yield 0
        return
    host, port = address
    options = ServingOptions(bind_address=host, secure_port=port)
    async with HttpsServer(ShadowEndpoints(wiring), options, None) as server:
        yield server.port


def _is_local(remote: str | None) -> bool:
    try:
        return ip_address((remote or "").partition("%")[0]).is_loopback
    except ValueError:
        return False
