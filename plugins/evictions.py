"""Evictions for preemptors: how DefaultPreemption carries out what it has decided.

Upstream: `preemption/executor.go`. Victims that wait at Permit, or whose PreBind is under way, are
stopped in memory; others get the condition DisruptionTarget and are deleted. Before each step a
preemptor may turn out not to need the room any more; then the remaining victims stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework import Handle, plugin_names

PREEMPTED: Final = "preempted"
PREEMPTED_IN_PRE_BIND: Final = f"preempted by {plugin_names.DEFAULT_PREEMPTION}"

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
CONDITION_MESSAGE: Final = "{scheduler}: preempting to accommodate a higher priority pod"

EVENT_REASON: Final = "Preempted"
EVENT_ACTION: Final = "Preempting"
EVENT_NOTE: Final = (
    "Preempted by {preemptor} on node {node}: its priority is {priority}, its scheduler {scheduler}"
)
PREEMPTED_BY: Final = "preempted by {group}"


class Preemptor(NamedTuple):
    """The pod for which others are evicted, or one pod of a group."""

    pod: Pod
    #: Whether it still needs the room of the victims.
    needed: Callable[[], bool]
    #: The group's name in messages; empty for a single pod.
    group: str = ""


class Evictions:
    """Evicts pods for preemptors of one profile."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def clear_lower_nominations(
        self, preemptor: Preemptor, node_name: str
    ) -> list[BaseException]:
        """Clear the nominations of this scheduler's pods of lower priority for the node."""
        errors: list[BaseException] = []
        for other in self._handle.nominator.nominated_pods_for_node(node_name):
            if other.priority >= preemptor.pod.priority or not other.status.nominated_node_name:
                continue
            if not self._handle.preemption.own(other):
                continue
            if not preemptor.needed():
                break
            metadata = other.metadata
            body = {"metadata": {"uid": metadata.uid}, "status": {"nominatedNodeName": None}}
            try:
                await self._handle.api.patch(
                    "pods", metadata.name, metadata.namespace, body, "status"
                )
            except Exception as error:  # noqa: BLE001 - write boundary: the evictions go on
                errors.append(error)
        return errors

    async def evict(
        self, preemptor: Preemptor, node_name: str, victims: Sequence[Pod]
    ) -> tuple[bool, list[BaseException]]:
        """Return whether a victim was not deleted or did not exist any more, and the errors.

        Victims of a group are on several nodes; `node_name` is empty then.
        """
        to_delete = []
        for each in victims if preemptor.needed() else ():
            if self._rejected_before_bind(each, preemptor.group):
                self._record_event(preemptor, each.spec.node_name or node_name, each)
            else:
                to_delete.append(each)
        if not to_delete:
            return False, []
        condition = _condition(preemptor.pod)
        results = await self._handle.api.evict(to_delete, condition, preemptor.needed)
        for each, result in zip(to_delete, results, strict=True):
            if result is True:
                self._record_event(preemptor, each.spec.node_name or node_name, each)
        errors = [result for result in results if isinstance(result, BaseException)]
        return any(result is False for result in results), errors

    def _rejected_before_bind(self, victim: Pod, group: str) -> bool:
        """Whether the victim was stopped before binding; it returns to the queue undeleted."""
        by_group = PREEMPTED_BY.format(group=group) if group else ""
        uid = victim.metadata.uid
        waiting = self._handle.waiting_pod(uid)
        if waiting is not None and waiting.preempt(
            plugin_names.DEFAULT_PREEMPTION, by_group or PREEMPTED
        ):
            return True
        return self._handle.preempt_binding(uid, by_group or PREEMPTED_IN_PRE_BIND)

    def _record_event(self, preemptor: Preemptor, node_name: str, victim: Pod) -> None:
        pod = preemptor.pod
        note = EVENT_NOTE.format(
            preemptor=preemptor.group or f"pod {pod.metadata.uid}",
            node=node_name,
            priority=pod.priority,
            scheduler=pod.spec.scheduler_name,
        )
        self._handle.events.record(victim, "Normal", EVENT_REASON, EVENT_ACTION, note, pod)


def _condition(pod: Pod) -> Condition:
    return Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=CONDITION_MESSAGE.format(scheduler=pod.spec.scheduler_name),
    )
