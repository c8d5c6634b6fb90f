"""Handle: everything a plugin can reach, as Protocols that engine and service implement.

The core does no I/O and reads no clock of its own; what it needs from outside is named here, so
that service, simulator and tests can each give their own. Nothing here has behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from scheduler.api.meta import Condition
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.storage import ObjectReference
from scheduler.framework.nodes import NodeInfo, NodeTableView
from scheduler.framework.plugin import (
    NominatingInfo,
)
from scheduler.framework.preemption import PreemptionSearch
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status

Shared = TypeVar("Shared")


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

    def get(self, name: str, namespace: str = "") -> Any | None:
        """The object, or None when it is not known; cluster-scoped kinds have no namespace."""
        ...

    def list(self, namespace: str | None = None) -> Iterable[Any]:
        """All objects, or those of one namespace."""
        ...


class Listers(Protocol):
    """Listers by resource plural, e.g. `listers["persistentvolumeclaims"]`.

    A plural that nothing watches has an empty lister: name it in `required_resources` to have it
    watched.
    """

    def __getitem__(self, plural: str) -> Lister: ...


class Nominator(Protocol):
    """Pods that are expected on a node but not there yet."""

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Nominate `pod` to the node that `nominating` names, in place of an earlier node.

        An empty name ends the nomination. None keeps the node it has, or else takes the one in its
        `status.nominatedNodeName`. Nothing happens to a pod that is gone or bound.
        """
        ...

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End the nomination of `pod` (by UID), if it has one."""
        ...

    def node_of(self, uid: str) -> str:
        """The node that the pod with this UID is nominated to; empty for none."""
        ...

    def nominated_nodes(self) -> Sequence[str]:
        """Nodes that some pod is nominated to."""
        ...

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """Pods nominated to a node, in order of nomination; a copy, empty for unknown nodes."""
        ...


class WhatIf(Protocol):
    """Runs filters on hypothetical nodes; the live table is never touched."""

    def overlay(self, row: int) -> NodeInfo:
        """A private copy of a node, to add pods to and remove pods from."""
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Put `added` on the overlay `node`, and call AddPod of the PreFilter plugins for `pod`.

        `state` changes too: hand in a clone of the attempt's. A Status means that a plugin failed
        and the what-if is void. TypeError when `node` is no overlay.
        """
        ...

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Take `removed` off the overlay `node` (RemovePod); otherwise as `add_pod`."""
        ...

    def run_filters_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Whether `pod` passes every Filter on `node`: None, or the first plugin's answer.

        On an overlay to which other pods of equal or higher priority are nominated filters run
        twice, with these pods and then without. `state` and `node` are left as they were.
        """
        ...


class ObjectKey(NamedTuple):
    """An object to wait for; `namespace` is empty for cluster-scoped kinds."""

    plural: str
    namespace: str
    name: str


