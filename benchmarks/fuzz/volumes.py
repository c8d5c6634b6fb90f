"""Random storage: classes, drivers, limits, capacities, volumes and claims in every state."""

from __future__ import annotations

from typing import Any

from benchmarks.fuzz.drawing import ZONES, Draw
from benchmarks.fuzz.profiles import HOSTNAME, ZONE

Object = dict[str, Any]

DRIVERS = ("csi.one.io", "csi.two.io")
CLAIMS = 12
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_EBS = "kubernetes.io/aws-ebs"


def storage(draw: Draw, nodes: int) -> dict[str, list[Object]]:
    """Everything about volumes but the pods that use them."""
    claims, volumes = [], []
    for index in range(CLAIMS):
        claim, volume = _pair(draw, index, nodes)
        if draw.chance(0.95):
            claims.append(claim)
        if volume and draw.chance(0.95):
            volumes.append(volume)
    volumes += [_free(draw, index, nodes) for index in range(draw.number(0, 8))]
    return {
        "storageClasses": _classes(draw),
        "csiDrivers": [
            {"metadata": {"name": name}, "spec": {"storageCapacity": draw.chance(0.5)}}
            for name in DRIVERS
        ],
        "csiNodes": [_csi_node(draw, index) for index in range(nodes) if draw.chance(0.85)],
        "csiStorageCapacities": [_capacity(draw, index) for index in range(draw.number(0, 6))],
        "volumeAttachments": [
            _attachment(draw, index, nodes) for index in range(draw.number(0, 5))
        ],
        "persistentVolumeClaims": claims,
        "persistentVolumes": volumes,
    }


def pod_volumes(draw: Draw) -> list[Object]:
    """A pod's volumes."""
    found: list[Object] = []
    for index in range(draw.one(1, 1, 2, 3)):
        kind = draw.number(0, 15)
        if kind < 10:
            source: Object = {
                "persistentVolumeClaim": {"claimName": f"claim-{draw.number(0, CLAIMS - 1)}"}
            }
        elif kind < 11:
            source = {"emptyDir": {}}
        elif kind < 12:
            source = {"csi": {"driver": draw.one(*DRIVERS)}}
        elif kind < 13:
            source = {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        }
                    }
                }
            }
        elif kind < 14:
            source = {
                "gcePersistentDisk": {
                    "pdName": draw.one("disk-1", "disk-2"),
                    "readOnly": draw.chance(0.5),
                }
            }
        elif kind < 15:
            source = {
                "rbd": {
                    "monitors": draw.some(["m1", "m2", "m3"], 2, 1),
                    "image": "i",
                    "pool": draw.one("p", "q"),
                    "readOnly": draw.chance(0.5),
                }
            }
        else:
            source = {draw.one("awsElasticBlockStore"): {"volumeID": draw.one("vol-1", "vol-2")}}
        found.append({"name": f"v{index}", **source})
    return found


def _classes(draw: Draw) -> list[Object]:
    found = []
    for name, mode in (
        ("now", "Immediate"), ("later", "WaitForFirstConsumer"), ("zonal", "WaitForFirstConsumer"),
        ("local", "WaitForFirstConsumer"), ("ebs", "WaitForFirstConsumer"),
    ):  # fmt: skip
        if draw.chance(0.05):
            continue
        provisioner = {"local": "kubernetes.io/no-provisioner", "ebs": _EBS}.get(
            name, draw.one(*DRIVERS)
        )
        each: Object = {
            "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
        }  # fmt: skip
        if name == "zonal":
            each["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": ZONE, "values": draw.some(ZONES, 2, 1)}]}
            ]
        found.append(each)
    return found


def _csi_node(draw: Draw, index: int) -> Object:
    drivers = []
    for name in (*DRIVERS, "ebs.csi.aws.com"):
        if draw.chance(0.8):
            each: Object = {"name": name, "nodeID": f"node-{index:02d}", "topologyKeys": [ZONE]}
            if draw.chance(0.7):
                each["allocatable"] = {"count": draw.number(0, 3)}
            drivers.append(each)
    metadata: Object = {"name": f"node-{index:02d}"}
    if draw.chance(0.5):
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": _EBS}
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def _capacity(draw: Draw, index: int) -> Object:
    found: Object = {
        "metadata": {"name": f"capacity-{index}", "namespace": "default"},
        "storageClassName": draw.one("later", "zonal"),
        "nodeTopology": draw.one(
            {}, {"matchLabels": {ZONE: draw.one(*ZONES)}},
            {"matchExpressions": [draw.expression(ZONE, ZONES)]},
        ),
        "capacity": draw.one("0", "1Gi", "5Gi", "100Gi"),
    }  # fmt: skip
    if draw.chance(0.3):
        found["maximumVolumeSize"] = draw.one("1Gi", "4Gi", "50Gi")
    return found


