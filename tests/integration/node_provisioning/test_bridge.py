"""The bridge over HTTP: A50 to A60, with events as autoscalers write them.

Streams keep their order, so a test that nothing follows sends a second event of the same kind about
another pod, and waits for what that one does.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from config import FeatureGates
from devtools.embedded_service import bind, find, node, pod, sample, scheduling, until
from scheduler.controllers.node_provisioning import bridge
from scheduler.controllers.node_provisioning.bridge import NodeProvisioningBridge
from scheduler.controllers.node_provisioning.decisions import Patch
from scheduler.controllers.node_provisioning.ownership import CONDITION
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster, FaultRule
from simulator.admission import WriteOptions
from tests.integration.node_provisioning.events import (
    NOT_TRIGGERED,
    TRIGGERED,
    ZONE,
    at,
    claim,
    condition,
    emit,
    event,
    repeat,
    shown,
    status_object,
    waiting_pod,
)

PATCHES = "kubestow_node_provisioning_condition_patches_total"
FAILED = ("False", "ScaleUpBackoff")


def bridging(
    cluster: EmbeddedCluster, *, gate: bool = True, **bridge: Any
) -> AbstractAsyncContextManager[Wiring]:
    options = RunOptions(feature_gates=FeatureGates({"PodTopologySpreadFallbackMode": gate}))
    return scheduling(cluster, options=options, kubestow={"nodeProvisioningBridge": bridge})


def seen(wiring: Wiring, cluster: EmbeddedCluster, name: str) -> bool:
    """The scheduler has the pod as it is stored; Events come in a stream of their own."""
    known: Any = wiring.state.listers["pods"].get(name, "default")
    stored = find(cluster, name)
    assert stored is not None
    return bool(known and known.metadata.resource_version == stored["metadata"]["resourceVersion"])


def write(cluster: EmbeddedCluster, name: str, status: str, reason: str) -> None:
    """Write the condition as another manager does."""
    body = {"status": {"conditions": [{"type": CONDITION, "status": status, "reason": reason}]}}
    cluster.api.patch(
        cluster.resources.of_kind("v1", "Pod"), "default", name, body,
        "strategic-merge-patch+json", WriteOptions(), subresource="status",
    )  # fmt: skip


async def test_a50_not_triggered_becomes_false_and_nothing_else_changes(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster) as wiring:
        made = cluster.create(waiting_pod())
        await until(lambda: (find(cluster, "a") or {})["status"].get("conditions"), "refused")
        before = (find(cluster, "a") or {})["status"]
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED, "condition")
        after = (find(cluster, "a") or {})["status"]
        await until(lambda: sample(wiring, PATCHES) == 1)
    written = condition(cluster)
    assert written["message"] == (
        "NotTriggerScaleUp: 1 in backoff after failed scale-up, "
        "3 node(s) didn't match Pod's node affinity/selector"
    )
    assert written["lastTransitionTime"]
    others = [each for each in after.pop("conditions") if each["type"] != CONDITION]
    assert others == before.pop("conditions")
    assert after == before
    assert sample(
        wiring, PATCHES, status="False", reason="ScaleUpBackoff", source="cluster-autoscaler"
    )


async def test_a51_triggered_after_it_becomes_true_and_an_older_event_is_ignored(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster) as wiring:
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED, time=at(-20)))
        await until(lambda: shown(cluster) == FAILED)
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED, time=at(-5)))
        await until(lambda: shown(cluster) == ("True", "TriggeredScaleUp"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED, time=at(-10)))
        emit(cluster, event(other, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster, "b") == FAILED)
        assert shown(cluster) == ("True", "TriggeredScaleUp")
        await until(lambda: sample(wiring, PATCHES) == 3)


async def test_a53_a_promise_that_is_not_kept_in_time_becomes_false(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster, provisioningDeadline="2s"):
        made = cluster.create(waiting_pod())
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED))
        await until(lambda: shown(cluster) == ("True", "TriggeredScaleUp"))
        await until(lambda: shown(cluster) == ("False", "ProvisioningTimedOut"))


async def test_a53_a_promise_that_is_old_when_it_is_heard_of_is_broken_already(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster):
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        emit(cluster, event(other, "TriggeredScaleUp", TRIGGERED, time=at(-600)))
        await until(lambda: shown(cluster, "b") == ("True", "TriggeredScaleUp"))
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED, time=at(-1260)))
        await until(lambda: shown(cluster) == ("False", "ProvisioningTimedOut"))


async def test_a54_only_karpenters_own_failed_scheduling_counts(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster) as wiring:
        pods = {name: cluster.create(waiting_pod(name)) for name in "abc"}
        text = "Failed to schedule pod, incompatible requirements"
        for name, source in (("a", "default-scheduler"), ("b", "kubestow"), ("c", "karpenter")):
            emit(cluster, event(pods[name], "FailedScheduling", text, source=source))
        await until(lambda: shown(cluster, "c") == ("False", "KarpenterFailedScheduling"))
        assert condition(cluster, "a") == condition(cluster, "b") == {}
        await until(lambda: sample(wiring, PATCHES) == 1)


async def test_a55_a_node_claim_without_capacity_makes_its_pods_suspect(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster, suspectWindow="300ms") as wiring:
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        for each, name in ((made, "x"), (other, "y")):
            text = f"Pod should schedule on: nodeclaim/{name}"
            emit(cluster, event(each, "Nominated", text, source="karpenter"))
        await until(lambda: shown(cluster, "b") == shown(cluster, "a") == ("True", "Nominated"))
        text = "NodeClaim x event: insufficient capacity"
        emit(cluster, event(claim("x"), "InsufficientCapacityError", text, source="karpenter"))
        await until(lambda: shown(cluster, "a") == ("False", "ProvisioningFailed"))
        assert shown(cluster, "b") == ("True", "Nominated")
        # This API server has no NodeClaims, which is no fault.
        assert wiring.controllers.bridge is not None
        assert wiring.controllers.bridge.health() is None


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("FailedToScaleUpGroup", "Scale-up failed for group group-z2: quota"),
        ("ScaleUpFailed", "Failed adding 1 nodes to group group-z2 due to OutOfStock; source"),
        ("ScaleUpTimedOut", "Nodes added to group group-z2 failed to register within 15m0s"),
    ],
)
async def test_a_group_that_failed_makes_its_pods_suspect(
    cluster: EmbeddedCluster, reason: str, text: str
) -> None:
    async with bridging(cluster, suspectWindow="300ms"):
        made = cluster.create(waiting_pod())
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED))
        await until(lambda: shown(cluster) == ("True", "TriggeredScaleUp"))
        emit(cluster, event(status_object(), reason, text))
        await until(lambda: shown(cluster) == ("False", "ProvisioningFailed"))


async def test_a57_a_repeated_event_counts_and_so_does_a_combined_one(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster):
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        no = emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED, time=at(-20)))
        await until(lambda: shown(cluster) == FAILED)
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED, time=at(-10)))
        await until(lambda: shown(cluster) == ("True", "TriggeredScaleUp"))
        repeat(cluster, no)
        await until(lambda: shown(cluster) == FAILED, "the repeated event")
        prefix = "(combined from similar events): "
        emit(cluster, event(other, "NotTriggerScaleUp", prefix + NOT_TRIGGERED))
        await until(lambda: shown(cluster, "b") == FAILED)
        assert "combined" not in condition(cluster, "b")["message"]


async def test_a58_a_condition_of_another_writer_is_left_alone(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster) as wiring:
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        write(cluster, "a", "True", "FromTheAutoscalerItself")
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        emit(cluster, event(other, "NotTriggerScaleUp", NOT_TRIGGERED))
        conflicting_managers = "kubestow_node_provisioning_bridge_conflicting_managers"
        await until(lambda: sample(wiring, conflicting_managers) == 1)
        await until(lambda: shown(cluster, "b") == FAILED)
        assert shown(cluster) == ("True", "FromTheAutoscalerItself")
        for name in ("c", "d"):
            cluster.create(waiting_pod(name))
            write(cluster, name, "True", "FromTheAutoscalerItself")
            late = find(cluster, name)
            assert late is not None
            emit(cluster, event(late, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: sample(wiring, conflicting_managers) == 3)
        active = "kubestow_node_provisioning_bridge_active"
        await until(lambda: sample(wiring, active) == 0, "it ends for good")


async def test_a58_a_writer_that_uses_our_words_is_another_one_all_the_same(
    cluster: EmbeddedCluster,
) -> None:
    async with bridging(cluster) as wiring:
        cluster.create(waiting_pod("first"))
        await until(
            lambda: (
                wiring.controllers.bridge is not None
                and wiring.controllers.bridge.statistics().active
            )
        )
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        emit(cluster, event(other, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster, "b") == FAILED)
        write(cluster, "a", "True", "TriggeredScaleUp")
        await until(lambda: seen(wiring, cluster, "a"), "seen written")
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(
            lambda: sample(wiring, "kubestow_node_provisioning_bridge_conflicting_managers") == 1
        )
        assert shown(cluster) == ("True", "TriggeredScaleUp")


async def test_on_writes_whoever_else_does(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster, mode="On", gate=False):
        made = cluster.create(waiting_pod("a"))
        write(cluster, "a", "True", "FromTheAutoscalerItself")
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)


async def test_a59_without_permission_the_scheduler_works_and_the_bridge_is_degraded(
    cluster: EmbeddedCluster,
) -> None:
    rule = cluster.faults.add(FaultRule(action="error", verb="list", resource="events", code=403))
    cluster.create(node("n1"))
    async with bridging(cluster) as wiring:
        made = cluster.create(waiting_pod("a"))
        degraded = "kubestow_node_provisioning_bridge_degraded"
        await until(lambda: sample(wiring, degraded) == 1)
        cluster.create(pod("plain"))
        await until(lambda: (find(cluster, "plain") or {})["spec"].get("nodeName") == "n1")
        assert wiring.controllers.bridge is not None
        reason = wiring.controllers.bridge.health()
        assert reason is not None
        assert "manifests/components/node-provisioning-bridge" in reason
        assert "[get, list, watch]" in reason
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        cluster.faults.remove(rule)
        await until(lambda: shown(cluster) == FAILED, "the rule was added")
        await until(lambda: sample(wiring, degraded) == 0)
        assert wiring.controllers.bridge.health() is None


async def test_a60_one_autoscaler_that_promises_nodes_is_enough(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster):
        made = cluster.create(waiting_pod("a"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)
        text = "Pod should schedule on: nodeclaim/x"
        emit(cluster, event(made, "Nominated", text, source="karpenter"))
        await until(lambda: shown(cluster) == ("True", "Nominated"))


async def test_what_was_said_before_the_start_is_heard(cluster: EmbeddedCluster) -> None:
    made = cluster.create(waiting_pod("a"))
    emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED, time=at(-600)))
    emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED, time=at(-1200)))
    async with bridging(cluster) as wiring:
        await until(lambda: shown(cluster) == ("True", "TriggeredScaleUp"))
        await until(lambda: sample(wiring, PATCHES) == 1)


async def test_a_restart_writes_nothing_again(cluster: EmbeddedCluster) -> None:
    made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
    async with bridging(cluster):
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED, time=at(-20)))
        await until(lambda: shown(cluster) == FAILED)
    async with bridging(cluster) as wiring:
        emit(cluster, event(other, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster, "b") == FAILED)
        await until(lambda: sample(wiring, PATCHES) == 1)
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED))
        await until(lambda: shown(cluster)[0] == "True", "its own condition is recognised")


async def test_nothing_is_watched_while_no_pod_needs_it(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster) as wiring:
        made = cluster.create(pod("plain"))
        cluster.create(waiting_pod("b", nodeName="elsewhere"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: (find(cluster, "plain") or {})["status"].get("conditions"), "refused")
        assert wiring.controllers.bridge is not None
        assert not wiring.controllers.bridge.statistics().active
        cluster.create(waiting_pod("a"))
        await until(
            lambda: (
                wiring.controllers.bridge is not None
                and wiring.controllers.bridge.statistics().active
            )
        )
        assert condition(cluster, "plain") == {}


async def test_all_pods_of_ours_get_it_if_so_configured(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster, scope="All"):
        made = cluster.create(pod("plain"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster, "plain") == FAILED)


async def test_a31_pods_under_default_constraints_with_the_criterion(
    cluster: EmbeddedCluster,
) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "fallbackCriteria": ["NodeProvisioningFailed"],
    }
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    profile = {
        "schedulerName": "kubestow",
        "pluginConfig": [{"name": "PodTopologySpread", "args": args}],
    }
    options = RunOptions(feature_gates=FeatureGates({"PodTopologySpreadFallbackMode": True}))
    async with scheduling(cluster, options=options, profiles=[profile]):
        made = cluster.create(pod("plain"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster, "plain") == FAILED)


@pytest.mark.parametrize(("gate", "mode"), [(False, "Auto"), (True, "Off")])
async def test_it_can_be_off(cluster: EmbeddedCluster, gate: bool, mode: str) -> None:
    async with bridging(cluster, gate=gate, mode=mode) as wiring:
        assert wiring.controllers.bridge is None


async def test_a_bound_pod_keeps_its_condition_and_gets_no_other(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster) as wiring:
        made, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED, time=at(-20)))
        await until(lambda: shown(cluster) == FAILED)
        bind(cluster, "a", "elsewhere")
        await until(lambda: seen(wiring, cluster, "a"), "seen bound")
        emit(cluster, event(made, "TriggeredScaleUp", TRIGGERED))
        emit(cluster, event(other, "TriggeredScaleUp", TRIGGERED))
        await until(lambda: shown(cluster, "b")[0] == "True")
        assert shown(cluster) == FAILED


async def test_a_patch_that_fails_is_tried_again(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster):
        made = cluster.create(waiting_pod("a"))
        await until(lambda: (find(cluster, "a") or {})["status"].get("conditions"), "refused")
        cluster.faults.add(
            FaultRule(action="error", verb="patch", resource="pods/status", code=403, times=1)
        )
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)


async def test_a_patch_cut_off_by_an_error_is_made_after_the_restart(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "RESTART_SECONDS", 0.0)
    real = NodeProvisioningBridge._write
    broken: list[Patch] = []

    async def breaks_once(self: NodeProvisioningBridge, patch: Patch) -> None:
        if not broken:
            broken.append(patch)
            raise RuntimeError("unexpected")
        await real(self, patch)

    monkeypatch.setattr(NodeProvisioningBridge, "_write", breaks_once)
    async with bridging(cluster):
        made = cluster.create(waiting_pod("a"))
        emit(cluster, event(made, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)
    assert broken
