"""A cluster in virtual time whose profile has GangScheduling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from plugins import GangScheduling
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.testing import Cluster, node, pod

RACK = "example.com/rack"


class GangCluster(Cluster):
    """Nodes of 4 CPU, and members of 2 CPU unless a test says otherwise."""

    def __init__(
        self, nodes: int = 2, *others: Any, seed: int = 0, args: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(seed=seed)
        self._numbers: Counter[str] = Counter()
        # Most tests are about what comes after that.
        self.enable(GangScheduling, {"assembleFor": "0s", **(args or {})})
        for other in others:
            self.enable(other)
        for number in range(nodes):
            self.add_node(node(f"n{number}", cpu=4))

    def add_group(self, minimum: int, name: str = "g", **metadata: Any) -> None:
        """Add or replace a PodGroup."""
        self.add(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "default", **metadata},
                "spec": {"minMember": minimum},
            }
        )

    def add_native_group(
        self,
        minimum: int,
        name: str = "g",
        *,
        version: str = "v1alpha2",
        metadata: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        """Add or replace a PodGroup of the built-in API; a minimum of 0 makes a basic group."""
        policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
        self.add(
            {
                "apiVersion": f"scheduling.k8s.io/{version}",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "default", **(metadata or {})},
                "spec": {"schedulingPolicy": policy, **spec},
            }
        )

    def add_native_members(self, count: int = 1, group: str = "g", **fields: Any) -> list[str]:
        """Add pods whose `spec.schedulingGroup` names a group."""
        spec = {"schedulingGroup": {"podGroupName": group}, **fields.pop("spec", {})}
        found: list[str] = []
        for _ in range(count):
            number = self._numbers[f"native {group}"]
            self._numbers[f"native {group}"] += 1
            template = pod(f"{group}-native-{number}", cpu=2, spec=spec, **fields)
            found += self.add_pods(template)
        return found

    def add_members(
        self, count: int = 1, group: str = "g", *, name: str = "", cpu: float = 2, **fields: Any
    ) -> list[str]:
        """Add pods with the label of a group."""
        labels: Mapping[str, str] = {POD_GROUP_LABEL: group, **fields.pop("labels", {})}
        stem = name or f"{group}-pod"
        found: list[str] = []
        for _ in range(count):
            number = self._numbers[stem]
            self._numbers[stem] += 1
            template = pod(f"{stem}-{number}", cpu=cpu, labels=labels, **fields)
            found += self.add_pods(template)
        return found

    def bound(self, prefix: str = "") -> dict[str, str]:
        """Return the node of each bound pod whose name begins with `prefix`."""
        self.tick(0.2)
        placements = self.world.placements().items()
        return {key: where for key, where in placements if key.startswith(f"default/{prefix}")}

    def message(self, key: str) -> str:
        """Return why a pod waits."""
        self.tick(2)
        return next(each.reason for each in self.world.waiting() if each.pod == key)

    def validate(self) -> None:
        """Check cache, queue and groups."""
        scheduler = self.world._assembly
        scheduler.state.cache.validate()
        scheduler.scheduling.queue.validate()
        assert self.plugin("GangScheduling").gangs.groups.validate() == []


def notes(cluster: GangCluster, reason: str) -> list[str]:
    """Return the texts of the Events with a reason, in order."""
    return [each.note for each in cluster.events if each.reason == reason]


def racks(*sizes: int) -> GangCluster:
    """Return a cluster with as many nodes of 4 CPUs in each rack."""
    cluster = GangCluster(nodes=0)
    for rack, size in enumerate(sizes):
        for number in range(size):
            cluster.add_node(node(f"r{rack}-{number}", cpu=4, labels={RACK: f"r{rack}"}))
    return cluster
