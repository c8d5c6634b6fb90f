"""Handle: everything a plugin can reach, as Protocols that engine and service implement (DESIGN rule 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework.nodes import NodeInfo, NodeTableView
from scheduler.framework.plugin import NominatingInfo
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status


class Clock(Protocol):
    """Time, handed in so that the same code runs in virtual time."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """A clock that never goes back, seconds."""
        ...


class Lister(Protocol):
    """Read access to the objects of one kind, as last seen."""

    def get(self, name: str, namespace: str = "") -> Any | None: ...
    def list(self, namespace: str | None = None) -> Iterable[Any]:
        """All objects, or those of one namespace."""
        ...


class Listers(Protocol):
    """Listers by resource plural, e.g. `listers["persistentvolumeclaims"]`; empty when nothing watches."""

    def __getitem__(self, plural: str) -> Lister: ...


class Nominator(Protocol):
    """Pods that are expected on a node but not there yet."""

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None: ...
    def delete_nominated_pod_if_exists(self, pod: Pod) -> None: ...
    def nominated_nodes(self) -> Sequence[str]:
        """Nodes that some pod is nominated to."""
        ...

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]: ...


class WhatIf(Protocol):
    """Runs filters on hypothetical nodes; the live table is never touched."""

    def overlay(self, row: int) -> NodeInfo:
        """A private copy of a node, to add pods to and remove pods from."""
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None: ...
    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None: ...
    def run_filters_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None: ...


class ApiWriter(Protocol):
    """The only way a plugin writes to the API server."""

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Bind; a Status only for a failure that is certain."""
        ...

    async def patch(
        self, plural: str, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> Any: ...
    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None: ...


class WaitingPod(Protocol):
    """A pod that waits at Permit."""

    @property
    def pod(self) -> Pod: ...
    def pending_plugins(self) -> Sequence[str]: ...
    def allow(self, plugin: str) -> None: ...
    def reject(self, plugin: str, message: str) -> bool: ...


class Subscriptions(Protocol):
    """What plugins can be told about. Callbacks run on the owner's loop, between cycles, and must be quick."""

    def on_object(self, plural: str, callback: Callable[[Any | None, Any | None], None]) -> None:
        """`callback(old, new)` for every change of a watched object."""
        ...

    def on_nomination(self, callback: Callable[[Pod, str], None]) -> None:
        """`callback(pod, node_name)`; an empty name means the nomination was cleared."""
        ...

    def on_bind(self, callback: Callable[[Pod, str], None]) -> None: ...


class Events(Protocol):
    """Records Kubernetes Events."""

    def record(
        self,
        regarding: Pod | Node,
        type: str,  # noqa: A002  (the Event field's own name)
        reason: str,
        action: str,
        note: str,
        related: Pod | None = None,
    ) -> None: ...


class Handle(Protocol):
    """Given to every plugin factory. Parts a host does not have raise when used, never when read."""

    @property
    def profile_name(self) -> str:
        """The profile's schedulerName."""
        ...

    @property
    def clock(self) -> Clock: ...
    @property
    def table(self) -> NodeTableView: ...
    @property
    def listers(self) -> Listers: ...
    @property
    def nominator(self) -> Nominator: ...
    @property
    def what_if(self) -> WhatIf: ...
    @property
    def api(self) -> ApiWriter: ...
    @property
    def events(self) -> Events: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    @property
    def feature_gates(self) -> Mapping[str, bool]: ...
    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue now."""
        ...

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for waiting pods; it may gate or free them."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]: ...
    def waiting_pod(self, uid: str) -> WaitingPod | None: ...
