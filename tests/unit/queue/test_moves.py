"""Moves of queued pods by events, PreEnqueue, activation, `recheck` and `wake`."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    QueueingHint,
    Status,
    pending,
    unresolvable,
)
from tests.unit.queue.doubles import (
    NODE_ADD,
    NODE_LABEL,
    QUEUE,
    SKIP,
    WILDCARD,
    FilterDouble,
    GateDouble,
    HoldingGate,
    SchedulingGatesDouble,
    World,
    make_pod,
)


def gated_by(
    status: Status | Exception, *events: tuple[ClusterEvent, object]
) -> tuple[World, GateDouble]:
    gate = GateDouble("G", events)
    gate.closed["a"] = status
    world = World(gate, FilterDouble("P", [(NODE_ADD, QUEUE)]))
    world.add(make_pod("a"))
    return world, gate


class TestEvents:
    def test_only_pods_whose_rejectors_registered_the_event_move(self) -> None:
        world = World(FilterDouble("P1", [(NODE_ADD, QUEUE)]), FilterDouble("P2"))
        for name, plugin in (("a", "P1"), ("b", "P1"), ("c", "P2")):
            world.rejected(make_pod(name), plugin)
        world.clock.step(5)
        assert world.happen(NODE_ADD) == 2
        assert world.places() == {"a": "active", "b": "active", "c": "unschedulable"}

    @pytest.mark.parametrize(
        ("rejectors", "pending_plugins", "hint", "place"),
        [
            (["P"], [], QUEUE, "backoff"),
            (["P"], [], SKIP, "unschedulable"),
            ([], ["P"], QUEUE, "active"),
            ([], ["P"], SKIP, "unschedulable"),
            (["P"], [], RuntimeError("broken"), "backoff"),
            ([], ["P"], RuntimeError("broken"), "active"),
        ],
    )
    def test_a_moved_pod_becomes_active_or_backs_off(
        self, rejectors: list[str], pending_plugins: list[str], hint: object, place: str
    ) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, hint)]))
        world.rejected(make_pod("a"), *rejectors, pending=pending_plugins)
        world.happen(NODE_ADD)
        assert world.place("a") == place

    def test_an_event_that_no_plugin_registered_is_ignored_before_anything_else(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("a"), "P")

        def pre_check(pod: object) -> bool:
            raise AssertionError("evaluated for an event that no plugin registered")

        world.happen(NODE_ADD, pre_check=pre_check)
        counts = world.queue.statistics()
        assert (counts.events, counts.events_ignored) == (1, 1)

    def test_a_pre_check_limits_which_pods_move(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
        for name, priority in (("low", 1), ("mid", 2), ("high", 3)):
            world.rejected(make_pod(name, priority), "P")
        world.clock.step(5)
        world.happen(NODE_ADD, pre_check=lambda pod: pod.priority >= 2)
        assert world.pop_names() == ["high", "mid"]

    def test_pods_that_are_active_or_back_off_are_not_moved(self) -> None:
        plugin = FilterDouble("P", [(NODE_ADD, QUEUE)])
        world = World(plugin)
        world.add(make_pod("b"))
        world.fail(world.pop())
        world.add(make_pod("a"))
        assert world.happen(NODE_ADD) == 0
        assert plugin.calls == []

    def test_a_pod_of_an_unknown_profile_is_retried_on_anything_that_reaches_it(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, SKIP)]))
        world.rejected(make_pod("a", profile="gone"), "P")
        assert world.happen(NODE_ADD) == 1

    def test_each_profile_has_its_own_registrations(self) -> None:
        deaf, keen = FilterDouble("P"), FilterDouble("P", [(NODE_ADD, QUEUE)])
        world = World(profiles={"one": [deaf], "two": [keen]})
        world.rejected(make_pod("a", profile="one"), "P")
        world.rejected(make_pod("b", profile="two"), "P")
        world.clock.step(5)
        world.happen(NODE_ADD)
        assert world.places() == {"a": "unschedulable", "b": "active"}

    def test_an_event_of_a_custom_resource_moves_pods(self) -> None:
        registered = ClusterEvent("foos.v1.example.com", ActionType.ALL)
        world = World(FilterDouble("P", [(registered, QUEUE)]))
        world.rejected(make_pod("a"), "P")
        world.clock.step(5)
        world.happen(ClusterEvent("foos.v1.example.com", ActionType.ADD), None, {"kind": "Foo"})
        assert world.pop().attempts == 2

    def test_a_hint_may_call_the_queue(self) -> None:
        world: World

        def activating(pod: object, old: object, new: object) -> object:
            world.queue.activate([make_pod("a"), make_pod("b")])
            return QUEUE

        world = World(FilterDouble("P", [(NODE_ADD, activating)]))
        world.rejected(make_pod("a"), "P")
        world.rejected(make_pod("b"), "P")
        world.happen(NODE_ADD)
        assert sorted(world.pop_names()) == ["a", "b"]


class TestSharedHints:
    def test_one_hint_result_holds_for_all_pods_of_one_signature(self) -> None:
        plugin = FilterDouble("P", [(NODE_ADD, SKIP), (NODE_LABEL, QUEUE)], per_signature=True)
        world = World(plugin)
        signature, other = object(), object()
        for number in range(20):
            world.rejected(make_pod(f"a{number}", signature=signature), "P")
        world.rejected(make_pod("other-signature", signature=other), "P")
        world.rejected(make_pod("labelled", signature=signature, labels={"x": "1"}), "P")
        world.rejected(make_pod("raw"), "P")
        assert world.happen(NODE_ADD) == 0
        assert len(plugin.calls) == 4
        assert world.happen(NODE_LABEL) == 23

    def test_pods_rejected_by_different_plugins_share_common_hint_results(self) -> None:
        plugin = FilterDouble("P", [(NODE_ADD, SKIP)], per_signature=True)
        world = World(plugin, FilterDouble("Q", [(NODE_ADD, SKIP)], per_signature=True))
        signature = object()
        world.rejected(make_pod("a", signature=signature), "P")
        world.rejected(make_pod("b", signature=signature), "P", "Q")
        world.happen(NODE_ADD)
        assert len(plugin.calls) == 1
        assert world.queue.statistics().hint_answers_shared == 1

    def test_a_hint_that_reads_the_pod_itself_is_evaluated_for_each_pod(self) -> None:
        def own(pod: object, old: object, new: object) -> object:
            return QUEUE if getattr(pod, "uid") == new else SKIP  # noqa: B009

        world = World(FilterDouble("P", [(NODE_ADD, own)]))
        signature = object()
        for name in "abc":
            world.rejected(make_pod(name, signature=signature), "P")
        world.happen(NODE_ADD, None, "uid-b")
        assert world.places() == {"a": "unschedulable", "b": "backoff", "c": "unschedulable"}

    def test_the_pod_that_the_event_is_about_is_evaluated_separately(self) -> None:
        def own(pod: Pod, old: object, new: Pod) -> QueueingHint:
            return QUEUE if pod.uid == new.uid else SKIP

        plugin = FilterDouble("P", [(NODE_ADD, own)], per_signature=True)
        world = World(plugin)
        signature = object()
        for name in "abc":
            world.rejected(make_pod(name, signature=signature), "P")
        assert world.happen(NODE_ADD, None, make_pod("other", signature=signature)) == 0
        assert len(plugin.calls) == 1
        world.happen(NODE_ADD, None, make_pod("b", signature=signature))
        assert world.places() == {"a": "unschedulable", "b": "backoff", "c": "unschedulable"}

    def test_hint_results_in_flight_are_shared_except_for_the_pod_itself(self) -> None:
        def own(pod: Pod, old: object, new: Pod) -> QueueingHint:
            return QUEUE if pod.uid == new.uid else SKIP

        for first, second in (("a", "b"), ("b", "a")):
            world = World(FilterDouble("P", [(NODE_ADD, own)], per_signature=True))
            signature = object()
            pods = {name: make_pod(name, signature=signature) for name in "ab"}
            world.add(*pods.values())
            running = {info.pod.metadata.name: info for info in (world.pop(), world.pop())}
            world.happen(NODE_ADD, None, pods["b"])
            world.fail(running[first], "P")
            world.fail(running[second], "P")
            assert world.places() == {"a": "unschedulable", "b": "backoff"}

    def test_a_pre_check_is_evaluated_for_each_member_of_a_group(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)], per_signature=True))
        signature = object()
        for name in "abc":
            world.rejected(make_pod(name, signature=signature), "P")
        assert world.happen(NODE_ADD, pre_check=lambda pod: pod.uid != "uid-b") == 2

    def test_an_updated_pod_changes_its_group(self) -> None:
        plugin = FilterDouble("P", [(NODE_ADD, SKIP)], per_signature=True)
        world = World(plugin)
        signature = object()
        old = make_pod("a", signature=signature)
        world.rejected(old, "P")
        world.rejected(make_pod("b", signature=signature), "P")
        world.update(old, make_pod("a", signature=signature, labels={"x": "1"}))
        world.happen(NODE_ADD)
        assert len(plugin.calls) == 2


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
        assert world.metrics.incoming == {("unschedulable", "UnschedulablePodAdd"): 1}
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
        told: list[tuple[str, str, str]] = []
        world.queue.signals.on_gated = lambda info, status: told.append(
            (info.pod.metadata.name, status.plugin, status.message)
        )
        gate.closed["b"] = unresolvable("me too")
        world.add(make_pod("b"))
        world.happen(NODE_ADD)
        assert told == [("b", "G", "me too"), ("a", "G", "no"), ("b", "G", "me too")]

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
        answer: Any = True
        world, _ = gated_by(answer)
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


class TestActivate:
    def test_unschedulable_pods_and_pods_in_backoff_become_active(self) -> None:
        world = World(FilterDouble("P"))
        pods = [make_pod(name) for name in ("pooled", "broken", "active")]
        world.rejected(pods[0], "P")
        world.add(pods[1])
        world.fail(world.pop())
        world.add(pods[2])
        world.queue.activate([*pods, make_pod("unknown")])
        world.queue.validate()
        assert set(world.places().values()) == {"active"}
        assert world.metrics.incoming["active", "ForceActivate"] == 2

    def test_it_is_recorded_for_a_pod_in_flight_and_for_no_other(self) -> None:
        world = World(FilterDouble("P"))
        one, two = make_pod("a"), make_pod("b")
        world.add(one, two)
        first, second = world.pop(), world.pop()
        world.queue.activate([one])
        assert world.metrics.inflight["ForceActivate"] == 1
        assert world.fail(second, "P") == "unschedulable"
        assert world.fail(first, "P") == "backoff"

    def test_a_gated_pod_stays_gated(self) -> None:
        world, gate = gated_by(unresolvable("no"))
        world.queue.activate([make_pod("a")])
        assert world.place("a") == "gated"
        gate.closed.clear()
        world.queue.activate([make_pod("a")])
        assert world.place("a") == "active"

    def test_preenqueue_is_not_run_for_a_pod_from_backoff(self) -> None:
        gate = GateDouble("G")
        world = World(gate, FilterDouble("P"))
        world.add(make_pod("a"))
        world.fail(world.pop())
        gate.closed["a"] = unresolvable("no")
        world.queue.activate([make_pod("a")])
        assert world.place("a") == "active"


class TestRecheckAndWake:
    def test_recheck_gates_pods_wherever_they_wait(self) -> None:
        gate = GateDouble("G")
        world = World(gate, FilterDouble("P"))
        world.rejected(make_pod("pooled"), "P")
        world.add(make_pod("broken"))
        world.fail(world.pop())
        world.add(make_pod("active"))
        uids = [f"uid-{name}" for name in ("pooled", "broken", "active", "unknown")]
        world.queue.recheck(uids)
        assert world.places() == {
            "pooled": "unschedulable", "broken": "backoff", "active": "active",
        }  # fmt: skip
        gate.closed = {name: unresolvable("quota") for name in ("pooled", "broken", "active")}
        world.queue.recheck(uids)
        world.queue.validate()
        assert set(world.places().values()) == {"gated"}
        gate.closed.clear()
        world.clock.step(5)
        world.queue.recheck(uids)
        world.queue.validate()
        assert set(world.places().values()) == {"active"}

    def test_wake_moves_exactly_the_pods_that_the_plugin_rejected(self) -> None:
        quota = GateDouble("Quota")
        other = GateDouble("Other")
        world = World(other, quota, FilterDouble("P"))
        quota.closed = {"held": unresolvable("q"), "still-held": unresolvable("q")}
        other.closed["other"] = unresolvable("o")
        world.add(make_pod("held"), make_pod("still-held"), make_pod("other"))
        world.rejected(make_pod("rejected"), "Quota")
        world.rejected(make_pod("unrelated"), "P")
        del quota.closed["held"]
        world.clock.step(5)
        uids = [f"uid-{name}" for name in world.places()] + ["uid-unknown"]
        before = len(other.runs)
        assert world.queue.wake(uids, "Quota", "QuotaFreed") == 2
        world.queue.validate()
        assert world.places() == {
            "held": "active", "rejected": "active",
            "still-held": "gated", "other": "gated", "unrelated": "unschedulable",
        }  # fmt: skip
        assert len(other.runs) == before + 2
        assert world.metrics.incoming["active", "QuotaFreed"] == 2

    def test_wake_of_a_pending_plugin_skips_backoff(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("a"), pending=["P"])
        world.queue.wake(["uid-a"], "P", "Freed")
        assert world.place("a") == "active"

    def test_wake_is_recorded_for_a_pod_in_flight(self) -> None:
        world = World(FilterDouble("P"), FilterDouble("Q"))
        world.add(make_pod("a"), make_pod("b"), make_pod("c"))
        infos = [world.pop() for _ in range(3)]
        world.queue.wake(["uid-a", "uid-b"], "P", "Freed")
        assert world.fail(infos[0], "P") == "backoff"
        assert world.fail(infos[1], "Q") == "unschedulable"
        assert world.fail(infos[2], "P") == "unschedulable"
        assert +world.metrics.inflight == {}
