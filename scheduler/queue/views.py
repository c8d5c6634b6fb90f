"""Builds the record of one pod that people read (`kubestow queue`, `/debug/queue`)."""

from __future__ import annotations

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.backoff import BackoffPolicy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.nominator import QueueNominator
from scheduler.queue.places import Places
from scheduler.queue.statistics import Place, PodView

_WHILE_ACTIVE = "waiting for its turn"
_BACKOFF = "backoff"
_ASKED = "requested by the rejecting plugin"
_GATE_ASKED = "requested by the gating plugin"
_GATE_BROKEN = "retry of a PreEnqueue plugin that failed"
_FLUSH = "periodic flush"


class Viewer:
    """Makes records of the queue's parts; keeps and changes nothing."""

    __slots__ = ("_flush_after", "_in_flight", "_nominator", "_places", "_policy")

    def __init__(
        self,
        places: Places,
        in_flight: InFlight,
        nominator: QueueNominator,
        policy: BackoffPolicy,
        flush_after: float | None,
    ) -> None:
        """`flush_after` is how many seconds a pod may stay in the pool; None: for ever."""
        self._places = places
        self._in_flight = in_flight
        self._nominator = nominator
        self._policy = policy
        self._flush_after = flush_after

    def view(self, key: str) -> PodView | None:
        """The pod called `namespace/name`, queued or in flight; None for others."""
        info = self._places.by_name(key)
        if info is not None:
            place = self._places.where(info.uid)
            assert place is not None
            return self._view(info, place, self._places.rank(info.uid))
        running = next((each for each in self._in_flight if each.key == key), None)
        return None if running is None else self._view(running, Place.IN_FLIGHT, None)

    def views(self) -> list[PodView]:
        """All pods: active in order, backoff in order, pool, in flight."""
        places = self._places
        found = [
            self._view(info, place, position)
            for place, queue in ((Place.ACTIVE, places.active), (Place.BACKOFF, places.backoff))
            for position, info in enumerate(queue.ordered())
        ]
        for info in places.pool:
            place = Place.GATED if info.gated else Place.UNSCHEDULABLE
            found.append(self._view(info, place, None))
        found += [self._view(info, Place.IN_FLIGHT, None) for info in self._in_flight]
        return found

    def _view(self, info: QueuedPodInfo, place: Place, position: int | None) -> PodView:
        retry = self._places.retry_time(info)
        release = self._policy.release(self._policy.expiry(info))
        next_retry, reason = _next_retry(info, place, release, retry, self._flush_after)
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


def _next_retry(
    info: QueuedPodInfo,
    place: Place,
    release: float,
    retry: float | None,
    flush_after: float | None,
) -> tuple[float | None, str]:
    if place is Place.ACTIVE:
        return None, _WHILE_ACTIVE
    if place is Place.BACKOFF:
        return release, _BACKOFF
    if place is Place.GATED:
        if retry is None:
            return None, ""
        return retry, _GATE_BROKEN if info.gate_errors else _GATE_ASKED
    if place is Place.UNSCHEDULABLE:
        flush = None if flush_after is None else info.timestamp + flush_after
        if retry is not None and (flush is None or retry <= flush):
            return retry, _ASKED
        if flush is not None:
            return flush, _FLUSH
    return None, ""
