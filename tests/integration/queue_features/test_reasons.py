"""A PodScheduled reason set by a plugin, from the rejection to the pod's stored status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from devtools.embedded_service import (
    ConditionLog,
    bound_to,
    condition,
    node,
    plugin,
    pod,
    scheduling,
    settled,
    until,
)
from scheduler.framework import Code, PostFilterResult, Status, unschedulable
from scheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint
from simulator import EmbeddedCluster, FaultRule
from simulator.objects import JsonObject

REASON = "ResourceQuotaValidated"
SOON: Any = {"kubestow": {"statusPatchDelay": "20ms"}}
NODE_LABEL = ClusterEvent("Node", ActionType.UPDATE_NODE_LABEL)


def rejection(message: str) -> Status:
    return Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        (message,),
        condition_reason=REASON,
        skip_post_filter=True,
    )


def merge(cluster: EmbeddedCluster, kind: str, name: str, patch: JsonObject) -> None:
    """Patch an object as another client."""
    resource = cluster.resources.of_kind("v1", kind)
    namespace = "default" if resource.namespaced else ""
    cluster.api.patch(resource, namespace, name, patch, "application/merge-patch+json")


@dataclass
class Budget:
    """A PreEnqueue plugin that rejects pods named "held…" with `text`, unless that is empty."""

    text: str = "0 of 10 left"
    checked: list[str] = field(default_factory=list)

    def reject(self, pod: Any) -> Status | None:
        if not pod.metadata.name.startswith("held"):
            return None
        self.checked.append(pod.metadata.name)
        return rejection(self.text) if self.text else None

    def gate(self) -> type[Any]:
        return plugin(
            "Budget",
            pre_enqueue=self.reject,
            events_to_register=lambda: [ClusterEventWithHint(NODE_LABEL)],
        )


async def test_the_reason_of_a_gating_plugin_is_written(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    budget = Budget()
    async with scheduling(cluster, [budget.gate()], **SOON) as scheduler:
        cluster.create(pod("held"))
        await until(lambda: condition(cluster, "held"))
        found = condition(cluster, "held")
        assert (found["status"], found["reason"]) == ("False", REASON)
        assert found["message"] == "0 of 10 left"
        assert scheduler.scheduling.queue.statistics().gated == 1
        budget.text = ""
        merge(cluster, "Node", "n1", {"metadata": {"labels": {"a": "b"}}})
        await until(lambda: bound_to(cluster, "held") == "n1")


async def test_a_gate_without_a_reason_of_its_own_is_told_as_well(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    gate = plugin("OfficeHours", pre_enqueue=lambda _pod: unschedulable("opens at 9:00"))
    async with scheduling(cluster, [gate], **SOON):
        cluster.create(pod("held"))
        await until(lambda: condition(cluster, "held"))
        found = condition(cluster, "held")
        assert (found["status"], found["reason"]) == ("False", "GatedByPlugin")
        assert found["message"] == "plugin OfficeHours: opens at 9:00"


async def test_scheduling_gates_are_left_to_the_server(cluster: EmbeddedCluster) -> None:
    history = ConditionLog(cluster)
    budget = Budget()
    async with scheduling(cluster, [budget.gate()], **SOON) as scheduler:
        cluster.create(pod("held", gates=["g"]))
        cluster.create(pod("held-too"))
        await until(lambda: history.reasons("held-too") == [REASON])
        assert history.reasons("held") == ["SchedulingGated"]
        assert scheduler.connections.dispatcher.statistics().status.sent == 1
        # Once its scheduling gate is removed, the other plugin gates the pod with its own reason.
        merge(cluster, "Pod", "held", {"spec": {"schedulingGates": None}})
        await until(lambda: history.reasons("held") == ["SchedulingGated", REASON])


async def test_events_that_change_numbers_for_many_held_pods_cause_no_writes(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    budget = Budget()
    names = [f"held-{number}" for number in range(150)]
    async with scheduling(cluster, [budget.gate()], **SOON) as scheduler:
        for name in names:
            cluster.create(pod(name))
        await until(lambda: all(condition(cluster, name) for name in names))
        await settled(scheduler)
        for left in range(1, 4):
            budget.text = f"{left} of 10 left"
            budget.checked.clear()
            merge(cluster, "Node", "n1", {"metadata": {"labels": {"left": str(left)}}})
            await until(lambda: len(budget.checked) == len(names))
        budget.text = "another team's turn"
        merge(cluster, "Node", "n1", {"metadata": {"labels": {"left": "0"}}})
        await until(
            lambda: all(condition(cluster, name)["message"] == budget.text for name in names)
        )
        await settled(scheduler)
        assert scheduler.connections.dispatcher.statistics().status.sent == 2 * len(names)
        assert scheduler.scheduling.gates.statistics().written == 2 * len(names)


async def test_a_pod_that_is_ungated_in_time_gets_no_condition(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    history, budget = ConditionLog(cluster), Budget()
    settings: Any = {"kubestow": {"statusPatchDelay": "10m"}}
    async with scheduling(cluster, [budget.gate()], **settings) as scheduler:
        cluster.create(pod("held"))
        await until(lambda: scheduler.scheduling.gates.statistics().waiting)
        budget.text = ""
        merge(cluster, "Node", "n1", {"metadata": {"labels": {"a": "b"}}})
        await until(lambda: bound_to(cluster, "held") == "n1")
        await settled(scheduler)
        assert REASON not in history.reasons("held")


async def test_held_unschedulable_held_again(cluster: EmbeddedCluster) -> None:
    """The state machine of KEP-5465, the backward step included."""
    cluster.create(node("n1", cpu="1"))
    history, budget = ConditionLog(cluster), Budget()
    async with scheduling(cluster, [budget.gate()], **SOON) as scheduler:
        cluster.create(pod("held", cpu="2"))
        await until(lambda: history.reasons("held") == [REASON])
        budget.text = ""
        merge(cluster, "Node", "n1", {"metadata": {"labels": {"a": "1"}}})
        await until(lambda: history.reasons("held") == [REASON, "Unschedulable"])
        budget.text = "0 of 10 left"
        (view,) = scheduler.scheduling.queue.views()
        scheduler.scheduling.queue.recheck([view.uid])
        await until(lambda: history.reasons("held") == [REASON, "Unschedulable", REASON])


async def test_a_condition_is_written_in_spite_of_errors(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(FaultRule(action="error", verb="patch", resource="pods/status", times=2))
    budget = Budget()
    async with scheduling(cluster, [budget.gate()], **SOON):
        cluster.create(pod("held"))
        await until(lambda: condition(cluster, "held").get("reason") == REASON)


@pytest.mark.parametrize("point", ["pre_filter", "filter"])
async def test_an_attempt_that_a_plugin_rejects_with_a_reason_of_its_own(
    cluster: EmbeddedCluster, point: str
) -> None:
    cluster.create(node("n1"))
    checked: list[str] = []

    def post_filter(state: object, pod: Any, statuses: object) -> PostFilterResult:
        checked.append(pod.metadata.name)
        return PostFilterResult(unschedulable("no help"))

    def reject(state: object, pod: Any, where: object) -> Status | None:
        return rejection("over quota") if pod.metadata.name == "p" else None

    methods: Any = {point: reject}
    plugins = [plugin("Quota", **methods), plugin("Helper", post_filter=post_filter)]
    async with scheduling(cluster, plugins, **SOON) as scheduler:
        cluster.create(pod("p"))
        cluster.create(pod("big", cpu="100"))
        await until(lambda: condition(cluster, "p").get("reason") == REASON)
        await until(lambda: condition(cluster, "big").get("reason") == "Unschedulable")
        assert "over quota" in condition(cluster, "p")["message"]
        assert checked == ["big"]
        assert scheduler.scheduling.gates.statistics().written == 1


async def test_pods_rejected_in_turn_are_written_once(cluster: EmbeddedCluster) -> None:
    """A gate lets many pods in, and PreFilter rejects all but one, again and again."""
    cluster.create(node("n1"))
    used = [0]
    attempts: list[str] = []

    def reject(state: object, pod: Any, table: object) -> Status | None:
        attempts.append(pod.metadata.name)
        return rejection(f"{used[0]} of 10 used")

    quota = plugin(
        "Quota",
        pre_filter=reject,
        events_to_register=lambda: [ClusterEventWithHint(NODE_LABEL)],
    )
    names = [f"p{number}" for number in range(50)]
    async with scheduling(cluster, [quota], **SOON) as scheduler:
        for name in names:
            cluster.create(pod(name))
        await until(lambda: all(condition(cluster, name) for name in names))
        for used[0] in range(1, 4):
            merge(cluster, "Node", "n1", {"metadata": {"labels": {"used": str(used[0])}}})
            await until(lambda: len(attempts) == len(names) * (used[0] + 1))
        await settled(scheduler)
        assert scheduler.connections.dispatcher.statistics().status.sent == len(names)
