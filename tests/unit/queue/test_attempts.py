"""Add, pop, done, close, and the return from a failed attempt."""

from __future__ import annotations

import pytest

from scheduler.framework import ActionType, ClusterEvent, unresolvable
from scheduler.framework.events import ATTEMPT_OUTCOME, TARGET_POD_UPDATE
from scheduler.framework.queued import PostFilterOutcome
from scheduler.queue import AlreadyQueuedError
from scheduler.queue.in_flight import InFlight, InFlightEvent
from scheduler.queue.metrics import QueueMetrics
from tests.unit.queue.doubles import (
    NODE_ADD,
    NODE_LABEL,
    QUEUE,
    SKIP,
    WILDCARD,
    FilterDouble,
    GateDouble,
    SchedulingGatesDouble,
    World,
    make_pod,
)


def labels(world: World) -> list[str]:
    """Labels of the in-flight events kept."""
    return [each.label for each in world.queue._in_flight.events]


def custom(letter: str) -> ClusterEvent:
    return ClusterEvent(f"{letter}.v1.example.com", ActionType.ADD)


A, B, C = custom("a"), custom("b"), custom("c")


class TestOrder:
    def test_pods_are_popped_by_priority(self) -> None:
        world = World()
        world.add(make_pod("mid", 5), make_pod("low", 1), make_pod("high", 9))
        assert world.pop_names() == ["high", "mid", "low"]

    def test_the_queue_sort_plugin_decides(self) -> None:
        world = World(sort_key=lambda info: info.pod.metadata.name)
        world.add(make_pod("b", 9), make_pod("c", 10), make_pod("a", 1))
        assert world.pop_names() == ["a", "b", "c"]

    def test_ties_are_popped_in_the_order_of_adding(self) -> None:
        world = World()
        names = [f"p{number}" for number in (3, 1, 2, 5, 4)]
        world.add(*(make_pod(name) for name in names))
        assert world.pop_names() == names

    def test_a_retried_pod_goes_behind_its_equals(self) -> None:
        world = World(FilterDouble("P"))
        pods = [make_pod(f"p{number}") for number in range(5)]
        for pod in pods:
            world.add(pod)
            world.clock.step(0.001)
        world.fail(world.pop(), "P")
        world.queue.activate([pods[0]])
        assert world.pop_names() == ["p1", "p2", "p3", "p4", "p0"]

    def test_a_pod_in_backoff_lets_lower_priorities_pass(self) -> None:
        world = World(FilterDouble("P"))
        world.add(make_pod("high", 9), make_pod("mid", 5))
        world.fail(world.pop(), "P")
        world.happen(WILDCARD)
        assert world.place("high") == "backoff"
        assert world.pop().pod.metadata.name == "mid"


