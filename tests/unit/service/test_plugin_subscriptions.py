"""Subscriptions of one plugin: attached at a takeover, withdrawn when nothing uses the plugin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec

from scheduler.service.shared_objects import SharedObjects
from scheduler.service.subscriptions import PluginSubscriptions, SubscriptionBoard
from tests.unit.queue.doubles import make_pod


def known(*names: str, plural: str = "services") -> Callable[[str], dict[str, Any]]:
    """Return what is known: Pods stand for any objects."""
    objects = {f"default/{name}": make_pod(name) for name in names}
    return lambda asked: dict(objects) if asked == plural else {}


class Listener:
    """A plugin that notes what it hears of Services."""

    def __init__(self, board: SubscriptionBoard, *, attached: bool = False) -> None:
        self.own = PluginSubscriptions(board, attached=attached)
        self.own.on_object("services", self._change)
        self.heard: list[tuple[str, str]] = []

    def _change(self, old: Any, new: Any) -> None:
        before, after = ("" if each is None else each.metadata.name for each in (old, new))
        self.heard.append((before, after))


def test_known_objects_are_additions_and_nothing_else_is_called_before_attaching() -> None:
    board, binds = SubscriptionBoard(), list[str]()
    plugin = Listener(board)
    plugin.own.on_bind(lambda pod, node: binds.append(node))
    board.publish_object("services", None, make_pod("before"))
    plugin.own.begin_catching_up(known("a", "b"))
    assert len(list(plugin.own.deliver_known())) == 2
    board.publish_bind(make_pod("p"), "early")
    plugin.own.attach()
    board.publish_bind(make_pod("p"), "late")
    board.publish_object("services", None, make_pod("c"))
    assert sorted(plugin.heard) == [("", "a"), ("", "b"), ("", "c")]
    assert binds == ["late"]


def test_changes_while_a_plugin_catches_up_are_heard_once_and_in_order() -> None:
    board = SubscriptionBoard()
    plugin = Listener(board)
    plugin.own.begin_catching_up(known("changed", "deleted", "same"))
    changed, deleted, new = (make_pod(name) for name in ("changed", "deleted", "new"))
    board.publish_object("services", changed, changed)
    board.publish_object("services", changed, changed)
    board.publish_object("services", deleted, None)
    board.publish_object("services", None, new)
    board.publish_object("services", new, None)
    deliveries = list(plugin.own.deliver_known())
    plugin.own.attach()
    board.publish_object("services", changed, None)
    assert len(deliveries) == 1
    assert plugin.heard == [
        ("", "changed"),
        ("changed", "changed"),
        ("", "new"),
        ("new", ""),
        ("", "same"),
        ("changed", ""),
    ]


def test_object_without_a_namespace_is_recognized() -> None:
    board = SubscriptionBoard()
    plugin = Listener(board)
    node = make_pod("node")
    node = msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, namespace="")
    )
    plugin.own.begin_catching_up(lambda plural: {"node": node})
    board.publish_object("services", node, node)
    assert list(plugin.own.deliver_known()) == []
    assert plugin.heard == [("", "node")]


def test_attaching_after_the_first_lists_calls_the_subscribers_to_their_end() -> None:
    board, heard = SubscriptionBoard(), list[str]()
    board.publish_synced()
    own = PluginSubscriptions(board, attached=False)
    own.on_synced(lambda: heard.append("synced"))
    assert heard == []
    own.attach()
    own.attach()
    assert heard == ["synced"]


def test_plugin_that_is_not_taken_over_after_all_hears_of_nothing() -> None:
    board = SubscriptionBoard()
    plugin = Listener(board)
    plugin.own.begin_catching_up(known("a"))
    plugin.own.leave_catching_up()
    board.publish_object("services", None, make_pod("b"))
    assert list(plugin.own.deliver_known()) == []
    assert plugin.heard == []


def test_nothing_is_called_after_withdrawing_and_others_are() -> None:
    board = SubscriptionBoard()
    first, second = (Listener(board, attached=True) for _ in range(2))
    first.own.withdraw()
    first.own.withdraw()
    board.publish_object("services", None, make_pod("p"))
    assert (first.heard, second.heard) == ([], [("", "p")])


def test_shared_objects_of_modules_that_are_imported_afresh_are_forgotten_and_restored() -> None:
    board, shared = SubscriptionBoard(), SharedObjects()
    maker = PluginSubscriptions(board, attached=True)
    for name, made in (("list", []), ("board", board)):
        shared.subscribe(name, maker)
        shared.objects[name] = made
    before = shared.copy()
    shared.forget({SubscriptionBoard.__module__})
    assert (list(shared.objects), list(shared.subscriptions)) == (["list"], ["list"])
    shared.restore(before)
    assert shared.objects == {"list": [], "board": board}


def test_what_is_tried_is_heard_only_by_those_who_asked_for_it() -> None:
    board, heard = SubscriptionBoard(), list[str]()
    own = PluginSubscriptions(board, attached=True)
    own.on_object("services", lambda old, new: heard.append("real"))
    own.on_object("services", lambda old, new: heard.append("index"), in_trials=True)
    board.publish_tried("services", None, make_pod("tried"))
    assert heard == ["index"]
    board.publish_object("services", None, make_pod("real"))
    assert heard == ["index", "real", "index"]
    own.withdraw()
    board.publish_tried("services", None, make_pod("tried"))
    assert len(heard) == 3


def test_a_trial_begins_with_all_subscribers_and_ends_with_the_last_first() -> None:
    board, calls = SubscriptionBoard(), list[str]()

    def note(name: str) -> Callable[[], Callable[[], None]]:
        def begin() -> Callable[[], None]:
            calls.append(f"{name} begins")
            return lambda: calls.append(f"{name} ends")

        return begin

    for name in ("a", "b"):
        PluginSubscriptions(board, attached=True).on_trial(note(name))
    with ExitStack() as stack:
        board.begin_trial(stack)
    assert calls == ["a begins", "b begins", "b ends", "a ends"]
