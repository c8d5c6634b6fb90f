"""StatusWriter: what a pod's status should say, as patches for the dispatcher (section 3.7)."""

from __future__ import annotations

from typing import Final

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.client.clock import second_time
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.status_patch import plan_status_patch
from scheduler.framework import Clock

POD_SCHEDULED: Final = "PodScheduled"


class StatusWriter:
    """Writes PodScheduled=False and `status.nominatedNodeName`; never PodScheduled=True."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._clock = clock

    def not_scheduled(
        self, pod: Pod, reason: str, message: str, nominated_node_name: str | None
    ) -> None:
        """Say why the pod is pending; None leaves its nomination alone, "" clears it."""
        condition = Condition(
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=message,
            observed_generation=pod.metadata.generation or None,
        )
        self._submit(pod, condition, nominated_node_name)

    def expected_on(self, pod: Pod, node_name: str) -> None:
        """Say where the pod will be bound, before slow binding work begins."""
        self._submit(pod, None, node_name)

    def _submit(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        patch = plan_status_patch(pod, condition, nominated, second_time(self._clock.now()))
        if patch is not None:
            self._dispatcher.patch_status(patch)