class TestPop:
    def test_an_empty_queue_gives_nothing_and_calls_back_once_when_it_can(self) -> None:
        world = World()
        calls: list[str] = []
        world.queue.signals.on_ready.subscribe(lambda: calls.append("ready"))
        assert world.queue.pop() is None
        world.add(make_pod("a"), make_pod("b"))
        assert calls == ["ready"]
        assert world.pop_names() == ["a", "b"]
        world.add(make_pod("c"))
        assert calls == ["ready", "ready"]

    def test_entering_backoff_calls_back_too_unless_the_attempt_ended_in_an_error(self) -> None:
        world = World(FilterDouble("P"))
        calls: list[str] = []
        world.queue.signals.on_ready.subscribe(lambda: calls.append("ready"))
        world.add(make_pod("a"))
        info = world.pop()
        assert world.queue.pop() is None
        calls.clear()
        world.fail(info)
        assert calls == []
        world.add(make_pod("b"))
        other = world.pop()
        assert world.queue.pop() is None
        calls.clear()
        world.happen(WILDCARD)
        world.fail(other, "P")
        assert calls == ["ready"]

    def test_close_ends_all_attempts_but_hands_out_what_is_left(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("a"), make_pod("b"), make_pod("c"))
        world.pop()
        world.pop()
        world.happen(NODE_ADD)
        world.happen(NODE_ADD)
        assert world.queue.statistics().in_flight_events == 2
        world.queue.close()
        world.queue.validate()
        counts = world.queue.statistics()
        assert (counts.in_flight, counts.in_flight_events, counts.closed) == (0, 0, True)
        assert world.pop_names() == ["c"]
        assert world.queue.pop() is None

    def test_a_known_pod_added_again_is_not_doubled(self) -> None:
        world = World()
        pod = make_pod("a")
        world.add(pod, pod)
        assert world.pop().uid == pod.uid
        world.add(pod)
        assert world.queue.pop() is None
        world.queue.done(pod.uid)
        world.queue.done(pod.uid)
        assert world.metrics.inflight == {"PodPopped": 0}

    def test_a_recreated_pod_replaces_the_one_of_the_same_name(self) -> None:
        world = World()
        world.add(make_pod("a", uid="old"), make_pod("a", uid="new"))
        assert [info.uid for info in [world.pop()]] == ["new"]
        assert world.queue.pop() is None

    def test_a_recreated_pod_is_scheduled_beside_the_attempt_of_the_old_one(self) -> None:
        world = World(FilterDouble("P"))
        world.add(make_pod("a", uid="old"))
        old = world.pop()
        world.delete(old.pod)
        world.add(make_pod("a", uid="new"))
        assert world.pop().uid == "new"
        world.queue.done("old")
        assert world.queue.view("default", "a") is not None

    def test_the_initial_attempt_timestamp_is_set_when_the_pod_is_ungated(self) -> None:
        world = World(SchedulingGatesDouble())
        gated = make_pod("a", gates=["g"])
        world.add(gated)
        world.clock.step(60)
        world.update(gated, make_pod("a"))
        info = world.pop()
        assert info.initial_attempt_timestamp == 1_060.0
        assert info.attempts == 1

    def test_attempts_add_up_and_the_first_time_stays(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("a"), "P")
        world.pass_time(400)
        info = world.pop()
        assert (info.attempts, info.initial_attempt_timestamp) == (2, 1_000.0)
        assert info.was_flushed_from_unschedulable
        world.fail(info, "P")
        assert not info.was_flushed_from_unschedulable

    def test_rejectors_survive_the_pop(self) -> None:
        world = World(FilterDouble("P1", [(NODE_ADD, QUEUE)]), FilterDouble("P2"))
        world.rejected(make_pod("a"), "P2", pending=["P1"])
        world.happen(NODE_ADD)
        info = world.pop()
        assert (info.unschedulable_plugins, info.pending_plugins) == ({"P1", "P2"}, {"P1"})


