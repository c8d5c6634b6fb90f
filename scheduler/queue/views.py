"""Builds the record of one pod that people read (`kubestow queue`, `/debug/queue`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.backoff_queue import BackoffPolicy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.nominator import QueueNominator
from scheduler.queue.statistics import PodView, QueueState
from scheduler.queue.sub_queues import SubQueues
from scheduler.queue.unschedulable_pods import Group

_WHILE_ACTIVE = "waiting for its turn"
_DEFERRED = "waiting behind other namespaces: pods of this one used much CPU time lately"
_BACKOFF = "backoff"
_PAUSE = "pause after a scheduling cycle that used too much CPU time"
_ERROR_BACKOFF = "backoff after an error"
_ASKED = "requested by the rejecting plugin"
_GATE_ASKED = "requested by the gating plugin"
_GATE_BROKEN = "retry of a PreEnqueue plugin that failed"
_FLUSH = "periodic flush"


class Viewer:
    """Makes records of the queue's parts; keeps and changes nothing."""

    __slots__ = ("_flush_after", "_in_flight", "_nominator", "_policy", "_sub_queues")

    def __init__(
        self,
        sub_queues: SubQueues,
        in_flight: InFlight,
        nominator: QueueNominator,
        policy: BackoffPolicy,
        flush_after: float | None,
    ) -> None:
        """`flush_after` is how many seconds a pod may stay in the pool; None: for ever."""
        self._sub_queues = sub_queues
        self._in_flight = in_flight
        self._nominator = nominator
        self._policy = policy
        self._flush_after = flush_after

    def view(self, key: str) -> PodView | None:
        """The pod called `namespace/name`, queued or in flight; None for others."""
        info = self._sub_queues.by_name(key)
        if info is not None:
            place = self._sub_queues.where(info.uid)
            assert place is not None
            return self._view(info, place, self._sub_queues.rank(info.uid))
        running = next((each for each in self._in_flight if each.key == key), None)
        return None if running is None else self._view(running, QueueState.IN_FLIGHT, None)

    def views(self, namespace: str = "", limit: int | None = None) -> list[PodView]:
        """All pods: active in order, backoff in order, unschedulable, gated, in flight.

        Only those of `namespace` if given, and at most `limit` of each place.
        """
        sub_queues = self._sub_queues

        def wanted(infos: Iterable[QueuedPodInfo]) -> Iterator[tuple[int, QueuedPodInfo]]:
            numbered: Iterable[tuple[int, QueuedPodInfo]] = enumerate(infos)
            if namespace:
                numbered = ((n, i) for n, i in numbered if i.pod.metadata.namespace == namespace)
            return islice(numbered, limit)

        # A position is one among the pods of all namespaces, so those of one need the whole order.
        head = None if namespace else limit
        found = [
            self._view(info, place, position)
            for place, queue in (
                (QueueState.ACTIVE, sub_queues.active),
                (QueueState.BACKOFF, sub_queues.backoff),
            )
            for position, info in wanted(queue.ordered(head))
        ]
        for place, infos in (
            (QueueState.UNSCHEDULABLE, _members(sub_queues.unschedulable.groups(gated=False))),
            (QueueState.GATED, _members(sub_queues.unschedulable.groups(gated=True))),
            (QueueState.IN_FLIGHT, iter(self._in_flight)),
        ):
            found += [self._view(info, place, None) for _, info in wanted(infos)]
        return found

    def _view(self, info: QueuedPodInfo, place: QueueState, position: int | None) -> PodView:
        retry = self._sub_queues.retry_time(info)
        release = self._policy.release(self._policy.expiry(info))
        next_retry, reason = _next_retry(info, place, release, retry, self._flush_after)
        if place is QueueState.ACTIVE and self._sub_queues.active.deferred(info):
            reason = _DEFERRED
        metadata = info.pod.metadata
        return PodView(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            profile=info.pod.spec.scheduler_name,
            place=place,
            position=position,
            attempts=info.attempts,
            timestamp=info.timestamp,
            next_retry=next_retry,
            next_retry_reason=reason,
            gating_plugin=info.gating_plugin,
            message=info.last_message,
            unschedulable_plugins=tuple(sorted(info.unschedulable_plugins)),
            pending_plugins=tuple(sorted(info.pending_plugins)),
            nominated_node=self._nominator.node_of(info.uid),
            last_event=info.last_event,
            last_hint=info.last_hint,
        )


def _members(groups: Iterable[Group]) -> Iterator[QueuedPodInfo]:
    return (info for group in groups for info in group.members.values())


def _next_retry(
    info: QueuedPodInfo,
    place: QueueState,
    release: float,
    retry: float | None,
    flush_after: float | None,
) -> tuple[float | None, str]:
    if place is QueueState.ACTIVE:
        return None, _WHILE_ACTIVE
    if place is QueueState.BACKOFF and info.pause:
        return release, _PAUSE
    if place is QueueState.BACKOFF:
        return release, _BACKOFF if info.rejectors else _ERROR_BACKOFF
    if place is QueueState.GATED:
        if retry is None:
            return None, ""
        return retry, _GATE_BROKEN if info.gate_errors else _GATE_ASKED
    if place is QueueState.UNSCHEDULABLE:
        flush = None if flush_after is None else info.timestamp + flush_after
        if retry is not None and (flush is None or retry <= flush):
            return retry, _ASKED
        if flush is not None:
            return flush, _FLUSH
    return None, ""
