"""A real HTTP extender for tests, which records requests and sends the responses of the test.

    extender.responses["filter"] = lambda call: {"NodeNames": call["NodeNames"][:1]}

A response may be JSON, bytes, a status code, or HANG, which sends the response when `release` is
called.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, Self

from aiohttp import web

from devtools.loop_time import pass_time

HANG: Final = object()
Respond = Callable[[dict[str, Any]], Any]


class ExtenderServer:
    """Server of every verb; by default all nodes pass."""

    def __init__(self) -> None:
        #: Verbs and bodies of the requests.
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.responses: dict[str, Respond] = {}
        self._released = asyncio.Event()
        self._after: Respond | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{verb}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()
        assert self._runner is not None
        await self._runner.cleanup()

    def verbs(self) -> list[str]:
        """Return the verbs called, in order."""
        return [verb for verb, _ in self.calls]

    def sent(self, verb: str) -> list[dict[str, Any]]:
        """The bodies of a verb's calls."""
        return [body for called, body in self.calls if called == verb]

    def release(self, respond: Respond | None = None) -> None:
        """Respond to requests that hang, and to later ones that would; None: all nodes pass."""
        self._after = respond
        self._released.set()

    async def _serve(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        body = json.loads(await request.read())
        self.calls.append((verb, body))
        response = self.responses.get(verb, passing)(body)
        if response is HANG:
            await self._released.wait()
            response = (self._after or passing)(body)
        if isinstance(response, int):
            return web.Response(status=response)
        if isinstance(response, bytes):
            return web.Response(body=response, content_type="application/json")
        return web.json_response(response)


def names(call: dict[str, Any]) -> list[str]:
    """The names of the nodes in a request."""
    if call.get("NodeNames") is not None:
        return list(call["NodeNames"])
    return [node["metadata"]["name"] for node in call["Nodes"]["items"]]


def passing(call: dict[str, Any]) -> Any:
    """Let every node pass."""
    return {"NodeNames": names(call)}


def only(*allowed: str, reason: str = "not here") -> Respond:
    """Let some nodes pass, and reject the others with a reason."""

    def respond(call: dict[str, Any]) -> Any:
        sent = names(call)
        return {
            "NodeNames": [name for name in sent if name in allowed],
            "FailedNodes": {name: reason for name in sent if name not in allowed},
        }

    return respond


def hanging(_: dict[str, Any]) -> Any:
    """Respond when released."""
    return HANG


def hanging_for(seconds: float) -> Respond:
    """Respond when released, and let so much time pass at once."""

    def respond(_: dict[str, Any]) -> Any:
        pass_time(seconds)
        return HANG

    return respond
