"""Pods held by PreEnqueue plugins: which event frees them, retries, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework import (
    Status,
    pending,
    unresolvable,
)
from tests.unit.queue.doubles import (
    NODE_ADD,
    QUEUE,
    SKIP,
    WILDCARD,
    FilterDouble,
    GateDouble,
    HoldingGate,
    SchedulingGatesDouble,
    World,
    gated_by,
    make_pod,
)


class TestGates:
    def test_events_that_the_gating_plugin_did_not_register_cost_nothing(self) -> None:
        plugin = FilterDouble("P", [(NODE_ADD, QUEUE)])
        world = World(SchedulingGatesDouble(), plugin)
        world.add(make_pod("a", gates=["x"]))
        runs = world.queue.statistics().pre_enqueue_runs
        assert world.happen(NODE_ADD) == 0
        assert world.happen(WILDCARD) == 0
        assert plugin.calls == []
        assert world.queue.statistics().pre_enqueue_runs == runs

    def test_an_event_of_the_gating_plugin_runs_it_again(self) -> None:
        world, gate = gated_by(unresolvable("no"), (NODE_ADD, QUEUE))
        assert world.happen(NODE_ADD) == 0
        assert world.place("a") == "gated"
        assert world.metrics.incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
        gate.closed.clear()
        assert world.happen(NODE_ADD) == 1
        assert world.place("a") == "active"

    def test_no_hint_is_evaluated_for_pods_that_the_gating_plugin_keeps(self) -> None:
        gate = HoldingGate("G", [(NODE_ADD, QUEUE)])
        filters = FilterDouble("P", [(NODE_ADD, QUEUE)])
        world = World(gate, filters)
        gate.closed = dict.fromkeys("abc", unresolvable("no"))
        for name in "abc":
            world.add(make_pod(name))
        gate.holding = {"uid-a", "uid-c"}
        del gate.closed["b"]
        for each in (gate.runs, gate.calls):
            each.clear()
        assert world.happen(NODE_ADD) == 1
        assert world.places() == {"a": "gated", "b": "active", "c": "gated"}
        assert gate.runs == ["b"]
        assert [name for name, *_ in gate.calls] == ["b"]
        gate.holding, gate.closed = set(), {}
        assert world.happen(NODE_ADD) == 2

    def test_if_held_raises_hints_are_evaluated_for_all_pods(self) -> None:
        gate = HoldingGate("G", [(NODE_ADD, QUEUE)])
        world = World(gate)
        gate.closed["a"] = unresolvable("no")
        world.add(make_pod("a"))
        gate.holding = RuntimeError("broken")
        gate.closed.clear()
        assert world.happen(NODE_ADD) == 1
        assert world.queue.statistics().pre_enqueue_errors == 1

    def test_held_does_not_affect_wake_and_recheck(self) -> None:
        gate = HoldingGate("G", [(NODE_ADD, QUEUE)])
        world = World(gate)
        gate.closed["a"] = unresolvable("no")
        world.add(make_pod("a"))
        gate.holding = {"uid-a"}
        gate.runs.clear()
        world.queue.recheck(["uid-a"])
        world.queue.activate([make_pod("a")])
        assert gate.runs == ["a", "a"]

    def test_a_gated_pod_that_failed_before_goes_through_backoff(self) -> None:
        world, gate = gated_by(unresolvable("no"), (NODE_ADD, QUEUE))
        gate.closed.clear()
        world.queue.recheck(["uid-a"])
        info = world.pop()
        gate.closed["a"] = unresolvable("again")
        world.happen(WILDCARD)
        assert world.fail(info, "P") == "gated"
        gate.closed.clear()
        world.happen(NODE_ADD)
        assert world.place("a") == "backoff"

    def test_a_gating_plugin_may_skip_while_another_rejector_frees_the_pod(
        self,
    ) -> None:
        gate = GateDouble("G", [(NODE_ADD, SKIP)])
        world = World(gate, FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("a"))
        info = world.pop()
        world.happen(WILDCARD)
        gate.closed["a"] = unresolvable("preempting")
        assert world.fail(info, "P") == "gated"
        gate.closed.clear()
        world.clock.step(5)
        world.happen(NODE_ADD)
        assert world.place("a") == "active"

    def test_the_gating_plugin_runs_first_and_the_others_only_if_it_succeeds(self) -> None:
        first, second = GateDouble("first"), GateDouble("second", [(NODE_ADD, QUEUE)])
        world = World(first, second)
        second.closed["a"] = unresolvable("no")
        world.add(make_pod("a"))
        world.happen(NODE_ADD)
        assert (len(first.runs), len(second.runs)) == (1, 2)
        second.closed.clear()
        first.closed["a"] = unresolvable("now me")
        world.happen(NODE_ADD)
        view = world.queue.view("default", "a")
        assert view is not None
        assert (view.gating_plugin, view.message) == ("first", "now me")
        assert view.unschedulable_plugins == ("first", "second")

    def test_every_rejection_is_published_with_its_plugin(self) -> None:
        world, gate = gated_by(unresolvable("no"), (NODE_ADD, QUEUE))
        published: list[tuple[str, str, str]] = []
        world.queue.signals.on_gated.subscribe(
            lambda info, status: published.append(
                (info.pod.metadata.name, status.plugin, status.message)
            )
        )
        gate.closed["b"] = unresolvable("me too")
        world.add(make_pod("b"))
        world.happen(NODE_ADD)
        assert published == [("b", "G", "me too"), ("a", "G", "no"), ("b", "G", "me too")]

    @pytest.mark.parametrize("status", [unresolvable("no"), pending("not yet")])
    def test_any_rejection_gates(self, status: Status) -> None:
        world, _ = gated_by(status)
        view = world.queue.view("default", "a")
        assert view is not None
        assert view.message == status.message
        assert (view.place, view.attempts, view.pending_plugins) == ("gated", 0, ())

    def test_without_the_gate_for_early_pop_preenqueue_runs_after_backoff(self) -> None:
        gate = GateDouble("G", [(NODE_ADD, QUEUE)])
        world = World(gate, FilterDouble("P", [(NODE_ADD, QUEUE)]), pop_from_backoff=False)
        world.rejected(make_pod("a"), "P")
        gate.closed["a"] = unresolvable("no")
        world.happen(NODE_ADD)
        assert world.place("a") == "backoff"
        world.pass_time(5)
        assert world.place("a") == "gated"
        gate.closed.clear()
        world.happen(NODE_ADD)
        assert world.place("a") == "active"

    def test_with_it_preenqueue_runs_before_backoff_and_not_after(self) -> None:
        gate = GateDouble("G")
        world = World(gate, FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.rejected(make_pod("a"), "P")
        world.happen(NODE_ADD)
        assert world.place("a") == "backoff"
        gate.closed["a"] = unresolvable("too late")
        world.pass_time(5)
        assert world.place("a") == "active"

    def test_a_gated_pod_moved_without_early_pop_waits_out_its_backoff(self) -> None:
        gate = GateDouble("G", [(NODE_ADD, QUEUE)])
        world = World(gate, FilterDouble("P"), pop_from_backoff=False)
        world.rejected(make_pod("a"), "P")
        gate.closed["a"] = unresolvable("no")
        world.queue.recheck(["uid-a"])
        assert world.place("a") == "gated"
        world.happen(NODE_ADD)
        assert world.place("a") == "backoff"
        world.pass_time(5)
        assert world.place("a") == "gated"

    def test_a_plugin_that_raises_gates_and_runs_again_with_backoff(self) -> None:
        world, gate = gated_by(RuntimeError("boom"))
        view = world.queue.view("default", "a")
        assert view is not None
        assert view.message == "running PreEnqueue plugin 'G': boom"
        assert view.next_retry_reason == "retry of a PreEnqueue plugin that failed"
        for wait in (1, 2, 4):
            due = world.queue.next_wakeup()
            assert due == world.clock.now() + wait
            world.pass_time(wait)
            assert world.place("a") == "gated"
        assert [problem[:3] for problem in world.problems] == [("G", "PreEnqueue", "a")] * 4
        gate.closed.clear()
        world.pass_time(8)
        assert world.place("a") == "active"
        assert world.queue.statistics().pre_enqueue_errors == 4

    def test_a_pre_enqueue_result_that_is_no_status_is_an_error(self) -> None:
        result: Any = True
        world, _ = gated_by(result)
        view = world.queue.view("default", "a")
        assert view is not None
        assert view.message == "running PreEnqueue plugin 'G': answered True, which is not a Status"
        assert world.queue.next_wakeup() == world.clock.now() + 1

    def test_a_sort_key_that_raises_gates_the_pod_and_loses_none(self) -> None:
        broken = [True]

        def sort_key(info: object) -> object:
            if broken[0]:
                raise RuntimeError("unsortable")
            return 0

        world = World(sort_key=sort_key)
        world.add(make_pod("a"))
        view = world.queue.view("default", "a")
        assert view is not None
        assert (view.gating_plugin, view.message) == (
            "QueueSort", "sorting the pod: RuntimeError: unsortable",
        )  # fmt: skip
        broken[0] = False
        world.pass_time(1)
        assert world.place("a") == "active"
        broken[0] = True
        world.update(make_pod("a"), make_pod("a", labels={"x": "1"}))
        assert world.place("a") == "gated"
