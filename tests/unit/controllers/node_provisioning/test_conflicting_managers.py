"""Conditions of another manager: verification before a write, and conflicts."""

from __future__ import annotations

import pytest

from scheduler.controllers.node_provisioning.decisions import (
    MAX_CONFLICTS,
)
from tests.unit.controllers.node_provisioning.world import (
    NO_GROUP,
    SimulatedBridge,
    condition,
    having,
    pod,
    promise,
    refusal,
)


def test_a58_an_unknown_condition_is_verified_first() -> None:
    bridge = SimulatedBridge(having(pod(), condition("True", "Native")))
    bridge.observe(refusal(0))
    (patch,) = bridge.plan(0).patches
    assert patch.verify
    bridge.decisions.concede(patch)
    bridge.observe(refusal(100, NO_GROUP))
    assert bridge.plan(100).patches == ()
    assert not bridge.decisions.stopped


def test_our_own_condition_is_not_verified() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    bridge.write(0)
    bridge.observe(promise(1))
    (patch,) = bridge.plan(1).patches
    assert not patch.verify


def test_a_condition_changed_by_another_manager_is_verified() -> None:
    bridge = SimulatedBridge(pod())
    bridge.observe(refusal(0))
    bridge.write(0)
    bridge.decisions.pod_changed(having(pod(), condition("True", "Native")))
    assert bridge.plan(1).patches == (), "only an event of an autoscaler causes a write"
    bridge.observe(promise(2))
    (patch,) = bridge.plan(2).patches
    assert patch.verify


@pytest.mark.parametrize("led_before", [True, False])
def test_a_condition_that_appeared_while_we_led_is_marked(led_before: bool) -> None:
    """The condition of an earlier leader looks like our own."""
    bridge = SimulatedBridge(pod())
    if led_before:
        bridge.plan(0)
    bridge.decisions.pod_changed(having(pod(), condition("True", "TriggeredScaleUp")))
    bridge.observe(refusal(1))
    (patch,) = bridge.plan(1).patches
    assert patch.verify
    assert patch.seen_without is led_before


def test_the_bridge_stops_after_three_conflicts() -> None:
    names = [f"p{number}" for number in range(MAX_CONFLICTS)]
    bridge = SimulatedBridge(*(having(pod(name), condition("True", "Native")) for name in names))
    for number, name in enumerate(names):
        assert not bridge.decisions.stopped
        bridge.observe(refusal(number, name=name))
        (patch,) = bridge.plan(number).patches
        bridge.decisions.concede(patch)
    assert bridge.decisions.stopped


def test_mode_on_verifies_nothing() -> None:
    bridge = SimulatedBridge(having(pod(), condition("True", "Native")), backs_off=False)
    bridge.observe(refusal(0))
    (patch,) = bridge.plan(0).patches
    assert not patch.verify
