"""Scenarios A32 to A41: what wakes a pod, what does not, and what the process may forget."""

from __future__ import annotations

import time

import pytest

from devtools.embedded_service import bound_to, configuration, pod, sample, until
from scheduler.framework import ConfigurationError
from scheduler.framework.events import ATTEMPT_OUTCOME, TIME_TICK
from simulator import EmbeddedCluster, FaultRule
from tests.integration.fallback.stage import (
    BACKOFF,
    INITIAL_BACKOFF,
    NPF,
    PF,
    ZONE,
    JumpingClock,
    spread,
    staged,
    zone_node,
)

ZONE_NPF = f"{ZONE}={NPF}"
ZONE_PF = f"{ZONE}={PF}"
TIMEOUT = "5m"


async def test_a32_the_outcome_alone_brings_the_next_attempt(cluster: EmbeddedCluster) -> None:
    """No event reaches the scheduler: its watches have gone silent."""
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("p", ZONE_PF))
        await until(lambda: stage.place("p") == "backoff")
        view = stage.wiring.scheduling.queue.view("default", "p")
        assert view is not None
        assert view.last_event == ATTEMPT_OUTCOME.label
        cluster.faults.add(FaultRule(action="silence", verb="watch"))
        first = stage.watcher.attempts[0][1]
        stage.advance(INITIAL_BACKOFF + 0.2)
        await until(lambda: stage.attempts("p") == 2)
        # A loaded machine may add to it, but nothing of ours does: backoff ends on whole seconds.
        assert stage.watcher.attempts[1][1] - first >= INITIAL_BACKOFF
        await until(lambda: bound_to(cluster, "p") == "z1")


async def test_a33_a_status_that_cannot_be_written_delays_nothing(
    cluster: EmbeddedCluster,
) -> None:
    rule = FaultRule(action="error", verb="patch", resource="pods/status", times=3)
    cluster.faults.add(rule)
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("p", ZONE_PF))
        await until(lambda: stage.place("p") == "backoff")
        # Soft, it does not fit either, so that a status remains to be written.
        stage.running("full-1", "z1", "3", app="other")
        await until(lambda: stage.wiring.state.listers["pods"].get("full-1", "default"))
        stage.advance(BACKOFF)
        await until(lambda: stage.attempts("p") == 2)
        await until(lambda: stage.condition("p"))
        await stage.quiet()
        assert stage.condition("p")["status"] == "True", "the newest status, not the oldest"


async def test_a34_a_condition_that_comes_while_the_pod_is_in_flight(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_NPF)
        queue = stage.wiring.scheduling.queue
        # Nothing can come between the lines of an attempt: so the test is the loop for once.
        stage.wiring.scheduling.loop.pause(True)
        queue.activate([stage.newest("p")])
        info = queue.pop()
        assert info is not None
        stage.provisioning("p", "False")
        await until(lambda: len(stage.newest("p").status.conditions) == 3)
        info.pod = stage.newest("p")
        queue.add_unschedulable_if_not_present(info)
        assert stage.place("p") in ("backoff", "active"), "not lost"
        stage.wiring.scheduling.loop.pause(False)
        await stage.bound("p", "z1")


async def test_a35_the_timeout_alone(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, nodeProvisioningTimeout=TIMEOUT) as stage:
        await stage.rejected_once(ZONE_NPF)
        ticks = "scheduler_pod_topology_spread_fallback_time_hint_duration_seconds_count"
        for period in range(9):
            stage.advance(30)
            await until(lambda: sample(stage.wiring, ticks) >= period + 1)  # noqa: B023
            await stage.quiet()
            assert stage.attempts("p") == 1, f"after {30 * (period + 1)} s"
        stage.advance(31)
        await until(lambda: bound_to(cluster, "p") == "z1")
        began, ended = (when for _, when in stage.watcher.attempts)
        assert ended - began >= 300
        moved = "scheduler_queue_incoming_pods_total"
        assert sample(stage.wiring, moved, event=TIME_TICK.label) == 1


async def test_a36_an_answer_of_the_autoscaler_stops_the_clock(cluster: EmbeddedCluster) -> None:
    """True, or its end, counts for itself: time does not soften what an autoscaler works on."""
    async with staged(cluster, nodeProvisioningTimeout=TIMEOUT) as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.provisioning("p", "True")
        await stage.stays("p", 1, seconds=400)
        stage.provisioning("p", "Unknown")
        await stage.bound("p", "z1")


