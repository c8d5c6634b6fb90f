"""SubscriptionBoard: callbacks of plugins for objects, nominations, bindings and time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import structlog

from scheduler.api.pod import Pod
from scheduler.framework import TimedWork

_log = structlog.get_logger(__name__)


class SubscriptionBoard:
    """Implements `framework.Subscriptions`; the service publishes to it."""

    def __init__(self) -> None:
        self._objects: dict[str, list[Callable[[Any | None, Any | None], None]]] = {}
        self._nominations: list[Callable[[Pod, str], None]] = []
        self._binds: list[Callable[[Pod, str], None]] = []
        self._synced: list[Callable[[], None]] = []
        #: Plugins' work by the clock.
        self.timed: list[TimedWork] = []

    def on_object(self, plural: str, callback: Callable[[Any | None, Any | None], None]) -> None:
        """Call `callback(old, new)` for every change of a watched object."""
        self._objects.setdefault(plural, []).append(callback)

    def on_nomination(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` for nominations; an empty name: one was cleared."""
        self._nominations.append(callback)

    def on_bind(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` after a binding succeeded."""
        self._binds.append(callback)

    def on_synced(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when every first list was handled."""
        self._synced.append(callback)

    def on_time(self, work: TimedWork) -> None:
        """Have `work` called by the scheduling loop when it is due."""
        self.timed.append(work)

    @property
    def plurals(self) -> frozenset[str]:
        """Resources with a subscriber: they must be watched."""
        return frozenset(self._objects)

    def publish_object(self, plural: str, old: Any | None, new: Any | None) -> None:
        """Call the subscribers to a resource."""
        _publish(self._objects.get(plural, ()), old, new)

    def publish_nomination(self, pod: Pod, node_name: str) -> None:
        """Call the subscribers to nominations."""
        _publish(self._nominations, pod, node_name)

    def publish_bind(self, pod: Pod, node_name: str) -> None:
        """Call the subscribers to bindings."""
        _publish(self._binds, pod, node_name)

    def publish_synced(self) -> None:
        """Call the subscribers to the end of the first lists."""
        _publish(self._synced)


def _publish(callbacks: Iterable[Callable[..., None]], *about: Any) -> None:
    for callback in callbacks:
        try:
            callback(*about)
        except Exception:  # noqa: BLE001 - plugin boundary: the other subscribers are called as well
            _log.exception("a plugin's callback failed", callback=repr(callback))
