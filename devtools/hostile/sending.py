"""Sends objects of the catalogue to a real API server, as their JSON is.

Synchronous, over one kept connection: there are thousands, and `json.dumps` cannot make all.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple, Self

import msgspec

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.ports import LOOPBACK
from devtools.hostile.case import JsonObject, encode, name_of
from scheduler.client.resources import CORE_EVENTS, RESOURCES, Resource

TIMEOUT_SECONDS: Final = 60.0
MAX_ATTEMPTS: Final = 3
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
DELETE_NOW: Final = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Responses without the objects: with many large ones the API server would do nothing else."""

_BY_KIND: Final = {(each.api_version, each.kind): each for each in RESOURCES.values()} | {
    (CORE_EVENTS.api_version, CORE_EVENTS.kind): CORE_EVENTS
}


class Reply(NamedTuple):
    """Response of the API server."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the request had the expected outcome."""
        return self.status < 300


class HostileSender:
    """Creates, reads and deletes objects as the administrator."""

    def __init__(self, control_plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(control_plane.files.authority))
        self._token = control_plane.admin_token
        self._connection = http.client.HTTPSConnection(
            LOOPBACK, control_plane.port, context=context, timeout=TIMEOUT_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(self, obj: JsonObject) -> Reply:
        """Create an object, and write its status where the API server drops it at creation."""
        resource = _resource(obj)
        path = resource.collection_path(_namespace(obj))
        reply = self._post(path, encode(obj))
        if not reply.ok or "status" not in obj or resource.plural == "nodes":
            return reply
        patch = encode({"status": obj["status"]})
        return self.exchange("PATCH", f"{_path(obj)}/status", patch, MERGE_PATCH, METADATA)

    def create_all(self, objects: Iterable[JsonObject]) -> None:
        """Create objects. Raises AssertionError when one is refused."""
        for obj in objects:
            reply = self.create(obj)
            assert reply.ok, (
                f"{obj['kind']} {name_of(obj)[:80]}: {reply.status} {reply.body[:500]!r}"
            )

    def read(self, obj: JsonObject) -> Reply:
        """Read an object."""
        return self.exchange("GET", _path(obj))

    def delete(self, obj: JsonObject) -> Reply:
        """Delete an object at once, whatever its finalizers say."""
        if obj["metadata"].get("finalizers"):
            body = b'{"metadata":{"finalizers":null}}'
            self.exchange("PATCH", _path(obj), body, MERGE_PATCH, METADATA)
        return self.exchange("DELETE", _path(obj), DELETE_NOW, accept=METADATA)

    def delete_pods(self, namespace: str) -> Reply:
        """Delete all pods of a namespace at once."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        return self.exchange("DELETE", path, DELETE_NOW, accept=METADATA_LIST)

    def _post(self, path: str, body: bytes) -> Reply:
        """Create, again after each time-out of an API server that large objects keep busy."""
        reply = self.exchange("POST", path, body, accept=METADATA)
        for _ in range(1, MAX_ATTEMPTS):
            if reply.status != HTTPStatus.GATEWAY_TIMEOUT:
                break
            reply = self.exchange("POST", path, body, accept=METADATA)
            if reply.status == HTTPStatus.CONFLICT:
                # The attempt that timed out was carried out all the same.
                return Reply(HTTPStatus.CREATED, reply.body)
        return reply

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Reply:
        """Send a request and read the response."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": accept,
            "Content-Type": content_type,
        }
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
        except (http.client.HTTPException, OSError):
            # The server closes a connection after a body it did not read.
            self._connection.close()
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
        return Reply(response.status, response.read())


def message(reply: Reply) -> str:
    """The text of a Status."""
    try:
        return str(msgspec.json.decode(reply.body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return repr(reply.body[:300])


def _resource(obj: JsonObject) -> Resource[object]:  # type: ignore[type-var]
    return _BY_KIND[obj["apiVersion"], obj["kind"]]


def _namespace(obj: JsonObject) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _path(obj: JsonObject) -> str:
    return _resource(obj).path(name_of(obj), _namespace(obj))
