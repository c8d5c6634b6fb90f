"""A bare client: requests give (status, decoded body), watches give events one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from simulator.objects import JsonObject, decode_json, encode_json

PODS: Final = "/api/v1/namespaces/default/pods"
_SECONDS: Final = 60.0


class Watch:
    """The events of one stream, in order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, JsonObject]:
        """The next event. Raises EOFError when the stream has ended well."""
        async with asyncio.timeout(_SECONDS):
            line = await self._response.content.readline()
        if not line:
            raise EOFError("the stream has ended")
        event = decode_json(line)
        return event["type"], event["object"]

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The next events as (type, name)."""
        events = [await self.next() for _ in range(count)]
        return [(kind, obj["metadata"].get("name", "")) for kind, obj in events]

    async def ended(self) -> bool:
        """Whether the stream ends here, without another event."""
        try:
            await self.next()
        except EOFError:
            return True
        return False


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, JsonObject]:
        data = body if isinstance(body, bytes) or body is None else encode_json(body)
        headers = {"Content-Type": content_type, "Accept": accept}
        async with self.session.request(method, path, data=data, headers=headers) as response:
            raw = await response.read()
            decoded = decode_json(raw) if raw else {}
            self.headers = response.headers
            return response.status, decoded

    async def get(self, path: str, accept: str = "application/json") -> tuple[int, JsonObject]:
        return await self.call("GET", path, accept=accept)

    async def post(self, path: str, body: Any) -> tuple[int, JsonObject]:
        return await self.call("POST", path, body)

    async def patch(
        self, path: str, body: Any, kind: str = "strategic-merge-patch+json"
    ) -> tuple[int, JsonObject]:
        return await self.call("PATCH", path, body, f"application/{kind}")

    @asynccontextmanager
    async def watch(self, path: str, **query: object) -> AsyncIterator[Watch]:
        params = {"watch": "1", **{key: str(value) for key, value in query.items()}}
        async with self.session.get(path, params=params) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until `condition` holds; fails after a minute."""
    async with asyncio.timeout(_SECONDS):
        while not condition():  # noqa: ASYNC110 - any state may be asked for, not only events
            await asyncio.sleep(0)
