"""ServiceHandle: the Handle that plugins of a running process get."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from scheduler.api.pod import Pod
from scheduler.engine import WaitingPod
from scheduler.framework import ApiWriter, NodeTableView, Nominator, WhatIf
from scheduler.framework.preemption import PreemptionSearch
from scheduler.metrics import DeclaredMetrics
from scheduler.queue import SchedulingQueue
from scheduler.service.shared_objects import SharedObjects
from scheduler.service.subscriptions import PluginSubscriptions
from scheduler.stages.connections import Connections
from scheduler.stages.state import State


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

    def __init__(
        self,
        profile_name: str,
        connections: Connections,
        state: State,
        api: ApiWriter,
        shared: SharedObjects,
    ) -> None:
        """Wire the handle; the handles of all profiles have the same `shared`."""
        self.profile_name = profile_name
        self.clock = connections.clock
        self.events = connections.events
        self.feature_gates = connections.configuration.feature_gates
        self.metrics = connections.metrics.plugins.declare(profile_name, ())
        self.random = connections.random
        self.listers = state.listers
        self.subscriptions = PluginSubscriptions(state.subscriptions, attached=True)
        self.api = api
        self._state = state
        self._shared = shared
        #: A list with the parts, or empty before `connect`; all plugins of the profile share it.
        self._connected: list[SchedulingParts] = []

    def for_plugin(
        self, subscriptions: PluginSubscriptions, metrics: DeclaredMetrics
    ) -> ServiceHandle:
        """Return the handle for one plugin, with its own subscriptions and metrics."""
        own = copy.copy(self)
        own.subscriptions = subscriptions
        own.metrics = metrics
        return own

    def connect(self, parts: SchedulingParts) -> None:
        """Complete the handle; queue and binding are built after the plugins that use it.

        Called again whenever the plugins of any profile were replaced.
        """
        self._connected[:] = [parts]

    @property
    def table(self) -> NodeTableView:
        """All nodes."""
        return self._state.cache.table

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

    def may(self, verb: str, resource: str) -> bool:
        """Whether RBAC allows it, as far as is known."""
        return self._state.permissions.may(verb, resource)

    def serves(self, resource: str) -> bool:
        """Whether the API server has the resource, as far as is known."""
        return self._state.permissions.serves(resource)

    async def served_now(self, resource: str) -> bool | None:
        """Ask the API server whether it has the resource."""
        return await self._state.permissions.served_now(resource)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue now."""
        self._state.inbox.submit(self._scheduling().queue.activate, list(pods))

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for waiting pods."""
        self._state.inbox.submit(self._scheduling().queue.recheck, list(uids))

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Change reason and message of a waiting pod's PodScheduled condition."""
        self._scheduling().relabel(pod, reason, message)

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """Requeue pods that `plugin` rejected or gates."""
        wake = self._scheduling().queue.wake
        self._state.inbox.submit(wake, list(uids), plugin, f"{plugin}Wake")

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the process-wide object of this name."""
        if name not in self._shared.objects:
            # `make` may pass this handle to an object that outlives the plugin.
            own = self.subscriptions
            self.subscriptions = self._shared.subscribe(name, own)
            try:
                self._shared.objects[name] = make()
            finally:
                self.subscriptions = own
        return self._shared.objects[name]

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Return the pods that wait at Permit, of all profiles."""
        return self._state.waiting_pods

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return one waiting pod, or None."""
        return self._state.waiting_pods.get(uid)

    def preempt_binding(self, uid: str, message: str) -> bool:
        """Stop PreBind of a pod; return False if it is not in PreBind."""
        return self._scheduling().preempt_binding(uid, message)

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task of the process."""
        self._state.background.start(work, name)

    def _scheduling(self) -> SchedulingParts:
        if not self._connected:
            msg = "the queue does not exist yet: use it from extension points, not from __init__"
            raise RuntimeError(msg)
        return self._connected[0]
