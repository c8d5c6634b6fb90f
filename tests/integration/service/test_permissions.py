"""Resources and writes that the API server forbids or lacks: what goes on, and comes back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from devtools.embedded_service import (
    bound_to,
    condition,
    node,
    pod,
    running,
    sample,
    scheduling,
    settled,
    until,
    wire,
)
from scheduler.cli.check import find
from scheduler.cli.installation import PAGE, look
from scheduler.client.access_reviews import review_own_access
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.local_address import AddressFile, LocalAddress
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.permissions.reviewer import LAST_RETRY_SECONDS
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster, FaultRule
from simulator.api import MERGE_PATCH
from simulator.objects import JsonObject
from simulator.subresources import Reviewer
from tests.integration.deferred_quota.stage import CPU, HELD

Denied = set[tuple[str, str]]


@asynccontextmanager
async def cluster_that_denies(denied: Denied) -> AsyncIterator[EmbeddedCluster]:
    """Run a cluster whose reviews deny these verbs and resources; the set may change."""

    def allow(spec: JsonObject) -> bool:
        asked = spec["resourceAttributes"]
        parts = (asked["resource"], asked["subresource"])
        return (asked["verb"], "/".join(part for part in parts if part)) not in denied

    async with EmbeddedCluster(controllers=(), seed=1, reviewer=Reviewer(allow=allow)) as cluster:
        yield cluster


def refuse(cluster: EmbeddedCluster, code: int, *plurals: str) -> Collection[str]:
    """Let lists of resources fail; return the rules."""
    return [
        cluster.faults.add(FaultRule(action="error", verb="list", resource=plural, code=code))
        for plural in plurals
    ]


def missing(scheduler: Wiring, resource: str) -> float:
    return sample(
        scheduler, "kubestow_missing_permissions", resource=resource, verb="list", required="false"
    )


OPTIONAL = (
    "resourcequotas",
    "resourceclaims",
    "resourceslices",
    "deviceclasses",
    "volumeattachments",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "storageclasses",
    "persistentvolumes",
    "persistentvolumeclaims",
    "poddisruptionbudgets",
    "services",
    "replicationcontrollers",
    "replicasets",
    "statefulsets",
)


@pytest.mark.parametrize("code", [403, 404])
async def test_pods_are_scheduled_without_any_optional_resource(
    cluster: EmbeddedCluster, code: int
) -> None:
    refuse(cluster, code, *OPTIONAL)
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    async with scheduling(cluster) as scheduler:
        await until(lambda: bound_to(cluster, "a") == "n1", "a bound")
        assert scheduler.state.permissions.ready() is None
        absent = code == 404
        # A group may be absent; the core group cannot be.
        assert missing(scheduler, "volumeattachments.storage.k8s.io") == (0 if absent else 1)
        assert missing(scheduler, "resourcequotas") == 1


async def test_a_quota_is_enforced_from_when_it_can_be_read(cluster: EmbeddedCluster) -> None:
    rules = refuse(cluster, 403, "resourcequotas")
    cluster.create(node("n1"))
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {f"deferred.kubestow.io/{CPU}": "500"}},
        }
    )
    async with scheduling(cluster) as scheduler:
        enforcement = scheduler.controllers.quota.enforcement
        assert enforcement is not None
        cluster.create(pod("a", gates=["wait"]))
        await settled(scheduler)
        assert not enforcement.active
        for rule in rules:
            cluster.faults.remove(rule)
        await until(lambda: enforcement.active, "quotas are read")
        await until(lambda: not missing(scheduler, "resourcequotas"), "and watched")
        pods = cluster.resources.of_kind("v1", "Pod")
        cluster.api.patch(pods, "default", "a", {"spec": {"schedulingGates": None}}, MERGE_PATCH)
        await until(lambda: condition(cluster, "a").get("reason") == HELD, "a is held")
        assert not bound_to(cluster, "a")


async def test_a_pod_with_a_claim_waits_until_claims_can_be_read(cluster: EmbeddedCluster) -> None:
    rules = refuse(cluster, 403, "persistentvolumes")
    cluster.create(node("n1"))
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/v"},
                "claimRef": {"namespace": "default", "name": "c"},
            },
        }
    )
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "c",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "volumeName": "v",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    async with scheduling(cluster):
        claim = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
        cluster.create(pod("a", volumes=[claim]))
        await until(lambda: condition(cluster, "a"), "a rejected")
        assert "may not list persistentvolumes" in condition(cluster, "a")["message"]
        for rule in rules:
            cluster.faults.remove(rule)
        await until(lambda: bound_to(cluster, "a") == "n1", "a bound")


async def test_a_list_that_stays_forbidden_is_logged_once(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(cluster, 403, "resourcequotas")
    async with scheduling(cluster) as scheduler:
        quotas = next(
            each for each in scheduler.reflectors if each.resource.plural == "resourcequotas"
        )
        await until(lambda: sum(quotas.statistics().ends.values()) >= 3, "three attempts")
    out = capsys.readouterr().out
    assert out.count("optional permissions missing") == 1
    assert out.count("list or watch failed") == out.count("[debug")


async def test_without_a_required_resource_nothing_starts(cluster: EmbeddedCluster) -> None:
    (rule,) = refuse(cluster, 403, "namespaces")
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    async with Transport(ClientConfiguration(server=cluster.url)) as transport:
        wiring = wire(transport)
        state = wiring.state.permissions

        async def grant() -> None:
            await until(state.ready, "it is missing")
            assert '- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}' in str(
                state.ready()
            )
            assert not bound_to(cluster, "a")
            cluster.faults.remove(rule)

        granting = asyncio.create_task(grant())
        async with running(wiring):
            await granting
            await until(lambda: bound_to(cluster, "a") == "n1", "a bound")
            await until(lambda: state.ready() is None, "nothing is missing")


async def test_reviews_show_writes_that_are_denied_and_when_they_are_allowed() -> None:
    denied: Denied = {("create", "pods/binding"), ("delete", "pods")}
    async with cluster_that_denies(denied) as cluster, scheduling(cluster) as scheduler:
        state = scheduler.state.permissions
        await scheduler.reviewer.review()
        assert "create pods/binding" in str(state.ready())
        assert state.degraded() == "missing permissions: delete pods: no pod is preempted"
        assert not state.may("delete", "pods")
        denied.clear()
        await scheduler.reviewer.review()
        assert state.ready() is state.degraded() is None


async def test_a_bind_that_is_forbidden_shows_what_is_missing() -> None:
    denied: Denied = set()
    async with cluster_that_denies(denied) as cluster, scheduling(cluster) as scheduler:
        state, clock = scheduler.state.permissions, scheduler.connections.clock
        reviewing = asyncio.create_task(scheduler.reviewer.run())
        await settled(scheduler)
        denied.add(("create", "pods/binding"))
        forbidden = FaultRule(action="error", verb="create", resource="pods/binding", code=403)
        cluster.faults.add(forbidden)
        cluster.create(node("n1"))
        cluster.create(pod("a"))
        began = clock.monotonic()
        await until(state.ready, "it is missing")
        assert "create pods/binding" in str(state.ready())
        # Until a bind is forbidden again, after a backoff.
        assert clock.monotonic() - began < 2 * LAST_RETRY_SECONDS
        reviewing.cancel()
        await asyncio.wait((reviewing,))


async def test_reviews_that_fail_change_nothing(cluster: EmbeddedCluster) -> None:
    async with scheduling(cluster) as scheduler:
        cluster.faults.add(FaultRule(action="error", verb="create", code=403))
        await scheduler.reviewer.review()
        assert scheduler.state.permissions.missing == {}


async def test_check_finds_what_is_denied_and_what_the_server_lacks() -> None:
    denied: Denied = {("create", "pods/binding"), ("patch", "pods/status")}
    async with (
        cluster_that_denies(denied) as cluster,
        Transport(ClientConfiguration(server=cluster.url)) as transport,
    ):
        needed = wire(transport).state.permissions.declared
        found = await find(ApiClient(transport), needed, review_own_access)
    states = {each.permission.qualified: each.state for each in found if each.state != "ok"}
    assert states == {
        "pods/binding": "missing",
        "pods/status": "off",
        "nodeclaims.karpenter.sh": "absent",
    }


async def test_check_says_who_leads_and_which_replica_does_not_run(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = "kubestow-system"
    replica = {
        "metadata": {"name": "kubestow-1", "namespace": namespace},
        "spec": {"containers": [{"name": "kubestow", "image": "kubestow:0.1.0"}]},
        "status": {
            "containerStatuses": [
                {
                    "name": "kubestow",
                    "image": "kubestow:0.1.0\x1b[2J",
                    "state": {"waiting": {"reason": "ImagePullBackOff"}},
                }
            ]
        },
    }
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    own = LocalAddress(os.getpid(), cluster.url, "", "127.0.0.1", 10259, "00")
    async with Transport(ClientConfiguration(server=cluster.url)) as transport:
        client, needed = ApiClient(transport), wire(transport).state.permissions.declared
        before = await look(client, needed)
        file = AddressFile(tmp_path / "kubestow")
        file.write(own)
        local = await look(client, needed)
        file.remove()
        cluster.create({"kind": "Pod", "apiVersion": "v1", **replica})
        spec = {"holderIdentity": "me", "renewTime": "2020-01-01T00:00:00.000000Z"}
        lease = {"metadata": {"name": "kubestow", "namespace": namespace}, "spec": spec}
        cluster.create({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", **lease})
        after = await look(client, needed)
        refuse(cluster, 403, "pods")
        cluster.faults.add(FaultRule(action="error", verb="get", resource="leases", code=403))
        nothing = await look(client, needed)
    assert before == ["Nobody has led here yet: there is no Lease kubestow-system/kubestow."]
    schedules = "on this machine schedules without a Lease, at https://127.0.0.1:10259."
    assert local == [*before, f"Process {os.getpid()} of yours {schedules}"]
    assert after[0].startswith("Nobody leads: me has not renewed the Lease kubestow-system/")
    assert "waits for its image kubestow:0.1.0?[2J (ImagePullBackOff)" in after[1]
    assert after[2:] == [PAGE]
    assert nothing == []


async def test_a_list_that_was_rejected_pauses_scheduling_only_once_it_succeeds(
    cluster: EmbeddedCluster,
) -> None:
    (rule,) = refuse(cluster, 403, "resourcequotas")
    async with scheduling(cluster) as scheduler:
        quotas = next(
            each for each in scheduler.reflectors if each.resource.plural == "resourcequotas"
        )
        pauses: list[bool] = []
        quotas._on_relist = pauses.append
        failures = sum(quotas.statistics().ends.values())
        await until(lambda: sum(quotas.statistics().ends.values()) >= failures + 2, "retried")
        assert pauses == []
        cluster.faults.remove(rule)
        await until(lambda: quotas.statistics().lists, "listed")
        assert pauses == [True, False]
