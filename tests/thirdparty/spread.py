"""Pods that spread over zones with KEP-3990's fallback, and their history.

    with SpreadStory(cluster, "name") as story:
        story.first()          # binds in zone-a, which has room
        story.replica("next")  # belongs into zone-b, which is full

Every version of the pods is kept, so that a state that lasted for a moment only is seen as well.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final, Self

from tests.envtest.workload import Workload, until
from tests.thirdparty.cluster import Cluster

Json = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
FALLBACK: Final = "kubestow.io/topology-spread-fallback"
CONDITION: Final = "NodeProvisioningInProgress"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
CRITERION: Final = f"{ZONE}=NodeProvisioningFailed"
SLACK_SECONDS: Final = 60.0
"""What a loaded machine may add to a documented delay."""

StatusAndReason = tuple[str, str]
"""Status and reason of the condition."""


class SpreadStory(Workload):
    """Zone a with room and zone b without, for the pods of one test."""

    def __init__(self, cluster: Cluster, name: str, *, room: int = 16) -> None:
        """Prepare; `room` is the number of CPUs in zone a."""
        super().__init__(cluster.plane, name)
        self.cluster = cluster
        self._room = room
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self.cluster.namespace(self.namespace)
        super().__enter__()
        self.zone_node("static-a", "zone-a", self._room)
        self.zone_node("static-b", "zone-b", 0)
        self.follow()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.cluster.admin.request("DELETE", self._deployments)
            until(lambda: not self.cluster.items(self._replica_sets), "no controller of pods")
        finally:
            super().__exit__(*exception)

    def zone_node(self, name: str, zone: str, cpu: int) -> None:
        """Create a node in a zone; with 0 CPUs, it is there and has no room."""
        full = f"{self.namespace}-{name}"
        amounts = {"cpu": str(cpu or "1m"), "memory": "64Gi", "pods": "110"}
        self.cluster.node(full, amounts, {ZONE: zone, "story": self.namespace})
        self._nodes.append(full)

    def spec(self, cpu: str = "2") -> Json:
        """The spec of a replica."""
        constraint = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
        requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        return {
            "schedulerName": self.scheduler_name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": requests}],
            "nodeSelector": {"story": self.namespace},
            "topologySpreadConstraints": [constraint],
        }

    def replica(self, name: str, cpu: str = "2") -> None:
        """Create a pod that belongs into the zone with the fewest of them."""
        metadata = {
            "name": name,
            "labels": {"app": "spread"},
            "annotations": {FALLBACK: CRITERION},
        }
        self.cluster.create(f"{self._base}/pods", {"metadata": metadata, "spec": self.spec(cpu)})

    def deployment(self, name: str, replicas: int, cpu: str, *, node: str = "") -> None:
        """Create a deployment of such pods; of pods for one node only, if `node` is given."""
        spec = self.spec(cpu)
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": f"{self.namespace}-{node}"}
            del spec["topologySpreadConstraints"]
        metadata = {
            "labels": {"app": "pinned" if node else "spread", "name": name},
            "annotations": {} if node else {FALLBACK: CRITERION},
        }
        self.cluster.create(
            self._deployments,
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"name": name}},
                    "template": {"metadata": metadata, "spec": spec},
                },
            },
        )

    def scale(self, name: str, replicas: int) -> None:
        """Change the number of replicas of a deployment."""
        patch = {"spec": {"replicas": replicas}}
        self.cluster.admin.request("PATCH", f"{self._deployments}/{name}", patch)

    def thin_out(self, name: str) -> None:
        """Leave one pod of a deployment on each node; wait until the others are deleted."""
        ready = {key: pod["spec"]["nodeName"] for key, pod in self.pods().items()}
        kept = set({node: key for key, node in ready.items()}.values())
        cost = {"metadata": {"annotations": {DELETION_COST: "-1"}}}
        until(lambda: all(is_true(pod, "Ready") for pod in self.pods().values()), "pods are ready")
        for key in ready.keys() - kept:
            self.cluster.admin.request("PATCH", f"{self._base}/pods/{key}", cost)
        self.scale(name, len(kept))
        until(lambda: set(self.pods()) == kept, "one pod on each node")

    @property
    def _deployments(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

    @property
    def _replica_sets(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"

    def on_nodes(self) -> Counter[str]:
        """Return the number of pods by node; pods without a node and terminating ones count."""
        return Counter(
            "leaving" if "deletionTimestamp" in pod["metadata"] else pod["spec"].get("nodeName", "")
            for pod in self.pods().values()
        )

    def in_zones(self) -> Counter[str]:
        """Return the number of pods by zone, counted as in `on_nodes`."""
        zones: Counter[str] = Counter()
        for node, count in self.on_nodes().items():
            zones[self.zone_of(node) if node not in ("", "leaving") else node] += count
        return zones

    def softened(self) -> set[str]:
        """Return the pods whose constraint ever became soft."""
        return {event["regarding"]["name"] for event in self.events("TopologySpreadFallback")}

    def first(self, name: str = "first") -> None:
        """Create a replica that finds room in zone a."""
        self.replica(name)
        assert self.zone_of(self.until_bound(name)[name]) == "zone-a"

    def zone_of(self, node: str) -> str:
        """Return the zone of a node."""
        labels = self.cluster.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
        return str(labels[ZONE])

    def until_placed(self, name: str, *, patience: float = 120.0) -> str:
        """Wait until a pod is bound; return its zone."""
        until(lambda: name in self.bound(), f"{name} bound", patience=patience)
        return self.zone_of(self.bound()[name])

    def provisioning(self, name: str) -> StatusAndReason:
        """Return status and reason of the current condition of a pod."""
        return _provisioning(self.pods()[name])

    def until_provisioning(
        self, name: str, expected: StatusAndReason, *, patience: float = 120.0
    ) -> None:
        """Wait until the condition of a pod has this status and reason."""
        until(lambda: self.provisioning(name) == expected, f"{name}: {expected}", patience=patience)

    def provisioning_history(self, name: str) -> list[StatusAndReason]:
        """Return the conditions that a pod has had, in order, without repeats."""
        versions = [event["object"] for event in self.history()]
        found = [_provisioning(pod) for pod in versions if pod["metadata"]["name"] == name]
        return [each for each, _ in groupby(found) if each[0]]

    def report(self, what: str) -> None:
        """Print the time since the story began."""
        print(f"{self.namespace}: {time.monotonic() - self._started:6.1f} s  {what}")


def is_true(item: Mapping[str, Any], kind: str) -> bool:
    """Whether an object has a condition that is True."""
    conditions = item.get("status", {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _provisioning(pod: Json) -> StatusAndReason:
    for each in pod["status"].get("conditions") or ():
        if each["type"] == CONDITION:
            return each["status"], each["reason"]
    return "", ""
