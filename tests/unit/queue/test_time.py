"""Moves without an event: timers, flush, Time events, requeue_after, jumps of the clock."""

from __future__ import annotations

import pytest

from scheduler.framework import ActionType, ClusterEvent, QueuedPodInfo, unresolvable
from tests.unit.queue.doubles import (
    NODE_ADD,
    QUEUE,
    SKIP,
    FilterDouble,
    GateDouble,
    SchedulingGatesDouble,
    World,
    make_pod,
)

TIME = ClusterEvent("Time", ActionType.TICK)


def sleep_until_something_is_active(world: World, limit: int = 100) -> float:
    """Sleep exactly until the next wake-up, again and again, as the service does."""
    start = world.clock.now()
    for _ in range(limit):
        if world.queue.statistics().active:
            return world.clock.now() - start
        wakeup = world.queue.next_wakeup()
        assert wakeup is not None, "nothing will ever happen"
        world.pass_time(max(0.0, wakeup - world.clock.now()))
    raise AssertionError("woke up again and again for nothing")


class TestWakeup:
    def test_an_empty_or_active_queue_needs_no_wakeup(self) -> None:
        world = World()
        assert world.queue.next_wakeup() is None
        world.add(make_pod("a"))
        assert world.queue.next_wakeup() is None

    @pytest.mark.parametrize(("aligned", "after"), [(True, 2.0), (False, 1.0)])
    def test_the_loop_sleeps_exactly_until_backoff_ends(self, aligned: bool, after: float) -> None:
        world = World(pop_from_backoff=aligned)
        world.add(make_pod("a"))
        world.fail(world.pop())
        assert sleep_until_something_is_active(world) == pytest.approx(after, abs=1e-6)

    def test_pods_with_scheduling_gates_need_no_wakeup(self) -> None:
        """No time passes that could open these gates."""
        world = World(SchedulingGatesDouble())
        world.add(make_pod("a", gates=["x"]))
        assert world.queue.next_wakeup() is None
        world.pass_time(1_000)
        assert world.queue.statistics().pre_enqueue_runs == 1

    def test_on_timer_is_called_when_the_next_wakeup_moves_closer(self) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        wakeups: list[float | None] = []
        world.queue.signals.on_timer.subscribe(lambda: wakeups.append(world.queue.next_wakeup()))
        world.add(make_pod("a"), make_pod("b"))
        first, second = world.pop(), world.pop()
        first.requeue_at = 5_000.0
        first.unschedulable_plugins = {"P"}
        world.queue.add_unschedulable_if_not_present(first)
        world.fail(second)
        assert wakeups == [5_000.0, 1_002.0]


class TestFlush:
    def test_pods_stop_being_unschedulable_after_five_minutes_in_order(self) -> None:
        world = World(FilterDouble("P"))
        for name, priority in (("mid", 5), ("high", 9)):
            world.rejected(make_pod(name, priority), "P")
            world.clock.step(1)
        world.pass_time(297)
        assert "active" not in world.places().values()
        world.pass_time(33)
        assert world.pop_names() == ["high", "mid"]
        assert world.metrics.incoming["active", "UnschedulableTimeout"] == 2

    def test_the_comparison_is_strict(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("a"), "P")
        world.clock.step(300)
        world.queue.flush_unschedulable_left_over()
        assert world.place("a") == "unschedulable"

    def test_the_loop_wakes_for_it_by_itself(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("a"), "P")
        assert 300 < sleep_until_something_is_active(world) <= 330

    def test_a_gate_that_opened_without_an_event_is_noticed(self) -> None:
        gate = GateDouble("G")
        gate.closed["a"] = unresolvable("no")
        world = World(gate)
        world.add(make_pod("a"))
        world.pass_time(200)
        gate.closed.clear()
        assert 100 < sleep_until_something_is_active(world) <= 130
        assert world.pop().was_flushed_from_unschedulable

    def test_pods_that_stay_gated_are_looked_at_every_five_minutes_and_not_flagged(self) -> None:
        gate = GateDouble("G")
        gate.closed["a"] = unresolvable("no")
        world = World(gate)
        world.add(make_pod("a"))
        for _ in range(1_000):
            world.pass_time(1)
        assert gate.runs == ["a"] * 4
        assert world.place("a") == "gated"
        gate.closed.clear()
        world.queue.recheck(["uid-a"])
        assert not world.pop().was_flushed_from_unschedulable

    def test_a_flushed_pod_that_becomes_gated_is_not_flagged(self) -> None:
        gate = GateDouble("G")
        world = World(gate, FilterDouble("P"))
        world.rejected(make_pod("a"), "P")
        gate.closed["a"] = unresolvable("no")
        world.pass_time(1_000)
        assert world.place("a") == "gated"
        gate.closed.clear()
        world.queue.recheck(["uid-a"])
        assert not world.pop().was_flushed_from_unschedulable

    def test_pods_in_flight_during_a_flush_are_not_concerned(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("old"), "P")
        world.add(make_pod("x"))
        running = world.pop()
        world.pass_time(400)
        assert world.place("old") == "active"
        assert world.fail(running, "P") == "unschedulable"

    def test_it_can_be_disabled(self) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        world.rejected(make_pod("a"), "P")
        world.pass_time(1_000_000)
        world.queue.flush_unschedulable_left_over()
        assert world.place("a") == "unschedulable"
        assert world.queue.next_wakeup() is None


