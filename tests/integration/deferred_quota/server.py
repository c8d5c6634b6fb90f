"""A served cluster, and requests of these tests to it."""

from __future__ import annotations

from typing import Any, Final

import aiohttp

from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from tests.integration.simulator.client import PODS, Client, until

QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
GATES: Final = ("example.com/first", "example.com/second")


class Server:
    """Requests to one cluster, in namespace default."""

    def __init__(self, cluster: EmbeddedCluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.client = Client(session)

    async def quota(self, name: str, hard: JsonObject) -> None:
        """Create a quota and wait until it is counted."""
        body = {"metadata": {"name": name}, "spec": {"hard": hard}}
        code, answer = await self.client.post(QUOTAS, body)
        assert code == 201, answer

        def counted() -> bool:
            status = self.cluster.get("v1", "ResourceQuota", name).get("status") or {}
            return set(status.get("hard") or {}) == set(hard)

        await until(counted)

    def used(self, name: str) -> JsonObject:
        found: JsonObject = self.cluster.get("v1", "ResourceQuota", name)["status"]["used"]
        return found

    async def pod(
        self, name: str, cpu: str = "", gates: tuple[str, ...] = (), **spec: Any
    ) -> tuple[int, str]:
        """Create a pod; the code and, of a refusal, the message."""
        container: JsonObject = {"name": "c", "image": "i"}
        if cpu:
            container["resources"] = {"requests": {"cpu": cpu}}
        made: JsonObject = {"containers": [container], **spec}
        if gates:
            made["schedulingGates"] = [{"name": gate} for gate in gates]
        code, answer = await self.client.post(PODS, {"metadata": {"name": name}, "spec": made})
        return code, str(answer["message"]) if code >= 400 else ""

    async def set_gates(self, name: str, *gates: str) -> None:
        patch = {"spec": {"schedulingGates": [{"name": gate} for gate in gates]}}
        code, answer = await self.client.patch(f"{PODS}/{name}", patch, "merge-patch+json")
        assert code == 200, answer

    async def bind(self, name: str) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
        code, answer = await self.client.post(f"{PODS}/{name}/binding", body)
        assert code == 201, answer
