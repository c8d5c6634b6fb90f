"""VolumeRestrictions: disks and claims that only one pod may use."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions
from scheduler.api import Pod
from scheduler.framework import SKIP, ActionType, ClusterEvent, CycleState, unresolvable
from tests.unit.plugins.clusters import Cluster, hint, node, pod, statuses
from tests.unit.plugins.volume_objects import add, claim, using, with_volumes

RWOP = ("ReadWriteOncePod",)


def gce(name: str = "d", read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str = "d", read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str = "d", read_only: bool = False, portal: str = "p") -> dict[str, Any]:
    return {"iscsi": {"iqn": name, "targetPortal": portal, "lun": 0, "readOnly": read_only}}


def rbd(
    name: str = "d", read_only: bool = False, monitors: tuple[str, ...] = ("a", "b")
) -> dict[str, Any]:
    return {
        "rbd": {"monitors": monitors, "pool": "rbd", "image": name, "readOnly": read_only},
    }


@pytest.mark.parametrize(
    ("held", "wanted", "conflict"),
    [
        *[pytest.param(kind(), kind(), True, id=f"{kind.__name__} same") for kind in (gce, ebs)],
        pytest.param(iscsi(), iscsi(portal="q"), True, id="iscsi same IQN, another portal"),
        pytest.param(rbd(), rbd(monitors=("b", "c")), True, id="rbd with a shared monitor"),
        pytest.param(rbd(), rbd(monitors=("c",)), False, id="rbd of another cluster"),
        *[
            pytest.param(kind("d"), kind("e"), False, id=f"{kind.__name__} other")
            for kind in (gce, ebs, iscsi, rbd)
        ],
        *[
            pytest.param(kind("d", True), kind("d", True), False, id=f"{kind.__name__} read-only")
            for kind in (gce, iscsi, rbd)
        ],
        pytest.param(ebs("d", True), ebs("d", True), True, id="ebs conflicts even read-only"),
        pytest.param(gce("d", True), gce("d"), True, id="gce read-only beside writing"),
        pytest.param(gce(), ebs(), False, id="another kind"),
    ],
)
def test_disks(held: dict[str, Any], wanted: dict[str, Any], conflict: bool) -> None:
    cluster = Cluster([node("free"), node("n")], {"n": [pod(), with_volumes(held)]})
    plugin = VolumeRestrictions(None, cluster.handle())

    found = statuses(plugin, cluster, with_volumes(wanted))

    assert found == {"free": None, "n": DISK_CONFLICT if conflict else None}


def test_a_disk_is_free_again_when_its_pod_is_gone() -> None:
    cluster = Cluster([node("n")])
    holder = cluster.place(with_volumes(gce()), "n")
    plugin = VolumeRestrictions(None, cluster.handle())
    assert statuses(plugin, cluster, with_volumes(gce()))["n"] is DISK_CONFLICT

    cluster.cache.remove_pod(holder)
    assert statuses(plugin, cluster, with_volumes(gce()))["n"] is None


def pre_filter(cluster: Cluster, subject: Pod) -> Any:
    plugin = VolumeRestrictions(None, cluster.handle())
    return plugin.pre_filter(CycleState(), subject, cluster.table)


def test_pods_with_nothing_to_conflict_are_skipped() -> None:
    cluster = Cluster([node("n")], {"n": [using("shared")]})
    add(cluster, claim("shared", modes=("ReadWriteMany",)), claim("alone", modes=RWOP))

    assert pre_filter(cluster, pod()) is SKIP
    assert pre_filter(cluster, using("shared")) is SKIP
    assert pre_filter(cluster, using("alone")) is SKIP
    assert pre_filter(cluster, with_volumes({"csi": {"driver": "d"}})) is SKIP
    assert pre_filter(cluster, with_volumes(gce())) is None


def test_a_missing_claim_is_named() -> None:
    refused = pre_filter(Cluster([node("n")]), using("gone"))
    assert refused == unresolvable('persistentvolumeclaim "gone" not found')


def test_an_exclusive_claim_in_use_rejects_every_node() -> None:
    cluster = Cluster([node("n"), node("m")], {"n": [using("alone")]})
    add(cluster, claim("alone", modes=RWOP))
    plugin = VolumeRestrictions(None, cluster.handle())

    found = statuses(plugin, cluster, using("alone"))
    assert found == {"n": CLAIM_IN_USE, "m": CLAIM_IN_USE}


def test_a_claim_of_another_namespace_is_another_claim() -> None:
    cluster = Cluster([node("n")], {"n": [using("alone", namespace="elsewhere")]})
    add(cluster, claim("alone", modes=RWOP))
    assert pre_filter(cluster, using("alone")) is SKIP


def test_what_ifs_count_uses() -> None:
    cluster = Cluster([node("n")])
    holders = [cluster.place(using(name), "n") for name in ("a", "b")]
    add(cluster, claim("a", modes=RWOP), claim("b", modes=RWOP))
    plugin, subject, state = (
        VolumeRestrictions(None, cluster.handle()),
        using("a", "b"),
        CycleState(),
    )
    plugin.pre_filter(state, subject, cluster.table)
    info = cluster.table.node_info(0)

    trial = state.clone()
    plugin.remove_pod(trial, subject, holders[0], info)
    assert plugin.filter(trial, subject, info) is CLAIM_IN_USE
    plugin.remove_pod(trial, subject, holders[1], info)
    assert plugin.filter(trial, subject, info) is None
    plugin.add_pod(trial, subject, using("unrelated"), info)
    assert plugin.filter(trial, subject, info) is None
    # Upstream's oddity: the namespace is not compared.
    plugin.add_pod(trial, subject, using("a", namespace="elsewhere"), info)
    assert plugin.filter(trial, subject, info) is CLAIM_IN_USE
    assert plugin.filter(state, subject, info) is CLAIM_IN_USE


@pytest.mark.parametrize(
    ("subject", "deleted", "wakes"),
    [
        (using("a"), using("a"), True),
        (using("a"), using("b"), False),
        (using("a"), using("a", namespace="elsewhere"), False),
        (with_volumes(gce()), with_volumes(gce()), True),
        (with_volumes(gce("d", True)), with_volumes(gce("d", True)), False),
    ],
)
def test_hint_after_a_pod_is_deleted(subject: Pod, deleted: Pod, wakes: bool) -> None:
    plugin = VolumeRestrictions(None, Cluster().handle())
    event = ClusterEvent("AssignedPod", ActionType.DELETE)
    assert hint(plugin, event, subject, deleted, None) is wakes


def test_hint_after_a_claim_appears() -> None:
    plugin = VolumeRestrictions(None, Cluster().handle())
    event = ClusterEvent("PersistentVolumeClaim", ActionType.ADD)
    assert hint(plugin, event, using("a"), None, claim("a"))
    assert not hint(plugin, event, using("a"), None, claim("b"))
    assert not hint(plugin, event, using("a"), None, claim("a", namespace="elsewhere"))
    update = ClusterEvent("PersistentVolumeClaim", ActionType.UPDATE)
    assert not hint(plugin, update, using("a"), claim("a"), claim("a"))


def test_a_pod_with_more_volumes_than_are_read_is_refused() -> None:
    volumes = [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(20_000)]
    cluster = Cluster([node("n")])

    found = pre_filter(cluster, cluster.intern(pod({"volumes": volumes})))

    assert found == unresolvable("20000 volumes: kubestow reads at most 2500")