async def test_a37_the_time_at_a_gate_does_not_count(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, nodeProvisioningTimeout=TIMEOUT) as stage:
        stage.uneven()
        stage.create(spread("p", ZONE_NPF, schedulingGates=[{"name": "wait"}]))
        await stage.quiet()
        stage.advance(3600)
        await stage.quiet()
        stage.patch("p", {"spec": {"schedulingGates": None}})
        await stage.attempted("p", 1)
        await stage.stays("p", 1, seconds=270)
        stage.advance(31)
        await stage.bound("p", "z1")


async def test_a37_a_gated_pod_with_preemption_failed_is_strict_at_first(
    cluster: EmbeddedCluster,
) -> None:
    """S6: the PodScheduled=False that a gate leaves behind is no failed preemption."""
    async with staged(cluster) as stage:
        stage.create(zone_node("z1", "Z1"), zone_node("z2", "Z2"))
        stage.running("r1", "z1")
        stage.create(spread("p", ZONE_PF, schedulingGates=[{"name": "wait"}]))
        await stage.quiet()
        assert stage.condition("p", "PodScheduled")["reason"] == "SchedulingGated"
        stage.running("full-2", "z2", "4", app="other")
        await stage.quiet()
        stage.patch("p", {"spec": {"schedulingGates": None}})
        await stage.attempted("p", 1)
        assert bound_to(cluster, "p") == "", "strict"
        await stage.bound("p", "z1")


async def test_a38_a_restart_does_not_start_the_clock_again(cluster: EmbeddedCluster) -> None:
    clock = JumpingClock()
    async with staged(cluster, clock=clock, nodeProvisioningTimeout=TIMEOUT) as stage:
        await stage.rejected_once(ZONE_NPF)
        began = stage.condition("p")["message"]
        clock.ahead += 240
    async with staged(cluster, clock=clock, nodeProvisioningTimeout=TIMEOUT) as stage:
        await stage.attempted("p", 1)
        assert stage.condition("p")["message"] == began, "T0 as it was"
        await stage.stays("p", 1, seconds=30)
        stage.advance(31)
        await stage.quiet()
        await stage.bound("p", "z1")


async def test_a38_without_its_message_the_last_transition_is_the_next_best(
    cluster: EmbeddedCluster,
) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
    async with staged(cluster, nodeProvisioningTimeout=TIMEOUT) as stage:
        stage.uneven()
        made = spread("p", ZONE_NPF)
        condition = {
            "type": "kubestow.io/TopologySpreadFallback",
            "status": "False",
            "reason": "AwaitingCriteria",
            "lastTransitionTime": stamp,
        }
        stage.create({**made, "status": {"conditions": [condition]}})
        await stage.bound("p", "z1")


async def test_a39_a_restart_with_preemption_failed_takes_the_status_at_its_word(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_PF)
    async with staged(cluster) as stage:
        await until(lambda: bound_to(cluster, "p") == "z1")
        assert stage.attempts("p") == 1, "unknown outcome: the literal test, at once"


@pytest.mark.parametrize("value", ["0s", "-1m", "abc"])
def test_a40_a_bad_timeout_stops_the_start(value: str) -> None:
    profile = {
        "schedulerName": "kubestow",
        "pluginConfig": [{"name": "PodTopologySpread", "args": {"nodeProvisioningTimeout": value}}],
    }
    with pytest.raises(ConfigurationError) as refused:
        configuration((), {"profiles": [profile]})
    (problem,) = refused.value.problems
    assert problem.startswith("profiles[0].pluginConfig[0].args.nodeProvisioningTimeout: ")


async def test_a41_a_tick_examines_only_what_spreading_rejected(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, nodeProvisioningTimeout=TIMEOUT) as stage:
        stage.create(zone_node("z1", "Z1", cpu="1"))
        queue = stage.wiring.scheduling.queue
        for number in range(300):
            stage.create(pod(f"big-{number}", cpu="100"))
        await until(lambda: queue.statistics().unschedulable == 300)
        await stage.quiet()
        before = queue.statistics().hint_calls
        queue.tick_time_hints()
        assert queue.statistics().hint_calls == before
        assert queue.next_wakeup() is None, "no pod waits for time"