def _attachment(draw: Draw, index: int, nodes: int) -> Object:
    return {
        "metadata": {"name": f"attachment-{index}"},
        "spec": {
            "attacher": draw.one(*DRIVERS), "nodeName": f"node-{draw.number(0, nodes - 1):02d}",
            "source": {"persistentVolumeName": f"pv-{draw.number(0, CLAIMS)}"},
        },
    }  # fmt: skip


def _pair(draw: Draw, index: int, nodes: int) -> tuple[Object, Object | None]:
    """A claim, and the volume it is bound to if it is."""
    mode = draw.one(
        "ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"
    )
    space, name = draw.space(), f"claim-{index}"
    claim: Object = {
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": draw.one("1Gi", "3Gi", "10Gi")}},
            "storageClassName": draw.one(
                "now", "later", "later", "zonal", "local", "local", "ebs", "nosuch", ""
            ),
        },
    }
    if draw.chance(0.15):
        claim["spec"]["selector"] = {"matchLabels": {"kind": draw.one("fast", "slow")}}
    if draw.chance(0.1):
        claim["spec"]["volumeMode"] = "Block"
    if draw.chance(0.06):
        claim["metadata"]["finalizers"] = ["example.com/hold"]
        claim["metadata"]["deletionTimestamp"] = "now"
    if draw.chance(0.06):
        # The older way to name a class.
        claim["metadata"]["annotations"] = {
            "volume.beta.kubernetes.io/storage-class": claim["spec"].pop("storageClassName")
        }
    elif draw.chance(0.04):
        claim["metadata"]["annotations"] = {
            "volume.kubernetes.io/selected-node": f"node-{draw.number(0, nodes):02d}"
        }
    if draw.chance(0.5):
        return claim, None
    claim["spec"]["volumeName"] = f"pv-{index}"
    if draw.chance(0.95):
        annotations = claim["metadata"].setdefault("annotations", {})
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    claim["status"] = {"phase": "Bound" if draw.chance(0.93) else "Lost"}
    volume = _volume(draw, f"pv-{index}", nodes)
    volume["spec"]["accessModes"] = [mode]
    volume["spec"]["storageClassName"] = claim["spec"].get("storageClassName", "now")
    volume["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim", "namespace": space, "name": name, "uid": "claim",
    }  # fmt: skip
    return claim, volume


def _free(draw: Draw, index: int, nodes: int) -> Object:
    """A volume that waits for a claim, or for a certain one."""
    volume = _volume(draw, f"free-{index}", nodes)
    if draw.chance(0.2):
        volume["spec"]["claimRef"] = {
            "kind": "PersistentVolumeClaim", "namespace": draw.space(),
            "name": f"claim-{draw.number(0, CLAIMS - 1)}",
        }  # fmt: skip
    volume["status"] = {"phase": draw.one("Available", "Available", "Available", "Released")}
    return volume


def _volume(draw: Draw, name: str, nodes: int) -> Object:
    source: Object = {"csi": {"driver": draw.one(*DRIVERS), "volumeHandle": name}}
    if draw.chance(0.15):
        source = {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
    elif draw.chance(0.1):
        source = {"hostPath": {"path": "/x"}}
    volume: Object = {
        "metadata": {"name": name, "labels": {}},
        "spec": {
            "capacity": {"storage": draw.one("1Gi", "2Gi", "5Gi", "20Gi")},
            "accessModes": draw.some(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"], 3, 1),
            "storageClassName": draw.one("local", "local", "later", "zonal", "now", ""),
            **source,
        },
    }
    if draw.chance(0.3):
        volume["metadata"]["labels"]["kind"] = draw.one("fast", "slow")
    if draw.chance(0.3):
        volume["metadata"]["labels"][draw.one(ZONE, ZONE, BETA_ZONE)] = draw.one("a", "b", "a__b")
    if draw.chance(0.1):
        volume["spec"]["volumeMode"] = "Block"
    if draw.chance(0.5):
        key, values = draw.one(
            (ZONE, draw.some(ZONES, 2, 1)), (HOSTNAME, [f"node-{draw.number(0, nodes - 1):02d}"])
        )
        volume["spec"]["nodeAffinity"] = {
            "required": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {
                                "key": key,
                                "operator": draw.one("In", "In", "NotIn"),
                                "values": values,
                            }
                        ]
                    }
                ]
            }
        }
    return volume
