"""A small cluster for the autoscaler's tests: two zones, time that the test turns."""

from __future__ import annotations

from typing import Any

from simulator.api import MERGE_PATCH, STRATEGIC_PATCH, Api
from simulator.clock import SimClock
from simulator.controllers.autoscaler import Autoscaler
from simulator.controllers.autoscaler_groups import parse_settings
from simulator.gates import FALLBACK_GATE, ServerGates
from simulator.objects import JsonObject
from simulator.store import Version
from simulator.strategies import Surroundings

ZONE = "topology.kubernetes.io/zone"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def group(name: str, **fields: Any) -> JsonObject:
    """A group of nodes with four CPUs, in a zone of its own name."""
    template = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {"name": name, "zone": name, "template": template, **fields}


def spread(criteria: list[str] | None = None, **fields: object) -> JsonObject:
    """The strict zone constraint of app=a."""
    made: JsonObject = {
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}, **fields,
    }  # fmt: skip
    return made if criteria is None else {**made, "fallbackCriteria": criteria}


class Town:
    """The API, an autoscaler on it, and shorthands."""

    def __init__(self, api: Api, clock: SimClock) -> None:
        self.api = api
        self.clock = clock
        self.gates = ServerGates("stock")
        api.around = Surroundings(api.store, clock, "stock", self.gates)
        self.autoscaler = Autoscaler(api, lambda: self.gates.enabled(FALLBACK_GATE))
        self._row = api.resources.of_kind
        api.create(
            self._row("v1", "Namespace"), "",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}},
        )  # fmt: skip

    def go_native(self) -> None:
        """Have API server and autoscaler know KEP-3990."""
        self.gates.change({FALLBACK_GATE: True})

    def configure(self, *groups: JsonObject, **settings: Any) -> None:
        self.autoscaler.configure(parse_settings({"groups": list(groups), **settings}))

    def node(self, name: str, zone: str, cpu: str = "4", **spec: object) -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        body: JsonObject = {
            "metadata": {"name": name, "labels": {ZONE: zone, "kubernetes.io/hostname": name}},
            "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        self.api.create(self._row("v1", "Node"), "", body)

    def pod(
        self, name: str, node: str = "", *, cpu: str = "1", waiting: bool = True, **spec: Any
    ) -> None:
        """A pod of app=a: on a node, or called Unschedulable, or not looked at yet."""
        requests = {"requests": {"cpu": cpu}}
        spec = {"containers": [{"name": "c", "image": "i", "resources": requests}], **spec}
        if node:
            spec["nodeName"] = node
        body = {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}
        self.api.create(self._row("v1", "Pod"), "default", body)
        if waiting and not node:
            self.status(name, conditions=[dict(UNSCHEDULABLE)])

    def status(self, name: str, **status: Any) -> None:
        self.api.patch(
            self._row("v1", "Pod"), "default", name, {"status": status}, STRATEGIC_PATCH,
            subresource="status",
        )  # fmt: skip

    def patch_pod(self, name: str, patch: JsonObject) -> None:
        self.api.patch(self._row("v1", "Pod"), "default", name, patch, MERGE_PATCH)

    def pass_time(self, seconds: float) -> None:
        """Turn the clock in steps of a second, working at each."""
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            self.autoscaler.work(self.clock.now(), 1)

    def events(self, kind: str = "", name: str = "") -> list[tuple[str, str]]:
        """(reason, message) of events in the order they were written."""
        found: list[Version] = sorted(self.api.store.items("events"), key=lambda each: each.rv)
        return [
            (each.obj["reason"], each.obj["message"])
            for each in found
            if not kind or each.obj["involvedObject"]["kind"] == kind
            if not name or each.obj["involvedObject"]["name"] == name
        ]

    def reasons(self, kind: str = "") -> list[str]:
        return [reason for reason, _ in self.events(kind)]

    def nodes(self) -> list[str]:
        return [each.name for each in self.api.store.items("nodes")]

    def condition(self, name: str) -> tuple[str, str] | None:
        """Status and reason of NodeProvisioningInProgress."""
        pod = self.api.get(self._row("v1", "Pod"), "default", name).obj
        for each in pod["status"].get("conditions") or []:
            if each["type"] == "NodeProvisioningInProgress":
                return each["status"], each["reason"]
        return None
