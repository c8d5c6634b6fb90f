"""Workloads by upstream's names (scheduler-perf facts, sections 5 and 6), as data.

Every object a workload creates is here as ready JSON, so that the load generator only sends bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Workload:
    """One upstream family with its sizes."""

    name: str
    nodes: int
    #: Pods created and bound before the window opens.
    init_pods: int
    #: Pods created inside the window.
    measured_pods: int

    def sized(self, nodes: int | None, init: int | None, measured: int | None) -> Workload:
        """The same family with other sizes; None keeps a size."""
        return Workload(
            self.name,
            self.nodes if nodes is None else nodes,
            self.init_pods if init is None else init,
            self.measured_pods if measured is None else measured,
        )


WORKLOADS: Final = {
    "SchedulingBasic": Workload("SchedulingBasic", nodes=5000, init_pods=1000, measured_pods=3000),
}

INIT_NAMESPACE: Final = "init"
MEASURED_NAMESPACE: Final = "measured"


def node_body(index: int) -> bytes:
    """Upstream's base node: 4 CPU, 32Gi, 110 pods."""
    name = f"scheduler-perf-{index:05d}"
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "conditions": [{"type": "Ready", "status": "True"}],
                "phase": "Running",
            },
        }
    )


def pod_body(index: int, namespace: str, scheduler_name: str) -> bytes:
    """Upstream's base pod: one pause container, 100m CPU, 500Mi, container port 80."""
    resources = {"cpu": "100m", "memory": "500Mi"}
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{index:06d}", "namespace": namespace},
            "spec": {
                "schedulerName": scheduler_name,
                "containers": [
                    {
                        "name": "pause",
                        "image": "registry.k8s.io/pause:3.10.1",
                        "ports": [{"containerPort": 80}],
                        "resources": {"requests": resources, "limits": resources},
                    }
                ],
            },
        }
    )


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