class TestTimeEvent:
    def test_hints_are_evaluated_only_for_pods_whose_rejectors_registered_time(self) -> None:
        patient = FilterDouble("Patient", [(TIME, SKIP)])
        other = FilterDouble("Other", [(NODE_ADD, QUEUE)])
        world = World(patient, other, max_in_unschedulable=None)
        world.rejected(make_pod("a"), "Patient")
        world.rejected(make_pod("b"), "Other")
        for expected in (1, 2):
            wakeup = world.queue.next_wakeup()
            assert wakeup == world.clock.now() + 30
            world.pass_time(30)
            assert [name for name, *_ in patient.calls] == ["a"] * expected

    def test_a_pod_whose_time_has_come_is_retried(self) -> None:
        world: World
        due = 1_100.0
        world = World(
            FilterDouble(
                "P", [(TIME, lambda pod, old, new: QUEUE if world.clock.now() >= due else SKIP)]
            ),
            time_based_hint_period=7.0,
        )
        world.rejected(make_pod("a"), "P")
        assert sleep_until_something_is_active(world) == 105

    def test_it_is_not_recorded_for_pods_in_flight_and_no_wildcard_covers_it(self) -> None:
        everything = FilterDouble("Everything", [(ClusterEvent("*", ActionType.ALL), QUEUE)])
        world = World(FilterDouble("P", [(TIME, QUEUE)]), everything, max_in_unschedulable=None)
        world.rejected(make_pod("b"), "Everything")
        world.add(make_pod("a"))
        running = world.pop()
        assert world.queue.tick_time_hints() == 0
        assert world.fail(running, "P") == "unschedulable"
        assert world.queue.tick_time_hints() == 1

    def test_the_hint_of_a_gating_plugin_that_registered_time_is_evaluated(self) -> None:
        gate = GateDouble("G", [(TIME, QUEUE)])
        gate.closed["a"] = unresolvable("not yet")
        world = World(gate)
        world.add(make_pod("a"))
        gate.closed.clear()
        assert sleep_until_something_is_active(world) == 30


