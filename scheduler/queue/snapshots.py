"""Snapshots of the queue: saving the records of pending pods in a bundle, and restoring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from scheduler.api.pod import Pod
from scheduler.explain.records import QueueState
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.introspection import QueueIntrospection

FIELDS: Final = tuple(
    each.name
    for each in msgspec.structs.fields(QueuedPodInfo)
    if each.name not in ("pod", "plugin_memory")
)
"""The fields of a record that are plain values."""


def kept_fields(info: QueuedPodInfo) -> dict[str, Any]:
    """Return the plain values of a record; sets are copied, so that they show this moment."""
    kept = {name: getattr(info, name) for name in FIELDS}
    kept["unschedulable_plugins"] = sorted(info.unschedulable_plugins)
    kept["pending_plugins"] = sorted(info.pending_plugins)
    return kept


def restore_fields(info: QueuedPodInfo, kept: Mapping[str, Any]) -> None:
    """Set the plain values of a record; unknown names are ignored.

    Raises:
        msgspec.ValidationError: a value has the wrong type.
    """
    known = msgspec.convert({**kept_fields(info), **kept, "pod": None}, _KeptInfo)
    for name in FIELDS:
        setattr(info, name, getattr(known, name))


_HINTS: Final = get_type_hints(QueuedPodInfo)
_KeptInfo: Any = msgspec.defstruct("_KeptInfo", [(name, _HINTS[name]) for name in FIELDS])


class QueueSnapshots(QueueIntrospection):
    """The part of `SchedulingQueue` that bundles use."""

    restore_fields = staticmethod(restore_fields)

    def records(self) -> Iterator[tuple[QueuedPodInfo, QueueState]]:
        """Yield every record with its state: active in order, backoff in order, then the others.

        The queue must not change meanwhile.
        """
        sub_queues = self._sub_queues
        yield from ((info, QueueState.ACTIVE) for info in sub_queues.active.ordered())
        yield from ((info, QueueState.BACKOFF) for info in sub_queues.backoff.ordered())
        for info in sub_queues.unschedulable:
            yield info, QueueState.GATED if info.gated else QueueState.UNSCHEDULABLE
        yield from ((info, QueueState.IN_FLIGHT) for info in self._in_flight)

    def take(self, pod: Pod) -> QueuedPodInfo:
        """Take a given pod out of its sub-queue and mark it in flight; a new record if not queued.

        For the replay of attempts; the record does not change.
        """
        uid = pod.uid
        info = self._in_flight.get(uid) or self._sub_queues.get(uid)
        if info is None:
            info = QueuedPodInfo(pod, self._clock.now())
        elif uid not in self._in_flight:
            self._sub_queues.remove(info)
        self._in_flight.start(info)
        self._retry_suppressor.attempt_started(uid)
        return info

    def restore(self, pod: Pod, state: QueueState, kept: Mapping[str, Any]) -> QueuedPodInfo:
        """Put a pod into the sub-queue `state` of a snapshot, with the record of the snapshot.

        Raises:
            msgspec.ValidationError: a value has the wrong type.
        """
        info = self._sub_queues.get(pod.uid)
        if info is None:
            info = self._in_flight.get(pod.uid) or QueuedPodInfo(pod, self._clock.now())
        else:
            self._sub_queues.remove(info)
        restore_fields(info, kept)
        if state is QueueState.ACTIVE:
            self._sub_queues.to_active(info, info.last_event)
        elif state is QueueState.BACKOFF:
            self._sub_queues.to_backoff(info, info.last_event)
        elif state is QueueState.IN_FLIGHT:
            self._in_flight.start(info)
        else:
            self._sub_queues.to_unschedulable(info, info.last_event)
        return info
