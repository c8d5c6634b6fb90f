"""LeaseLock: the record of leader election in a coordination.k8s.io/v1 Lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.client.errors import ApiError
from scheduler.client.leader_record import LeaderAddress
from scheduler.client.resources import LEASES
from scheduler.client.rest import ApiClient

_object_decoder = msgspec.json.Decoder(dict[str, Any])


class LeaseLock:
    """The `leader_election.Lock` of one Lease.

    Give it a client of its own, without fence and without the scheduler's rate limit. With an
    address, every write carries the annotation that tells how to reach the holder.
    """

    def __init__(
        self, client: ApiClient, name: str, namespace: str, address: LeaderAddress | None = None
    ) -> None:
        self._client = client
        self._address = address
        self._name = name
        self._namespace = namespace
        self._path = LEASES.path(name, namespace)

    async def get(self, timeout: float) -> dict[str, Any] | None:
        """Read the Lease."""
        try:
            response = await self._client.request("GET", self._path, timeout=timeout)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return _json_object(response.body)

    async def create(self, spec: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Create the Lease."""
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        path = LEASES.collection_path(self._namespace)
        response = await self._client.request(
            "POST", path, body=self._annotated(body), timeout=timeout
        )
        return _json_object(response.body)

    async def replace(self, lease: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Replace the Lease, on condition of its resourceVersion."""
        response = await self._client.request(
            "PUT", self._path, body=self._annotated(lease), timeout=timeout
        )
        return _json_object(response.body)

    def _annotated(self, lease: Mapping[str, Any]) -> Mapping[str, Any]:
        return lease if self._address is None else self._address.annotated(lease)


def _json_object(body: bytes) -> dict[str, Any]:
    return decode_json(_object_decoder, body)