class TestInFlightEvents:
    def test_events_are_kept_only_while_a_pod_in_flight_may_need_them(self) -> None:
        world = World(FilterDouble("P", [(A, QUEUE), (B, QUEUE), (C, QUEUE)]))
        world.happen(A)
        world.add(*(make_pod(f"p{number}") for number in (1, 2, 3)))
        first = world.pop()
        world.happen(A)
        world.happen(custom("unregistered"))
        assert labels(world) == [A.label]
        second = world.pop()
        world.happen(B)
        third = world.pop()
        world.happen(C)
        world.fail(second)
        assert labels(world) == [A.label, B.label, C.label]
        world.fail(first)
        assert labels(world) == [C.label]
        world.fail(third)
        assert labels(world) == []
        assert +world.metrics.inflight == {}

    def test_releasing_the_first_pod_releases_its_events(self) -> None:
        world = World(FilterDouble("P", [(A, QUEUE), (B, QUEUE)]))
        world.add(make_pod("p1"), make_pod("p2"))
        first = world.pop()
        world.happen(A)
        world.pop()
        world.happen(B)
        world.fail(first)
        assert world.place("p1") == "backoff"
        assert labels(world) == [B.label]
        assert world.metrics.inflight == {"PodPopped": 1, A.label: 0, B.label: 1}

    @pytest.mark.parametrize(
        ("hint", "place"), [(SKIP, "unschedulable"), (QUEUE, "backoff"), (None, "unschedulable")]
    )
    def test_an_event_during_the_attempt_counts_as_the_hint_says(
        self, hint: object, place: str
    ) -> None:
        registered = [] if hint is None else [(NODE_ADD, hint)]
        world = World(FilterDouble("P1", registered), FilterDouble("other", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("a"))
        info = world.pop()
        world.happen(NODE_ADD, None, "node")
        assert world.fail(info, "P1") == place

    def test_an_event_before_the_pop_does_not_count(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("first"), make_pod("a"))
        world.pop()
        world.happen(NODE_ADD)
        world.happen(WILDCARD)
        assert world.fail(world.pop(), "P") == "unschedulable"

    @pytest.mark.parametrize(
        ("rejectors", "pending", "place"),
        [
            (["Queues", "Skips"], [], "backoff"),
            (["Queues", "Skips"], ["QueuesToo"], "active"),
            (["Queues"], ["Skips"], "backoff"),
            (["Skips"], [], "unschedulable"),
            ([], [], "backoff"),
        ],
    )
    def test_one_helpful_hint_is_enough_and_pending_skips_backoff(
        self, rejectors: list[str], pending: list[str], place: str
    ) -> None:
        world = World(
            FilterDouble("Skips", [(NODE_ADD, SKIP)]),
            FilterDouble("Queues", [(NODE_ADD, QUEUE)]),
            FilterDouble("QueuesToo", [(NODE_ADD, QUEUE)]),
        )
        world.add(make_pod("a"))
        info = world.pop()
        world.happen(NODE_ADD)
        assert world.fail(info, *rejectors, pending=pending) == place

    def test_an_event_recorded_for_one_pod_counts_for_all_pods_in_flight(self) -> None:
        world = World(FilterDouble("P1", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("a"), make_pod("b"))
        first, second = world.pop(), world.pop()
        world.happen(NODE_ADD)
        assert world.fail(first) == "backoff"
        assert world.fail(second, pending=["P1"]) == "active"

    def test_a_wildcard_requeues_all_pods_in_flight_after_backoff(self) -> None:
        world = World(FilterDouble("P"))
        world.add(*(make_pod(f"p{number}") for number in range(9)))
        infos = [world.pop() for _ in range(9)]
        world.happen(WILDCARD)
        assert {world.fail(info, "P") for info in infos} == {"backoff"}

    def test_a_pre_check_holds_for_pods_in_flight_too(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("high", 9), make_pod("low", 1))
        high, low = world.pop(), world.pop()
        world.happen(NODE_ADD, pre_check=lambda pod: pod.priority <= 5)
        assert (world.fail(high, "P"), world.fail(low, "P")) == ("unschedulable", "backoff")

    def test_own_updates_count_for_the_pod_alone_and_it_returns_as_updated(self) -> None:
        update = ClusterEvent("Pod", ActionType.UPDATE_POD_LABEL)
        plugin = FilterDouble("P", [(update, QUEUE)])
        world = World(plugin)
        pod, other = make_pod("a"), make_pod("b")
        world.add(pod, other)
        info, other_info = world.pop(), world.pop()
        changed = make_pod("a", labels={"x": "1"})
        world.update(pod, changed)
        assert world.fail(other_info, "P") == "unschedulable"
        assert world.fail(info, "P") == "backoff"
        assert info.pod is changed
        assert plugin.calls == [("a", pod, changed)]

    def test_dropped_events_are_assumed_to_have_mattered(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, SKIP)]))
        world.queue._in_flight._limit = 2
        world.add(make_pod("before"), make_pod("after"))
        before = world.pop()
        for _ in range(3):
            world.happen(NODE_ADD)
        after = world.pop()
        assert world.queue.statistics().in_flight_events_dropped == 1
        assert world.metrics.inflight["NodeAdd"] == 2
        assert world.fail(before, "P") == "backoff"
        assert world.fail(after, "P") == "unschedulable"

    def test_an_event_is_not_recorded_when_nothing_is_in_flight(self) -> None:
        in_flight = InFlight(QueueMetrics())
        in_flight.record(InFlightEvent(NODE_ADD, None, None, "NodeAdd"))
        assert not in_flight.events


