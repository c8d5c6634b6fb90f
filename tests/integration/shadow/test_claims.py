"""A shadow beside a scheduler that writes claims before it binds."""

from __future__ import annotations

from typing import Final

from structlog.testing import capture_logs

from devtools.embedded_service import bind, find, node, until
from scheduler.explain.records.shadow import ShadowVerdict
from simulator import EmbeddedCluster
from simulator.api import MERGE_PATCH
from simulator.faults import FaultRule
from simulator.objects import JsonObject
from tests.integration.shadow.stage import chosen, judged, listen, pass_time, pod, shadow

GROUP: Final = "resource.k8s.io/v1"


def allocate(cluster: EmbeddedCluster, claim: str, consumer: JsonObject) -> None:
    """Write what the scheduler in force writes in PreBind."""
    reserved = {"resource": "pods", "name": consumer["name"], "uid": consumer["uid"]}
    device = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": [reserved]}
    claims = cluster.resources.of_kind(GROUP, "ResourceClaim")
    patch = {"status": status}
    cluster.api.patch(claims, "default", claim, patch, MERGE_PATCH, subresource="status")


async def test_a_claim_is_left_to_the_pod_that_is_bound(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    cluster.create(
        {
            "apiVersion": GROUP,
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"devices": {"requests": requests}},
        }
    )
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        created = find(cluster, "p")
        assert created is not None
        allocate(cluster, "gpu", created["metadata"])
        assert await chosen(wiring, cluster, "p") == "n1"
        # The ClusterRole of a shadow has no such right.
        forbidden = FaultRule(action="error", verb="get", resource="resourceclaims*", code=403)
        cluster.faults.add(forbidden)
        with capture_logs() as lines:
            bind(cluster, "p", "n1")
            (found,) = await judged(wiring, seen, 1)
            pass_time(1)
            await until(lambda: not len(wiring.state.background))
        assert found.verdict is ShadowVerdict.SAME
        assert [each["event"] for each in lines if each["log_level"] == "error"] == []
        claim = cluster.get(GROUP, "ResourceClaim", "gpu", "default")
        assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]
