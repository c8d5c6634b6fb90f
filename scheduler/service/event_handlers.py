"""Handlers of watched objects, which update cache and queue.

Follows upstream's `eventhandlers.go: addAllEventHandlers`.

Runs on the loop between scheduling cycles, so a handler sees and leaves a consistent world. A
handler that fails for one object is logged and counted; the others of the batch are still handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.cache import Cache
from scheduler.client.deltas import Delta, DeltaType
from scheduler.engine import WaitingPod, WaitingPods
from scheduler.framework import ActionType, Clock, ClusterEvent
from scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
)
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import SchedulingQueue
from scheduler.queue.cluster_events import EventFeatures, node_events, pod_events
from scheduler.service.misspelt_names import MisspeltNames
from scheduler.service.observer import RELOAD, ObserverSlot
from scheduler.service.rejected_pods import RejectedPods
from scheduler.service.subscriptions import SubscriptionBoard

_log = structlog.get_logger(__name__)

_DELETED: Final = DeltaType.DELETED
"""A member of an enumeration is found by a slow search of its class."""


class EventHandlers:
    """Applies deltas of all resources."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        *,
        scheduler_names: Collection[str],
        registered: dict[str, ActionType],
        subscriptions: SubscriptionBoard,
        clock: Clock,
        metrics: SchedulerMetrics,
        features: EventFeatures,
        rejected: RejectedPods | None = None,
        honor_foreign_nominations: bool = True,
        misspelt: MisspeltNames | None = None,
        reports: ObserverSlot | None = None,
    ) -> None:
        """Wire the handlers.

        Args:
            cache: takes bound pods, and nodes.
            queue: takes pending pods of ours, and the changes that may help them.
            waiting_pods: those at Permit.
            scheduler_names: names of our profiles.
            registered: the actions of other resources that plugins registered for.
            subscriptions: what plugins subscribed to.
            clock: of durations.
            metrics: of changes.
            features: the gates that decide which events a change is.
            rejected: gets deleted bound pods of ours, and deleted nodes.
            honor_foreign_nominations: count pending pods of other schedulers on the node to which
                they are nominated, like our own.
            misspelt: gets pending pods of other schedulers.
            reports: has the observer of changes.
        """
        self._rejected = rejected
        self._honor_nominations = honor_foreign_nominations
        self._cache = cache
        self._queue = queue
        self._waiting_pods = waiting_pods
        self._names = frozenset(scheduler_names)
        #: Whether a scheduler name was ever removed.
        self._names_removed = False
        self._registered = registered
        self._subscriptions = subscriptions
        self._clock = clock
        self._metrics = metrics
        self._features = features
        self._misspelt = misspelt
        #: Calls of Permit because of the current change. They are made last, so that plugins have
        #: already handled the change.
        self._permits: deque[Callable[[], None]] = deque()
        self._reports = ObserverSlot() if reports is None else reports

    def replace_profiles(self, scheduler_names: Collection[str], strangers: Iterable[Pod]) -> None:
        """Handle pods of these names as ours from now on.

        `strangers` are the pending pods that were ours before and no longer are.
        """
        if self._reports.observer is not None:
            self._reports.observer.end(RELOAD)
        names = frozenset(scheduler_names)
        self._names_removed = self._names_removed or not self._names <= names
        self._names = names
        if self._misspelt is not None:
            self._misspelt.forget()
        for pod in strangers:
            if self._honor_nominations and pod.status.nominated_node_name:
                self._queue.nominator.add_nominated_pod(pod, None)

    def queue_known(self, pod: Pod) -> None:
        """Queue a pending pod that the informer knew before its profile existed."""
        pending = not pod.spec.node_name and not self._cache.is_assumed(pod.metadata.uid)
        if pending and self._ours(pod):
            self._queue.add(pod)

    def _move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Requeue the pods that the event may help, and let their Permit plugins decide again."""
        self._queue.move_all_to_active_or_backoff(event, old, new, pre_check)
        if len(self._waiting_pods):
            helps = self._queue.helped_by(event, old, new)
            self._permits.append(partial(self._waiting_pods.reconsider, helps))

    def _waiting_updated(self, waiting: WaitingPod, old: Pod, new: Pod) -> None:
        """Let the Permit plugins of a waiting pod decide again when the pod itself changed."""
        waiting.newest = new
        for event in pod_events(new, old, self._features):
            helps = self._queue.helped_by(event, old, new)
            self._permits.append(partial(waiting.reconsider, helps))

    # -- batches, as reflectors deliver them -----------------------------------------------------

    def pods(self, batch: Sequence[Delta[Pod]]) -> None:
        """Apply changes of pods."""
        self._apply("pods", batch, self._pod)

    def nodes(self, batch: Sequence[Delta[Node]]) -> None:
        """Apply changes of nodes."""
        self._apply("nodes", batch, self._node)

    def other(self, plural: str, event_resource: str) -> Callable[[Sequence[Delta[Any]]], None]:
        """Return a handler of another resource; `event_resource` is empty without registrations."""

        def change(delta: Delta[Any]) -> str:
            self._cache.table.bump(plural, revise=plural in _READ_BY_FILTERS)
            actions = self._registered.get(event_resource, ActionType.NONE)
            event = _general_event(event_resource, delta.type, actions)
            if event is not None:
                old, new = _old_and_new(delta)
                self._move(event, old, new)
            return ""

        def handle(batch: Sequence[Delta[Any]]) -> None:
            self._apply(plural, batch, change)

        return handle

    def _apply(
        self, plural: str, batch: Sequence[Delta[Any]], change: Callable[[Any], str]
    ) -> None:
        """Apply deltas by `change`, which returns the label of the event in metrics, if any."""
        if self._reports.observer is not None:
            self._reports.observer.deltas(plural, batch)
        publish, measured = plural in self._subscriptions.plurals, self._metrics.measures_events
        for delta in batch:
            started = self._clock.monotonic() if measured else 0.0
            try:
                try:
                    label = change(delta)
                    if measured and label:
                        self._metrics.event_handling(label, self._clock.monotonic() - started)
                    if publish:
                        self._subscriptions.publish_object(plural, *_old_and_new(delta))
                finally:
                    while self._permits:
                        self._permits.popleft()()
            except Exception:  # noqa: BLE001 - object boundary: the watch of the others continues
                metadata = delta.object.metadata
                self._metrics.handler_error(plural)
                _log.exception(
                    "cannot apply object", resource=plural, namespace=metadata.namespace,
                    name=metadata.name, change=delta.type.value,
                )  # fmt: skip

    # -- pods ------------------------------------------------------------------------------------

    def _pod(self, delta: Delta[Pod]) -> str:
        if delta.type is _DELETED:
            return self._pod_deleted(delta.object)
        new, old = delta.object, delta.old
        if old is None:
            return self._pod_added(new)
        if old.spec.node_name:
            return self._assigned_updated(old, new)
        if new.spec.node_name:
            self._assigned_added(new)
            if self._ours(old):
                self._queue.delete(old)
            else:
                self._queue.nominator.delete_nominated_pod_if_exists(old)
                self._nomination_left(old, new.spec.node_name)
            return "AssignedPodAdd"
        if self._ours(new):
            return self._unscheduled_updated(old, new)
        if self._honor_nominations:
            self._foreign_updated(old, new)
        return ""

    def _pod_added(self, pod: Pod) -> str:
        if pod.spec.node_name:
            self._assigned_added(pod)
            return "AssignedPodAdd"
        if self._ours(pod):
            self._queue.add(pod)
            return "UnscheduledPodAdd"
        if self._misspelt is not None:
            self._misspelt.look(pod, self._names)
        if self._honor_nominations and pod.status.nominated_node_name:
            self._queue.nominator.add_nominated_pod(pod, None)
        return ""

    def _foreign_updated(self, old: Pod, new: Pod) -> None:
        """Track the nomination of a pending pod of another scheduler."""
        self._queue.nominator.update_nominated_pod(old, new)
        self._nomination_left(old, new.status.nominated_node_name)

    def _nomination_left(self, old: Pod, now: str) -> None:
        nominated = old.status.nominated_node_name
        if nominated and nominated != now:
            self._move(ASSIGNED_POD_DELETE, old, None, _at_most(old.priority))

    def _assigned_added(self, pod: Pod) -> None:
        self._cache.add_pod(pod)
        self._move(ASSIGNED_POD_ADD, None, pod)

    def _assigned_updated(self, old: Pod, new: Pod) -> str:
        self._cache.update_pod(new)
        for event in pod_events(new, old, self._features):
            self._move(event, old, new)
        return "AssignedPodUpdate"

    def _unscheduled_updated(self, old: Pod, new: Pod) -> str:
        if old.metadata.resource_version == new.metadata.resource_version:
            return ""
        if self._cache.is_assumed(new.metadata.uid):
            waiting = self._waiting_pods.get(new.uid)
            if new.terminating and not old.terminating:
                self._assumed_deleted(new)
            elif waiting is not None:
                self._waiting_updated(waiting, old, new)
            return ""
        self._queue.update(old, new)
        self._nomination_left(old, new.status.nominated_node_name)
        return "UnscheduledPodUpdate"

    def _pod_deleted(self, pod: Pod) -> str:
        if pod.spec.node_name:
            self._cache.remove_pod(pod)
            if self._rejected is not None and self._ours(pod):
                self._rejected.gone(pod)
            self._move(ASSIGNED_POD_DELETE, pod, None)
            return "AssignedPodDelete"
        if self._ours(pod):
            self._queue.delete(pod)
            if self._cache.is_assumed(pod.metadata.uid):
                self._assumed_deleted(pod)
            elif pod.status.nominated_node_name:
                self._move(ASSIGNED_POD_DELETE, pod, None, _at_most(pod.priority))
            return "UnscheduledPodDelete"
        if self._honor_nominations:
            self._queue.nominator.delete_nominated_pod_if_exists(pod)
            self._nomination_left(pod, "")
        return ""

    def _assumed_deleted(self, pod: Pod) -> None:
        """Reject an assumed pod that is being deleted at Permit, or else forget it at once."""
        placed = self._cache.get_pod(pod.metadata.uid)
        if placed is None:
            return
        if not self._waiting_pods.reject(pod.metadata.uid):
            self._cache.forget_pod(pod.metadata.uid)
        self._move(ASSIGNED_POD_DELETE, placed, None)

    def _ours(self, pod: Pod) -> bool:
        if pod.spec.scheduler_name in self._names:
            return True
        # An attempt may be under way for a pod whose profile is gone.
        return self._names_removed and self._cache.is_assumed(pod.metadata.uid)

    # -- nodes -----------------------------------------------------------------------------------

    def _node(self, delta: Delta[Node]) -> str:
        node = delta.object
        if delta.type is _DELETED:
            self._move(NODE_DELETE, node, None)
            self._cache.remove_node(node.name)
            if self._rejected is not None:
                self._rejected.node_gone(node.name)
            return "NodeDelete"
        if delta.old is None:
            self._cache.set_node(node)
            self._move(NODE_ADD, None, node)
            return "NodeAdd"
        started = self._clock.monotonic()
        self._cache.set_node(node)
        for event in node_events(node, delta.old, self._features):
            self._move(event, delta.old, node)
            self._metrics.event_handling(event.label, self._clock.monotonic() - started)
        return ""


#: Resources that in-tree filters read. The status of others may change all the time (quotas), or
#: with every eviction (disruption budgets, which preemption compares itself).
_READ_BY_FILTERS = frozenset(
    (
        "namespaces",
        "services",
        "replicationcontrollers",
        "replicasets",
        "statefulsets",
        "persistentvolumes",
        "persistentvolumeclaims",
        "storageclasses",
        "csinodes",
        "csidrivers",
        "csistoragecapacities",
        "volumeattachments",
        "resourceclaims",
        "resourceslices",
        "deviceclasses",
    )
)


def _at_most(priority: int) -> Callable[[Pod], bool]:
    return lambda pod: pod.priority <= priority


def _old_and_new(delta: Delta[Any]) -> tuple[Any | None, Any | None]:
    if delta.type is _DELETED:
        return delta.object, None
    return delta.old, delta.object


def _general_event(resource: str, change: DeltaType, actions: ActionType) -> ClusterEvent | None:
    if not actions:
        return None
    if change is _DELETED:
        wanted = ActionType.DELETE
    else:
        wanted = ActionType.ADD if change is DeltaType.ADDED else ActionType.UPDATE
    return ClusterEvent(resource, wanted) if actions & wanted else None
