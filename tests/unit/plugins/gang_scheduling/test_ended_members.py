"""Members that ended before the scheduler began: no watch shows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api.meta import Condition, ObjectMeta
from scheduler.api.pod import Pod, PodSchedulingGroup, PodSpec, PodStatus
from scheduler.api.pod_groups import POD_GROUP_LABEL
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

CREATED = "2001-01-02T00:00:00Z"


class FinishedPods:
    """Answers the lists of finished pods."""

    def __init__(self, cluster: GangCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods: list[Pod] = []
        self.failures = 0
        self.lists: list[tuple[str, str]] = []
        monkeypatch.setattr(type(cluster.world._assembly.server), "list", self._list)

    async def _list(
        self, _resource: Any, namespace: str = "", *, field_selector: str = "", limit: int
    ) -> list[Pod]:
        self.lists.append((namespace, field_selector))
        if self.failures:
            self.failures -= 1
            raise TimeoutError
        return self.pods[:limit]

    def add(self, count: int, *, native: bool = False, bound: str = "") -> None:
        """Add pods that succeeded, with the time at which they got their node."""
        group = PodSchedulingGroup(pod_group_name="g") if native else None
        condition = Condition(type="PodScheduled", status="True", last_transition_time=bound)
        for number in range(count):
            name = f"done-{len(self.pods)}-{number}"
            labels = {} if native else {POD_GROUP_LABEL: "g"}
            meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels=labels)
            status = PodStatus(phase="Succeeded", conditions=(condition,) if bound else ())
            self.pods.append(
                Pod(metadata=meta, spec=PodSpec(scheduling_group=group), status=status)
            )


@pytest.fixture
def finished(cluster: GangCluster, monkeypatch: pytest.MonkeyPatch) -> FinishedPods:
    return FinishedPods(cluster, monkeypatch)


@pytest.mark.parametrize("native", [False, True], ids=["custom resource", "built in"])
def test_g7_members_that_succeeded_before_the_start_count(
    cluster: GangCluster, finished: FinishedPods, native: bool
) -> None:
    finished.add(3, native=native)
    if native:
        cluster.add_native_group(4)
        (last,) = cluster.add_native_members(1)
    else:
        cluster.add_group(4)
        (last,) = cluster.add_members(1)
    assert last not in cluster.bound()
    cluster.tick(2)
    assert last in cluster.bound()
    assert finished.lists == [("default", "status.phase=Succeeded")]


def test_one_list_answers_for_all_groups_of_a_namespace(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    for name in ("g", "other", "third"):
        cluster.add_group(4, name)
        cluster.add_members(1, name)
    cluster.tick(60)
    assert len(finished.lists) == 1


def test_a_gang_that_is_complete_causes_no_list(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    cluster.add_group(2)
    cluster.add_members(2)
    cluster.tick(60)
    assert finished.lists == []


def test_a_group_younger_than_the_scheduler_causes_no_list(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    cluster.add_group(2, creationTimestamp="2100-01-01T00:00:00Z")
    cluster.add_members(1)
    cluster.tick(60)
    assert finished.lists == []


def test_pods_of_an_earlier_group_of_the_name_do_not_count(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    finished.add(1, bound="2001-01-01T23:59:59Z")
    cluster.add_group(2, creationTimestamp=CREATED)
    (last,) = cluster.add_members(1)
    cluster.tick(60)
    assert last not in cluster.bound()


def test_g8_a_list_that_fails_is_repeated(cluster: GangCluster, finished: FinishedPods) -> None:
    finished.add(1)
    finished.failures = 2
    cluster.add_group(2)
    (last,) = cluster.add_members(1)
    cluster.tick(9)
    assert last not in cluster.bound()
    cluster.tick(15)
    assert last in cluster.bound()
    assert len(finished.lists) == 3
    cluster.tick(60)
    assert len(finished.lists) == 3


def test_g8_a_gang_that_has_started_once_goes_on_although_nothing_can_be_listed(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    finished.failures = 1_000
    cluster.add(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
            "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]},
        }
    )
    (last,) = cluster.add_native_members(1)
    cluster.tick(29)
    assert last not in cluster.bound()
    cluster.tick(3)
    assert last in cluster.bound()


def test_a_success_that_is_both_counted_and_listed_counts_once(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    finished.add(2)
    cluster.add(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"minMember": 4},
            "status": {"phase": "Scheduling", "succeeded": 2},
        }
    )
    cluster.add_members(1)
    cluster.tick(5)
    group = next(iter(cluster.plugin("GangScheduling").gangs.groups))
    assert group.succeeded == 2
    assert not cluster.bound()


def test_evicted_members_that_exit_with_status_0_have_not_succeeded(
    cluster: GangCluster, finished: FinishedPods
) -> None:
    finished.add(3)
    evicted = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    finished.pods[0] = msgspec.structs.replace(
        finished.pods[0], status=PodStatus(phase="Succeeded", conditions=(evicted,))
    )
    leaving = msgspec.structs.replace(finished.pods[1].metadata, deletion_timestamp=CREATED)
    finished.pods[1] = msgspec.structs.replace(finished.pods[1], metadata=leaving)
    cluster.add_group(4, creationTimestamp=CREATED)
    (first,) = cluster.add_members(1)
    assert cluster.message(first) == "pod group default/g: 2 of 4 pods exist, 1 of them succeeded"


@pytest.mark.parametrize(
    ("bound", "succeeded", "text"),
    [
        (2, 0, "2 of 2 pods have a node"),
        (4, 0, "4 pods have a node, 2 are needed"),
        (3, 1, "needs 2 pods: 3 with a node, 1 succeeded"),
    ],
)
def test_succeeded_members_are_not_said_to_have_a_node(
    cluster: GangCluster, bound: int, succeeded: int, text: str
) -> None:
    cluster.add_group(2)
    cluster.add_members(bound)
    assert len(cluster.bound()) == bound
    gangs = cluster.plugin("GangScheduling").gangs
    (group,) = gangs.groups
    for number in range(succeeded):
        group.succeed(f"done-{number}")
    assert gangs.standing(group).text == text
