"""Moves of rejected pods by events and their hints."""

from __future__ import annotations

import pytest

from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from tests.unit.queue.doubles import (
    NODE_ADD,
    NODE_LABEL,
    QUEUE,
    SKIP,
    FilterDouble,
    World,
    make_pod,
)


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
        unregistered, registered = FilterDouble("P"), FilterDouble("P", [(NODE_ADD, QUEUE)])
        world = World(profiles={"one": [unregistered], "two": [registered]})
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