class ApiWriter(Protocol):
    """The only way a plugin writes to the API server, and waits for what that brings about."""

    async def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None
    ) -> Status | None:
        """Bind; returns when the outcome is certain, however long that takes.

        The API server copies `annotations` of the Binding into the pod, in the same write.

        None when the pod is bound to `node_name`, an Error status when it certainly is not.
        """
        ...

    async def patch(
        self, plural: str, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> Any:
        """Send a JSON merge patch; gives the object as the API server answered it.

        `namespace` is empty for cluster-scoped kinds. KeyError for a plural that is not known.
        Raises what the client raises: the API server's refusal, a lost connection, lost leadership.
        """
        ...

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Delete an object; with `uid` only that one, not a successor of the same name.

        Errors as `patch`.
        """
        ...

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        """Wait until `look` has nothing to wait for any more.

        `look` reads the listers and gives the objects whose next change is worth another look;
        their plurals must be watched (`required_resources`). It is called at once and after every
        such change, and may raise to give up. A pod that waits here holds no binding slot.

        Returns:
            True when `look` gave nothing; False when so many `seconds` passed first.
        """
        ...

    async def status_written(self, uids: Iterable[str]) -> None:
        """Wait until nothing more is being written into the status of these pods.

        What was being written may have failed. A pod that waits here holds no request's slot.
        """
        ...

    async def evict(
        self, pods: Sequence[Pod], condition: Condition
    ) -> Sequence[bool | BaseException]:
        """Put `condition` on each pod, then delete it (only this UID); all pods side by side.

        One answer per pod: True when the API server took the deletion, False when the pod was gone
        already, or the error. A pod that has the condition is deleted without a patch.
        """
        ...


class WaitingPod(Protocol):
    """A pod that waits at Permit."""

    @property
    def pod(self) -> Pod:
        """The pod, with the node name it is assumed on."""
        ...

    def pending_plugins(self) -> Sequence[str]:
        """Names of the Permit plugins that have not allowed it yet, sorted."""
        ...

    def allow(self, plugin: str) -> None:
        """`plugin` no longer objects; the last one to say so sends the pod on to binding."""
        ...

    def reject(self, plugin: str, message: str) -> bool:
        """End the wait: `plugin` finds the pod unschedulable, for the reason `message`.

        False when the wait was over already.
        """
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, in favour of another pod; False when it was over already."""
        ...


class TimedWork(Protocol):
    """Work of a plugin that is due at times, done between scheduling cycles of the leader."""

    #: Set by the host; call it when `next_due` moved to an earlier time.
    on_timer: Callable[[], None]

    def next_due(self) -> float | None:
        """Monotonic time at which `run_due` has something to do, in the past: now; None: never."""
        ...

    def run_due(self) -> None:
        """Do what is due; quick, for it may be called often."""
        ...


class Subscriptions(Protocol):
    """What plugins can be told about.

    Callbacks run on the owner's loop and must be quick.
    """

    def on_object(self, plural: str, callback: Callable[[Any | None, Any | None], None]) -> None:
        """`callback(old, new)` for every change of a watched object, after cache and queue know it.

        `old` is None for a new object, `new` for a deleted one. Subscribing makes `plural` watched.
        """
        ...

    def on_nomination(self, callback: Callable[[Pod, str], None]) -> None:
        """`callback(pod, node_name)`, at once, also within a cycle; an empty name: no longer."""
        ...

    def on_bind(self, callback: Callable[[Pod, str], None]) -> None:
        """`callback(pod, node_name)` after a binding of ours has succeeded."""
        ...

    def on_synced(self, callback: Callable[[], None]) -> None:
        """`callback()`, once, when every watched object of the first lists has been handled."""
        ...

    def on_time(self, work: TimedWork) -> None:
        """Have `work` called when it is due, as long as pods are scheduled."""
        ...


class Events(Protocol):
    """Records Kubernetes Events."""

    def record(
        self,
        regarding: Pod | Node | ObjectReference,
        type: str,  # noqa: A002  (the Event field's own name)
        reason: str,
        action: str,
        note: str,
        related: Pod | None = None,
    ) -> None:
        """Record an event; never blocks and never fails, events beyond the limits are dropped.

        Args:
            regarding: what it happened to.
            type: `Normal` or `Warning`.
            reason: why, one CamelCase word for machines, e.g. `FailedScheduling`.
            action: what was done or tried, one CamelCase word, e.g. `Scheduling`.
            note: what people read.
            related: a second object that takes part, e.g. the preemptor of a victim.
        """
        ...


class PluginMetrics(Protocol):
    """Metrics of plugins; each must be defined in `scheduler/metrics/definitions.toml`.

    Label values stand in the order of the definition. KeyError for a name that is not defined.
    """

    def count(self, name: str, *labels: str, amount: float = 1.0) -> None:
        """Add to a counter."""
        ...

    def gauge(self, name: str, *labels: str, value: float) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, *labels: str, value: float) -> None:
        """Observe a value in a histogram."""
        ...


class Handle(Protocol):
    """Given to every plugin factory.

    Parts that a host does not have raise when they are used. So do those of the queue (`nominator`,
    `activate`, `recheck`) and what-ifs while plugins are being built: use them from extension
    points.
    """

    @property
    def profile_name(self) -> str:
        """The profile's schedulerName."""
        ...

    @property
    def clock(self) -> Clock:
        """Time. Within a cycle prefer `state.now`, which stands still."""
        ...

    @property
    def table(self) -> NodeTableView:
        """All nodes, live."""
        ...

    @property
    def listers(self) -> Listers:
        """Objects other than nodes, as last seen."""
        ...

    @property
    def nominator(self) -> Nominator:
        """Nominations of all profiles."""
        ...

    @property
    def what_if(self) -> WhatIf:
        """Trial runs of this profile's filters."""
        ...

    @property
    def preemption(self) -> PreemptionSearch:
        """The search for victims among this profile's nodes."""
        ...

    @property
    def api(self) -> ApiWriter:
        """Writes to the API server, for PreBind, Bind and PostBind."""
        ...

    @property
    def events(self) -> Events:
        """Kubernetes Events, in the name of this profile."""
        ...

    @property
    def metrics(self) -> PluginMetrics:
        """Metrics of plugins, exposed with those of the process."""
        ...

    @property
    def subscriptions(self) -> Subscriptions:
        """What to be told about; subscribe in `__init__`."""
        ...

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Whether a feature gate is on, by name; read with a default."""
        ...

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue now, past backoff; a closed gate stays closed."""
        ...

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for waiting pods; it may gate or free them."""
        ...

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Have the PodScheduled condition of a waiting pod say this instead of what it says now.

        It is written at once, for autoscalers act on the reason; nothing happens to a pod that is
        gone or has a node. The pod's place in the queue stays. `api.status_written` waits for it.
        """
        ...

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """Pods that `plugin` rejected, or holds at its gate, may be tried again; others stay."""
        ...

    def shared(self, name: str, make: Callable[[], Shared]) -> Shared:
        """The one object of this name in the process, made when it is first asked for.

        For state that the plugins of several profiles must have in common.
        """
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Pods that wait at Permit, of all profiles."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """The pod that waits at Permit under this UID, or None."""
        ...

    def preempt_binding(self, uid: str, message: str) -> bool:
        """Stop the PreBind of a pod in favour of another; False when it is not in PreBind."""
        ...

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` on the owner's loop, beyond the end of the cycle; errors are logged.

        For writes that a cycle must not wait for. `work` may await `api` and nothing else.
        """
        ...
