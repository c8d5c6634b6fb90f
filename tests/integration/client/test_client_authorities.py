"""The ConfigMap in which an API server publishes the authorities of client certificates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.client.client_authorities import NAME, PATH, published_authorities
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from simulator import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=()) as found:
        yield found


@pytest.fixture
async def client(cluster: EmbeddedCluster) -> AsyncIterator[ApiClient]:
    async with Transport(ClientConfiguration(cluster.url)) as transport:
        yield ApiClient(transport)


async def test_what_is_published_is_read_afresh(client: ApiClient) -> None:
    collection = PATH.rpartition("/")[0]
    assert await published_authorities(client) is None
    body: dict[str, Any] = {
        "metadata": {"name": NAME},
        "data": {"requestheader-client-ca-file": "x"},
    }
    await client.request("POST", collection, body=body)
    assert await published_authorities(client) == ""
    body["data"]["client-ca-file"] = "one\n"
    await client.request("PUT", PATH, body=body)
    assert await published_authorities(client) == "one"
    await client.request("DELETE", PATH)
    assert await published_authorities(client) is None