class TestComingBack:
    def test_a_pod_without_rejectors_backs_off_and_no_hint_is_evaluated(self) -> None:
        plugin = FilterDouble("P", [(NODE_ADD, QUEUE)])
        world = World(plugin)
        world.add(make_pod("a"))
        info = world.pop()
        world.happen(NODE_ADD)
        assert world.fail(info) == "backoff"
        assert plugin.calls == []
        assert world.queue.statistics().backoff_errors == 1

    def test_an_attempt_that_ended_in_an_error_is_retried_without_any_event(self) -> None:
        world = World()
        world.add(make_pod("a"))
        world.fail(world.pop())
        world.pass_time(2)
        assert world.pop_names() == ["a"]

    def test_errors_are_counted_until_a_rejection(self) -> None:
        world = World(FilterDouble("P"))
        world.add(make_pod("a"))
        for expected in (1, 2, 3):
            info = world.pop()
            world.fail(info)
            assert (info.consecutive_errors_count, info.unschedulable_count) == (expected, 0)
            world.pass_time(20)
        world.fail(info := world.pop(), "P")
        assert (info.consecutive_errors_count, info.unschedulable_count) == (0, 1)

    @pytest.mark.parametrize(
        ("where", "text"),
        [
            ("active", "the active queue"),
            ("backoff", "the backoff queue"),
            ("unschedulable", "unsch"),
        ],
    )
    def test_a_pod_that_is_queued_already_is_refused_but_its_attempt_ends(
        self, where: str, text: str
    ) -> None:
        world = World(FilterDouble("P"), pop_from_backoff=False)
        world.add(make_pod("a", uid="old"))
        old = world.pop()
        new = make_pod("a", uid="new")
        world.add(new)
        if where != "active":
            world.fail(world.pop(), *(["P"] if where == "unschedulable" else []))
        before = old.unschedulable_count
        old.unschedulable_plugins = {"P"}
        with pytest.raises(AlreadyQueuedError, match=f"Pod default/a is already present in {text}"):
            world.queue.add_unschedulable_if_not_present(old)
        assert old.unschedulable_count == before
        assert world.queue.statistics().in_flight == 0
        assert world.place("a") == where

    def test_a_pod_that_was_done_already_backs_off(self) -> None:
        world = World(FilterDouble("P"))
        world.add(make_pod("a"))
        info = world.pop()
        world.queue.done(info.uid)
        assert world.fail(info, "P") == "backoff"

    def test_a_plugin_that_rejects_meanwhile_gates_the_pod(self) -> None:
        gate = GateDouble("G", [(NODE_ADD, QUEUE)])
        world = World(gate)
        world.add(make_pod("a"))
        info = world.pop()
        gate.closed["a"] = unresolvable("no")
        world.happen(WILDCARD)
        assert world.fail(info, "G") == "gated"

    def test_the_outcome_of_the_attempt_is_an_event_for_the_plugins_that_rejected_it(self) -> None:
        def fell_back(pod: object, old: object, info: object) -> object:
            assert old is None
            failed = getattr(info, "post_filter") is PostFilterOutcome.FAILED  # noqa: B009
            return QUEUE if failed else SKIP

        event = ClusterEvent("Pod", ActionType.ATTEMPT_OUTCOME)
        world = World(FilterDouble("Spread", [(event, fell_back)]), FilterDouble("Other"))
        for name, plugin, outcome, place in (
            ("a", "Spread", PostFilterOutcome.NOMINATED, "unschedulable"),
            ("b", "Spread", PostFilterOutcome.FAILED, "backoff"),
            ("c", "Other", PostFilterOutcome.FAILED, "unschedulable"),
        ):
            world.add(make_pod(name, 9))
            info = world.pop()
            info.post_filter = outcome
            assert world.fail(info, plugin) == place
        view = world.queue.view("default", "b")
        assert view is not None
        assert (view.last_event, view.last_hint) == (ATTEMPT_OUTCOME.label, "Spread")

    def test_a_registered_wildcard_does_not_cover_the_outcome_of_the_attempt(self) -> None:
        world = World(FilterDouble("P", [(ClusterEvent("*", ActionType.ALL), QUEUE)]))
        world.rejected(make_pod("a"), "P")
        assert world.place("a") == "unschedulable"
        assert world.happen(TARGET_POD_UPDATE) == 1

    def test_a_label_event_is_recorded_for_a_pod_that_waits_at_permit(self) -> None:
        plugin = FilterDouble("Permit", [(NODE_LABEL, QUEUE)])
        world = World(plugin)
        world.add(make_pod("a"))
        info = world.pop()
        world.happen(NODE_LABEL, "old", "new")
        assert world.fail(info, "Permit") == "backoff"
        assert plugin.calls == [("a", "old", "new")]
