"""NodeVolumeLimits: limits of volumes per driver and node."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.node_volume_limits import GATE, TOO_MANY, NodeVolumeLimits
from plugins.volume_binding.attachments import VolumesError
from scheduler.api import Pod
from scheduler.framework import (
    SKIP,
    ActionType,
    ClusterEvent,
    CycleState,
    Status,
    unresolvable,
    unschedulable,
)
from tests.unit.plugins.clusters import Cluster, hint, node, pod, statuses
from tests.unit.plugins.volume_objects import (
    add,
    attachment,
    claim,
    csi,
    csi_driver,
    csi_node,
    ephemeral,
    owned,
    storage_class,
    using,
    volume,
    with_volumes,
)

DRIVER, EBS = "csi.example.com", "ebs.csi.aws.com"


def cluster_with(*objects: Any, placed: tuple[Pod, ...] = ()) -> Cluster:
    """A node `n` with pods, an unlimited node, and four bound CSI claims `b0` to `b3`."""
    cluster = Cluster([node("n"), node("unlimited")])
    for number in range(4):
        add(cluster, claim(f"b{number}", f"v{number}"))
        add(cluster, volume(f"v{number}", spec=csi(f"h{number}")))
    add(cluster, *objects)
    for each in placed:
        cluster.place(each, "n")
    return cluster


def filtered(cluster: Cluster, subject: Pod, **gates: bool) -> Status | None:
    found = statuses(NodeVolumeLimits(None, cluster.handle(**gates)), cluster, subject)
    return found["n"]


@pytest.mark.parametrize(
    ("limit", "placed", "subject", "fits"),
    [
        (4, (using("b0"), using("b1"), using("b2")), using("b3"), True),
        (2, (using("b0"), using("b1"), using("b2")), using("b3"), False),
        (2, (using("b0"), using("b1")), using("b1"), True),
        (2, (using("b0"), using("b0")), using("b1"), True),
        (1, (using("b0"),), using("b0", "b1"), False),
        (0, (), using("b0"), False),
        (None, (using("b0"),), using("b1"), True),
    ],
)
def test_bound_claims(limit: int | None, placed: Any, subject: Pod, fits: bool) -> None:
    placed = tuple(using(*each.signature.claims) for each in placed)
    cluster = cluster_with(csi_node("n", {DRIVER: limit}), placed=placed)
    assert filtered(cluster, subject) == (None if fits else TOO_MANY)


def test_only_volumes_of_the_driver_count() -> None:
    objects = (claim("o", "vo"), volume("vo", spec=csi("h0", "other.example.com")))
    limited = csi_node("n", {DRIVER: 1})
    cluster = cluster_with(*objects, limited, placed=(using("o"),))
    assert filtered(cluster, using("b0")) is None
    assert filtered(cluster, using("b0", "b1")) is TOO_MANY
    assert filtered(cluster_with(*objects, limited, placed=(using("b0"),)), using("o")) is None


@pytest.mark.parametrize(
    ("pending", "objects", "counted"),
    [
        (claim("p", class_name="wait"), (storage_class(provisioner=DRIVER),), True),
        (claim("p", class_name="wait"), (), False),
        (claim("p"), (storage_class(provisioner=DRIVER),), False),
        (claim("p", "gone", class_name="wait"), (storage_class(provisioner=DRIVER),), True),
        (
            claim("p", class_name="wait"),
            (storage_class(provisioner="kubernetes.io/aws-ebs"),),
            False,
        ),
        (claim("p", "host"), (volume("host", spec={"hostPath": {"path": "/"}}),), False),
    ],
)
def test_claims_without_a_csi_volume(pending: Any, objects: Any, counted: bool) -> None:
    cluster = cluster_with(pending, *objects, csi_node("n", {DRIVER: 1}), placed=(using("p"),))
    # The same claim counts once; another one is one too many if this one counts.
    assert filtered(cluster, using("p", "p")) is None
    assert (filtered(cluster, using("b0")) is TOO_MANY) is counted


def test_in_tree_volumes_count_where_there_is_a_csi_node() -> None:
    disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    objects = (
        claim("t", "vt"),
        volume("vt", spec=disk),
        claim("same", "vs"),
        volume("vs", spec=csi("vol-1", EBS)),
        claim("pending", class_name="ebs"),
        storage_class("ebs", "kubernetes.io/aws-ebs"),
    )
    cluster = cluster_with(*objects, csi_node("n", {EBS: 1}), placed=(using("t"),))
    assert filtered(cluster, using("pending")) is TOO_MANY
    assert filtered(cluster, with_volumes(disk)) is None
    assert filtered(cluster, using("same")) is None
    other = {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-2"}}
    assert filtered(cluster, with_volumes(other)) is TOO_MANY
    assert filtered(cluster_with(*objects, placed=(using("t"),)), using("pending")) is None


def test_attachments_count_too() -> None:
    attached = tuple(attachment(f"a{i}", "n", f"v{i}", DRIVER) for i in range(2))
    assert filtered(cluster_with(csi_node("n", {DRIVER: 2}), *attached), using("b3")) is TOO_MANY
    assert filtered(cluster_with(csi_node("n", {DRIVER: 2}), attached[0]), using("b3")) is None
    used = cluster_with(csi_node("n", {DRIVER: 2}), *attached, placed=(using("b0"),))
    assert filtered(used, using("b1")) is TOO_MANY, "upstream's oddity: b1 counts twice"
    assert filtered(used, using("b0")) is None


def test_index_follows_every_kind_of_change() -> None:
    cluster = cluster_with(csi_node("n", {DRIVER: 1}))
    plugin = NodeVolumeLimits(None, cluster.handle())

    def full(subject: str = "b3") -> bool:
        return statuses(plugin, cluster, using(subject))["n"] is TOO_MANY

    assert not full()
    placed = cluster.place(using("later"), "n")
    assert not full(), "a claim that does not exist does not count"
    add(cluster, claim("later", class_name="wait"))
    assert not full(), "nor does one of no class"
    add(cluster, storage_class(provisioner=DRIVER))
    assert full()
    add(cluster, claim("later", "v0", class_name="wait"))
    assert not full("b0"), "now it is the same volume"
    assert full("b1")
    cluster.cache.remove_pod(placed)
    assert not full()
    made = attachment("a", "n", "v0", DRIVER)
    add(cluster, made)
    assert full()
    cluster.delete_object("volumeattachments", made)
    assert not full()
    add(cluster, csi_node("n", {DRIVER: 0}))
    assert full()
    cluster.delete_object("csinodes", csi_node("n"))
    assert not full()


def test_missing_and_foreign_claims() -> None:
    cluster = cluster_with(csi_node("n", {DRIVER: 9}))
    assert filtered(cluster, using("gone")) == unresolvable(
        'looking up PVC default/gone: persistentvolumeclaim "gone" not found'
    )
    assert filtered(cluster, ephemeral("e")) == unresolvable(
        'looking up PVC default/p-e: persistentvolumeclaim "p-e" not found'
    )
    add(cluster, owned("p-e", "another"))
    foreign = "PVC default/p-e was not created for pod default/p .pod is not owner."
    with pytest.raises(VolumesError, match=foreign):
        filtered(cluster, ephemeral("e"))
    add(cluster, owned("p-e"))
    assert filtered(cluster, ephemeral("e")) is None
    with pytest.raises(VolumesError, match="PersistentVolumeClaim had no name"):
        filtered(cluster, using(""))


def test_a_broken_pod_matters_only_on_nodes_with_limits() -> None:
    broken = owned("p-e", "another")
    cluster = cluster_with(broken, placed=(ephemeral("e"),))
    assert filtered(cluster, using("b0")) is None
    add(cluster, csi_node("n", {DRIVER: 9}))
    plugin, state = NodeVolumeLimits(None, cluster.handle()), CycleState()
    with pytest.raises(VolumesError, match="not owner"):
        plugin.filter(state, using("b0"), cluster.table.node_info(0))
    with pytest.raises(VolumesError, match="not owner"):
        plugin.filter_rows(state, using("b0"), cluster.table, cluster.table.rows)
    assert plugin.filter_rows(state, using("b0"), cluster.table, cluster.table.rows[1:]) == 0


@pytest.mark.parametrize(
    ("driver", "installed", "gate", "rejected"),
    [
        (csi_driver(DRIVER, preventPodSchedulingIfMissing=True), {}, True, True),
        (csi_driver(DRIVER, preventPodSchedulingIfMissing=True), {DRIVER: None}, True, False),
        (csi_driver(DRIVER, preventPodSchedulingIfMissing=True), {}, False, False),
        (csi_driver(DRIVER), {}, True, False),
        (csi_driver("other"), {}, True, False),
    ],
)
def test_missing_drivers(driver: Any, installed: Any, gate: bool, rejected: bool) -> None:
    cluster = cluster_with(driver, csi_node("n", installed))
    status = unschedulable(f"{DRIVER} CSI driver is not installed on the node")
    assert filtered(cluster, using("b0"), **{GATE: gate}) == (status if rejected else None)


@pytest.mark.parametrize(
    ("subject", "skips"),
    [
        (pod(), True),
        (with_volumes({"secret": {}}, {"csi": {"driver": "d"}}), True),
        (using("any"), False),
        (ephemeral("e"), False),
        (with_volumes({"azureFile": {"shareName": "s"}}), False),
        (with_volumes({"portworxVolume": {"volumeID": "s"}}), False),
    ],
)
def test_pre_filter(subject: Pod, skips: bool) -> None:
    plugin = NodeVolumeLimits(None, Cluster().handle())
    found = plugin.pre_filter(CycleState(), subject, Cluster().table)
    assert found == (SKIP if skips else None)


def placed(made: Pod, node_name: str = "n") -> Pod:
    made.spec.node_name = node_name
    return made


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "wakes"),
    [
        ("CSINode", "ADD", None, csi_node("x"), True),
        ("CSINode", "UPDATE", csi_node("x"), csi_node("x", {DRIVER: 1}), True),
        ("CSINode", "UPDATE", csi_node("x", {DRIVER: 1}), csi_node("x", {DRIVER: 2}), True),
        ("CSINode", "UPDATE", csi_node("x", {DRIVER: 2}), csi_node("x", {DRIVER: 2}), False),
        ("CSINode", "UPDATE", csi_node("x", {DRIVER: 2}), csi_node("x", {DRIVER: None}), True),
        ("CSINode", "DELETE", csi_node("x", {DRIVER: 2}), None, True),
        ("AssignedPod", "ADD", None, placed(using("c")), True),
        ("AssignedPod", "ADD", None, placed(using("c"), ""), False),
        ("AssignedPod", "ADD", None, placed(using("other")), False),
        ("AssignedPod", "ADD", None, placed(using("c", namespace="other")), False),
        ("AssignedPod", "DELETE", placed(using("any")), None, True),
        ("AssignedPod", "DELETE", placed(using("any"), ""), None, False),
        ("AssignedPod", "DELETE", placed(pod()), None, False),
        ("PersistentVolumeClaim", "ADD", None, claim("c"), True),
        ("PersistentVolumeClaim", "ADD", None, claim("other"), False),
        ("VolumeAttachment", "DELETE", attachment("a", "n", "v", DRIVER), None, True),
    ],
)
def test_hints(resource: str, action: str, old: Any, new: Any, wakes: bool) -> None:
    prefix = "storage.k8s.io/" if resource in ("CSINode", "VolumeAttachment") else ""
    event = ClusterEvent(f"{prefix}{resource}", ActionType[action])
    plugin = NodeVolumeLimits(None, Cluster().handle())
    assert hint(plugin, event, using("c"), old, new) is wakes


def test_hint_after_a_detachment_of_a_migrated_volume() -> None:
    plugin = NodeVolumeLimits(None, Cluster().handle())
    event = ClusterEvent("storage.k8s.io/VolumeAttachment", ActionType.DELETE)
    subject = with_volumes({"awsElasticBlockStore": {"volumeID": "vol-1"}})
    assert hint(plugin, event, subject, attachment("a", "n", "v", EBS), None)
    assert not hint(plugin, event, subject, attachment("a", "n", "v", DRIVER), None)
