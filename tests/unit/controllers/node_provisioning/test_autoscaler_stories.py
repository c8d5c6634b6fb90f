"""Recorded behaviour of autoscalers, replayed in virtual time: they suppress repeats.

The two stories with times were recorded beside cluster-autoscaler 1.36.1 and Karpenter 1.14.0. The
random ones imitate what both leave out; the invariant is "late, never early": the condition is not
False while the autoscaler is still bringing a node, and it is False soon enough after the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.policy import CoreEvent
from scheduler.controllers.node_provisioning.sources import SUSPECT_WINDOWS, Limits
from tests.unit.controllers.node_provisioning.world import (
    EPOCH,
    SimulatedBridge,
    event,
    group_event,
    pod,
)

DEADLINE = 1200.0
CLUSTER_AUTOSCALER = "cluster-autoscaler"
KARPENTER = "karpenter"


def make_bridge(deadline: float = DEADLINE) -> SimulatedBridge:
    return SimulatedBridge(pod(), limits=Limits(provisioning_deadline=deadline))


def triggered(time: float, group: str) -> CoreEvent:
    return event("TriggeredScaleUp", f"pod triggered scale-up: [{{{group} 0->1 (max: 5)}}]", time)


def scaled(time: float, group: str) -> CoreEvent:
    text = f"Scale-up: group {group} size set to 1 instead of 0 (max: 5)"
    return group_event("ScaledUpGroup", text, time)


def sold_out(time: float, group: str) -> CoreEvent:
    text = (
        f"Failed adding 1 nodes to group {group} due to OutOfResource.ZONE_RESOURCE_POOL_EXHAUSTED"
    )
    return group_event("ScaleUpFailed", text, time)


def nominated(time: float, claim: str, first: float | None = None) -> CoreEvent:
    made = event("Nominated", f"Pod should schedule on: nodeclaim/{claim}", time, source=KARPENTER)
    begun = event("", "", time if first is None else first).last_timestamp
    made.first_timestamp = begun
    return made


def no_capacity(time: float, claim: str) -> CoreEvent:
    text = f"NodeClaim {claim} event: insufficient capacity"
    return event("InsufficientCapacityError", text, time, kind="NodeClaim", name=claim,
                 source=KARPENTER)  # fmt: skip


def refused(time: float) -> CoreEvent:
    return event("FailedScheduling", "Failed to schedule pod, no", time, source=KARPENTER)


# -- as recorded -----------------------------------------------------------------------------------


def test_another_group_takes_over_without_an_event_about_the_pod() -> None:
    """01:03:28 promise, 01:03:38 group A failed and B was scaled, 01:05:08 the node of B came."""
    bridge = make_bridge()
    bridge.observe(triggered(0, "ng-a"))
    assert bridge.write(0) == [("True", "TriggeredScaleUp")]
    bridge.now = 10
    bridge.observe(scaled(10, "ng-b"), sold_out(10, "ng-a"))
    assert bridge.write(100) == []


def test_the_window_alone_is_longer_than_the_silence() -> None:
    """Permission to read the ConfigMap's events is one thing; that none is lost is another."""
    bridge = make_bridge()
    bridge.observe(triggered(0, "ng-a"))
    bridge.write(0)
    bridge.now = 10
    bridge.observe(sold_out(10, "ng-a"))
    assert bridge.write(100) == []
    assert bridge.write(320) == []
    assert bridge.write(340) == [("False", "ProvisioningFailed")]


def test_another_claim_takes_over_without_an_event_about_the_pod() -> None:
    """00:47:26 Nominated, no capacity at once, 00:47:34 the next claim, its node due 00:50:05."""
    bridge = make_bridge()
    bridge.observe(nominated(0, "kice-q22qg"), no_capacity(0, "kice-q22qg"))
    assert bridge.write(0) == [("True", "Nominated")]
    bridge.now = 8
    bridge.decisions.claim_created("kice-next", EPOCH + 8, 8)
    assert bridge.write(159) == []
    # Without permission to read claims, the repeated event is what tells of it.
    bridge = make_bridge()
    bridge.observe(nominated(0, "kice-q22qg"), no_capacity(0, "kice-q22qg"))
    bridge.write(0)
    assert bridge.write(119) == []
    bridge.now = 120
    bridge.observe(nominated(120, "kice-next"))
    # Only the words of the condition change.
    assert bridge.write(159) == [("True", "Nominated")]


def test_a_repeatedly_nominated_claim_has_one_deadline() -> None:
    """Deadline 150 s: Karpenter repeats `Nominated` every two minutes."""
    bridge = make_bridge(deadline=150)
    written = []
    for time in range(0, 400, 120):
        bridge.now = time
        bridge.observe(nominated(time, "x", first=0))
        written += bridge.write(time)
        written += bridge.write(time + 60)
    assert written == [("True", "Nominated"), ("False", "ProvisioningTimedOut")]
    assert bridge.patches[-1].condition.last_transition_time == event("", "", 180).last_timestamp


def test_a_deadline_counts_from_the_first_promise_after_a_restart() -> None:
    """The event that a list brings tells when it came first."""
    bridge = make_bridge(deadline=150)
    bridge.now = 130
    bridge.observe(nominated(120, "x", first=0), age=10)
    assert bridge.write(130) == [("True", "Nominated")]
    assert bridge.write(150) == [("False", "ProvisioningTimedOut")]


def test_a_refusal_ends_a_run_of_promises() -> None:
    bridge = make_bridge(deadline=150)
    for time, made in ((0, nominated(0, "x")), (100, refused(100)), (110, nominated(110, "y"))):
        bridge.now = time
        bridge.observe(made)
        bridge.write(time)
    assert bridge.write(259) == []
    assert bridge.write(260) == [("False", "ProvisioningTimedOut")]


