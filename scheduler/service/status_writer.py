"""StatusWriter: patches of a pending pod's status (`schedule_one.go: updatePod`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.api.meta import Condition, second_time
from scheduler.api.pod import Pod
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.status_patch import plan_status_patch
from scheduler.framework import Clock
from scheduler.queue import QueueNominator

POD_SCHEDULED: Final = "PodScheduled"


class StatusWriter:
    """Writes PodScheduled=False and `status.nominatedNodeName`; never PodScheduled=True."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock, nominator: QueueNominator) -> None:
        """Wire the writer; `nominator` learns of written nominations."""
        self._dispatcher = dispatcher
        self._clock = clock
        self._nominator = nominator
        dispatcher.on_nomination_written.subscribe(nominator.written)

    def not_scheduled(
        self,
        pod: Pod,
        reason: str,
        message: str,
        more: Sequence[Condition] = (),
        *,
        nominated: str | None = None,
        afresh: bool = False,
    ) -> None:
        """Write why the pod is pending.

        Args:
            pod: its newest known state.
            reason: of the condition.
            message: of the condition.
            more: conditions of plugins, for the same patch.
            nominated: the node to nominate; None leaves the nomination alone, "" clears it.
            afresh: write the condition even if `pod` has it already, since the write of another
                condition may be under way.
        """
        condition = Condition(
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=message,
            observed_generation=pod.metadata.generation or None,
        )
        self._submit(_unsure(pod) if afresh else pod, condition, nominated, more)

    def nomination_differs(self, pod: Pod, nominated: str | None) -> bool:
        """Whether to write the nomination: another one is known, or may be under way."""
        return nominated is not None and (
            nominated != pod.status.nominated_node_name or self._nominator.ahead(pod)
        )

    def expected_on(self, pod: Pod, node_name: str) -> None:
        """Write the nominated node before slow binding work begins."""
        self._submit(pod, None, node_name)

    def _submit(
        self,
        pod: Pod,
        condition: Condition | None,
        nominated: str | None,
        more: Sequence[Condition] = (),
    ) -> None:
        generation = pod.metadata.generation or None
        renominate = self.nomination_differs(pod, nominated)
        observed = [msgspec.structs.replace(each, observed_generation=generation) for each in more]
        now = second_time(self._clock.now())
        patch = plan_status_patch(pod, condition, nominated, now, observed, renominate=renominate)
        if patch is None:
            return
        if patch.nominated_node_name is not None:
            self._nominator.writing(pod, patch.nominated_node_name)
        self._dispatcher.patch_status(patch)


def _unsure(pod: Pod) -> Pod:
    """Return the pod with a condition that differs from any to be written; its times stay."""
    conditions = tuple(
        msgspec.structs.replace(each, reason="") if each.type == POD_SCHEDULED else each
        for each in pod.status.conditions
    )
    status = msgspec.structs.replace(pod.status, conditions=conditions)
    return msgspec.structs.replace(pod, status=status)
