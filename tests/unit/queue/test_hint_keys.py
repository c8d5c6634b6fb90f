"""Hint keys: which pods an event is evaluated for, and that no pod is missed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.meta import ObjectMeta, OwnerReference
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework import ClusterEventWithHint, HintKeys, QueueingHint
from scheduler.framework.events import NODE_ADD, ClusterEvent
from tests.unit.queue.doubles import FilterDouble, World, make_pod

Keys = Collection[Hashable] | None


def node(*words: str, uid: str = "") -> Node:
    return Node(metadata=ObjectMeta(name="n", uid=uid, labels=dict.fromkeys(words, "")))


def required(pod: Pod) -> Keys:
    """Return the pod's labels; `?` makes the keys unknown."""
    return None if "?" in pod.metadata.labels else set(pod.metadata.labels)


def provided(old: Any, new: Node) -> Keys:
    return None if "?" in new.metadata.labels else set(new.metadata.labels)


class Keyed(FilterDouble):
    """Requires nodes with one of the pod's labels."""

    def __init__(
        self,
        name: str = "P",
        event: ClusterEvent = NODE_ADD,
        required_keys: Callable[[Pod], Keys] = required,
        provided_keys: Callable[[Any, Any], Keys] = provided,
        *,
        keyed: bool = True,
    ) -> None:
        super().__init__(name, [(event, self.shared_label)], per_signature=True)
        self.keys = HintKeys(required_keys, provided_keys) if keyed else None

    @staticmethod
    def shared_label(pod: Pod, old: Any, new: Node) -> QueueingHint:
        if new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        want, offer = required(pod), provided(old, new)
        helps = want is None or offer is None or not set(want).isdisjoint(offer)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            ClusterEventWithHint(each.event, each.hint, each.per_signature, self.keys)
            for each in super().events_to_register()
        ]


def waiting(world: World, name: str, *labels: str, plugins: Collection[str] = ("P",)) -> None:
    pod = make_pod(name, signature=object(), labels=dict.fromkeys(labels, ""))
    world.rejected(pod, *plugins)


def test_hints_are_evaluated_only_for_pods_that_require_a_provided_key() -> None:
    plugin = Keyed()
    world = World(plugin)
    for number in range(100):
        waiting(world, f"p{number}", f"l{number}")
    assert world.happen(NODE_ADD, None, node("l7", "l9", "other")) == 2
    assert sorted(name for name, _, _ in plugin.calls) == ["p7", "p9"]


@pytest.mark.parametrize("word", ["a", "?"])
def test_unknown_keys_match_every_pod_and_event(word: str) -> None:
    world = World(Keyed())
    waiting(world, "a", "a")
    waiting(world, "unsure", "?")
    assert world.happen(NODE_ADD, None, node(word)) == 2


def test_hints_are_always_evaluated_for_a_pod_without_interned_signature() -> None:
    plugin = Keyed()
    world = World(plugin)
    world.rejected(make_pod("raw", labels={"a": ""}), "P")
    world.happen(NODE_ADD, None, node("b"))
    assert [name for name, _, _ in plugin.calls] == ["raw"]


def test_hints_are_evaluated_for_the_pod_that_the_event_is_about() -> None:
    world = World(Keyed())
    signature = object()
    for name in "abc":
        world.rejected(make_pod(name, signature=signature, labels={"x": ""}), "P")
    assert world.happen(NODE_ADD, None, node("y", uid="uid-b")) == 1
    assert world.places() == {"a": "unschedulable", "b": "backoff", "c": "unschedulable"}


def test_hints_are_evaluated_for_the_pod_that_controls_the_object_and_for_no_other() -> None:
    plugin = Keyed()
    plugin.registered = [(NODE_ADD, QueueingHint.QUEUE)]
    plugin.per_signature = False
    world = World(plugin)
    signature = object()
    for name in "abc":
        world.rejected(make_pod(name, signature=signature, labels={"x": ""}), "P")
    owned = node("y")
    owned.metadata.owner_references = (OwnerReference(uid="uid-b", controller=True),)
    assert world.happen(NODE_ADD, None, owned) == 1
    assert [name for name, _, _ in plugin.calls] == ["b"]
    assert world.places() == {"a": "unschedulable", "b": "backoff", "c": "unschedulable"}


def test_another_plugin_without_keys_is_not_affected() -> None:
    world = World(Keyed(), FilterDouble("Q", [(NODE_ADD, QueueingHint.QUEUE)]))
    waiting(world, "a", "a")
    waiting(world, "both", "a", plugins=("P", "Q"))
    assert world.happen(NODE_ADD, None, node("b")) == 1
    assert world.places() == {"a": "unschedulable", "both": "backoff"}


def test_keys_that_raise_count_as_unknown() -> None:
    def broken(*_: Any) -> Keys:
        raise ValueError("no")

    for plugin in (Keyed(required_keys=broken), Keyed(provided_keys=broken)):
        world = World(plugin)
        waiting(world, "a", "a")
        world.happen(NODE_ADD, None, node("b"))
        assert len(plugin.calls) == 1


def test_a_changed_pod_is_indexed_by_its_new_keys() -> None:
    world = World(Keyed())
    old = make_pod("a", signature=object(), labels={"before": ""})
    world.rejected(old, "P")
    world.update(old, make_pod("a", signature=old.interned, labels={"after": ""}))
    assert world.happen(NODE_ADD, None, node("before")) == 0
    assert world.happen(NODE_ADD, None, node("after")) == 1


words = st.sets(st.sampled_from("abcd?"), max_size=2)


@given(pods=st.lists(words, max_size=8), events=st.lists(words, max_size=4))
def test_keys_do_not_change_which_pods_move(pods: list[set[str]], events: list[set[str]]) -> None:
    worlds = [World(Keyed(keyed=keyed)) for keyed in (True, False)]
    for world in worlds:
        for number, labels in enumerate(pods):
            waiting(world, f"p{number}", *labels)
        for offer in events:
            world.happen(NODE_ADD, None, node(*offer))
    assert worlds[0].places() == worlds[1].places()
