"""Status that a fake kubelet reports for its node: conditions, capacity, allocatable.

Pure, as `kubelet`: nodes and times in, objects and patches out. A node is alive for the node
lifecycle controller as long as its Lease is renewed; its status changes only when something in it
has to.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from simulator.objects import JsonObject, dig, format_time

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
"""`leaseDurationSeconds` of a kubelet."""
RENEW_SECONDS: Final = 10.0
"""How often a kubelet renews: a quarter of the duration."""

SIMULATED_LABEL: Final = "kubestow.io/simulated"
"""On every node that this registers: no machine is behind it."""

READY_REASON: Final = "KubeletReady"
READY_MESSAGE: Final = "kubelet is posting ready status"

_PRESSURES: Final = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}


class NodeTemplate(NamedTuple):
    """A node as its kubelet registers it."""

    name: str
    address: str
    zone: str = ""
    cpu: str = "8"
    memory: str = "32Gi"
    ephemeral_storage: str = "100Gi"
    pods: str = "110"
    version: str = "v1.37.2"


def registration(template: NodeTemplate, now: float) -> JsonObject:
    """Build the Node object that a kubelet creates, ready from the start."""
    labels = {
        "kubernetes.io/hostname": template.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        SIMULATED_LABEL: "true",
    }
    if template.zone:
        labels["topology.kubernetes.io/zone"] = template.zone
        labels["topology.kubernetes.io/region"] = "simulated"
    capacity = {
        "cpu": template.cpu,
        "memory": template.memory,
        "ephemeral-storage": template.ephemeral_storage,
        "pods": template.pods,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": template.name, "labels": labels},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": template.address},
                {"type": "Hostname", "address": template.name},
            ],
            "nodeInfo": {
                "kubeletVersion": template.version,
                "operatingSystem": "linux",
                "architecture": "amd64",
                "containerRuntimeVersion": "simulated://1.0.0",
                "kernelVersion": "simulated",
                "osImage": "simulated",
                "machineID": template.name,
                "systemUUID": template.name,
                "bootID": template.name,
                "kubeProxyVersion": "",
            },
        },
    }


def conditions(now: float) -> list[JsonObject]:
    """Return the conditions of a healthy node."""
    stamp = format_time(now)
    times = {"lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    return [
        *(
            {"type": name, "status": "False", "reason": reason, **times}
            for name, reason in _PRESSURES.items()
        ),
        {
            "type": "Ready",
            "status": "True",
            "reason": READY_REASON,
            "message": READY_MESSAGE,
            **times,
        },
    ]


def correction(node: JsonObject, now: float) -> JsonObject | None:
    """Build the merge patch of the status that a kubelet would send for `node`; None if none.

    Allocatable follows capacity, extended resources that others add to it or take away included;
    a node that somebody called not ready is ready again.
    """
    patch: JsonObject = {}
    capacity = dig(node, "status", "capacity") or {}
    allocatable = dig(node, "status", "allocatable") or {}
    if capacity != allocatable:
        gone: dict[str, Any] = {name: None for name in allocatable if name not in capacity}
        patch["allocatable"] = {**capacity, **gone}
    if not _is_ready(node):
        mine = conditions(now)
        types = {one["type"] for one in mine}
        foreign = [
            one for one in dig(node, "status", "conditions") or () if one.get("type") not in types
        ]
        patch["conditions"] = [*foreign, *mine]
    return patch or None


def _is_ready(node: JsonObject) -> bool:
    return any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in dig(node, "status", "conditions") or ()
    )


def lease(node: JsonObject, renewed: str) -> JsonObject:
    """Build a node's Lease, renewed at `renewed` (a MicroTime); it is deleted with the node."""
    name = node["metadata"]["name"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            ],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": renewed,
        },
    }
