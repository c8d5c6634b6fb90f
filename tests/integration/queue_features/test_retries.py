"""Retries that need no object to change: the Time event, requeue_after, the outcome of the attempt.

Tests run over HTTP where the loop's own timers matter, in virtual time where exact times do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from devtools.embedded_service import (
    bound_to,
    condition,
    node,
    plugin,
    pod,
    sample,
    scheduling,
    until,
)
from devtools.loop_time import LoopClock
from scheduler.client.clock import Clock
from scheduler.framework import PostFilterOutcome, QueueingHint, Status, unresolvable, unschedulable
from scheduler.framework.events import (
    ATTEMPT_OUTCOME,
    TIME_TICK,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.queue import QueueState
from simulator import EmbeddedCluster, FaultRule
from tests.unit.engine.harness import plugin as service_plugin
from tests.unit.service.harness import Service

TICKS: Any = {"kubestow": {"timeBasedHintPeriod": "20ms"}}
NEVER_TICKS: Any = {"kubestow": {"timeBasedHintPeriod": "10m"}}
LATE = 60.0
"""Seconds; longer than any of these tests."""


def incoming(scheduler: Any, event: str) -> float:
    return sample(scheduler, "scheduler_queue_incoming_pods_total", event=event)


# -- Time ----------------------------------------------------------------------------------------


@dataclass
class Opening:
    """Rejects pods called "early" until a time; registers the Time event only."""

    clock: Clock
    opens: float = math.inf
    checked: list[str] = field(default_factory=list)
    attempts: list[float] = field(default_factory=list)

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if pod.metadata.name != "early":
            return None
        self.attempts.append(state.now)
        return unschedulable("closed") if state.now < self.opens else None

    def hint(self, pod: Any, old: Any, new: Any) -> QueueingHint:
        assert (old, new) == (None, None)
        self.checked.append(pod.metadata.name)
        return QueueingHint.QUEUE if self.clock.now() >= self.opens else QueueingHint.SKIP

    def plugin(self) -> type[Any]:
        event = ClusterEvent(EventResource.TIME, ActionType.TICK)
        return plugin(
            "Opening",
            filter=self.filter,
            events_to_register=lambda: [ClusterEventWithHint(event, self.hint)],
        )


async def test_time_alone_requeues_a_pod(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    opening = Opening(LoopClock(cluster))
    async with scheduling(cluster, [opening.plugin()], clock=opening.clock, **TICKS) as scheduler:
        cluster.create(pod("big", cpu="100"))
        cluster.create(pod("early"))
        await until(lambda: condition(cluster, "big") and condition(cluster, "early"))
        await until(lambda: opening.checked, "a tick")
        opening.opens = opening.clock.now()
        await until(lambda: bound_to(cluster, "early") == "n1")
        assert len(opening.attempts) == 2, "one before the moment, one after"
        assert opening.attempts[1] >= opening.opens
        assert set(opening.checked) == {"early"}, "pods of other plugins are not examined"
        assert incoming(scheduler, TIME_TICK.label) == 1
        view = scheduler.scheduling.queue.view("default", "big")
        assert view is not None
        assert view.attempts == 1


async def test_without_ticks_the_pod_stays(cluster: EmbeddedCluster) -> None:
    """Check that the tick moved the pod in the test above."""
    cluster.create(node("n1"))
    opening = Opening(LoopClock(cluster))
    async with scheduling(
        cluster, [opening.plugin()], clock=opening.clock, **NEVER_TICKS
    ) as scheduler:
        cluster.create(pod("early"))
        await until(lambda: condition(cluster, "early"))
        opening.opens = opening.clock.now()
        cluster.create(pod("other"))
        await until(lambda: bound_to(cluster, "other") == "n1")
        assert len(opening.attempts) == 1
        scheduler.scheduling.queue.tick_time_hints()
        await until(lambda: bound_to(cluster, "early") == "n1")


# -- requeue_after -------------------------------------------------------------------------------


async def test_a_gating_plugin_requests_the_time_of_its_next_run(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    runs: list[float] = []
    clock = LoopClock(cluster)

    def gate(pod: Any) -> Status | None:
        runs.append(clock.now())
        left = runs[0] + 0.3 - runs[-1]
        return unresolvable("too early", requeue_after=left) if left > 0 else None

    gates = [plugin("Gate", pre_enqueue=gate)]
    async with scheduling(cluster, gates, clock=clock) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1")
        # A timer may fire a little early; the gate then requests the rest of the time.
        assert len(runs) <= 3
        assert runs[-1] >= runs[0] + 0.3
        assert incoming(scheduler, "RequeueAfter") == 1


@pytest.mark.slow
async def test_a_filter_requests_the_time_of_the_next_attempt(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    attempts: list[float] = []

    def reject(state: Any, pod: Any, node: Any) -> Status | None:
        attempts.append(state.now)
        return unschedulable("not yet", requeue_after=0.05) if len(attempts) == 1 else None

    quiet = plugin("Later", filter=reject, events_to_register=list)
    async with scheduling(cluster, [quiet]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1")
        first, second = attempts
        assert second - first >= 1.0, "not before backoff ends"
        assert incoming(scheduler, "RequeueAfter") == 1


class Waits:
    """A service in virtual time, with a scalar filter that requests retry times by node."""

    def __init__(self, **by_node: float | None) -> None:
        self.refusing = True

        def reject(state: Any, pod: Any, node: Any) -> Status | None:
            if pod.metadata.name != "p" or not self.refusing:
                return None
            return unschedulable("not yet", requeue_after=by_node[node.name])

        self.service = Service(
            service_plugin("W", filter=reject, bind=lambda *_: None, events_to_register=list)
        )
        self.service.world.nodes(*by_node)

    def place_after(self, seconds: float) -> QueueState | None:
        service = self.service
        service.clock.time += seconds
        service.queue.run_due()
        service.queue.validate()
        return service.place(service.informer["default/p"])


async def test_the_earliest_of_several_requested_times_counts() -> None:
    waits = Waits(n1=50.0, n2=20.0, n3=None)
    pod = waits.service.pending("p")
    await waits.service.attempt()
    assert waits.service.place(pod) is QueueState.UNSCHEDULABLE
    assert waits.place_after(19.9) is QueueState.UNSCHEDULABLE
    assert waits.place_after(0.1) is QueueState.ACTIVE
    waits.refusing = False
    await waits.service.attempt()
    assert waits.service.place(pod) is None


async def test_a_requested_time_does_not_end_backoff_early() -> None:
    waits = Waits(n1=0.1)
    pod = waits.service.pending("p")
    for backoff in (1.0, 2.0, 4.0):
        await waits.service.attempt()
        assert waits.service.place(pod) is QueueState.UNSCHEDULABLE
        assert waits.place_after(backoff / 2) is QueueState.UNSCHEDULABLE
        # Backoff ends in windows of a second.
        assert waits.place_after(backoff / 2 + 1.0) is QueueState.ACTIVE


async def test_a_requested_time_survives_updates_of_the_pod() -> None:
    waits = Waits(n1=30.0)
    service = waits.service
    old = service.pending("p")
    await service.attempt()
    for label in "abc":
        new = service.world.pod("p")
        new.metadata.labels = {"l": label}
        service.informer[new.key] = new
        service.queue.update(old, new)
        old = new
        assert waits.place_after(9.0) is QueueState.UNSCHEDULABLE
    assert waits.place_after(3.0) is QueueState.ACTIVE
    info = service.queue.pop()
    assert info is not None
    assert info.pod.metadata.labels == {"l": "c"}


async def test_an_attempt_without_a_requested_time_clears_the_last_one() -> None:
    wishes: dict[str, float | None] = {"n1": 5.0}
    service = Service(
        service_plugin(
            "W",
            filter=lambda state, pod, node: unschedulable("no", requeue_after=wishes["n1"]),
            events_to_register=list,
        )
    )
    service.world.nodes("n1")
    pod = service.pending("p")
    await service.attempt()
    service.clock.time += 5.0
    service.queue.run_due()
    wishes["n1"] = None
    await service.attempt()
    service.clock.time += LATE
    service.queue.run_due()
    assert service.place(pod) is QueueState.UNSCHEDULABLE


# -- the outcome of the attempt ------------------------------------------------------------------


@dataclass
class Relaxing:
    """Rejects a pod until one of its attempts had a given outcome, as KEP-3990 does."""

    wished: PostFilterOutcome
    seen: list[PostFilterOutcome] = field(default_factory=list)
    relaxed: set[str] = field(default_factory=set)
    point: str = "filter"

    def reject(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None if pod.uid in self.relaxed else unschedulable("strict")

    def hint(self, pod: Any, old: Any, new: Any) -> QueueingHint:
        self.seen.append(new.post_filter)
        if new.post_filter is not self.wished or pod.uid in self.relaxed:
            return QueueingHint.SKIP
        self.relaxed.add(pod.uid)
        return QueueingHint.QUEUE

    def plugin(self) -> type[Any]:
        return plugin(
            "Relaxing",
            events_to_register=lambda: [ClusterEventWithHint(ATTEMPT_OUTCOME, self.hint)],
            **{self.point: self.reject},
        )


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ("PreemptLowerPriority", PostFilterOutcome.FAILED),
        ("Never", PostFilterOutcome.INELIGIBLE),
    ],
)
async def test_a_plugin_retries_on_the_outcome_of_the_attempt(
    cluster: EmbeddedCluster, policy: str, outcome: PostFilterOutcome
) -> None:
    """No event is needed, not even the one of the status: its PATCH never succeeds (A32, A33)."""
    cluster.create(node("n1"))
    cluster.faults.add(FaultRule(action="error", verb="patch", resource="pods/status"))
    relaxing = Relaxing(outcome)
    async with scheduling(cluster, [relaxing.plugin()]):
        cluster.create(pod("p", preemptionPolicy=policy))
        await until(lambda: bound_to(cluster, "p") == "n1")
        assert relaxing.seen == [outcome]


@pytest.mark.parametrize(
    ("point", "points", "outcome"),
    [
        ("filter", {"postFilter": {"disabled": [{"name": "*"}]}}, PostFilterOutcome.NO_PLUGIN),
        ("reserve", {}, PostFilterOutcome.NOT_RUN),
    ],
)
async def test_a_hint_can_read_why_post_filter_did_not_run(
    cluster: EmbeddedCluster, point: str, points: Any, outcome: PostFilterOutcome
) -> None:
    cluster.create(node("n1"))
    relaxing = Relaxing(outcome, point=point)
    async with scheduling(cluster, [relaxing.plugin()], points=points):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1")
        assert relaxing.seen == [outcome]


async def test_another_outcome_leaves_the_pod_unschedulable(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    relaxing = Relaxing(PostFilterOutcome.NOMINATED)
    async with scheduling(cluster, [relaxing.plugin()]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: condition(cluster, "p"))
        view = scheduler.scheduling.queue.view("default", "p")
        assert view is not None
        assert (view.place, view.attempts) == (QueueState.UNSCHEDULABLE, 1)
        assert relaxing.seen == [PostFilterOutcome.FAILED]
