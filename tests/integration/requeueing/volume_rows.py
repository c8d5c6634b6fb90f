"""Rows about volumes: zones, restrictions, binding, limits."""

from __future__ import annotations

from typing import Final

from tests.integration.requeueing.rows import (
    BETA_ZONE,
    BIND_COMPLETED,
    MIGRATED,
    ZONE,
    Create,
    Delete,
    Json,
    Patch,
    Row,
    attachment,
    claim,
    csi_capacity,
    csi_driver,
    csi_node,
    node,
    node_affinity,
    pod,
    relabelled,
    storage_class,
    topologies,
    volume,
)

VOLUME_ZONE: Final = ("VolumeZone",)
RESTRICTIONS: Final = ("VolumeRestrictions",)
BINDING: Final = ("VolumeBinding",)
LIMITS: Final = ("NodeVolumeLimits",)

P1: Final = frozenset({"p1"})
P2: Final = frozenset({"p2"})

RWOP: Final = "ReadWriteOncePod"
EBS: Final = "ebs.csi.aws.com"
PD: Final = "pd.csi.storage.gke.io"


def _zoned(name: str = "node1", zone: str = "z1") -> Json:
    made = node(name)
    made["metadata"]["labels"][ZONE] = zone
    return made


def _volume_in(name: str, zone: str) -> Json:
    return volume(name, labels={ZONE: zone})


_P1: Final = pod("p1", claim="pvc1")
_P2: Final = pod("p2", claim="pvc2")
_P3: Final = pod("p3", claim="pvc3")
_FIRST: Final = (
    _zoned(),
    _volume_in("pv1", "z1"),
    claim("pvc1", "pv1"),
    pod("bound", on="node1", claim="pvc1"),
)
_CLAIM_BOUND: Final = Patch(
    "PersistentVolumeClaim",
    "pvc1",
    {"metadata": {"annotations": BIND_COMPLETED}, "spec": {"volumeName": "pv1"}},
)
_UNBOUND: Final = (node(), claim("pvc1"))
_OF_CLASS: Final = (node(), claim("pvc1", storage_class="sc1"))
_IN_LINE: Final = {"name": "inline", "csi": {"driver": "example.com"}}
_LIMITED: Final = (
    node(),
    csi_node("node1", csi_example=1),
    volume("pv1", driver="csi.example"),
    volume("pv2", driver="csi.example"),
    claim("pvc1", "pv1"),
    pod("bound", on="node1", claim="pvc1"),
)

