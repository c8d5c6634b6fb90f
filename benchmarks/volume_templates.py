"""Volumes, claims and CSINodes of upstream's workloads."""

from __future__ import annotations

from typing import Final

from benchmarks.templates import Object

CSI_DRIVER: Final = "ebs.csi.aws.com"


def _claim(name: str, volume: str, mode: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        },
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        },
    }


def volume(kind: str, namespace: str, index: int) -> tuple[Object, Object, str]:
    """A claim and the volume bound to it, and the claim's name; both report the phase Bound.

    `kind`: `csi` and `ebs` are read-only volumes of a CSI driver and of the in-tree source, `once`
    one that a single pod may use.
    """
    mode = "ReadWriteOncePod" if kind == "once" else "ReadOnlyMany"
    claim_name = f"once-{index}" if kind == "once" else f"pvc-{index}"
    name = f"{namespace}-vol-{kind}-{index}"
    source = {"csi": {"driver": CSI_DRIVER, "volumeHandle": name}}
    if kind == "ebs":
        source = {"awsElasticBlockStore": {"volumeID": name}}
    if kind == "once":
        source = {"hostPath": {"path": f"/tmp/{name}"}}  # noqa: S108 - no kubelet mounts it
    persistent = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim_name},
            **source,
        },
    }
    return _claim(claim_name, name, mode), persistent, claim_name


def csi_node(name: str, limits: dict[str, int]) -> Object:
    """Return a CSINode with the number of volumes each driver can attach."""
    drivers = [
        {"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers},
    }
