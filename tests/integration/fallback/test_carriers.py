"""Scenarios A45 to A49: annotation, native field, both, and the gate."""

from __future__ import annotations

import pytest

from devtools.embedded_service import bound_to, until
from simulator import EmbeddedCluster
from tests.integration.fallback.stage import (
    CONDITION,
    HOST,
    NPF,
    PF,
    ZONE,
    constraint,
    spread,
    staged,
)

INVALID = "InvalidTopologySpreadFallback"
ZONE_NPF = f"{ZONE}={NPF}"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("zone=Nope", 'topology key "zone": unknown criterion "Nope"'),
        ("host=PreemptionFailed", 'topology key "host": the pod has no such constraint'),
        (f"{ZONE_NPF};rack={NPF}", 'topology key "rack": the pod has no such constraint'),
        (f"{ZONE_NPF};{ZONE_NPF}", 'topology key "zone" is named twice'),
        (f"{ZONE_NPF}+{NPF}", f"criterion {NPF} is named twice"),
        ("", "the value is empty"),
    ],
)
async def test_a45_an_invalid_annotation_is_ignored_as_a_whole(
    cluster: EmbeddedCluster, value: str, complaint: str
) -> None:
    async with staged(cluster) as stage:
        stage.uneven()
        soft = constraint(HOST, whenUnsatisfiable="ScheduleAnyway")
        stage.create(spread("p", value, [constraint(), soft]))
        await stage.attempted("p", 1)
        stage.provisioning("p", "False")
        await stage.stays("p", 1)
        stage.touch_node("z2", "1")
        await stage.quiet()
        await until(lambda: stage.events(INVALID))
        (note,) = stage.events(INVALID)
        assert complaint in note
        assert note.endswith("the pod stays strict")
        own = stage.condition("p")
        assert (own["status"], own["reason"]) == ("False", "InvalidAnnotation")
        assert complaint in own["message"]


async def test_a46_an_operator_repairs_the_annotation(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once("zone=Nope")
        stage.annotate("p", ZONE_NPF)
        await stage.retried("p", 2)
        assert stage.condition("p")["reason"] == "AwaitingCriteria"
        stage.provisioning("p", "False")
        await stage.bound("p", "z1")


async def test_a46_an_operator_rescues_a_pod_that_had_no_criteria(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("p"))
        await stage.attempted("p", 1)
        assert stage.condition("p") == {}
        stage.annotate("p", ZONE_NPF)
        await stage.stays("p", 1)
        stage.annotate("p", f"*={PF}")
        await stage.bound("p", "z1")


async def test_a47_the_native_field_wins_with_one_warning(native: EmbeddedCluster) -> None:
    async with staged(native) as stage:
        await stage.rejected_once(f"{ZONE}={PF}", [constraint(fallbackCriteria=[NPF])])
        assert stage.place("p") == "unschedulable", "PreemptionFailed does not count"
        await until(lambda: stage.events(INVALID))
        (note,) = stage.events(INVALID)
        assert 'topology key "zone": the annotation differs from the field' in note
        stage.provisioning("p", "False")
        await stage.bound("p", "z1")
        assert len(stage.events(INVALID)) == 1


async def test_a47_a_star_does_not_contradict_the_field(native: EmbeddedCluster) -> None:
    async with staged(native) as stage:
        await stage.rejected_once(f"*={PF}", [constraint(fallbackCriteria=[NPF])])
        await stage.stays("p", 1)
        assert stage.events(INVALID) == []


async def test_a49_without_the_gate_everything_is_ignored(native: EmbeddedCluster) -> None:
    async with staged(native, gate=False, nodeProvisioningTimeout="1m") as stage:
        stage.uneven()
        stage.create(spread("field", None, [constraint(fallbackCriteria=[NPF])]))
        stage.create(spread("annotation", f"*={PF}"))
        stage.create(spread("bad", "zone=Nope"))
        for name in ("field", "annotation", "bad"):
            stage_attempts = stage.attempts
            await until(lambda: stage_attempts(name) == 1)  # noqa: B023
        await stage.quiet()
        stage.provisioning("field", "False")
        for name in ("field", "annotation", "bad"):
            await stage.stays(name, 1, seconds=100)
            assert stage.condition(name, CONDITION) == {}
        assert stage.events(INVALID) == []


async def test_a48_the_gate_on_again_finds_the_field_again(native: EmbeddedCluster) -> None:
    """The scheduler's part of A48; the API server's is in the simulator's tests."""
    async with staged(native, gate=False) as stage:
        await stage.rejected_once(None, [constraint(fallbackCriteria=[NPF])])
        stage.provisioning("p", "False")
        await stage.stays("p", 1)
    async with staged(native) as stage:
        await stage.bound("p", "z1")


async def test_criteria_do_not_leak_between_pods_of_a_signature(cluster: EmbeddedCluster) -> None:
    """Two pods that differ in nothing but the annotation have one signature."""
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("strict"), spread("p", f"{ZONE}={PF}"))
        await until(lambda: stage.attempts("strict") == stage.attempts("p") == 1)
        await stage.bound("p", "z1")
        await stage.quiet()
        assert stage.place("strict"), "woken by the neighbour perhaps, but as strict as before"
        assert bound_to(cluster, "strict") == ""