VOLUME_ROWS: Final[tuple[Row, ...]] = (
    Row(
        number="45",
        plugins=VOLUME_ZONE,
        initial=[*_FIRST, claim("pvc2", "pv2")],
        pending=[_P2],
        trigger=[Create(_volume_in("pv2", "z1"))],
        requeued=P2,
    ),
    Row(
        number="46",
        plugins=VOLUME_ZONE,
        initial=[*_FIRST, _volume_in("pv2", "z2"), claim("pvc2", "pv2")],
        pending=[_P2],
        trigger=[relabelled("PersistentVolume", "pv2", **{ZONE: "z1"})],
        requeued=P2,
    ),
    Row(
        number="47",
        plugins=VOLUME_ZONE,
        initial=[*_FIRST, _volume_in("pv2", "z1")],
        pending=[_P2, _P3],
        trigger=[Create(claim("pvc2", "pv2"))],
        requeued=P2,
    ),
    Row(
        number="48",
        plugins=VOLUME_ZONE,
        initial=[*_FIRST, _volume_in("pv2", "z1"), claim("pvc2")],
        pending=[_P2, _P3],
        trigger=[Patch("PersistentVolumeClaim", "pvc2", {"spec": {"volumeName": "pv2"}})],
        requeued=P2,
    ),
    Row(
        number="49",
        plugins=VOLUME_ZONE,
        initial=[*_FIRST, claim("pvc2", "pv2")],
        pending=[_P2],
        trigger=[Create(storage_class(delayed=True))],
        requeued=P2,
    ),
    Row(
        number="50",
        plugins=VOLUME_ZONE,
        initial=[*_FIRST, _volume_in("pv2", "z2"), claim("pvc2", "pv2")],
        pending=[_P2],
        trigger=[relabelled("PersistentVolume", "pv2", unrelated="u")],
    ),
    Row(
        number="51",
        plugins=RESTRICTIONS,
        initial=[node(), volume("pv1")],
        pending=[_P1, _P2],
        trigger=[Create(claim("pvc1", "pv1", mode=RWOP))],
        requeued=P1,
    ),
    Row(
        number="52",
        plugins=RESTRICTIONS,
        initial=[
            node(),
            volume("pv1"),
            volume("pv2"),
            claim("pvc1", "pv1", mode=RWOP),
            claim("pvc2", "pv2", mode=RWOP),
            pod("bound", on="node1", claim="pvc1"),
            pod("other", on="node1", claim="pvc2"),
        ],
        pending=[pod("p2", claim="pvc1"), pod("p3", claim="pvc2")],
        trigger=[Delete("Pod", "bound")],
        requeued=P2,
    ),
    Row(
        number="53",
        plugins=BINDING,
        initial=[_zoned(zone="b"), volume("pv1", on=(ZONE, "a")), claim("pvc1", "pv1")],
        pending=[_P1],
        trigger=[Create(_zoned("node2", "a"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="54",
        plugins=BINDING,
        initial=[node(aaa="bbb"), volume("pv1", on=("aaa", "ccc")), claim("pvc1", "pv1")],
        pending=[_P1],
        trigger=[relabelled("Node", "node1", aaa="ccc")],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="55",
        plugins=BINDING,
        initial=[node(aaa="bbb"), volume("pv1", on=("aaa", "ccc")), claim("pvc1", "pv1")],
        pending=[_P1],
        trigger=[
            Delete("PersistentVolume", "pv1"),
            Create(volume("pv1", on=("aaa", "bbb"))),
        ],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="56",
        plugins=BINDING,
        initial=[_zoned(zone="a"), volume("pv1", on=(BETA_ZONE, "a")), claim("pvc1", "pv1")],
        pending=[_P1],
        trigger=[
            Patch("PersistentVolume", "pv1", {"spec": {"nodeAffinity": node_affinity(ZONE, "a")}})
        ],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="57",
        plugins=BINDING,
        initial=[node(), volume("pv1"), claim("pvc1"), claim("pvc2")],
        pending=[_P1, _P2],
        trigger=[Delete("PersistentVolumeClaim", "pvc1"), Create(claim("pvc1", "pv1"))],
        requeued=P1,
    ),
    Row(
        number="58",
        plugins=BINDING,
        initial=[node(), volume("pv1"), claim("pvc1"), claim("pvc2")],
        pending=[_P1, _P2],
        trigger=[_CLAIM_BOUND],
        requeued=P1,
    ),
    Row(
        number="59",
        plugins=BINDING,
        initial=_OF_CLASS,
        pending=[_P1],
        trigger=[Create(storage_class())],
        requeued=P1,
    ),
    Row(
        number="60a",
        plugins=BINDING,
        initial=[
            _zoned(zone="a"),
            claim("pvc1", storage_class="sc1"),
            storage_class(delayed=True, zone="c"),
        ],
        pending=[_P1],
        trigger=[Patch("StorageClass", "sc1", {"allowedTopologies": topologies("a")})],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="60b",
        plugins=BINDING,
        initial=[
            _zoned(zone="a"),
            claim("pvc1", storage_class="sc1"),
            storage_class(delayed=True, zone="c"),
        ],
        pending=[_P1],
        trigger=[relabelled("StorageClass", "sc1", new="label")],
    ),
    Row(
        number="61",
        plugins=BINDING,
        initial=_UNBOUND,
        pending=[_P1],
        trigger=[Create(csi_node("node1"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="62",
        plugins=BINDING,
        initial=[*_UNBOUND, csi_node("node1")],
        pending=[_P1],
        trigger=[Patch("CSINode", "node1", {"metadata": {"annotations": {MIGRATED: "x"}}})],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="63a",
        plugins=BINDING,
        initial=[*_UNBOUND, csi_driver("example.com", capacity=True)],
        pending=[pod("p1", claim="pvc1", volumes=[_IN_LINE])],
        trigger=[Patch("CSIDriver", "example.com", {"spec": {"storageCapacity": False}})],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="63b",
        plugins=BINDING,
        initial=[*_UNBOUND, csi_driver("example.com", capacity=False)],
        pending=[pod("p1", claim="pvc1", volumes=[_IN_LINE])],
        trigger=[Patch("CSIDriver", "example.com", {"spec": {"storageCapacity": True}})],
    ),
    Row(
        number="64a",
        plugins=BINDING,
        initial=[*_OF_CLASS, storage_class()],
        pending=[_P1],
        trigger=[Create(csi_capacity("capacity", "10"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="64b",
        plugins=BINDING,
        initial=[*_OF_CLASS, storage_class(), csi_capacity("capacity", "10")],
        pending=[_P1],
        trigger=[Patch("CSIStorageCapacity", "capacity", {"capacity": "20"})],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="64c",
        plugins=BINDING,
        initial=[*_OF_CLASS, storage_class(), csi_capacity("capacity", "10")],
        pending=[_P1],
        trigger=[Patch("CSIStorageCapacity", "capacity", {"capacity": "5"})],
    ),
    Row(
        number="65a",
        plugins=LIMITS,
        initial=[
            node(),
            csi_node("node1", csi_example=0),
            volume("pv1", driver="csi.example"),
            claim("pvc1", "pv1"),
        ],
        pending=[_P1],
        trigger=[Create(csi_node("node2", csi_example=0))],
        requeued=P1,
    ),
    Row(
        number="65b",
        plugins=LIMITS,
        initial=[*_LIMITED, claim("pvc2", "pv2")],
        pending=[_P2],
        trigger=[Delete("Pod", "bound")],
        requeued=P2,
        mode="B",
    ),
    Row(
        number="65c",
        plugins=LIMITS,
        initial=_LIMITED,
        pending=[_P2],
        trigger=[Create(claim("pvc2", "pv2"))],
        requeued=P2,
    ),
    Row(
        number="66",
        plugins=(),
        initial=[
            node(),
            csi_node("node1", csi_example=0),
            volume("pv1", driver="csi.example"),
            claim("pvc1", "pv1"),
            attachment("attached", "csi.example"),
        ],
        pending=[_P1],
        rejected_by={"p1": frozenset(LIMITS)},
        trigger=[Delete("VolumeAttachment", "attached")],
        requeued=P1,
    ),
    Row(
        number="67",
        plugins=(),
        initial=[
            node(),
            csi_node(
                "node1",
                "kubernetes.io/aws-ebs,kubernetes.io/gce-pd",
                **{EBS: 0, PD: 0},
            ),
            attachment("ebs", EBS),
            attachment("pd", PD),
        ],
        pending=[
            pod("p1", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "v1"}}]),
            pod("p2", volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "v2"}}]),
        ],
        rejected_by={"p1": frozenset(LIMITS), "p2": frozenset(LIMITS)},
        trigger=[Delete("VolumeAttachment", "ebs")],
        requeued=P1,
    ),
)
