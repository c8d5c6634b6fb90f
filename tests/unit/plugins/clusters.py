"""Small clusters, a handle for plugins, and functions that evaluate a plugin on every node.

`statuses` and `raw_scores` evaluate both forms and assert that they agree, so every table in these
tests checks the scalar and the columnar code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scheduler.api import Node, Pod, PodSignatures
from scheduler.cache import Cache, NodeTable
from scheduler.framework import (
    ClusterEvent,
    CycleState,
    Handle,
    HintKeys,
    QueueingHint,
    Status,
)
from tests.unit.api.objects import node as api_node
from tests.unit.api.objects import pod as api_pod
from tests.unit.client.virtual_clock import ManualClock

MEBIBYTE = 1 << 20


def node(name: str = "n", /, **parts: Any) -> Node:
    """A node; labels, taints, unschedulable and parts of the status go where they belong."""
    metadata = {"name": name, "labels": parts.pop("labels", {})}
    spec = {key: parts.pop(key) for key in ("taints", "unschedulable") if key in parts}
    status = {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 110}, **parts}
    return api_node(name, metadata=metadata, spec=spec, status=status)


def taint(text: str) -> dict[str, str]:
    """`key=value:Effect` or `key:Effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


class Objects:
    """Listers by plural over plain lists, and subscriptions; `Cluster.add_object` fills them."""

    def __init__(self) -> None:
        self.known: dict[str, list[Any]] = {}
        self._callbacks: list[tuple[str, Callable[[Any | None, Any | None], None]]] = []
        self._synced: list[Callable[[], None]] = []

    def on_object(
        self,
        plural: str,
        callback: Callable[[Any | None, Any | None], None],
        *,
        in_trials: bool = False,
    ) -> None:
        """Subscribe, as in `framework.Subscriptions`."""
        self._callbacks.append((plural, callback))

    def on_trial(self, begin: Callable[[], Callable[[], None]]) -> None:
        """Subscribe to trials, of which there are none."""

    def on_time(self, work: object) -> Callable[[], None]:
        """Do nothing: no time passes here."""
        return lambda: None

    def on_synced(self, callback: Callable[[], None]) -> None:
        """Subscribe to the end of the first lists, which `synced` reports."""
        self._synced.append(callback)

    def synced(self) -> None:
        """Report the end of the first lists."""
        for callback in self._synced:
            callback()

    def publish(self, plural: str, old: Any | None, new: Any | None) -> None:
        """Call the subscribers."""
        for wanted, callback in self._callbacks:
            if wanted == plural:
                callback(old, new)

    def __getitem__(self, plural: str) -> ObjectsOfKind:
        return ObjectsOfKind(self.known.get(plural, []))


class ObjectsOfKind:
    """Implements `framework.Lister`."""

    def __init__(self, objects: list[Any]) -> None:
        self._objects = objects

    def get(self, name: str, namespace: str = "") -> Any | None:
        for each in self._objects:
            if (each.metadata.namespace, each.metadata.name) == (namespace, name):
                return each
        return None

    def list(self, namespace: str | None = None) -> Iterable[Any]:
        return [
            each
            for each in self._objects
            if namespace is None or each.metadata.namespace == namespace
        ]


class Cluster:
    """A cache with nodes and placed pods."""

    def __init__(
        self, nodes: Iterable[Node] = (), placed: Mapping[str, Iterable[Pod]] | None = None
    ) -> None:
        self.cache = Cache()
        self.signatures = PodSignatures()
        self.objects = Objects()
        #: What the plugins may not do: verb and resource.
        self.forbidden: set[tuple[str, str]] = set()
        #: UIDs of pods whose PreEnqueue plugins should run again.
        self.rechecked: list[str] = []
        for each in nodes:
            self.cache.set_node(each)
        for name, pods in (placed or {}).items():
            for pod in pods:
                self.place(pod, name)

    @property
    def table(self) -> NodeTable:
        return self.cache.table

    def intern(self, pod: Pod) -> Pod:
        self.signatures.intern(pod)
        return pod

    def place(self, pod: Pod, name: str) -> Pod:
        """Put a pod on a node, under a UID of its own."""
        pod.spec.node_name = name
        pod.metadata.uid = f"placed-{len(self.cache._pods)}"
        self.cache.add_pod(self.intern(pod))
        return pod

    def add_object(self, plural: str, made: Any) -> None:
        """Something that listers show, such as a Service; an object of that name is replaced."""
        known = self.objects.known.setdefault(plural, [])
        old = self._known(plural, made)
        if old is not None:
            known.remove(old)
        known.append(made)
        self.table.bump(plural)
        self.objects.publish(plural, old, made)

    def delete_object(self, plural: str, made: Any) -> None:
        """Listers do not show it any more."""
        old = self._known(plural, made)
        self.objects.known[plural].remove(old)
        self.table.bump(plural)
        self.objects.publish(plural, old, None)

    def _known(self, plural: str, made: Any) -> Any | None:
        return self.objects[plural].get(made.metadata.name, made.metadata.namespace)

    def handle(self, api: Any = None, **gates: bool) -> Handle:
        return cast(
            "Handle",
            SimpleNamespace(
                profile_name="default-scheduler",
                clock=ManualClock(),
                table=self.table,
                feature_gates=gates,
                api=api,
                listers=self.objects,
                subscriptions=self.objects,
                may=lambda verb, resource: (verb, resource) not in self.forbidden,
                recheck=self.rechecked.extend,
                shared=lambda _name, make: make(),
            ),
        )


def pod(spec: dict[str, Any] | None = None, **parts: Any) -> Pod:
    """An interned pod without a cluster; signatures are not shared between calls."""
    made = api_pod(spec, **parts)
    PodSignatures().intern(made)
    return made


def statuses(plugin: Any, cluster: Cluster, pod: Pod) -> dict[str, Status | None]:
    """The plugin's Filter for every node, in both forms; None means that the node passes."""
    state, table = CycleState(), cluster.table
    if hasattr(plugin, "pre_filter"):
        plugin.pre_filter(state, pod, table)
    found: dict[str, Status | None] = {}
    codes = plugin.filter_rows(state, pod, table, table.rows)
    for row, code in zip(table.rows.tolist(), codes.tolist(), strict=True):
        status = plugin.filter(state, pod, table.node_info(row))
        assert status == (plugin.filter_status(state, pod, code) if code else None)
        found[table.names[row]] = status
    return found


def rejected(plugin: Any, cluster: Cluster, pod: Pod) -> dict[str, tuple[str, ...]]:
    """Reasons by rejected node."""
    return {
        name: status.reasons
        for name, status in statuses(plugin, cluster, pod).items()
        if status is not None
    }


def raw_scores(plugin: Any, cluster: Cluster, pod: Pod) -> list[int]:
    """The plugin's Score for every node, in both forms, over all rows and over each one alone."""
    state, table = CycleState(), cluster.table
    if hasattr(plugin, "pre_score"):
        assert plugin.pre_score(state, pod, table, table.rows) is None
    one = [plugin.score(state, pod, table.node_info(row)) for row in table.rows.tolist()]
    repeated = np.tile(table.rows, 5)  # more rows than the scalar shortcut takes
    many = plugin.score_rows(state, pod, table, repeated).reshape(5, -1)
    assert (many == one).all()
    assert plugin.score_rows(state, pod, table, table.rows).tolist() == one
    return one


def final_scores(plugin: Any, cluster: Cluster, pod: Pod) -> list[int]:
    """Normalised scores of all nodes."""
    raw = np.array(raw_scores(plugin, cluster, pod), dtype=np.int64)
    normalized = plugin.normalize_scores(CycleState(), pod, cluster.table, cluster.table.rows, raw)
    return cast("list[int]", normalized.tolist())


def hint(plugin: Any, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> bool:
    """Whether a registration of the plugin wakes `pod` on `event`; its keys must not deny it."""
    registrations = [each for each in plugin.events_to_register() if each.event.matches(event)]
    wakes = False
    for each in registrations:
        if each.hint is None:
            wakes = True
        elif each.hint(pod, old, new) is QueueingHint.QUEUE:
            wakes = True
            changed = (old if new is None else new).metadata
            controllers = [each.uid for each in changed.owner_references if each.controller]
            own = pod.uid in {changed.uid, *controllers[:1]}
            assert own or each.keys is None or _in_common(each.keys, pod, old, new)
    return wakes


def _in_common(keys: HintKeys, pod: Pod, old: Any, new: Any) -> bool:
    wanted, offered = keys.required_keys(pod), keys.provided_keys(old, new)
    return wanted is None or offered is None or not set(wanted).isdisjoint(offered)
