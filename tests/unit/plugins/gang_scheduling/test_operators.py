"""Gangs of operators: the rows of the table in docs/gang-scheduling.md, each tried.

Groups, labels and the order in which pods appear are as in the sources of these operators.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster, notes

VOLCANO = "scheduling.k8s.io/group-name"


def add_group(cluster: GangCluster, name: str, minimum: int, **resources: str) -> None:
    """Add a PodGroup with the sum of the requests, as operators state it."""
    cluster.add(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minMember": minimum, "minResources": resources, "scheduleTimeoutSeconds": 0},
        }
    )


def labelled(group: str, **labels: str) -> dict[str, Any]:
    return {"labels": {POD_GROUP_LABEL: group, **labels}}


def finish(cluster: GangCluster, key: str) -> None:
    """Let a pod succeed."""
    group = next(iter(cluster.plugin("GangScheduling").gangs.groups))
    group.succeed(cluster.world.pod(key).uid)
    cluster.world.remove("Pod", key.partition("/")[2], "default")


def test_trainer_starts_all_nodes_of_a_trainjob_together(cluster: GangCluster) -> None:
    add_group(cluster, "train", 4, cpu="8")
    keys = [
        *cluster.add_pods(pod("train-node-0-0", cpu=2, **labelled("train"))),
        *cluster.add_pods(pod("train-node-0-1", cpu=2, **labelled("train"))),
        *cluster.add_pods(pod("train-node-0-2", cpu=2, **labelled("train"))),
    ]
    assert cluster.message(keys[0]) == "pod group default/train: 3 of 4 pods exist"
    cluster.add_pods(pod("train-node-0-3", cpu=2, **labelled("train")))
    assert len(cluster.bound()) == 4
    assert notes(cluster, "GangScheduled") == ["4 pods are bound together"]


def test_initializers_of_a_trainjob_wait_for_nodes_that_come_after_them() -> None:
    """The minimum includes the nodes, whose pods JobSet creates when the initializers are done."""
    with GangCluster() as cluster:
        add_group(cluster, "train", 6, cpu="9")
        first, second = (
            *cluster.add_pods(pod("dataset-initializer", cpu=0.5, **labelled("train"))),
            *cluster.add_pods(pod("model-initializer", cpu=0.5, **labelled("train"))),
        )
        cluster.tick(600)
        assert cluster.message(first) == "pod group default/train: 2 of 6 pods exist"
        # The advice of the page: a minimum of 1 for the initializers, and then all again. They
        # have succeeded, and count.
        add_group(cluster, "train", 1)
        assert {*cluster.bound()} == {first, second}
        for key in (first, second):
            finish(cluster, key)
        add_group(cluster, "train", 6)
        for number in range(4):
            cluster.add_pods(pod(f"train-node-{number}", cpu=2, **labelled("train")))
            assert len(cluster.bound()) == (4 if number == 3 else 0)


def test_kuberay_starts_head_and_workers_together_and_later_workers_alone() -> None:
    with GangCluster() as cluster:
        add_group(cluster, "ray", 3, cpu="6")
        cluster.add_pods(pod("ray-head", cpu=2, **labelled("ray")))
        cluster.add_pods(pod("ray-worker", cpu=2, **labelled("ray")), 2)
        assert len(cluster.bound()) == 3
        # KubeRay never updates the group when the cluster is scaled.
        cluster.add_pods(pod("ray-more", cpu=2, **labelled("ray")), 2)
        assert len(cluster.bound("ray-more")) == 1


@pytest.mark.parametrize(
    ("minimum", "bound"), [(3, 0), (2, 2)], ids=["default", "minAvailable: workers"]
)
def test_mpi_workers_wait_for_a_launcher_that_waits_for_them(minimum: int, bound: int) -> None:
    """`launcherCreationPolicy: WaitForWorkersReady` needs `schedulingPolicy.minAvailable`."""
    with GangCluster() as cluster:
        add_group(cluster, "mpi", minimum, cpu="5")
        cluster.add_pods(pod("mpi-worker", cpu=2, **labelled("mpi")), 2)
        cluster.tick(60)
        assert len(cluster.bound()) == bound
        cluster.add_pods(pod("mpi-launcher", cpu=1, **labelled("mpi")))
        assert len(cluster.bound()) == 3


def test_mpi_at_startup_starts_launcher_and_workers_together(cluster: GangCluster) -> None:
    add_group(cluster, "mpi", 3, cpu="5")
    cluster.add_pods(pod("mpi-launcher", cpu=1, **labelled("mpi")))
    cluster.add_pods(pod("mpi-worker", cpu=2, **labelled("mpi")), 2)
    assert len(cluster.bound()) == 3


def test_spark_drivers_start_alone_and_the_group_says_so(cluster: GangCluster) -> None:
    for name in ("a", "b"):
        add_group(cluster, f"spark-{name}-pg", 1, cpu="7")
        cluster.add_pods(pod(f"{name}-driver", cpu=1, **labelled(f"spark-{name}-pg")))
    assert len(cluster.bound()) == 2
    for name in ("a", "b"):
        cluster.add_pods(pod(f"{name}-exec", cpu=1, **labelled(f"spark-{name}-pg")), 6)
    assert len(cluster.bound()) == 8, "each of them gets a part"
    told = [each.regarding for each in cluster.events if each.reason == "GroupNotUnderstood"]
    assert told == ["default/spark-a-pg", "default/spark-b-pg"]


def test_pods_of_a_jobset_that_name_a_group_start_together(cluster: GangCluster) -> None:
    cluster.add_native_group(3, "js")
    for number in range(3):
        spec = {"schedulingGroup": {"podGroupName": "js"}}
        labels = {"jobset.sigs.k8s.io/jobset-name": "js"}
        cluster.add_pods(pod(f"js-workers-{number}-0", cpu=2, labels=labels, spec=spec))
        assert len(cluster.bound()) == (3 if number == 2 else 0)


def test_pods_of_a_jobset_without_a_group_are_single_pods(cluster: GangCluster) -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "js"}
    cluster.add_pods(pod("js-workers", cpu=2, labels=labels), 5)
    assert len(cluster.bound()) == 4


def test_leaderworkerset_makes_groups_of_volcano_which_are_told_of() -> None:
    with GangCluster() as cluster:
        name: dict[str, Any] = {"annotations": {VOLCANO: "lws-0-5d8"}}
        cluster.add_pods(pod("lws-0", cpu=2, **name))
        cluster.add_pods(pod("lws-0-1", cpu=2, **name))
        assert len(cluster.bound()) == 2
        (note,) = notes(cluster, "GroupNotUnderstood")
        assert note.startswith(f"{VOLCANO}=lws-0-5d8 does not make a gang here")


def test_a_label_in_the_template_of_a_leaderworkerset_joins_all_replicas() -> None:
    with GangCluster(2) as cluster:
        add_group(cluster, "lws", 6)
        for replica in range(2):
            cluster.add_pods(pod(f"lws-{replica}", cpu=2, **labelled("lws")))
            cluster.add_pods(pod(f"lws-{replica}-worker", cpu=2, **labelled("lws")), 2)
        assert len(cluster.bound()) == 0
        cluster.add_node(node("n9", cpu=4))
        cluster.tick(20)
        assert len(cluster.bound()) == 6
