"""Handle: everything a plugin can reach, as Protocols that engine and service implement.

The core does no I/O and reads no clock of its own: service, simulator and tests each pass their own
implementations of these Protocols. Upstream: `interface.go: Handle`.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    MutableSequence,
    Sequence,
)
from typing import Any, Protocol, TypeVar

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.storage import ObjectReference
from scheduler.framework.api_writer import ApiWriter
from scheduler.framework.nodes import NodeInfo, NodeTableView
from scheduler.framework.plugin import NominatingInfo
from scheduler.framework.preemption import PreemptionSearch
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status

Shared = TypeVar("Shared")


class Clock(Protocol):
    """Source of time, injected so that the same code runs in virtual time."""

    def now(self) -> float:
        """Return the wall-clock time in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        ...


class RandomSource(Protocol):
    """Source of random numbers, seedable; `random.Random` fits."""

    def random(self) -> float:
        """Return a number from 0 to 1, without 1."""
        ...

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number from `a` to `b`."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return an integer from 0 to `stop`, without `stop`."""
        ...

    def choice(self, seq: Sequence[Shared], /) -> Shared:
        """Return an element."""
        ...

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        """Shuffle in place."""
        ...


class Lister(Protocol):
    """Read access to the objects of one kind, as last seen by its watch."""

    def get(self, name: str, namespace: str = "") -> Any | None:
        """Return the object, or None if it is unknown; cluster-scoped kinds have no namespace."""
        ...

    def list(self, namespace: str | None = None) -> Iterable[Any]:
        """Return all objects, or those of one namespace."""
        ...


class Listers(Protocol):
    """Listers by resource plural, e.g. `listers["persistentvolumeclaims"]`.

    The lister of a plural that is not watched is empty: name it in `required_resources`.
    """

    def __getitem__(self, plural: str) -> Lister: ...


class Nominator(Protocol):
    """Pods that are nominated to a node but not assumed on it yet."""

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Nominate `pod` to the node that `nominating` names, in place of an earlier node.

        An empty name ends the nomination. None keeps the present node, or else takes the one in
        `status.nominatedNodeName`. Deleted and bound pods are ignored.
        """
        ...

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End the nomination of `pod` (by UID), if it has one."""
        ...

    def node_of(self, uid: str) -> str:
        """Return the node to which the pod with this UID is nominated; empty for none."""
        ...

    def nominated_nodes(self) -> Sequence[str]:
        """Return the nodes to which any pod is nominated."""
        ...

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """Return a copy of the pods nominated to a node, in order of nomination."""
        ...


class WhatIf(Protocol):
    """Runs filters on hypothetical nodes; the live table is never touched."""

    def overlay(self, row: int) -> NodeInfo:
        """Return a private copy of a node, to which pods can be added and removed."""
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Add `added` to the overlay `node`, and run AddPod of the PreFilter plugins for `pod`.

        `state` is modified, so pass a clone of the attempt's. A Status means that a plugin failed
        and the what-if is void.

        Raises:
            TypeError: `node` is not an overlay.
        """
        ...

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Remove `removed` from the overlay `node` (RemovePod); otherwise as `add_pod`."""
        ...

    def run_filters_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Return None if `pod` passes every Filter on `node`, else the first rejection.

        If pods of equal or higher priority are nominated to the node, filters run twice: with these
        pods and without. `state` and `node` are left as they were.
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
        """Withdraw the wait of `plugin`; the pod is bound when no plugin is pending."""
        ...

    def reject(self, plugin: str, message: str) -> bool:
        """End the wait: `plugin` rejects the pod with `message`; False if the wait was over."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, in favour of another pod; False if the wait was over."""
        ...


class TimedWork(Protocol):
    """Timed work of a plugin, run between scheduling cycles of the leader."""

    #: Set by the host; call it when `next_due` moved to an earlier time.
    on_timer: Callable[[], None]

    def next_due(self) -> float | None:
        """Return the monotonic time of the next `run_due`; a past time: now, None: never."""
        ...

    def run_due(self) -> None:
        """Do the work that is due; must be quick, since it may be called often."""
        ...


