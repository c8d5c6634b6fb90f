"""Builds the record of one pod that people read (`kubestow queue`, `/debug/queue`)."""

from __future__ import annotations

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.statistics import Place, PodView

_WHILE_ACTIVE = "waiting for its turn"
_BACKOFF = "backoff"
_ASKED = "requested by the rejecting plugin"
_GATE_ASKED = "requested by the gating plugin"
_GATE_BROKEN = "retry of a PreEnqueue plugin that failed"
_FLUSH = "periodic flush"


def pod_view(
    info: QueuedPodInfo,
    place: Place,
    position: int | None,
    *,
    release: float,
    retry: float | None,
    flush_after: float | None,
    nominated_node: str,
) -> PodView:
    """The record of one pod.

    `release` is when its backoff ends, `retry` when it asked to be tried again, `flush_after` how
    many seconds a pod may stay in the pool (None: for ever).
    """
    next_retry, reason = _next_retry(info, place, release, retry, flush_after)
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
        nominated_node=nominated_node,
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
