"""The bridge beside the simulated autoscalers, which say and leave out what the real ones do.

Two hundred random stories for each, in virtual time: node groups that deliver, refuse, sell out or
hang; several of them; nodes and scale-ups for others meanwhile; an autoscaler that falls silent.
The first verdict against a pod is not early: nothing is on its way for it. And it is not late: the
autoscaler said so, or at most `LATE` have passed since the last sign of a try (`COMES` longer for a
group or claim of which nothing more was heard), or the deadline.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import msgspec
import pytest

from scheduler.api.pod import Pod
from scheduler.api.policy import CoreEvent
from scheduler.controllers.node_provisioning.decisions import Decisions
from scheduler.controllers.node_provisioning.signals import PodSignal, ScaleUp, TargetFailure
from scheduler.controllers.node_provisioning.sources import Limits
from simulator.api import Api
from simulator.clock import SimClock
from simulator.gates import ServerGates
from simulator.objects import JsonObject
from simulator.store import Store, StoreChange
from simulator.strategies import Surroundings
from tests.unit.controllers.node_provisioning.world import rfc
from tests.unit.repository.tree import ROOT
from tests.unit.simulator.autoscaling import ZONE, Town, group
from tests.unit.simulator.objects import START, namespace

LATE = {"cluster-autoscaler": 330.0, "karpenter": 180.0}
"""Seconds that docs/node-provisioning-bridge.md promises, as the window of each autoscaler."""
COMES = 900.0
"""Seconds in which a group or claim that was asked for nodes may bring them, unless it fails."""
STORIES = 200
SCAN = 10.0
DEADLINE, NEVER = 1200.0, 1e7
END = 8000.0
"""Longer than any story."""

_pod = msgspec.json.Decoder(Pod).decode
_event = msgspec.json.Decoder(CoreEvent).decode


@dataclass(frozen=True)
class Plan:
    """The random choices of a story."""

    groups: tuple[tuple[str, int], ...]
    """State and provision seconds of each group of the pod's zone, in the order of trying."""
    others: tuple[tuple[int, str], ...]
    """When pods of another zone turn up, and the state of that zone's group then."""
    silent_from: int | None
    """After how many failures the autoscaler ends, without a word."""
    readable: bool
    """Whether NodeClaims can be read."""
    backoff: int
    deadline: float


def plan_of(seed: int) -> Plan:
    source = random.Random(seed)
    states = ["ok", "refuse", "stockout", "stockout", "hang"]

    def seconds() -> int:
        return source.randint(0, 60) if source.random() < 0.5 else source.randint(60, 600)

    readable = source.random() < 0.5
    return Plan(
        groups=tuple((source.choice(states), seconds()) for _ in range(source.randint(1, 4))),
        others=tuple(
            (source.randint(0, 1500), source.choice(["ok", "stockout", "refuse"]))
            for _ in range(source.randint(0, 4))
        ),
        silent_from=source.choice([None, None, 1, 2, 3]),
        readable=readable,
        backoff=source.choice([180, 300]),
        # Without NodeClaims, one that is deleted without an event ends by the deadline alone, and
        # so does the run of promises before client-go leaves out more than Karpenter does itself.
        deadline=source.choice([DEADLINE, NEVER]) if readable else DEADLINE,
    )


