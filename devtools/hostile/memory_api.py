"""MemoryApi: an API server without sockets, which hands on exactly the bytes it was given.

It stands where `Transport` does, so that everything above runs as it is: reflectors, the scheduling
loop, binding, Events. It knows lists, watches, Bindings, status patches and Events, validates
nothing, and never waits.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final
from urllib.parse import unquote

import msgspec

from devtools.hostile.case import JsonObject, encode
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.http.stream import ResponseStream
from scheduler.client.resources import RESOURCES
from scheduler.client.transport import Transport

_PLURALS: Final = {each.kind: each.plural for each in RESOURCES.values()}
NOT_FOUND: Final = Response(404, b'{"kind":"Status","status":"Failure","code":404}')


class _Watch:
    """The stream of one watch."""

    status = 200
    head = b"HTTP/1.1 200 OK"

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self.more = asyncio.Event()

    async def read(self) -> bytes:
        await self.more.wait()
        self.more.clear()
        lines, self.pending = self.pending, []
        return b"".join(lines)

    def close(self) -> None: ...


class MemoryApi(Transport):
    """Objects by plural and key, and the watches that receive every change."""

    def __init__(self) -> None:
        super().__init__(ClientConfiguration(server="http://memory.example"))
        self.objects: dict[str, dict[str, JsonObject]] = {plural: {} for plural in RESOURCES}
        #: Texts of all Events that were written, by reason.
        self.events: list[JsonObject] = []
        self._watches: dict[str, list[_Watch]] = {plural: [] for plural in RESOURCES}
        self._versions = count(1)

    # -- what a test does ------------------------------------------------------------------------

    def create(self, obj: JsonObject) -> str:
        """Store an object, unseen by any validation; its key."""
        version = next(self._versions)
        plural, key = _place(obj)
        # What a case writes there itself, of whatever type, stays.
        server = {"uid": f"uid-{version}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        obj["metadata"] = {**server, **obj["metadata"], "resourceVersion": str(version)}
        self.objects[plural][key] = obj
        self._tell(plural, "ADDED", obj)
        return key

    def delete(self, obj: JsonObject) -> None:
        """Remove an object."""
        plural, key = _place(obj)
        last = self.objects[plural].pop(key)
        last["metadata"] = {**last["metadata"], "resourceVersion": str(next(self._versions))}
        self._tell(plural, "DELETED", last)

    def node_of(self, key: str) -> str:
        """The node of a pod; empty when it has none."""
        return str(self.objects["pods"][key]["spec"].get("nodeName", ""))

    @property
    def delivered(self) -> bool:
        """Whether every change has been read by its watches."""
        return not any(watch.pending for watches in self._watches.values() for watch in watches)

    def watched(self, plural: str) -> bool:
        """Whether a watch of a kind is open."""
        return bool(self._watches[plural])

    def _tell(self, plural: str, change: str, obj: JsonObject) -> None:
        line = b'{"type":"%s","object":%s}\n' % (change.encode(), _served(obj))
        for watch in self._watches[plural]:
            watch.pending.append(line)
            watch.more.set()

    def _changed(self, plural: str, obj: JsonObject) -> Response:
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(next(self._versions))}
        self._tell(plural, "MODIFIED", obj)
        return Response(200, encode({"metadata": {"resourceVersion": "1"}}))

    # -- what the scheduler does -----------------------------------------------------------------

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Carry out the request at once."""
        verb, body = request.method, request.body
        parts = [unquote(part) for part in request.path.split("/")]
        if verb == "GET":
            return self._read(parts)
        if verb == "POST" and parts[-1] == "events":
            event = msgspec.json.decode(body or b"{}")
            self.events.append(event)
            return Response(201, body or b"")
        key = "/".join(parts[4:5] + parts[6:7])
        found = self.objects["pods"].get(key)
        if found is None or parts[5] != "pods":
            return NOT_FOUND
        if verb == "DELETE":
            self.delete(found)
            return Response(200, b"{}")
        change = msgspec.json.decode(body or b"{}")
        if parts[-1] == "binding":
            found["spec"] = {**found["spec"], "nodeName": change["target"]["name"]}
        else:
            found["status"] = _merged(found.get("status") or {}, change.get("status") or {})
        return self._changed("pods", found)

    def _read(self, parts: list[str]) -> Response:
        plural = parts[-1]
        if plural not in self.objects:
            return NOT_FOUND
        listed = {
            "metadata": {"resourceVersion": str(next(self._versions))},
            "items": [msgspec.Raw(_served(obj)) for obj in self.objects[plural].values()],
        }
        return Response(200, encode(listed))

    @asynccontextmanager
    async def stream(
        self, request: Request, *, idle_timeout: float
    ) -> AsyncIterator[ResponseStream]:
        """Open a watch. What happened since the list is not in it: wait until it is open."""
        plural = request.path.rpartition("/")[2]
        watch = _Watch()
        self._watches[plural].append(watch)
        try:
            yield watch
        finally:
            self._watches[plural].remove(watch)


def _served(obj: JsonObject) -> bytes:
    """The JSON of an object as Go writes it: half a surrogate pair becomes U+FFFD."""
    body = encode(obj)
    if not _SURROGATE.search(body):
        return body
    text = json.dumps(json.loads(body), ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _place(obj: JsonObject) -> tuple[str, str]:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    key = f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
    return _PLURALS[obj["kind"]], key


def _merged(status: JsonObject, patch: JsonObject) -> JsonObject:
    """A strategic merge patch of a pod's status: conditions are merged by their type."""
    merged = {**status, **patch}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    conditions |= {each["type"]: each for each in patch.get("conditions") or ()}
    merged["conditions"] = list(conditions.values())
    return merged
