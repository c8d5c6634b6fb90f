"""Handle: everything that a plugin can use of the scheduler, as Protocols.

The service, the simulator and tests each pass implementations of these Protocols, since plugins and
engine do no I/O and read no clock themselves. Upstream: `interface.go: Handle`.
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
    """Source of random numbers; a seeded `random.Random`, for example."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number from `a` to `b`."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return an integer in [0, `stop`)."""
        ...

    def choice(self, seq: Sequence[Shared], /) -> Shared:
        """Return a random element."""
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

    The lister of a resource that is not watched is empty: name it in `required_resources`.
    """

    def __getitem__(self, plural: str) -> Lister: ...


class Nominator(Protocol):
    """Pods that are nominated to a node but not assumed on it yet."""

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Nominate `pod` to the node that `nominating` names, instead of an earlier node.

        An empty name ends the nomination. With None the pod keeps its nomination; if it has none,
        it is nominated to `status.nominatedNodeName`. Deleted and bound pods are ignored.
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
        """Return a private copy of a node (an overlay); `add_pod` and `remove_pod` change it."""
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Add `added` to the overlay `node`, and run AddPod of the PreFilter plugins for `pod`.

        `state` is modified, so pass a clone of the attempt's state. A returned Status means that a
        plugin failed, and that the what-if must not be used any further.

        Raises:
            TypeError: `node` is not an overlay.
        """
        ...

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Remove `removed` from the overlay `node`, and run RemovePod; otherwise like `add_pod`."""
        ...

    def run_filters_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Return None if `pod` passes every Filter on `node`, else the first rejection.

        If pods of equal or higher priority are nominated to the node, filters run twice: with these
        pods and without. Neither `state` nor `node` changes.
        """
        ...


class WaitingPod(Protocol):
    """A pod that waits at Permit."""

    @property
    def pod(self) -> Pod:
        """The pod, with the name of the node on which it is assumed."""
        ...

    def pending_plugins(self) -> Sequence[str]:
        """Names of the Permit plugins that have not allowed it yet, sorted."""
        ...

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of `plugin`; it is bound once no plugin is pending."""
        ...

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod on behalf of `plugin`; return False if the wait was already over."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error in favour of another pod; return False if it was over."""
        ...


class TimedWork(Protocol):
    """Timed work of a plugin, run between scheduling cycles of the leader."""

    def next_due(self) -> float | None:
        """Return the monotonic time of the next `run_due`; a past time means now, None never."""
        ...

    def run_due(self) -> None:
        """Do the work that is due. It may be called often, so it must be quick."""
        ...


class Subscriptions(Protocol):
    """Registers callbacks of plugins. They run on the scheduling loop and must be quick."""

    def on_object(
        self,
        plural: str,
        callback: Callable[[Any | None, Any | None], None],
        *,
        in_trials: bool = False,
    ) -> None:
        """Call `callback(old, new)` after cache and queue have handled a change of an object.

        `old` is None for a new object, `new` for a deleted one. The scheduler watches `plural`.

        With `in_trials` the callback is also called for the hypothetical changes of a trial, and
        when they are undone. It may then only update an index of the objects. State that cannot be
        derived from the objects alone needs `on_trial`.
        """
        ...

    def on_trial(self, begin: Callable[[], Callable[[], None]]) -> None:
        """Call `begin()` at the start of a trial, and the function that it returns at the end.

        A trial (`kubestow whatif`) runs without interruption between two scheduling cycles. The
        returned function must undo every change of the plugin's state since `begin()`.
        """
        ...

    def on_nomination(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` when a pod is nominated; an empty name ends a nomination.

        It is called at once, even within a scheduling cycle.
        """
        ...

    def on_bind(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` after a successful binding by this process."""
        ...

    def on_synced(self, callback: Callable[[], None]) -> None:
        """Call `callback()` once, when all objects of the initial lists have been handled."""
        ...

    def on_time(self, work: TimedWork) -> Callable[[], None]:
        """Run `work` whenever it is due, while this process schedules pods.

        Call what is returned when `next_due` has moved to an earlier time.
        """
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
        """Record an event. Never blocks or fails; events beyond the rate limits are dropped.

        Args:
            regarding: the object that the event is about.
            type: `Normal` or `Warning`.
            reason: the cause, one CamelCase word for machines, e.g. `FailedScheduling`.
            action: the action taken or tried, one CamelCase word, e.g. `Scheduling`.
            note: the text for people.
            related: a second object that is involved, e.g. the preemptor of a victim.
        """
        ...


class PluginMetrics(Protocol):
    """Writes the metrics that the plugin declares in its class attribute `metrics`.

    Label values are passed in the order of the declaration. The methods raise KeyError for a metric
    that is not declared; those that write raise ValueError for a metric of another kind or another
    number of labels. A metric has at most 1,000 series.
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
        """Remove all series whose first labels have these values, after their object is gone."""
        ...


class Handle(Protocol):
    """The second argument of every plugin factory.

    A member that the scheduler's host does not provide raises when it is used. So do `nominator`,
    `activate`, `recheck` and `what_if` in a plugin's constructor: use them in extension points.
    """

    @property
    def profile_name(self) -> str:
        """The profile's schedulerName."""
        ...

    @property
    def clock(self) -> Clock:
        """The scheduler's clock. In a cycle prefer `state.now`, which does not change."""
        ...

    @property
    def random(self) -> RandomSource:
        """The scheduler's random source, seeded by `kubestow.seed` so that runs can be replayed."""
        ...

    @property
    def table(self) -> NodeTableView:
        """The live table of all nodes."""
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
        """Recorder of Kubernetes Events, with this profile as the reporting controller."""
        ...

    @property
    def metrics(self) -> PluginMetrics:
        """The metrics that this plugin declares, exposed with those of the process."""
        ...

    @property
    def subscriptions(self) -> Subscriptions:
        """Registration of callbacks; use it in the plugin's `__init__`."""
        ...

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Feature gates by name. A gate may be missing: read it with `get` and a default."""
        ...

    def may(self, verb: str, resource: str) -> bool:
        """Whether RBAC allows a request, as far as is known: `may("list", "persistentvolumes")`.

        Only for permissions that this plugin declares, and `list` of `required_resources`. Also
        True if the API server does not serve the resource, since there are no objects then. When a
        missing permission is granted, unschedulable pods are retried.
        """
        ...

    def serves(self, resource: str) -> bool:
        """Whether the API server serves one of `required_resources`, as far as is known.

        This may change, since CustomResourceDefinitions are created and deleted.
        """
        ...

    async def served_now(self, resource: str) -> bool | None:
        """Ask the API server whether it serves one of `required_resources`, and wait for it.

        Unlike that of `serves`, the answer is newer than the call. True: the objects are known. If
        there is no answer, such as in an outage, the result is None.
        """
        ...

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue now, past backoff; a closed gate stays closed."""
        ...

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for these pending pods, which may gate or admit them."""
        ...

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Replace reason and message of the PodScheduled condition of a pending pod.

        The condition is written at once, since autoscalers act on the reason; `api.status_written`
        waits for the write. Deleted and bound pods are ignored. The pod keeps its queue position.
        """
        ...

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """Requeue those of the pods that `plugin` rejected or gates; ignore the others."""
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
        """Cancel PreBind of a pod in favour of another; return False if it is not in PreBind."""
        ...

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` as a task named `name`, independently of the cycle; errors are logged.

        For writes that a cycle must not wait for. `work` may await nothing but methods of `api`.
        """
        ...