class TestRequeueAfter:
    def returned(self, world: World, at: float) -> QueuedPodInfo:
        world.add(make_pod("a"))
        info = world.pop()
        info.clear_rejectors()
        info.unschedulable_plugins = {"P"}
        info.requeue_at = at
        world.queue.add_unschedulable_if_not_present(info)
        world.queue.validate()
        return info

    @pytest.mark.parametrize(
        ("requested", "after"), [(40.0, 40.0), (2.0, 2.0), (0.5, 2.0), (-9.0, 2.0)]
    )
    def test_a_pod_returns_at_its_time_but_never_during_backoff(
        self, requested: float, after: float
    ) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        self.returned(world, world.clock.now() + requested)
        assert world.queue.pop() is None
        assert sleep_until_something_is_active(world) == after
        assert world.metrics.incoming["active", "RequeueAfter"] == 1
        world.fail(world.pop(), "P")
        assert world.queue.next_wakeup() is None

    def test_the_time_survives_updates(self) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        self.returned(world, 1_050.0)
        world.update(make_pod("a"), make_pod("a", labels={"x": "1"}))
        view = world.queue.view("default", "a")
        assert view is not None
        assert (view.next_retry, view.next_retry_reason) == (
            1_050.0, "requested by the rejecting plugin",
        )  # fmt: skip
        assert sleep_until_something_is_active(world) == 50

    def test_an_event_may_move_the_pod_before_and_clears_the_time(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]), max_in_unschedulable=None)
        self.returned(world, 1_050.0)
        world.clock.step(5)
        world.happen(NODE_ADD)
        assert world.pop().requeue_at is None
        assert world.queue.next_wakeup() is None

    def test_a_deleted_pod_causes_no_wakeup(self) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        self.returned(world, 1_050.0)
        world.delete(make_pod("a"))
        assert world.queue.next_wakeup() is None

    def test_a_gating_plugin_may_request_another_run(self) -> None:
        gate = GateDouble("G")
        gate.closed["a"] = unresolvable("budget spent", requeue_after=60)
        world = World(gate, max_in_unschedulable=None)
        world.add(make_pod("a"))
        world.pass_time(60)
        assert (world.place("a"), world.queue.next_wakeup()) == ("gated", world.clock.now() + 60)
        gate.closed.clear()
        assert sleep_until_something_is_active(world) == 60

    def test_the_earliest_of_several_times_counts(self) -> None:
        gate = GateDouble("G", [(NODE_ADD, QUEUE)])
        world = World(gate, FilterDouble("P", [(NODE_ADD, QUEUE)]), max_in_unschedulable=None)
        self.returned(world, 1_050.0)
        gate.closed["a"] = unresolvable("no", requeue_after=500)
        world.clock.step(10)
        world.happen(NODE_ADD)
        assert (world.place("a"), world.queue.next_wakeup()) == ("gated", 1_050.0)
        world.pass_time(40)
        assert world.queue.next_wakeup() == 1_550.0

    def test_a_gating_plugin_cannot_cause_a_busy_loop(self) -> None:
        gate = GateDouble("G")
        gate.closed["a"] = unresolvable("again", requeue_after=0)
        world = World(gate, max_in_unschedulable=None)
        world.add(make_pod("a"))
        assert world.queue.next_wakeup() == world.clock.now() + 0.1


class TestClockJumps:
    def test_backoff_is_not_prolonged_by_a_clock_that_is_set_back(self) -> None:
        world = World()
        world.add(make_pod("a"))
        world.fail(world.pop())
        world.clock.mono += 1
        world.clock.wall -= 3_600
        world.queue.run_due()
        assert world.queue.statistics().clock_jumps == 1
        assert sleep_until_something_is_active(world) <= 2

    def test_requested_times_move_with_the_clock(self) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        TestRequeueAfter().returned(world, 1_050.0)
        world.clock.mono += 10
        world.clock.wall -= 500
        world.queue.run_due()
        world.queue.validate()
        assert sleep_until_something_is_active(world) == 40

    def test_the_flush_and_the_time_event_still_come(self) -> None:
        plugin = FilterDouble("P", [(TIME, SKIP)])
        world = World(plugin)
        world.rejected(make_pod("a"), "P")
        world.pass_time(20)
        world.clock.wall -= 10_000
        world.pass_time(10)
        assert len(plugin.calls) == 1
        assert sleep_until_something_is_active(world) <= 330

    def test_the_order_of_the_active_queue_survives(self) -> None:
        world = World()
        world.add(make_pod("old"))
        world.clock.wall -= 1_000
        world.add(make_pod("new"))
        world.queue.validate()
        assert world.pop_names() == ["old", "new"]

    def test_a_pod_in_flight_keeps_its_age(self) -> None:
        world = World(FilterDouble("P"))
        world.add(make_pod("a"))
        info = world.pop()
        world.clock.wall -= 600
        world.clock.mono += 60
        world.fail(info, "P")
        assert info.initial_attempt_timestamp is not None
        assert world.clock.now() - info.initial_attempt_timestamp == 60

    def test_small_steps_and_forward_jumps_need_nothing(self) -> None:
        world = World()
        world.add(make_pod("a"))
        world.fail(world.pop())
        world.clock.wall -= 0.5
        world.queue.run_due()
        world.clock.wall += 100_000
        world.queue.run_due()
        assert world.queue.statistics().clock_jumps == 0
        assert world.place("a") == "active"

    def test_a_clock_without_a_useful_monotonic_time_loses_no_pod(self) -> None:
        world = World()
        world.add(make_pod("a"))
        world.fail(world.pop())
        world.clock.wall -= 5_000
        assert sleep_until_something_is_active(world) <= 3
