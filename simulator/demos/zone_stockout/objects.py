"""The cluster and the workload of the story "a zone is sold out" (KEP-3990), as plain objects.

Two zones with a node each; the node group of the second zone cannot grow, because the cloud has
nothing left there. The Deployment spreads strictly and says when that may soften. It is the one in
examples/zone-stockout, where it can be applied to a real cluster; a test keeps the two equal.
"""

from __future__ import annotations

from typing import Final

from simulator.controllers.autoscaler_groups import Flavor, Settings, parse_settings
from simulator.objects import JsonObject

ANNOTATION: Final = "kubestow.io/topology-spread-fallback"
ZONE: Final = "topology.kubernetes.io/zone"
CRITERION: Final = "NodeProvisioningFailed"
NAME: Final = "checkout"
REPLICAS: Final = 8
ROOMY, SOLD_OUT = "eu-1a", "eu-1b"

DEPLOYMENT: Final[JsonObject] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": NAME, "labels": {"app": NAME}},
    "spec": {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": NAME}},
        "template": {
            "metadata": {
                "labels": {"app": NAME},
                "annotations": {ANNOTATION: f"{ZONE}={CRITERION}"},
            },
            "spec": {
                "schedulerName": "kubestow",
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": NAME}},
                    }
                ],
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.k8s.io/pause:3.10",
                        "resources": {"requests": {"cpu": "1", "memory": "128Mi"}},
                    }
                ],
            },
        },
    },
}

AUTOSCALER: Final[JsonObject] = {
    "groups": [
        {
            "name": "zone-b",
            "zone": SOLD_OUT,
            "max": 5,
            "state": "stockout",
            "provisionSeconds": 30,
            "template": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        }
    ]
}


def node(zone: str, cpu: str) -> JsonObject:
    """Build the node of a zone."""
    name = f"node-{zone}"
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone, "kubernetes.io/hostname": name}},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def nodes() -> list[JsonObject]:
    """Room for everything in one zone, for two pods in the other."""
    return [node(ROOMY, "12"), node(SOLD_OUT, "2")]


def autoscaler(flavor: Flavor = "cluster-autoscaler") -> Settings:
    """Return the settings of the simulated autoscaler."""
    return parse_settings({**AUTOSCALER, "flavor": flavor})
