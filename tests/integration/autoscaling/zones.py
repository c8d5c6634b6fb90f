"""Two zones, a pod that spreads strictly over them, and an ordered log of events and conditions."""

from __future__ import annotations

from typing import Any

from devtools.embedded_service import node, pod
from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from simulator.store import StoreChange

GATE = "PodTopologySpreadFallbackMode"
ANNOTATION = "kubestow.io/topology-spread-fallback"
ZONE = "topology.kubernetes.io/zone"
NPF = "NodeProvisioningFailed"
PROVISIONING = "NodeProvisioningInProgress"
FALLBACK = "kubestow.io/TopologySpreadFallback"


def group(**fields: Any) -> JsonObject:
    """The node group of the full zone."""
    template = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"name": "z2", "zone": "z2", "template": template, "provisionSeconds": 20, **fields}


def populate(cluster: EmbeddedCluster) -> None:
    """Create a node with room and a pod in Z1, and a node without room in Z2."""
    cluster.create(node("n1", labels={ZONE: "z1"}))
    cluster.create(node("n2", "1", labels={ZONE: "z2"}))
    cluster.create(labelled(pod("first", nodeName="n1")))
    filler = pod("filler", nodeName="n2")
    cluster.create(filler)


def labelled(made: JsonObject) -> JsonObject:
    made["metadata"]["labels"] = {"app": "a"}
    return made


def constraint(**fields: Any) -> JsonObject:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **fields,
    }


def spread_pod(name: str, *, native: bool = False) -> JsonObject:
    """A pod with the criterion NodeProvisioningFailed, in the field or in the annotation."""
    fields = {"fallbackCriteria": [NPF]} if native else {}
    made = labelled(pod(name, topologySpreadConstraints=[constraint(**fields)]))
    if not native:
        made["metadata"]["annotations"] = {ANNOTATION: f"{ZONE}={NPF}"}
    return made


class History:
    """Events and conditions of one pod in the order in which they were written."""

    def __init__(self, cluster: EmbeddedCluster, name: str) -> None:
        self.steps: list[str] = []
        self._name = name
        cluster.store.subscribe("pods", self._pod)
        cluster.store.subscribe("events", self._event)

    def _note(self, step: str) -> None:
        if step not in self.steps:
            self.steps.append(step)

    def _event(self, _table: str, change: StoreChange) -> None:
        event = change.version.obj
        source = (event.get("source") or {}).get("component")
        if source in ("cluster-autoscaler", "karpenter"):
            self._note(event["reason"])

    def _pod(self, _table: str, change: StoreChange) -> None:
        obj = change.version.obj
        if change.version.name != self._name:
            return
        for each in obj["status"].get("conditions") or []:
            if each["type"] == PROVISIONING:
                self._note(f"{PROVISIONING}={each['status']}")
            if (each["type"], each["status"]) == ("PodScheduled", "False"):
                self._note(str(each["reason"]))
        if obj["spec"].get("nodeName"):
            self._note(f"bound to {obj['spec']['nodeName']}")

    def in_order(self, *wanted: str) -> bool:
        """Whether the history contains these entries in this order."""
        try:
            places = [self.steps.index(step) for step in wanted]
        except ValueError:
            return False
        return places == sorted(places)
