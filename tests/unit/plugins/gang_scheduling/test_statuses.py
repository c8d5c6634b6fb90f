"""The status of PodGroups: phases and counts, conditions, and who else writes them."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.gang_scheduling.statuses import phase_of
from scheduler.api.pod_groups import NATIVE_POD_GROUPS, POD_GROUPS
from scheduler.testing import node
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


@pytest.fixture
def cluster() -> GangCluster:
    return GangCluster()


def stored(cluster: GangCluster, resource: str = POD_GROUPS, name: str = "g") -> Any:
    cluster.tick(2)
    return cluster.world._assembly.state.listers[resource].get(name, "default")


def conditions(cluster: GangCluster) -> dict[str, tuple[str, str, str]]:
    group = stored(cluster, NATIVE_POD_GROUPS[0])
    return {each.type: (each.status, each.reason, each.message) for each in group.status.conditions}


@pytest.mark.parametrize(
    ("existing", "running", "succeeded", "failed", "phase"),
    [
        (3, 0, 0, 0, "Pending"),
        (4, 0, 0, 0, "Scheduling"),
        (4, 3, 0, 0, "Scheduling"),
        (4, 4, 0, 0, "Running"),
        (4, 2, 2, 0, "Running"),
        (4, 2, 1, 1, "Failed"),
        (4, 1, 1, 1, "Scheduling"),
        (0, 0, 4, 1, "Finished"),
    ],
)
def test_the_phases_are_those_of_coscheduling(
    existing: int, running: int, succeeded: int, failed: int, phase: str
) -> None:
    assert phase_of(4, existing, running, succeeded, failed) == phase


def test_the_custom_resource_shows_its_phase(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(3)
    assert stored(cluster).status.phase == "Pending"
    cluster.add_members(1)
    assert stored(cluster).status.phase == "Scheduling"


def test_nothing_is_written_where_another_manager_writes_the_status(cluster: GangCluster) -> None:
    fields = [{"manager": "controller", "subresource": "status"}]
    cluster.add_group(2, managedFields=fields)
    cluster.add_members(2)
    assert stored(cluster).status.phase == ""


@pytest.mark.parametrize(
    ("argument", "phase"), [("Auto", ""), ("Always", "Scheduling"), ("Never", "")]
)
def test_a_status_of_another_manager_is_taken_over_on_request(argument: str, phase: str) -> None:
    with GangCluster(args={"podGroupStatus": argument}) as cluster:
        fields = [{"manager": "controller", "subresource": "status"}]
        cluster.add_group(2, managedFields=fields)
        cluster.add_members(2)
        assert stored(cluster).status.phase == phase
        cluster.add_group(2, "own")
        cluster.add_members(2, "own")
        own = stored(cluster, name="own").status.phase
        assert own == ("" if argument == "Never" else "Scheduling")


def test_a_final_phase_stays(cluster: GangCluster) -> None:
    cluster.add(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"minMember": 2},
            "status": {"phase": "Finished", "succeeded": 2},
        }
    )
    (late,) = cluster.add_members(1)
    assert stored(cluster).status.phase == "Finished"
    assert late in cluster.bound(), "members that ended before the start count"


def test_the_conditions_of_a_native_gang_follow_it(cluster: GangCluster) -> None:
    cluster.add_native_group(6)
    cluster.add_native_members(4)
    assert conditions(cluster) == {
        "kubestow.io/Satisfied": (
            "False",
            "WaitingForMembers",
            "pod group default/g: 4 of 6 pods exist",
        )
    }
    cluster.add_native_members(2)
    text = (
        "needs 6 pods, 4 fit at most, 2 do not: short of cpu on 2 nodes; even an empty cluster "
        "takes 4 at most"
    )
    assert conditions(cluster) == {
        "kubestow.io/Satisfied": ("False", "Unschedulable", text),
        "PodGroupScheduled": ("False", "Unschedulable", text),
    }
    cluster.add_node(node("n9", cpu=4))
    cluster.tick(20)
    assert conditions(cluster) == {
        "kubestow.io/Satisfied": ("True", "AllBound", "6 of 6 pods have a node"),
        "PodGroupScheduled": ("True", "Scheduled", ""),
    }


def test_upstreams_condition_stays_true_and_ours_does_not(cluster: GangCluster) -> None:
    cluster.add_native_group(2)
    keys = cluster.add_native_members(2)
    assert conditions(cluster)["PodGroupScheduled"][0] == "True"
    cluster.world.remove("Pod", keys[0].partition("/")[2], "default")
    found = conditions(cluster)
    assert found["PodGroupScheduled"][0] == "True"
    assert found["kubestow.io/Satisfied"][:2] == ("False", "Partial")


def test_an_object_that_contradicts_itself_says_so(cluster: GangCluster) -> None:
    cluster.add_native_group(1, schedulingPolicy={"basic": {}, "gang": {"minCount": 1}})
    cluster.add_native_members(1)
    status, reason, message = conditions(cluster)["PodGroupScheduled"]
    assert (status, reason) == ("False", "SchedulerError")
    assert "both basic and gang" in message


def test_groups_of_others_are_not_written(cluster: GangCluster) -> None:
    cluster.add_native_group(2)
    cluster.add_native_members(2, spec={"schedulerName": "another"})
    assert conditions(cluster) == {}


def test_a_write_that_fails_is_repeated_later(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = cluster.world._assembly.server
    real, calls = type(server).patch, []

    async def patch(self: Any, resource: Any, *args: Any, **options: Any) -> Any:
        if "podgroups" in resource.plural:
            calls.append(resource.plural)
            if len(calls) == 1:
                raise RuntimeError("not now")
        return await real(self, resource, *args, **options)

    monkeypatch.setattr(type(server), "patch", patch)
    cluster.add_group(2)
    cluster.add_members(1)
    assert stored(cluster).status.phase == ""
    cluster.tick(40)
    assert stored(cluster).status.phase == "Pending"
    assert len(calls) == 2, "and nothing is written again"
