"""The objects of the story `kubestow demo gpu-queue`: ten GPU jobs, eight GPUs of quota.

Nodes have twelve GPUs, so that it is the quota which holds pods, never the nodes. Pure data. The
manifests in examples/gpu-queue are these objects without the nodes; a test compares them.
"""

from __future__ import annotations

from typing import Final

from simulator.controllers.kubelet import RUN_SECONDS
from simulator.controllers.kueue import ADMISSION_GATE, QUEUE_LABEL, KueueSettings
from simulator.objects import JsonObject

NAMESPACE: Final = "gpu-queue"
GPU: Final = "nvidia.com/gpu"
KEY: Final = "deferred.kubestow.io/requests.nvidia.com_gpu"
QUOTA: Final = "gpu-queue-deferred"
JOBS: Final = 10
LIMIT: Final = 8
POOL: Final = "example.com/pool"
_NODES: Final = 3
_GPUS_PER_NODE: Final = 4
_SECONDS: Final = 6
_FIRST_SECONDS: Final = 5
"""The first job ends before the others, so that the two that are held are released one by one."""

KUEUE: Final = KueueSettings(batch=2, every_seconds=0.4, node_selector={POOL: "gpu"})
"""Two jobs at a time, told to run on the GPU nodes in the patch that lets them go."""


def nodes() -> list[JsonObject]:
    """Three nodes with four GPUs each."""
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", GPU: str(_GPUS_PER_NODE)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, POOL: "gpu"},
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        for name in (f"gpu-{number}" for number in range(1, _NODES + 1))
    ]


def namespace() -> list[JsonObject]:
    """Return the namespace, its deferred quota, and a strict one."""
    labels = {"kubestow.io/deferred-quota": "enforced"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": labels},
        },
        _quota(QUOTA, {KEY: str(LIMIT)}, {"kubestow.io/deferred-quota": "true"}),
        _quota("gpu-queue-strict", {"pods": "50"}, {}),
    ]


def _quota(name: str, hard: JsonObject, labels: JsonObject) -> JsonObject:
    meta: JsonObject = {"name": name, "namespace": NAMESPACE}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def jobs() -> list[JsonObject]:
    """Ten jobs of one GPU each, queued: their pods are born gated."""
    return [
        _job(f"train-{number}", _SECONDS if number > 1 else _FIRST_SECONDS)
        for number in range(1, JOBS + 1)
    ]


def _job(name: str, seconds: int) -> JsonObject:
    container = {
        "name": "train",
        "image": "busybox:1.37",
        "command": ["sleep", str(10 * seconds)],
        "resources": {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "template": {
                "metadata": {
                    "labels": {QUEUE_LABEL: "team"},
                    "annotations": {RUN_SECONDS: str(seconds)},
                },
                "spec": {
                    "schedulerName": "kubestow",
                    "restartPolicy": "Never",
                    "schedulingGates": [{"name": ADMISSION_GATE}],
                    "containers": [container],
                },
            }
        },
    }
