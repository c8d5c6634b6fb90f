"""Random pods with spread constraints, affinity terms and ports, in small clusters full of ties.

Made from a seed rather than drawn part by part: a run then tries hundreds of dense clusters a
second, which finds more than shrinking would tell.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from scheduler.api import Namespace, Pod, Service
from scheduler.cache import Cache, NodeOverlay
from scheduler.framework import CycleState, Status
from tests.unit.api.objects import pod as api_pod
from tests.unit.plugins.clusters import Cluster, node

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
RACK: Final = "rack"
NAMES: Final = ("n0", "n1", "n2", "n3", "n4", "n5")
SPACES: Final = ("one", "two")
PRIORITIES: Final = (-5, 0, 5, 5, 10)
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_SELECTORS: Final[tuple[dict[str, Any] | None, ...]] = (
    *({"matchLabels": {"app": "a"}},) * 4,
    {"matchLabels": {"app": "a", "tier": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b", ""]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {},
    {},
    None,
)
_BROKEN: Final = {"matchLabels": {"app": "{bad}"}}
_SPACE_SELECTORS: Final[tuple[dict[str, Any] | None, ...]] = (
    None,
    None,
    None,
    {},
    {"matchLabels": {"team": "t"}},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["t"]}]},
)
LABELS_OF_SPACES: Final = {"one": {"team": "t"}, "two": {}}

seeds: Final = st.integers(0, 2**32)


class Maker:
    """Makes random things, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._made = 0

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def space(self) -> str:
        return self.random.choice((*SPACES, "one"))

    def labels(self) -> dict[str, str]:
        found = {"app": self.random.choice(("a", "a", "b", ""))}
        if self._maybe(0.3):
            found["tier"] = self.random.choice(("a", "b"))
        return {} if self._maybe(0.1) else found

    def _selector(self) -> dict[str, Any]:
        chosen = _BROKEN if self._maybe(0.02) else self.random.choice(_SELECTORS)
        return {} if chosen is None else {"labelSelector": chosen}

    def _key(self) -> str:
        return self.random.choice((HOST, ZONE, ZONE, RACK))

    def _term(self) -> dict[str, Any]:
        made = {"topologyKey": self._key(), **self._selector()}
        if self._maybe(0.2):
            made["namespaces"] = [self.space()]
        chosen = self.random.choice(_SPACE_SELECTORS)
        if chosen is not None:
            made["namespaceSelector"] = chosen
        return made

    def _side(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self._maybe(0.6):
            made[REQUIRED] = [self._term() for _ in range(self.random.choice((1, 1, 2)))]
        if self._maybe(0.5):
            made[PREFERRED] = [
                {"weight": self.random.randint(1, 3), "podAffinityTerm": self._term()}
                for _ in range(self.random.choice((1, 2)))
            ]
        return made

    def _constraint(self) -> dict[str, Any]:
        made = {
            "maxSkew": self.random.choice((1, 1, 2)),
            "topologyKey": self._key(),
            "whenUnsatisfiable": self.random.choice(("DoNotSchedule", "ScheduleAnyway")),
            **self._selector(),
        }
        for field, values in (
            ("minDomains", (2, 3)),
            ("nodeAffinityPolicy", ("Honor", "Ignore")),
            ("nodeTaintsPolicy", ("Honor", "Ignore")),
            ("matchLabelKeys", (["tier"],)),
        ):
            if self._maybe(0.4):
                made[field] = self.random.choice(values)
        return made

    def _port(self) -> dict[str, Any]:
        made: dict[str, Any] = {"hostPort": self.random.choice((80, 80, 81))}
        if self._maybe(0.5):
            made["hostIP"] = self.random.choice(("10.0.0.1", "10.0.0.2"))
        if self._maybe(0.2):
            made["protocol"] = "UDP"
        return made

    def pod(self, *, terms: float = 0.5) -> Pod:
        """A pod, not interned, with affinity in a share `terms` of all cases."""
        spec: dict[str, Any] = {}
        if self._maybe(terms):
            spec["affinity"] = {
                side: self._side()
                for side in ("podAffinity", "podAntiAffinity")
                if self._maybe(0.6)
            }
        if self._maybe(0.7):
            count = self.random.choice((1, 1, 2))
            spec["topologySpreadConstraints"] = [self._constraint() for _ in range(count)]
        if self._maybe(0.2):
            spec["nodeSelector"] = {RACK: "r1"}
        if self._maybe(0.3):
            spec["tolerations"] = [{"operator": "Exists"}]
        if self._maybe(0.6):
            spec["priority"] = self.random.choice(PRIORITIES)
        if self._maybe(0.3):
            spec["schedulerName"] = "other"
        if self._maybe(0.5):
            ports = [self._port() for _ in range(self.random.choice((1, 1, 2)))]
            spec["containers"] = [{"name": "c", "ports": ports}]
        metadata: dict[str, Any] = {"namespace": self.space(), "labels": self.labels()}
        self._made += 1
        metadata["uid"] = f"made-{self._made}"
        if self._maybe(0.1):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return api_pod(spec, metadata=metadata)

    def cluster(self) -> Cluster:
        """Nodes with and without topology labels, pods on them, a namespace with a label."""
        cluster = Cluster()
        for name in self.random.sample(NAMES, self.random.randint(4, 6)):
            self.set_node(cluster.cache, name)
        for name, labels in LABELS_OF_SPACES.items():
            namespace = Namespace()
            namespace.metadata.name, namespace.metadata.labels = name, dict(labels)
            cluster.add_object("namespaces", namespace)
        if self._maybe(0.7):
            service = Service()
            service.metadata.namespace = "one"
            service.spec.selector = {"app": "a"}
            cluster.add_object("services", service)
        for _ in range(self.random.choice((0, 2, 4, 8, 12))):
            self._place(cluster)
        for _ in range(self.random.choice((0, 0, 3))):
            self.change(cluster)
        return cluster

    def change(self, cluster: Cluster) -> None:
        """One random change of nodes or pods."""
        placed = [each.pod for each in cluster.cache._pods.values()]
        match self.random.choice(("place", "remove", "relabel", "node", "gone")):
            case "remove" if placed:
                cluster.cache.remove_pod(self.random.choice(placed))
            case "relabel" if placed:
                self._relabel(cluster, self.random.choice(placed))
            case "node":
                self.set_node(cluster.cache, self.random.choice(NAMES))
            case "gone":
                cluster.cache.remove_node(self.random.choice(NAMES))
            case _:
                self._place(cluster)

    def _place(self, cluster: Cluster) -> None:
        made = self.pod(terms=0.25)
        made.spec.node_name = self.random.choice(NAMES)
        cluster.cache.add_pod(cluster.intern(made))

    def _relabel(self, cluster: Cluster, old: Pod) -> None:
        """The pod changes its labels, whether it is being deleted, its terms or its node."""
        made = self.pod()
        made.metadata.uid = old.metadata.uid
        made.metadata.namespace = old.metadata.namespace
        if self._maybe(0.5):
            made.spec = old.spec
        else:
            made.spec.node_name = self.random.choice((old.spec.node_name, "n0"))
        cluster.cache.update_pod(cluster.intern(made))

    def set_node(self, cache: Cache, name: str) -> None:
        """Add a node, or change it."""
        labels = {HOST: name, ZONE: self.random.choice(("z1", "z2", "z3", ""))}
        labels[RACK] = self.random.choice(("r1", "r2"))
        for key in (HOST, ZONE, RACK):
            if self._maybe(0.1):
                del labels[key]
        taints = [{"key": "t", "effect": "NoSchedule"}] if self._maybe(0.2) else []
        cache.set_node(node(name, labels=labels, taints=taints))


def check_added_pod(
    maker: Maker, plugin: Any, cluster: Cluster, pod: Pod, other: Pod, without: CycleState
) -> None:
    """Check that adding and removing another pod on some node equals counting again.

    `without` is the state of the pod's PreFilter.
    """
    table = cluster.table
    row = maker.random.choice(table.rows.tolist())
    other.metadata.uid = "other"
    other.spec.node_name = table.names[row]
    cluster.intern(other)

    def asked(state: CycleState) -> list[Status | None]:
        return [plugin.filter(state, pod, table.node_info(each)) for each in table.rows.tolist()]

    overlay = NodeOverlay(table, row)
    before = asked(without)
    added = without.clone()
    plugin.add_pod(added, pod, other, overlay)
    after = asked(added)
    codes = plugin.filter_rows(added, pod, table, table.rows)
    assert [plugin.filter_status(added, pod, c) if c else None for c in codes.tolist()] == after
    cluster.cache.add_pod(other)
    with_other = CycleState()
    assert plugin.pre_filter(with_other, pod, table) is None
    assert after == asked(with_other)
    removed = with_other.clone()
    plugin.remove_pod(removed, pod, other, overlay)
    assert asked(removed) == before
    # The originals saw nothing of what was done to their copies.
    assert asked(without) == before
    assert asked(with_other) == after
