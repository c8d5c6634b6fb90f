"""Events as cluster-autoscaler 1.36 and Karpenter write them, and what the bridge makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from devtools.embedded_service import find, pod
from scheduler.controllers.node_provisioning.ownership import CONDITION
from simulator import EmbeddedCluster
from simulator.admission import WriteOptions
from simulator.objects import JsonObject

ZONE: Final = "topology.kubernetes.io/zone"
FALLBACK: Final = {"kubestow.io/topology-spread-fallback": f"{ZONE}=NodeProvisioningFailed"}
SPREAD: Final = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
]

NOT_TRIGGERED: Final = (
    "pod didn't trigger scale-up: 3 node(s) didn't match Pod's node affinity/selector, "
    "1 in backoff after failed scale-up"
)
TRIGGERED: Final = "pod triggered scale-up: [{group-z2 1->2 (max: 5)}]"

_numbers: Final = itertools.count()


def waiting_pod(name: str = "a", **spec: Any) -> JsonObject:
    """A pod that no node takes, with the criterion."""
    made = pod(name, topologySpreadConstraints=SPREAD, **spec)
    made["metadata"] |= {"labels": {"app": "a"}, "annotations": dict(FALLBACK)}
    return made


def at(seconds: float = 0.0) -> str:
    """RFC 3339, so many seconds from now."""
    time = datetime.now(UTC) + timedelta(seconds=seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def event(
    about: Mapping[str, Any],
    reason: str,
    message: str,
    *,
    source: str = "cluster-autoscaler",
    time: str | None = None,
    count: int = 1,
) -> JsonObject:
    """A core/v1 event of the legacy recorder."""
    meta = about["metadata"]
    namespace = meta.get("namespace", "default")
    time = time or at()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{next(_numbers)}", "namespace": namespace},
        "involvedObject": {
            "kind": about["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta.get("uid", ""),
        },
        "reason": reason,
        "message": message,
        "source": {"component": source},
        "type": "Normal",
        "count": count,
        "firstTimestamp": time,
        "lastTimestamp": time,
    }


def status_object(name: str = "cluster-autoscaler-status") -> JsonObject:
    """Return the object of events about node groups; it need not exist."""
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}}


def claim(name: str) -> JsonObject:
    """A NodeClaim; its events lie in namespace default."""
    return {"kind": "NodeClaim", "metadata": {"name": name}}


def emit(cluster: EmbeddedCluster, obj: JsonObject) -> JsonObject:
    """Store an event."""
    return cluster.create(obj)


def repeat(cluster: EmbeddedCluster, stored: JsonObject, **changes: object) -> None:
    """Count an event again, as the recorder does: the same object, patched."""
    meta = stored["metadata"]
    resource = cluster.resources.of_kind("v1", "Event")
    body = {"count": int(stored["count"]) + 1, "lastTimestamp": at(), **changes}
    cluster.api.patch(
        resource, meta["namespace"], meta["name"], body, "merge-patch+json", WriteOptions()
    )


def condition(cluster: EmbeddedCluster, name: str = "a") -> JsonObject:
    """Return the pod's condition NodeProvisioningInProgress; empty without one."""
    found = find(cluster, name) or {}
    for each in found.get("status", {}).get("conditions", ()):
        if each["type"] == CONDITION:
            return dict(each)
    return {}


def shown(cluster: EmbeddedCluster, name: str = "a") -> tuple[str, str]:
    """Return status and reason of the condition; both empty without it."""
    found = condition(cluster, name)
    return str(found.get("status", "")), str(found.get("reason", ""))