def test_a_deleted_claim_has_failed() -> None:
    """Karpenter gives up a machine that never registers without an event."""
    bridge = make_bridge()
    bridge.observe(nominated(0, "x"))
    bridge.write(0)
    bridge.now = 900
    bridge.decisions.claim_deleted("x", EPOCH + 900, 900)
    assert bridge.write(1079) == []
    assert bridge.write(1080) == [("False", "ProvisioningFailed")]
    assert "node claim x was deleted" in bridge.patches[-1].condition.message


def test_a_failure_of_the_second_target_counts() -> None:
    """The window begins anew with it, and not later."""
    bridge = make_bridge()
    bridge.observe(triggered(0, "ng-a"), sold_out(10, "ng-a"), scaled(20, "ng-b"))
    bridge.write(20)
    # Still coming, as far as anybody knows.
    assert bridge.write(500) == []
    bridge.now = 500
    bridge.observe(sold_out(500, "ng-b"))
    assert bridge.write(829) == []
    assert bridge.write(830) == [("False", "ProvisioningFailed")]


def test_new_nodes_extend_the_window_but_not_past_the_deadline() -> None:
    bridge = make_bridge()
    bridge.observe(triggered(0, "ng-a"), sold_out(10, "ng-a"))
    bridge.write(10)
    for time in range(100, 1300, 100):
        bridge.now = time
        bridge.decisions.node_added(EPOCH + time, time)
        bridge.write(time)
        assert len(bridge.patches) == (1 if time < DEADLINE else 2)
    assert bridge.patches[-1].condition.reason == "ProvisioningFailed"


def test_scale_ups_after_the_window_have_no_effect() -> None:
    bridge = make_bridge()
    bridge.observe(triggered(0, "ng-a"), sold_out(10, "ng-a"))
    bridge.write(10)
    assert bridge.write(340) == [("False", "ProvisioningFailed")]
    bridge.now = 400
    bridge.observe(scaled(400, "ng-b"))
    bridge.decisions.node_added(EPOCH + 400, 400)
    assert bridge.write(2000) == []


# -- random stories --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """One try: how long after the last one ended, and after how long it fails or brings a node."""

    pause: float
    seconds: float


@dataclass
class Story:
    """One autoscaler, one pod. `said` holds what the bridge gets to hear, `busy` until when."""

    bridge: SimulatedBridge = field(default_factory=lambda: make_bridge(deadline=1e6))
    queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)
    last_said: dict[str, float] = field(default_factory=dict)

    def at(self, time: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (time, next(self.numbers), act))

    def say(self, time: float, made: CoreEvent) -> None:
        self.at(time, lambda: self.bridge.observe(made))

    def say_unless_repeated(self, time: float, made: CoreEvent, silence: float) -> None:
        """One event per reason and pod in that time, whatever its message."""
        if time - self.last_said.get(made.reason, -1e9) >= silence:
            self.last_said[made.reason] = time
            self.say(time, made)

    def run_until(self, end: float) -> list[tuple[float, str]]:
        """Let time pass, second by second; returns when which status was written."""
        written = []
        time = self.bridge.now
        while time <= end:
            while self.queue and self.queue[0][0] <= time:
                when, _, act = heapq.heappop(self.queue)
                self.bridge.now = when
                act()
            written += [(time, status) for status, _ in self.bridge.write(time)]
            time += 1.0
        return written


ATTEMPTS = st.lists(
    st.builds(
        Attempt,
        pause=st.integers(0, 60).map(float),
        seconds=st.one_of(st.integers(0, 30), st.integers(30, 600)).map(float),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(ATTEMPTS, st.booleans())
def test_cluster_autoscaler_tries_group_after_group(attempts: list[Attempt], comes: bool) -> None:
    story, time = Story(), 0.0
    for number, attempt in enumerate(attempts):
        time += attempt.pause if number else 0.0
        group = f"g{number}"
        story.say_unless_repeated(time, triggered(time, group), 300.0)
        story.say(time, scaled(time, group))
        time += attempt.seconds
        last = number == len(attempts) - 1
        if not (last and comes):
            story.say(time, sold_out(time, group))
    written = story.run_until(time)
    assert {status for _, status in written} == {"True"}, "softened while nodes were coming"
    if not comes:
        written = story.run_until(time + SUSPECT_WINDOWS[CLUSTER_AUTOSCALER] + 1)
        assert [status for _, status in written] == ["False"], "not noticed in time"


@settings(max_examples=60, deadline=None)
@given(ATTEMPTS, st.booleans(), st.booleans())
def test_karpenter_makes_claim_after_claim(
    attempts: list[Attempt], comes: bool, readable: bool
) -> None:
    story, time = Story(), 0.0
    for number, attempt in enumerate(attempts):
        # It looks at pending pods every ten seconds, and nominates a pod once in two minutes.
        time += min(attempt.pause, 10.0) if number else 0.0
        name = f"c{number}"
        if readable:
            came = story.bridge.decisions.claim_created
            story.at(time, partial(came, name, EPOCH + time, time))
        begin, end = time, time + attempt.seconds
        while time < end or time == begin:
            story.say_unless_repeated(time, nominated(time, name), 120.0)
            time += 10.0
        time = end
        if not (number == len(attempts) - 1 and comes):
            story.say(time, no_capacity(time, name))
    written = story.run_until(time)
    assert {status for _, status in written} == {"True"}, "softened while nodes were coming"
    if not comes:
        written = story.run_until(time + SUSPECT_WINDOWS[KARPENTER] + 1)
        assert [status for _, status in written][-1:] == ["False"], "not noticed in time"