class Story:
    """One autoscaler, one pod that waits for it, and the bridge's decisions."""

    def __init__(self, flavor: str, plan: Plan) -> None:
        self.flavor, self.plan = flavor, plan
        self.clock = SimClock(start=START, rate=0, source=lambda: 0.0)
        store = Store()
        around = Surroundings(store, self.clock, "stock", ServerGates("stock"))
        api = Api(store, around, random_source=random.Random(1))
        api.create(api.resources.of_kind("v1", "Namespace"), "", namespace("default"))
        self.town = Town(api, self.clock)
        self.states = [state for state, _ in plan.groups]
        self.others = sorted(plan.others)
        self._configure("ok")
        self.decisions = Decisions(
            names=("default-scheduler",),
            wanted=lambda pod: pod.metadata.name == "second",
            limits=Limits(provisioning_deadline=plan.deadline),
        )
        self.last_sign = 0.0
        """When something could be seen last that puts the end off."""
        self.asked: dict[str, float] = {}
        """When node groups and claims were asked for nodes that have not failed since."""
        self.failures = 0
        self.said_no = False
        store.subscribe("events", self._heard)
        store.subscribe("nodes", self._node)
        store.subscribe("nodeclaims.karpenter.sh", self._claim)
        store.subscribe("pods", self._changed)
        self.town.pod("second", nodeSelector={ZONE: "b"})
        self.written: list[tuple[float, str, str]] = []

    def _configure(self, other: str) -> None:
        groups: list[JsonObject] = [
            group(f"b{number}", zone="b", state=state, provisionSeconds=seconds)
            for number, (state, seconds) in enumerate(self.plan.groups)
        ]
        groups.append(group("c", zone="c", state=other, max=50, provisionSeconds=40))
        self.town.configure(
            *groups, flavor=self.flavor, scanInterval=SCAN, backoff=self.plan.backoff
        )

    @property
    def now(self) -> float:
        return self.clock.now() - START

    # -- what the bridge gets to see -------------------------------------------------------------

    def _heard(self, _table: str, change: StoreChange) -> None:
        event = _event(change.version.encoded())
        signal = self.decisions.event_changed(event, self.clock.now())
        if isinstance(signal, PodSignal) and event.involved_object.name == "second":
            self.said_no = not signal.provisioning
        if isinstance(signal, TargetFailure):
            self.failures += 1
            self.asked.pop(signal.target, None)
        if isinstance(signal, ScaleUp):
            self.asked[signal.target] = self.now
        if signal is not None:
            self.last_sign = self.now

    def _node(self, _table: str, change: StoreChange) -> None:
        if change.type == "ADDED":
            self.last_sign = self.now
            self.decisions.node_added(self.clock.now(), self.clock.now())

    def _claim(self, _table: str, change: StoreChange) -> None:
        if not self.plan.readable or change.type == "MODIFIED":
            return
        self.last_sign = self.now
        if change.type == "ADDED":
            told = self.decisions.claim_created
            self.asked[change.version.name] = self.now
        else:
            told = self.decisions.claim_deleted
            self.asked.pop(change.version.name, None)
        told(change.version.name, self.clock.now(), self.clock.now())

    def _changed(self, _table: str, change: StoreChange) -> None:
        self.decisions.pod_changed(_pod(change.version.encoded()))

    # -- time ------------------------------------------------------------------------------------

    @property
    def coming(self) -> bool:
        """Whether a machine that the pod fits on is on its way, as far as the autoscaler knows."""
        return any(
            each["coming"]
            for each in self.town.autoscaler.describe()["groups"]
            if each["zone"] == "b"
        )

    @property
    def arrived(self) -> bool:
        return any(name.startswith("b") for name in self.town.nodes())

    @property
    def silent(self) -> bool:
        return self.plan.silent_from is not None and self.failures >= self.plan.silent_from

    def step(self) -> float:
        """Let time pass to whatever comes next; returns when the bridge wants to look again."""
        wake = self._write()
        due = None if self.silent else self.town.autoscaler.next_due()
        coming = [wake, START + END]
        coming += [] if due is None else [due]
        coming += [] if not self.others or self.silent else [START + self.others[0][0]]
        self.clock.advance(max(0.0, min(coming) - self.clock.now()))
        while self.others and not self.silent and self.others[0][0] <= self.now:
            moment, state = self.others.pop(0)
            self._configure(state)
            self.town.pod(f"other-{moment}-{len(self.others)}", cpu="3", nodeSelector={ZONE: "c"})
        if not self.silent:
            self.town.autoscaler.work(self.clock.now(), 1)
        return self._write()

    def _write(self) -> float:
        while True:
            plan = self.decisions.plan(self.clock.now(), rfc(self.now))
            if not plan.patches:
                return plan.wake
            for patch in plan.patches:
                self.decisions.written(patch, self.clock.now())
                condition = patch.condition
                self.written.append((self.now, condition.status, condition.reason))

    def play(self) -> tuple[float, str] | None:
        """Until the first verdict against the pod, or until it can run; when and why."""
        while self.now < END and not self.arrived:
            self.step()
            against = [(time, why) for time, status, why in self.written if status == "False"]
            if against:
                return against[0]
        return None


def end_of(story: Story) -> str:
    """Return how a story ended, if it ended as it may."""
    verdict = story.play()
    if not story.written:
        return "never promised"
    promised = story.written[0][0]
    if verdict is None:
        # It can run, or something may still come, for ever.
        assert story.arrived or story.coming
        return "arrived" if story.arrived else "coming"
    time, reason = verdict
    assert time - promised <= story.plan.deadline, "later than the deadline"
    if time - promised == story.plan.deadline:
        return "deadline"
    assert story.silent or not story.coming, f"softened ({reason}) while a node was coming"
    if story.said_no:
        return "refused"
    assert reason == "ProvisioningFailed"
    last = max(story.last_sign, *(each + COMES for each in story.asked.values()), 0.0)
    assert time - last <= LATE[story.flavor], "too late"
    return "window"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, STORIES, 50))
@pytest.mark.parametrize("flavor", LATE)
def test_random_stories(flavor: str, first: int) -> None:
    ends: Counter[str] = Counter()
    for seed in range(first, first + 50):
        plan = plan_of(seed)
        try:
            ends[end_of(Story(flavor, plan))] += 1
        except AssertionError as error:
            error.add_note(f"seed {seed}: {plan}")
            raise
    for end in ("arrived", "refused", "deadline", "window"):
        assert ends[end] >= 2, ends


@pytest.mark.parametrize("flavor", LATE)
def test_stories_without_events_end_by_the_window(flavor: str) -> None:
    """A group sells out and the autoscaler dies: the promise ends when its window does."""
    plan = Plan((("stockout", 25),), (), 1, readable=True, backoff=300, deadline=NEVER)
    story = Story(flavor, plan)
    assert story.play() == (SCAN + 25 + LATE[flavor], "ProvisioningFailed")


@pytest.mark.parametrize("flavor", LATE)
def test_the_next_group_takes_over_and_nothing_softens(flavor: str) -> None:
    """RC1 as the simulators play it: no event about the pod tells of the second try."""
    plan = Plan(
        (("refuse", 0), ("stockout", 5), ("ok", 600)),
        (),
        None,
        readable=True,
        backoff=300,
        deadline=NEVER,
    )
    story = Story(flavor, plan)
    assert story.play() is None
    assert story.arrived
    assert {status for _, status, _ in story.written} == {"True"}


def test_the_page_states_the_numbers() -> None:
    page = (ROOT / "docs" / "node-provisioning-bridge.md").read_text(encoding="utf-8")
    assert "5 min 30 s for cluster-autoscaler, 3 min for Karpenter" in " ".join(page.split())
    assert "15 minutes at most" in page
    assert "`provisioningDeadline` (20 minutes)" in page
    assert LATE == {"cluster-autoscaler": 5 * 60 + 30, "karpenter": 3 * 60}
    assert (COMES, DEADLINE) == (15 * 60, 20 * 60)
