"""Pods that wait at Permit (runtime/waiting_pods_map.go: waitingPod).

Timeouts are compared with a clock, never slept. The first signal counts: allowed by all waiting
plugins, rejected, preempted or timed out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import PERMIT, call
from scheduler.framework import Clock, Code, CycleState, PluginError, Status
from scheduler.sanitizing.go_values import format_duration

MAX_TIMEOUT = 15 * 60.0

PermitCall = Callable[[Pod], tuple[Status | None, float]]
"""Runs Permit of one plugin for the given version of a pod; raises AttemptError."""


def permit_again(
    plugins: Iterable[Any], waiting: Collection[str], state: CycleState, node_name: str
) -> dict[str, PermitCall]:
    """Return the Permit calls to repeat after events, by plugin.

    They are those of `plugins` with `permit_on_events` whose names are in `waiting`.
    """

    def permit(plugin: Any, pod: Pod) -> tuple[Status | None, float]:
        found: tuple[Status | None, float] = call(PERMIT, plugin, state, pod, node_name)
        return found

    return {
        plugin.name: partial(permit, plugin)
        for plugin in plugins
        if plugin.name in waiting and getattr(plugin, "permit_on_events", False)
    }


class WaitingPod:
    """One waiting pod. `result` is None until the wait is over, then a Status (even of Success)."""

    def __init__(
        self,
        pod: Pod,
        timeouts: dict[str, float],
        clock: Clock,
        permit_again: Mapping[str, PermitCall] | None = None,
    ) -> None:
        """Begin the wait; `timeouts` has the seconds that each plugin waits.

        `permit_again` has the calls to repeat after events, see the function `permit_again`.
        """
        self.pod = pod
        #: The newest version of the pod; `pod` is the version that was assumed.
        self.newest = pod
        self._permit_again = permit_again or {}
        now = clock.monotonic()
        self._timeouts = {plugin: min(t, MAX_TIMEOUT) for plugin, t in timeouts.items()}
        self._deadlines = {plugin: now + t for plugin, t in self._timeouts.items()}
        self._waiting = set(timeouts)
        self.result: Status | None = None
        #: The error of a plugin that raised when Permit ran again.
        self.raised: AttemptError | None = None
        #: Called once with the result; the service wakes the binding task with it.
        self.on_result = Signal[[Status]]()

    def pending_plugins(self) -> list[str]:
        """Return the plugins that have not allowed the pod yet."""
        return sorted(self._waiting)

    def deadline(self) -> float:
        """Return the monotonic time at which the earliest timeout expires."""
        return min(self._deadlines[plugin] for plugin in self._waiting)

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of `plugin`; the last pending plugin ends the wait."""
        if self.result is not None:
            return
        self._waiting.discard(plugin)
        if not self._waiting:
            self._finish(Status(Code.SUCCESS))

    def reject(self, plugin: str, message: str) -> bool:
        """End the wait with a rejection; return False if it was already over."""
        return self._finish(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error in favour of another pod; return False if it was over."""
        return self._finish(Status(Code.ERROR, (), plugin, PluginError(message)))

    @property
    def released_by_events(self) -> bool:
        """Whether a plugin with `permit_on_events` makes the pod wait."""
        return bool(self._permit_again)

    def reconsider(self, helps: Callable[[str, Pod], bool]) -> None:
        """After an event, run Permit again for each plugin with `helps(plugin, pod)`.

        If a plugin still returns WAIT, the timeout of its first call stays in force.
        """
        for plugin in self.pending_plugins():
            permit = self._permit_again.get(plugin)
            if permit is None or self.result is not None or not helps(plugin, self.newest):
                continue
            try:
                status, _ = permit(self.newest)
            except AttemptError as error:
                self.raised = error
                self._finish(error.status)
                return
            if status is None or status.success:
                self.allow(plugin)
            elif status.code is not Code.WAIT:
                self._finish(status.by(plugin))

    def expire(self, now: float) -> bool:
        """Reject the pod if a timeout has expired at monotonic time `now`; return whether so."""
        if self.result is not None:
            return False
        for plugin in sorted(self._waiting, key=lambda name: self._deadlines[name]):
            if self._deadlines[plugin] <= now:
                waited = format_duration(timedelta(seconds=self._timeouts[plugin]))
                return self.reject(
                    plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
                )
        return False

    def _finish(self, status: Status) -> bool:
        if self.result is not None:
            return False
        self.result = status
        self.on_result(status)
        return True


class WaitingPods:
    """All waiting pods of the process, by UID; profiles share them."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, pod: WaitingPod) -> None:
        """Start tracking a waiting pod."""
        self._pods[pod.pod.metadata.uid] = pod

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod, or None."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Stop tracking a pod; does nothing if it is unknown."""
        self._pods.pop(uid, None)

    def reconsider(self, helps: Callable[[str, Pod], bool]) -> None:
        """Run `WaitingPod.reconsider` for all waiting pods after an event."""
        for waiting in self:
            if waiting.released_by_events:
                waiting.reconsider(helps)

    def reject(self, uid: str) -> bool:
        """Reject a pod that is being deleted; return False if it is not waiting."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")
