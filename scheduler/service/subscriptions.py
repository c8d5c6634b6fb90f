"""Callbacks of plugins for objects, nominations, bindings and time.

The service publishes to the `SubscriptionBoard`. Each plugin subscribes through its own
`PluginSubscriptions`, so that the callbacks of one plugin can be attached, when the configuration
that it belongs to is taken over, and withdrawn when nothing uses the plugin any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import structlog

from scheduler.api.pod import Pod
from scheduler.framework import TimedWork
from scheduler.service.questions import QuestionFailedError

_log = structlog.get_logger(__name__)


class _Subscribing(ABC):
    """The methods of `framework.Subscriptions`."""

    wake: Callable[[], None]
    """Makes the scheduling loop ask when timed work is due."""

    @abstractmethod
    def add(self, kind: str, callback: Any, plural: str = "") -> None:
        """Add a subscription: `kind` is the part of the method's name after `on_`."""

    def on_object(
        self,
        plural: str,
        callback: Callable[[Any | None, Any | None], None],
        *,
        in_trials: bool = False,
    ) -> None:
        """Call `callback(old, new)` for every change of a watched object."""
        self.add("object", callback, plural)
        if in_trials:
            self.add("tried", callback, plural)

    def on_trial(self, begin: Callable[[], Callable[[], None]]) -> None:
        """Call `begin()` before a trial, and what it returns after it."""
        self.add("trial", begin)

    def on_nomination(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` for nominations; an empty name: one was cleared."""
        self.add("nomination", callback)

    def on_bind(self, callback: Callable[[Pod, str], None]) -> None:
        """Call `callback(pod, node_name)` after a binding succeeded."""
        self.add("bind", callback)

    def on_synced(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when every first list was handled."""
        self.add("synced", callback)

    def on_time(self, work: TimedWork) -> Callable[[], None]:
        """Have `work` called when it is due; return what to call when that is earlier."""
        self.add("time", work)
        return self.wake


class SubscriptionBoard(_Subscribing):
    """Implements `framework.Subscriptions`; the service publishes to it."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """`wake()` makes the scheduling loop ask when timed work is due."""
        self.wake = wake
        self._objects: dict[str, list[Callable[[Any | None, Any | None], None]]] = {}
        #: The callbacks in `_objects` that are called in trials as well.
        self._tried: dict[str, list[Callable[[Any | None, Any | None], None]]] = {}
        self._trials: list[Callable[[], Callable[[], None]]] = []
        self._nominations: list[Callable[[Pod, str], None]] = []
        self._binds: list[Callable[[Pod, str], None]] = []
        self._synced: list[Callable[[], None]] = []
        #: Timed work of plugins.
        self.timed: list[TimedWork] = []
        #: Whether the end of the first lists was published.
        self.synced = False

    @property
    def plurals(self) -> frozenset[str]:
        """Resources that have subscribers, and must therefore be watched."""
        return frozenset(self._objects)

    def publish_object(self, plural: str, old: Any | None, new: Any | None) -> None:
        """Call the subscribers to a resource."""
        _publish(self._objects.get(plural, ()), old, new)

    @property
    def tried_plurals(self) -> frozenset[str]:
        """Resources with subscribers that are called in trials."""
        return frozenset(self._tried)

    def publish_tried(self, plural: str, old: Any | None, new: Any | None) -> None:
        """Call the subscribers for trials. Raises QuestionFailedError if one of them raises."""
        for callback in self._tried.get(plural, ()):
            try:
                callback(old, new)
            except Exception as error:
                raise _failed(callback, error) from error

    def begin_trial(self, restored: ExitStack) -> None:
        """Have subscribers save their state; they restore it when `restored` is closed.

        Raises QuestionFailedError if one raises.
        """
        for begin in self._trials:
            try:
                restored.callback(begin())
            except Exception as error:
                raise _failed(begin, error) from error

    def publish_nomination(self, pod: Pod, node_name: str) -> None:
        """Call the subscribers to nominations."""
        _publish(self._nominations, pod, node_name)

    def publish_bind(self, pod: Pod, node_name: str) -> None:
        """Call the subscribers to bindings."""
        if self._binds:
            _publish(self._binds, pod, node_name)

    def publish_synced(self) -> None:
        """Call the subscribers to the end of the first lists."""
        self.synced = True
        _publish(self._synced)

    def add(self, kind: str, callback: Any, plural: str = "") -> None:
        """Add a subscription: `kind` is the part of the method's name after `on_`."""
        self._callbacks(kind, plural).append(callback)

    def remove(self, kind: str, callback: Any, plural: str = "") -> None:
        """Remove a subscription."""
        self._callbacks(kind, plural).remove(callback)

    def _callbacks(self, kind: str, plural: str) -> list[Any]:
        if kind in ("object", "tried"):
            return (self._objects if kind == "object" else self._tried).setdefault(plural, [])
        lists: dict[str, list[Any]] = {
            "nomination": self._nominations,
            "bind": self._binds,
            "synced": self._synced,
            "time": self.timed,
            "trial": self._trials,
        }
        return lists[kind]


class PluginSubscriptions(_Subscribing):
    """The subscriptions of one plugin, or of one object that plugins share.

    Implements `framework.Subscriptions`. Callbacks are not called before `begin_catching_up` or
    `attach`, nor after `withdraw`.
    """

    def __init__(self, board: SubscriptionBoard, *, attached: bool) -> None:
        """Call callbacks from the start if `attached`: nothing runs yet, so nothing is missed."""
        self._board, self.wake = board, board.wake
        self._attached = attached
        self._entries: list[tuple[str, Any, str]] = []
        self._catching_up: list[_CatchUp] = []

    @property
    def plurals(self) -> frozenset[str]:
        """Resources subscribed to, which must therefore be watched."""
        return frozenset(plural for kind, _, plural in self._entries if kind == "object")

    def alike(self) -> PluginSubscriptions:
        """Return subscriptions without entries that begin to call at the same time."""
        return PluginSubscriptions(self._board, attached=self._attached)

    def begin_catching_up(self, known: Callable[[str], dict[str, Any]]) -> None:
        """Call callbacks for changes of objects from now on; `deliver_known` delivers the rest.

        `known(plural)` returns the objects by key, as all events published so far have left them.
        """
        if self._attached:
            return
        for kind, callback, plural in self._entries:
            if kind == "object":
                each = _CatchUp(plural, callback, known(plural))
                self._catching_up.append(each)
                self._board.add("object", each.change, plural)

    def deliver_known(self) -> Iterator[None]:
        """Deliver every known object as an addition; yield after each, so that others can run."""
        for each in self._catching_up:
            while each.deliver_next():
                yield

    def attach(self) -> None:
        """Call all callbacks from now on, after `deliver_known` has ended."""
        if self._attached:
            return
        self.leave_catching_up()
        self._attached = True
        for entry in self._entries:
            self._board.add(*entry)
        if self._board.synced:
            _publish([callback for kind, callback, _ in self._entries if kind == "synced"])

    def withdraw(self) -> None:
        """Call no callback any more."""
        self.leave_catching_up()
        if self._attached:
            for entry in self._entries:
                self._board.remove(*entry)
        self._attached = False
        self._entries = []

    def leave_catching_up(self) -> None:
        """Call no callback any more if `attach` has not been called yet."""
        for each in self._catching_up:
            self._board.remove("object", each.change, each.plural)
        self._catching_up = []

    def add(self, kind: str, callback: Any, plural: str = "") -> None:
        """Add a subscription, of the kinds of the board."""
        self._entries.append((kind, callback, plural))
        if self._attached:
            self._board.add(kind, callback, plural)


class _CatchUp:
    """Objects that are yet to be delivered to a new subscriber, one at a time."""

    def __init__(
        self, plural: str, callback: Callable[[Any, Any], None], known: dict[str, Any]
    ) -> None:
        self.plural = plural
        self._callback = callback
        self._unheard = known

    def change(self, old: Any, new: Any) -> None:
        """Pass on a change, as an addition if the object was not delivered before."""
        metadata = (old if new is None else new).metadata
        namespace, name = metadata.namespace, metadata.name
        if self._unheard.pop(f"{namespace}/{name}" if namespace else name, None) is None:
            _publish((self._callback,), old, new)
        elif new is not None:
            _publish((self._callback,), None, new)

    def deliver_next(self) -> bool:
        """Deliver one object; return False if none is left."""
        if not self._unheard:
            return False
        _, item = self._unheard.popitem()
        _publish((self._callback,), None, item)
        return True


def _failed(callback: Callable[..., Any], error: Exception) -> QuestionFailedError:
    owner = getattr(callback, "__qualname__", repr(callback))
    return QuestionFailedError(f"{callback.__module__}, {owner} failed: {error!r}")


def _publish(callbacks: Iterable[Callable[..., None]], *about: Any) -> None:
    for callback in callbacks:
        try:
            callback(*about)
        except Exception:  # noqa: BLE001 - plugin boundary: the other subscribers are called as well
            _log.exception("a plugin's callback failed", callback=repr(callback))
