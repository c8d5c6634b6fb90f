"""A real HTTP extender for tests: it records what it is sent and answers what the test says.

    extender.answers["filter"] = lambda call: {"NodeNames": call["NodeNames"][:1]}

An answer may be JSON, bytes, a status code, or HANG: that request is answered when `release` is
called.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, Self

from aiohttp import web

from tests.loop_time import pass_time

HANG: Final = object()
Answer = Callable[[dict[str, Any]], Any]


class Extender:
    """Serves every verb."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Answer] = {}
        self._released = asyncio.Event()
        self._after: Answer | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{verb}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
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

    def release(self, answer: Answer | None = None) -> None:
        """Answer the requests that hang, and all later ones that would; None passes all nodes."""
        self._after = answer
        self._released.set()

    async def _serve(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        body = json.loads(await request.read())
        self.calls.append((verb, body))
        answer = self.answers.get(verb, passing)(body)
        if answer is HANG:
            await self._released.wait()
            answer = (self._after or passing)(body)
        if isinstance(answer, int):
            return web.Response(status=answer)
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json")
        return web.json_response(answer)


def names(call: dict[str, Any]) -> list[str]:
    """The nodes an extender was asked about."""
    if call.get("NodeNames") is not None:
        return list(call["NodeNames"])
    return [node["metadata"]["name"] for node in call["Nodes"]["items"]]


def passing(call: dict[str, Any]) -> Any:
    """Let every node pass."""
    return {"NodeNames": names(call)}


def only(*allowed: str, reason: str = "not here") -> Answer:
    """Let some nodes pass, and say of the others why not."""

    def answer(call: dict[str, Any]) -> Any:
        asked = names(call)
        return {
            "NodeNames": [name for name in asked if name in allowed],
            "FailedNodes": {name: reason for name in asked if name not in allowed},
        }

    return answer


def hanging(_: dict[str, Any]) -> Any:
    """Answer when released."""
    return HANG


def hanging_for(seconds: float) -> Answer:
    """Answer when released, and let so much time pass at once."""

    def answer(_: dict[str, Any]) -> Any:
        pass_time(seconds)
        return HANG

    return answer
