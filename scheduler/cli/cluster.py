"""Requests of a command to the API server: the cluster to use, and errors worth reading.

Shared by the commands that look at objects themselves. Objects are plain JSON here: a command
shows or changes a few fields and must keep all others.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

import click
import msgspec

from scheduler.api.decoding import decode_json

if TYPE_CHECKING:
    from scheduler.client.rest import ApiClient

JsonObject = dict[str, Any]
T = TypeVar("T")
_PAGE: Final = 500
_MERGE: Final = "application/merge-patch+json"
_decoder: Final[msgspec.json.Decoder[JsonObject]] = msgspec.json.Decoder(dict[str, Any])


class Objects:
    """Objects of one cluster, for as long as one command runs."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, plural: str, namespace: str, name: str) -> JsonObject | None:
        """One object of the core group; None where there is none."""
        from scheduler.client.errors import ApiError

        try:
            response = await self._client.request("GET", _path(plural, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return _decoded(response.body)

    async def list(self, plural: str, namespace: str) -> list[JsonObject]:
        """All objects, page by page; of every namespace when none is given."""
        found: list[JsonObject] = []
        token = ""
        while True:
            query = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
            response = await self._client.request("GET", _path(plural, namespace), query=query)
            page = _decoded(response.body)
            found += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    async def create(self, plural: str, namespace: str, body: JsonObject) -> JsonObject:
        """Create an object."""
        response = await self._client.request("POST", _path(plural, namespace), body=body)
        return _decoded(response.body)

    async def merge(
        self, plural: str, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> JsonObject:
        """Apply a JSON merge patch."""
        path = _path(plural, namespace, name)
        response = await self._client.request("PATCH", path, body=patch, content_type=_MERGE)
        return _decoded(response.body)

    async def delete(self, plural: str, namespace: str, obj: JsonObject) -> None:
        """Delete exactly the object that was read, in the version that was read."""
        meta = obj["metadata"]
        given = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": given}
        await self._client.request("DELETE", _path(plural, namespace, meta["name"]), body=body)


def _path(plural: str, namespace: str, name: str = "") -> str:
    steps = ["/api/v1"]
    if namespace:
        steps += ["namespaces", quote(namespace, safe="")]
    steps.append(plural)
    if name:
        steps.append(quote(name, safe=""))
    return "/".join(steps)


def _decoded(body: bytes) -> JsonObject:
    return decode_json(_decoder, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that the command line selects."""

    kubeconfig: str
    context: str

    def run(self, work: Callable[[Objects], Awaitable[T]]) -> T:
        """Connect, do the work, disconnect.

        Raises:
            click.ClickException: no cluster, no response or an error; the message gives the reason.
        """
        from scheduler.client.errors import ConfigurationError, RequestError

        try:
            return asyncio.run(self._run(work))
        except (ConfigurationError, RequestError) as error:
            raise click.ClickException(str(error)) from error

    async def _run(self, work: Callable[[Objects], Awaitable[T]]) -> T:
        from scheduler.client.configuration import load_configuration
        from scheduler.client.rest import ApiClient
        from scheduler.client.transport import Transport

        found = await load_configuration(
            kubeconfig=self.kubeconfig or None, context=self.context or None
        )
        async with Transport(found) as transport:
            return await work(Objects(ApiClient(transport, user_agent="kubestow/cli")))


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command and hand them over as `cluster`."""

    @functools.wraps(command)
    def with_cluster(**values: Any) -> None:
        cluster = Cluster(
            kubeconfig=values.pop("kubeconfig") or "", context=values.pop("context") or ""
        )
        command(cluster=cluster, **values)

    decorated: Callable[..., None] = with_cluster
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: Final = (
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Kubeconfig with cluster and credentials. Default: as kubectl; in a pod its service "
        "account.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
)
