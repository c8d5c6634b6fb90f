"""ServiceHandle: the Handle that plugins of a running process get."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from scheduler.api.pod import Pod
from scheduler.cache import Cache
from scheduler.engine import WaitingPod, WaitingPods
from scheduler.framework import (
    ApiWriter,
    Clock,
    Events,
    Listers,
    NodeTableView,
    Nominator,
    PluginMetrics,
    TimedWork,
    WhatIf,
)
from scheduler.framework.preemption import PreemptionSearch
from scheduler.queue import SchedulingQueue
from scheduler.service.background import BackgroundTasks
from scheduler.service.inbox import Inbox

_log = structlog.get_logger(__name__)


class SubscriptionBoard:
    """Implements `framework.Subscriptions`; the service publishes on it."""

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


@dataclass(frozen=True, slots=True)
class SchedulingParts:
    """The parts of a handle that are built from plugins."""

    queue: SchedulingQueue
    evaluator: PreemptionSearch
    what_if: WhatIf
    #: `BindingCycle.preempt`.
    preempt_binding: Callable[[str, str], bool]
    #: `FailureHandler.relabel`.
    relabel: Callable[[Pod, str, str], None]


class ServiceHandle:
    """Implements `framework.Handle` for one profile."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        profile_name: str,
        *,
        cache: Cache,
        clock: Clock,
        listers: Listers,
        waiting_pods: WaitingPods,
        feature_gates: Mapping[str, bool],
        subscriptions: SubscriptionBoard,
        api: ApiWriter,
        events: Events,
        background: BackgroundTasks,
        metrics: PluginMetrics,
        shared: dict[str, Any],
        inbox: Inbox | None = None,
    ) -> None:
        self.profile_name = profile_name
        self.clock = clock
        self.listers = listers
        self.feature_gates = feature_gates
        self.subscriptions = subscriptions
        self.api = api
        self.events = events
        self.metrics = metrics
        self._shared = shared
        self._cache = cache
        self._waiting_pods = waiting_pods
        self._background = background
        self._inbox = inbox or Inbox()
        self._parts: SchedulingParts | None = None

    def connect(self, parts: SchedulingParts) -> None:
        """Complete the handle, once: queue and binding are built from plugins that have it."""
        assert self._parts is None
        self._parts = parts

    @property
    def table(self) -> NodeTableView:
        """All nodes."""
        return self._cache.table

    @property
    def nominator(self) -> Nominator:
        """Nominations."""
        return self._scheduling().queue.nominator

    @property
    def preemption(self) -> PreemptionSearch:
        """The search for victims."""
        return self._scheduling().evaluator

    @property
    def what_if(self) -> WhatIf:
        """Runs of the profile's filters on hypothetical nodes."""
        return self._scheduling().what_if

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue now."""
        queue, wanted = self._scheduling().queue, list(pods)
        self._inbox.submit(lambda: queue.activate(wanted))

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for waiting pods."""
        queue, wanted = self._scheduling().queue, list(uids)
        self._inbox.submit(lambda: queue.recheck(wanted))

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Change reason and message of a waiting pod's PodScheduled condition."""
        self._scheduling().relabel(pod, reason, message)

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """Try pods again that `plugin` rejected."""
        queue, wanted = self._scheduling().queue, list(uids)
        self._inbox.submit(partial(queue.wake, wanted, plugin, f"{plugin}Wake"))

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """The one object of this name in the process."""
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Pods that wait at Permit, of all profiles."""
        return self._waiting_pods

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """One waiting pod, or None."""
        return self._waiting_pods.get(uid)

    def preempt_binding(self, uid: str, message: str) -> bool:
        """Stop the PreBind of a pod; False when it is not in PreBind."""
        return self._scheduling().preempt_binding(uid, message)

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task of the process."""
        self._background.start(work, name)

    def _scheduling(self) -> SchedulingParts:
        if self._parts is None:
            msg = "the queue does not exist yet: use it from extension points, not from __init__"
            raise RuntimeError(msg)
        return self._parts
