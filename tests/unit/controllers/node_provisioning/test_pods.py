"""The pods whose condition the bridge writes."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from scheduler.api.pod import Pod
from scheduler.controllers.node_provisioning.condition_selector import ConditionSelector
from tests.unit.controllers.node_provisioning.world import (
    NO_GROUP,
    SimulatedBridge,
    gated,
    having,
    pod,
    promise,
    refusal,
    rfc,
)


@pytest.mark.parametrize(
    "item",
    [
        pod(node_name="n1"),
        gated(),
        pod(scheduler_name="default-scheduler"),
        pod(topology_spread_constraints=()),
        having(pod(), phase="Succeeded"),
        having(pod(), phase="Failed"),
        msgspec.structs.replace(
            pod(), metadata=msgspec.structs.replace(pod().metadata, deletion_timestamp=rfc(0))
        ),
    ],
    ids=[
        "bound",
        "gated",
        "another scheduler",
        "no criterion",
        "succeeded",
        "failed",
        "terminating",
    ],
)
def test_a_pod_without_need_of_the_condition_is_ignored(item: Pod) -> None:
    bridge = SimulatedBridge(item)
    bridge.observe(refusal(0))
    assert bridge.write(0) == []
    assert not bridge.decisions.needed


def test_a_pod_counts_once_its_gate_opens() -> None:
    bridge = SimulatedBridge(gated())
    bridge.observe(refusal(0))
    assert bridge.write(0) == []
    bridge.decisions.pod_changed(pod())
    assert bridge.write(1) == [("False", "ScaleUpBackoff")]


def test_an_event_with_another_uid_concerns_another_pod() -> None:
    bridge = SimulatedBridge(pod(uid="new"))
    bridge.observe(refusal(0))
    assert bridge.write(0) == []


def test_an_event_may_arrive_before_its_pod() -> None:
    bridge = SimulatedBridge()
    bridge.observe(refusal(0))
    assert bridge.write(0) == []
    bridge.decisions.pod_changed(pod())
    assert bridge.write(1) == [("False", "ScaleUpBackoff")]


def test_a_criterion_may_be_added_later() -> None:
    bridge = SimulatedBridge(pod(topology_spread_constraints=()))
    bridge.observe(refusal(0))
    assert bridge.write(0) == []
    bridge.decisions.pod_changed(pod())
    assert bridge.write(1) == [("False", "ScaleUpBackoff")]


def test_a_bound_pod_is_forgotten() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(promise(0))
    bridge.write(0)
    bridge.decisions.pod_changed(pod(node_name="n1"))
    assert bridge.write(5000) == []
    statistics = bridge.decisions.statistics()
    assert (statistics.pods, statistics.signals) == (0, 0)


def test_every_pod_of_our_scheduler_names_with_scope_all() -> None:
    bridge = SimulatedBridge(
        pod(topology_spread_constraints=()),
        pod("b", topology_spread_constraints=(), scheduler_name="other"),
        wanted=ConditionSelector(every_pod=True),
    )
    bridge.observe(refusal(0), refusal(0, name="b"))
    assert bridge.write(0) == [("False", "ScaleUpBackoff")]
    assert bridge.patches[0].pod.metadata.name == "a"


def test_pods_are_decided_independently() -> None:
    names = "abc"
    expected = {
        "a": ("False", "ScaleUpBackoff"),
        "b": ("True", "TriggeredScaleUp"),
        "c": ("False", "NoNodeGroup"),
    }
    for order in permutations(names):
        bridge = SimulatedBridge(*map(pod, names))
        events = {"a": refusal(0), "b": promise(0, name="b"), "c": refusal(0, NO_GROUP, name="c")}
        bridge.observe(*(events[name] for name in order))
        bridge.write(0)
        written = {
            patch.pod.metadata.name: (patch.condition.status, patch.condition.reason)
            for patch in bridge.patches
        }
        assert written == expected
