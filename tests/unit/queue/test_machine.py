"""Random operations on a queue with random plugins: no pod is lost or waits without a reason.

The world behind the plugins is a table of switches: a filter or gate is open or closed for a kind
of pod, and opening it emits an event whose hint is right (or raises). So a pod for which everything
is open must never be asleep, and when at the end everything is opened, every pod must come out.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueuedPodInfo,
    QueueingHint,
    Status,
    unresolvable,
)
from scheduler.queue import wakeups
from tests.unit.queue.doubles import (
    PROFILE,
    QUEUE,
    SKIP,
    WILDCARD,
    World,
    make_pod,
    priority_sort,
)

KINDS = ("red", "blue")
SHAPES = {kind: f"signature of {kind} pods" for kind in KINDS}
FILTERS = ("F0", "F1", "F2")
GATES = ("G0", "G1")
NAMES = tuple(f"p{number}" for number in range(6))
OPENED = {
    name: ClusterEvent(f"{name.lower()}.v1.example.com", ActionType.UPDATE)
    for name in (*FILTERS, *GATES)
}
UNREGISTERED = ClusterEvent("nobodys.v1.example.com", ActionType.UPDATE)


class Switch:
    """A filter that rejects some kinds of pods. Its hint is right, unless it raises."""

    def __init__(self, name: str, *, per_signature: bool) -> None:
        self.name = name
        self.per_signature = per_signature
        self.closed: set[str] = set()
        self.broken = False

    def filter(self, state: Any, pod: Pod, node: Any) -> None: ...

    def passes(self, pod: Pod) -> bool:
        return pod.metadata.labels["kind"] not in self.closed

    def hint(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        if self.broken:
            raise RuntimeError("broken hint")
        return QUEUE if pod.metadata.labels["kind"] == new else SKIP

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(OPENED[self.name], self.hint, self.per_signature)]


class Gate(Switch):
    """The same as a PreEnqueue plugin; it may request a retry at a time, and may raise."""

    retry: float | None = None

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if self.broken:
            raise RuntimeError("broken gate")
        return None if self.passes(pod) else unresolvable("closed", requeue_after=self.retry)


def by_name(info: QueuedPodInfo) -> Any:
    """Sort by a key that cannot be compared with those of `priority_sort`."""
    return info.key


class HoldingGate(Gate):
    """A gate with the method `held`."""

    def __init__(self, name: str, *, per_signature: bool) -> None:
        super().__init__(name, per_signature=per_signature)
        self.seen: dict[str, Pod] = {}

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.seen[pod.uid] = pod
        return super().pre_enqueue(pod)

    def held(self, changed: object) -> set[str]:
        if self.broken:
            raise RuntimeError("broken gate")
        return {uid for uid, pod in self.seen.items() if not self.passes(pod)}


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.serial = 0
        self.alive: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPodInfo] = {}
        #: Rejectors of pods in flight, if the filters ran right after the pop.
        self.judged: dict[str, set[str]] = {}
        self.armed: float | None = None
        self.timer_called = False
        self.check_every, wakeups.CHECK_EVERY = wakeups.CHECK_EVERY, 1

    @initialize(
        flush=st.booleans(),
        early=st.booleans(),
        per_signature=st.booleans(),
        backoff=st.booleans(),
        sliced=st.booleans(),
    )
    def start(
        self, flush: bool, early: bool, per_signature: bool, backoff: bool, sliced: bool
    ) -> None:
        self.filters = {name: Switch(name, per_signature=per_signature) for name in FILTERS}
        kinds = (Gate, HoldingGate)
        self.gates = {
            name: kind(name, per_signature=False) for name, kind in zip(GATES, kinds, strict=True)
        }
        self.filters["F0"].closed.add("red")
        self.filters["F2"].closed.add("blue")
        self.switches: dict[str, Switch] = {**self.filters, **self.gates}
        self.world = World(
            *self.switches.values(),
            max_in_unschedulable=300.0 if flush else None,
            pop_from_backoff=early,
            max_backoff=10.0 if backoff else 0.0,
            cycle_budget=0.5,
            # A time slice of no length: everything that can be postponed is.
            slice_seconds=0.0 if sliced else math.inf,
        )
        # Far from 0, which stays in the past when the clock is set back.
        self.world.clock.step(1_000_000.0)
        self.queue = self.world.queue
        self.queue.signals.on_timer.subscribe(self.timer_moved)

    @rule(seconds=st.sampled_from([0.1, 1.0]))
    def an_attempt_was_expensive(self, seconds: float) -> None:
        self.queue.charge("default", seconds)

    def timer_moved(self) -> None:
        self.timer_called = True

    # ------------------------------------------------------------------------------------ pods

    def pod(self, name: str, kind: str, priority: int, uid: str) -> Pod:
        self.serial += 1
        labels = {"kind": kind, "version": str(self.serial % 3)}
        return make_pod(name, priority, uid=uid, labels=labels, signature=SHAPES[kind])

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(KINDS), priority=st.integers(0, 2))
    def add(self, name: str, kind: str, priority: int) -> None:
        """A pod appears, or one of the same name replaces it, or it is added twice."""
        known = next((pod for pod in self.alive.values() if pod.metadata.name == name), None)
        if known is not None and self.serial % 2:
            self.world.add(known)
            return
        pod = self.pod(name, kind, priority, f"uid-{name}-{self.serial}")
        if known is not None:
            del self.alive[known.uid]
            if known.uid in self.flying:
                self.world.delete(known)
        self.alive[pod.uid] = pod
        self.world.add(pod)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), priority=st.integers(0, 2), forget_old=st.booleans())
    def update(self, data: st.DataObject, priority: int, forget_old: bool) -> None:
        old = self.alive[data.draw(st.sampled_from(sorted(self.alive)))]
        new = self.pod(old.metadata.name, old.metadata.labels["kind"], priority, old.uid)
        self.alive[new.uid] = new
        self.world.update(None if forget_old else old, new)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.world.delete(self.alive.pop(data.draw(st.sampled_from(sorted(self.alive)))))

    # -------------------------------------------------------------------------------- attempts

    def rejectors(self, info: QueuedPodInfo) -> set[str]:
        return {name for name, each in self.filters.items() if not each.passes(info.pod)}

    @rule(count=st.integers(1, 4), filter_now=st.booleans())
    def pop(self, count: int, filter_now: bool) -> None:
        for _ in range(count):
            info = self.queue.pop()
            if info is None:
                return
            assert info.uid not in self.flying
            self.flying[info.uid] = info
            if filter_now:
                self.judged[info.uid] = self.rejectors(info)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), requeue_after=st.sampled_from([None, None, 0.0, 3.0, 40.0]))
    def decide(self, data: st.DataObject, requeue_after: float | None) -> None:
        """An attempt ends; events may have happened since its filters ran."""
        info = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        rejectors = self.judged.pop(info.uid, None)
        self.end(info, self.rejectors(info) if rejectors is None else rejectors, requeue_after)

    def end(self, info: QueuedPodInfo, rejectors: set[str], requeue_after: float | None) -> None:
        if info.uid not in self.alive:
            self.queue.done(info.uid)
        elif rejectors:
            info.clear_rejectors()
            info.pod = self.alive[info.uid]
            info.unschedulable_plugins = rejectors
            info.pause = 0.0
            info.pending_plugins = {name for name in rejectors if name == "F2"}
            if requeue_after is not None:
                info.requeue_at = self.world.clock.now() + requeue_after
            self.queue.add_unschedulable_if_not_present(info)
        else:
            self.queue.done(info.uid)
            self.queue.delete(self.alive.pop(info.uid))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), pause=st.sampled_from([0.0, 20.0]))
    def break_attempt(self, data: st.DataObject, pause: float) -> None:
        info = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        self.judged.pop(info.uid, None)
        if info.uid in self.alive:
            info.clear_rejectors()
            info.pod = self.alive[info.uid]
            info.pause = pause
            self.queue.add_unschedulable_if_not_present(info)
        else:
            self.queue.done(info.uid)

    # ------------------------------------------------------------------------------ the cluster

    @rule(name=st.sampled_from((*FILTERS, *GATES)), kind=st.sampled_from(KINDS))
    def close(self, name: str, kind: str) -> None:
        self.switches[name].closed.add(kind)

    @precondition(lambda self: any(each.closed for each in self.switches.values()))
    @rule(data=st.data())
    def open_something(self, data: st.DataObject) -> None:
        closed = [
            (name, kind) for name, each in self.switches.items() for kind in sorted(each.closed)
        ]
        self.open(*data.draw(st.sampled_from(closed)))

    @precondition(lambda self: any(each.closed for each in self.filters.values()))
    @rule(data=st.data())
    def open_something_between_filtering_and_failing(self, data: st.DataObject) -> None:
        self.pop(1, filter_now=True)
        self.open_something(data)
        for uid, rejectors in sorted(self.judged.items()):
            self.end(self.flying.pop(uid), rejectors, None)
        self.judged.clear()

    def open(self, name: str, kind: str) -> None:
        self.switches[name].closed.discard(kind)
        self.world.happen(OPENED[name], None, kind)

    @rule(
        names=st.sets(st.sampled_from((*FILTERS, *GATES)), min_size=1),
        per_signature=st.booleans(),
        opened=st.booleans(),
        backwards=st.sampled_from([None, False, True]),
    )
    def plugins_are_replaced(
        self, names: set[str], per_signature: bool, opened: bool, backwards: bool | None
    ) -> None:
        """Other instances take over, which may let pods pass without any event."""
        for name in sorted(names):
            kind = type(self.switches[name])
            replaced = kind(name, per_signature=per_signature and name in FILTERS)
            replaced.closed = set() if opened else self.switches[name].closed
            self.switches[name] = replaced
        self.filters = {name: self.switches[name] for name in FILTERS}
        self.gates = {name: gate for name, gate in self.switches.items() if isinstance(gate, Gate)}
        sort_key = {None: None, False: priority_sort, True: by_name}[backwards]
        self.world.replace({PROFILE: tuple(self.switches.values())}, {PROFILE}, sort_key)

    @rule(name=st.sampled_from((*FILTERS, *GATES)), broken=st.booleans())
    def break_plugin(self, name: str, broken: bool) -> None:
        self.switches[name].broken = broken

    @rule(name=st.sampled_from(GATES), retry=st.sampled_from([None, 0.0, 5.0, 60.0]))
    def set_retry(self, name: str, retry: float | None) -> None:
        self.gates[name].retry = retry

    @rule(event=st.sampled_from([UNREGISTERED, WILDCARD]))
    def something_else_happens(self, event: ClusterEvent) -> None:
        self.world.happen(event)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), what=st.sampled_from(["activate", "recheck", "F0", "F2", "G0"]))
    def a_plugin_calls(self, data: st.DataObject, what: str) -> None:
        uids = data.draw(st.lists(st.sampled_from(sorted(self.alive)), max_size=3))
        if what == "activate":
            self.queue.activate([self.alive[uid] for uid in uids])
        elif what == "recheck":
            self.queue.recheck(uids)
        else:
            self.queue.wake(uids, what, "Freed")

    # ------------------------------------------------------------------------------------- time

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 2.5, 12.0, 31.0, 400.0]), run=st.booleans())
    def time_passes(self, seconds: float, run: bool) -> None:
        self.world.clock.step(seconds)
        if run:
            self.queue.run_due()
            self.arm()

    @rule(seconds=st.sampled_from([0.4, 5.0, 4_000.0]))
    def clock_is_set_back(self, seconds: float) -> None:
        self.world.clock.wall -= seconds

    def arm(self) -> None:
        self.armed = self.queue.next_wakeup()
        self.timer_called = False

    # -------------------------------------------------------------------------------- invariants

    @invariant()
    def valid(self) -> None:
        if hasattr(self, "queue"):
            self.queue.validate()

    @invariant()
    def every_pod_is_somewhere(self) -> None:
        if not hasattr(self, "queue"):
            return
        queued = {view.uid for view in self.queue.views() if view.place != "in-flight"}
        assert queued == self.alive.keys() - self.flying.keys()
        assert self.queue.statistics().in_flight == len(self.flying)

    @invariant()
    def no_pod_waits_without_a_reason(self) -> None:
        if not hasattr(self, "queue"):
            return
        if self.queue.statistics().wakeups_left:
            wakeup = self.queue.next_wakeup()
            assert wakeup is not None
            assert wakeup <= self.world.clock.now()
            return
        for view in self.queue.views():
            pod = self.alive.get(view.uid)
            if pod is None:
                continue
            if view.place == "unschedulable":
                assert not all(each.passes(pod) for each in self.filters.values()), view
            if view.place == "gated" and view.next_retry is None:
                assert not all(each.passes(pod) for each in self.gates.values()), view

    @invariant()
    def gauges_are_right(self) -> None:
        if not hasattr(self, "queue"):
            return
        views = [view for view in self.queue.views() if view.place != "in-flight"]
        assert +self.world.metrics.pending == Counter(str(view.place) for view in views)
        assert +self.world.metrics.unschedulable == Counter(
            (plugin, PROFILE)
            for view in views
            for plugin in {*view.unschedulable_plugins, *view.pending_plugins}
        )
        if not self.flying:
            assert +self.world.metrics.inflight == {}

    @invariant()
    def the_loop_never_oversleeps(self) -> None:
        if not hasattr(self, "queue"):
            return
        armed = self.armed
        self.armed = self.queue.next_wakeup()
        if self.armed is not None and (armed is None or self.armed < armed):
            assert self.timer_called
        self.timer_called = False

    def teardown(self) -> None:
        """Open everything: then every pod comes out, with the queue's own timers alone."""
        wakeups.CHECK_EVERY = self.check_every
        if not hasattr(self, "queue"):
            return
        for switch in self.switches.values():
            switch.broken = False
        for name in self.switches:
            for kind in KINDS:
                self.open(name, kind)
        for flying in list(self.flying.values()):
            self.end(flying, set(), None)
        for _ in range(200):
            while (info := self.queue.pop()) is not None:
                self.end(info, set(), None)
            wakeup = self.queue.next_wakeup()
            if wakeup is None:
                break
            self.world.clock.step(max(0.0, wakeup - self.world.clock.now()))
            self.queue.run_due()
        assert self.alive == {}
        assert len(self.queue) == 0


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40)
