"""Claims of devices in offline worlds: made of templates, written by plugins, and released."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler import offline
from scheduler.api.devices import ResourceClaimConsumerReference, ResourceClaimStatus
from scheduler.client.errors import ApiError
from scheduler.client.request_sender import STRATEGIC_MERGE_PATCH
from scheduler.client.resources import PODS, RESOURCE_CLAIMS
from scheduler.offline.device_claims import FINALIZER, POD_CLAIM_NAME

GROUP = "resource.k8s.io/v1"
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "device-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
CONFIG = [{"opaque": {"driver": "gpu.example.com", "parameters": {"mode": {"shared": True}}}}]
SPEC = {
    "devices": {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
        "config": CONFIG,
    }
}
TEMPLATE = {
    "apiVersion": GROUP,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"spec": SPEC},
}
CLASS = {
    "apiVersion": GROUP,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}
CLAIM = {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": SPEC}
RESERVED = ResourceClaimStatus(
    reserved_for=(ResourceClaimConsumerReference(resource="pods", name="x", uid="x"),)
)


def user(name: str, **entry: str) -> dict[str, Any]:
    return offline.pod(name, spec={"resourceClaims": [{"name": "gpu", **entry}]})


def devices(node: str, count: int) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"device-{number}"} for number in range(count)]
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": listed},
    }


def claims(world: offline.World) -> list[Any]:
    return list(world._assembly.tables.stores["resourceclaims"].list())


async def allocate(world: offline.World, name: str, *uids: str) -> Any:
    """Write what DynamicResources writes in PreBind."""
    server = world._assembly.server
    finalizer = {"metadata": {"finalizers": [FINALIZER]}}
    await server.patch(RESOURCE_CLAIMS, name, "default", body=finalizer)
    reserved = [{"resource": "pods", "name": each, "uid": each} for each in uids]
    body = {"status": {"allocation": ALLOCATION, "reservedFor": reserved}}
    return await server.patch(RESOURCE_CLAIMS, name, "default", body=body, subresource="status")


def test_a_pod_gets_a_claim_of_its_template_as_soon_as_there_is_one() -> None:
    with offline.World() as world:
        world.add_pods(user("p", resourceClaimTemplateName="one"))
        world.schedule()
        assert claims(world) == []
        world.add(TEMPLATE)
        world.schedule()
        (claim,) = claims(world)
        assert claim.metadata.annotations[POD_CLAIM_NAME] == "gpu"
        (status,) = world.pod("default/p").status.resource_claim_statuses
        assert status.resource_claim_name == claim.metadata.name
        world.remove("Pod", "p", "default")
        world.schedule()
        assert claims(world) == []


async def test_the_last_pod_that_ends_frees_the_devices_of_a_claim() -> None:
    world = offline.World()
    world.add(CLAIM)
    for name in ("a", "b"):
        world.add_pods(user(name, resourceClaimName="c"))
    uids = [world.pod(f"default/{each}").metadata.uid for each in ("a", "b")]
    made = await allocate(world, "c", *uids)
    assert made.status.allocation.devices.results[0].device == "device-0"
    assert bytes(made.spec.devices.config[0].opaque.parameters) == b'{"mode":{"shared":true}}'
    for name, left in (("a", 1), ("b", 0)):
        world.remove("Pod", name, "default")
        world._assembly.server.catch_up_claims()
        (claim,) = claims(world)
        assert len(claim.status.reserved_for) == left
        assert (claim.status.allocation is None) is (left == 0)
        assert claim.metadata.finalizers == ((FINALIZER,) if left else ())


async def test_reservations_are_removed_one_by_one_and_conflicts_refused() -> None:
    world = offline.World()
    world.add(CLAIM)
    await allocate(world, "c", "a", "b")
    server = world._assembly.server
    body = {"status": {"reservedFor": [{"$patch": "delete", "uid": "a"}]}}
    left = await server.patch(
        RESOURCE_CLAIMS, "c", "default", body=body, patch_type=STRATEGIC_MERGE_PATCH
    )
    assert [each.uid for each in left.status.reserved_for] == ["b"]
    for metadata in ({"resourceVersion": "1"}, {"uid": "another"}):
        with pytest.raises(ApiError) as refused:
            await server.patch(RESOURCE_CLAIMS, "c", "default", body={"metadata": metadata})
        assert refused.value.status == 409


async def test_claims_for_extended_resources_are_created_and_recorded() -> None:
    world = offline.World()
    world.add_pods(offline.pod("p"))
    server = world._assembly.server
    body = {"metadata": {"generateName": "p-extended-resources-"}, "spec": SPEC}
    claim = await server.create(RESOURCE_CLAIMS, body, "default")
    name = claim.metadata.name
    assert name.startswith("p-extended-resources-")
    status = {"resourceClaimName": name, "requestMappings": []}
    patch = {"status": {"extendedResourceClaimStatus": status}}
    await server.patch(PODS, "p", "default", body=patch, subresource="status")
    await allocate(world, name, world.pod("default/p").metadata.uid)
    world.remove("Pod", "p", "default")
    server.catch_up_claims()
    assert claims(world)[0].status.allocation is None


def test_pods_get_devices_in_turn() -> None:
    with offline.World() as world:
        for name in ("a", "b"):
            world.add_nodes(offline.node(name))
        world.add_all([CLASS, TEMPLATE, devices("b", 2)])
        world.add_pods(user("p", resourceClaimTemplateName="one"), 3)
        result = world.schedule()
        assert [(each.pod, each.node) for each in result.placed] == [
            ("default/p-0", "b"),
            ("default/p-1", "b"),
        ]
        assert "cannot allocate all claims" in result.waiting[0].reason
        world.remove("Pod", "p-0", "default")
        (placed,) = world.schedule().placed
        assert (placed.pod, placed.node) == ("default/p-2", "b")

        requests = {"requests": {"example.com/gpu": "1"}}
        world.add_pods(
            offline.pod("e", spec={"containers": [{"name": "c", "resources": requests}]})
        )
        assert world.schedule().placed == ()
        world.add(devices("a", 1))
        (placed,) = world.schedule().placed
        assert (placed.pod, placed.node) == ("default/e", "a")
        assert world.pod("default/e").status.extended_resource_claim_status


def test_each_pod_that_shares_a_claim_is_attempted_once() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("a", cpu=100))
        world.add_all([CLASS, devices("a", 20)])
        for number in range(20):
            world.add({**CLAIM, "metadata": {"name": f"c-{number}"}})
            for sharer in range(5):
                world.add_pods(user(f"p-{number}-{sharer}", resourceClaimName=f"c-{number}"))
        placed = world.schedule().placed
        assert [each.attempts for each in placed] == [1] * 100
        assert all(len(each.status.reserved_for) == 5 for each in claims(world))


@pytest.mark.parametrize("template", [True, False])
def test_an_event_of_a_claim_concerns_only_the_pods_that_use_it(template: bool) -> None:
    with offline.World() as world:
        world.add_all([CLASS, TEMPLATE])
        for number in range(50):
            world.add({**CLAIM, "metadata": {"name": f"c-{number}"}})
            entry = "resourceClaimTemplateName" if template else "resourceClaimName"
            world.add_pods(user(f"p-{number}", **{entry: "one" if template else f"c-{number}"}))
        assert len(world.schedule().waiting) == 50
        queue = world._assembly.scheduling.queue
        before = queue.statistics().hint_calls
        for claim in claims(world)[:10]:
            changed = msgspec.structs.replace(claim, status=RESERVED)
            world._assembly.tables.put("resourceclaims", changed)
        world.schedule()
        assert queue.statistics().hint_calls - before <= 10


def test_a_trial_adds_devices_and_takes_them_back() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("a"))
        world.add_all([CLASS, TEMPLATE])
        world.add_pods(user("p", resourceClaimTemplateName="one"))
        assert world.schedule().placed == ()
        with world.trial() as trial:
            trial.add(devices("a", 1))
            assert "it fits on 1 of 1 nodes now" in trial.explain("default/p").summary
        assert "it fits on 0 of 1 nodes now" in world.explain("default/p").summary