class Subscriptions(Protocol):
    """Callbacks for plugins. They run on the scheduling loop and must be quick."""

    def on_object(
        self,
        plural: str,
        callback: Callable[[Any | None, Any | None], None],
        *,
        in_trials: bool = False,
    ) -> None:
        """Call `callback(old, new)` after cache and queue have handled a change of an object.

        `old` is None for a new object, `new` for a deleted one. Subscribing makes `plural` watched.

        With `in_trials` the callback is also called for changes that a question only tries, and for
        taking them back. It may then do nothing but keep an index of objects up to date. State that
        does not follow from the objects alone needs `on_trial`.
        """
        ...

    def on_trial(self, begin: Callable[[], Callable[[], None]]) -> None:
        """Call `begin()` before changes are tried, and what it returns when they are taken back.

        A trial (`kubestow whatif`) runs between two scheduling cycles, without a pause. The
        returned function must restore what the trial changed in the plugin.
        """
        ...

    def on_nomination(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` at once, also within a cycle; empty name: cleared."""
        ...

    def on_bind(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` after a successful binding by this process."""
        ...

    def on_synced(self, callback: Callable[[], None]) -> None:
        """Call `callback()` once, when all objects of the initial lists have been handled."""
        ...

    def on_time(self, work: TimedWork) -> None:
        """Run `work` whenever it is due, while this process schedules pods."""
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
    """Writes the metrics that the plugin declares in its class attribute `metrics`.

    Label values stand in the order of the declaration. KeyError for a metric that is not declared,
    ValueError for one of another kind or with other labels. A metric has at most 1,000 series.
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

    def forget(self, name: str, *labels: str) -> None:
        """Remove the series whose first labels have these values, when their object is gone."""
        ...


class Handle(Protocol):
    """The second argument of every plugin factory.

    Members that a host does not provide raise on use. So do `nominator`, `activate`, `recheck` and
    `what_if` while plugins are being constructed: use them from extension points.
    """

    @property
    def profile_name(self) -> str:
        """The profile's schedulerName."""
        ...

    @property
    def clock(self) -> Clock:
        """Time. Within a cycle prefer `state.now`, which is fixed."""
        ...

    @property
    def random(self) -> RandomSource:
        """The random source of the scheduler, from `kubestow.seed`: a recorded run replays it."""
        ...

    @property
    def table(self) -> NodeTableView:
        """All nodes, live."""
        ...

    @property
    def listers(self) -> Listers:
        """Objects other than nodes, as last seen by their watches."""
        ...

    @property
    def nominator(self) -> Nominator:
        """Nominations of all profiles."""
        ...

    @property
    def what_if(self) -> WhatIf:
        """Runs of this profile's filters on hypothetical nodes."""
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
        """The metrics that this plugin declares, exposed with those of the process."""
        ...

    @property
    def subscriptions(self) -> Subscriptions:
        """Callbacks; subscribe in `__init__`."""
        ...

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Whether a feature gate is on, by name; read with a default."""
        ...

    def may(self, verb: str, resource: str) -> bool:
        """Whether RBAC allows it as far as is known: `may("list", "persistentvolumes")`.

        Only for what this plugin declares, `list` for `required_resources`. True where the API
        server has no such resource: then there are no objects. Pods that are unschedulable are
        tried again when a missing permission comes.
        """
        ...

    def serves(self, resource: str) -> bool:
        """Whether the API server has the resource, as far as is known: one of `required_resources`.

        The definition of a custom resource may come and go.
        """
        ...

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue now, past backoff; a closed gate stays closed."""
        ...

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for waiting pods; it may gate or free them."""
        ...

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Replace reason and message of the PodScheduled condition of a pending pod.

        They are written at once, since autoscalers act on the reason; `api.status_written` waits
        for the write. Deleted and bound pods are ignored; the position in the queue is unchanged.
        """
        ...

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """Requeue those of the pods that `plugin` rejected or gates; others stay."""
        ...

    def shared(self, name: str, make: Callable[[], Shared]) -> Shared:
        """Return the process-wide object of this name, built by `make` on first use.

        For state that plugins of several profiles share.
        """
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Return the pods that wait at Permit, of all profiles."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return the pod with this UID that waits at Permit, or None."""
        ...

    def preempt_binding(self, uid: str, message: str) -> bool:
        """Cancel the PreBind of a pod in favour of another pod; False if it is not in PreBind."""
        ...

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` on the scheduling loop, independently of the cycle; errors are logged.

        For writes that a cycle must not wait for. `work` may await `api` and nothing else.
        """
        ...
