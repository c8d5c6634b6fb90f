"""A profile's plugins: instantiation, order, weights, and what-if helpers."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from scheduler.cache import NodeOverlay
from scheduler.engine import Framework
from scheduler.framework import (
    SKIP,
    Code,
    ConfigurationError,
    Registry,
    Status,
    error,
    unschedulable,
)
from tests.unit.engine.harness import QUEUE_SORT, Calls, Handle, World, new_state, plugin, profile

ORDER = {"queueSort": ["Sort"], "filter": ["B", "A"], "score": ["A", "B"]}


def build(*plugins: type[Any], **given: Any) -> Framework:
    handle: Any = Handle(World())
    resolved = profile(given.pop("points", ORDER), **given)
    return Framework(resolved, Registry([*plugins, QUEUE_SORT]), handle)


def scoring(name: str) -> type[Any]:
    return plugin(name, filter=lambda *_: None, score=lambda *_: 0)


def test_plugins_run_in_the_order_of_each_point_and_exist_once() -> None:
    framework = build(scoring("A"), scoring("B"), weights={"A": 3})
    assert [each.name for each in framework.filter] == ["B", "A"]
    assert [each.name for each in framework.score] == ["A", "B"]
    assert framework.filter[1] is framework.score[0]
    assert framework.weights == (3, 1)


def test_a_plugin_gets_its_arguments() -> None:
    seen: list[object] = []
    made = type("A", (), {"name": "A", "filter": lambda *_: None, "score": lambda *_: 0})
    made.__init__ = lambda self, args, handle: seen.append(args)  # type: ignore[misc]
    build(made, scoring("B"), args={"A": "settings"})
    assert seen == ["settings"]


@pytest.mark.parametrize(
    ("problem", "texts"),
    [
        (ValueError("no"), (f'initializing plugin "A": ValueError: no ({__file__}:64 in fail)',)),
        (
            ConfigurationError(["one", "two"]),
            ('initializing plugin "A": one', 'initializing plugin "A": two'),
        ),
    ],
)
def test_a_plugin_that_cannot_be_made_is_named(problem: Exception, texts: tuple[str, ...]) -> None:
    def fail(self: object, args: object, handle: object) -> None:
        raise problem

    made = type("A", (), {"name": "A", "__init__": fail, "filter": lambda *_: None})
    with pytest.raises(ConfigurationError) as caught:
        build(made, scoring("B"))
    assert caught.value.problems == texts


def test_only_plugins_at_certain_points_contribute_events() -> None:
    framework = build(
        scoring("A"),
        scoring("B"),
        plugin("OnlyScore", score=lambda *_: 0),
        points={**ORDER, "score": ["OnlyScore"]},
    )
    assert {each.name for each in framework.event_plugins()} == {"A", "B"}


def test_scalar_filters_run_on_a_hypothetical_node() -> None:
    world = World(
        plugin("Skipped", filter=lambda *_: unschedulable("never called")),
        plugin(
            "Full",
            filter=lambda state, pod, node: unschedulable("full") if node.pod_count else None,
        ),
    )
    world.nodes("node1")
    node = NodeOverlay(world.cache.table, 0)
    state = new_state()
    state.skip_filter.add("Skipped")
    assert world.framework.run_filters(state, world.pod(), node) is None
    node.add_pod(world.pod("other"))
    assert world.framework.run_filters(state, world.pod(), node) == unschedulable("full").by("Full")


def test_extensions_are_called_in_order_and_not_for_skipped_plugins() -> None:
    calls = Calls()
    world = World(
        plugin("A", pre_filter=lambda *_: SKIP, remove_pod=calls("A")),
        plugin("B", pre_filter=lambda *_: None, remove_pod=calls("B"), add_pod=calls("add B")),
        plugin("C", pre_filter=lambda *_: None),
        plugin("D", pre_filter=lambda *_: None, remove_pod=calls("D", error("broken"))),
    )
    world.nodes("node1")
    state = new_state()
    state.skip_filter.add("A")
    node = NodeOverlay(world.cache.table, 0)
    with pytest.raises(Exception, match='running RemovePod on PreFilter plugin "D": broken'):
        world.framework.remove_pod(state, world.pod(), world.pod("other"), node)
    assert calls.take() == ["B", "D"]
    world.framework.add_pod(state, world.pod(), world.pod("other"), node)
    assert calls.take() == ["add B"]


def test_a_status_keeps_everything_but_its_plugin_when_it_is_attributed() -> None:
    given = {
        "code": Code.UNSCHEDULABLE,
        "reasons": ("r",),
        "error": ValueError("e"),
        "requeue_after": 3.0,
        "condition_reason": "C",
        "skip_post_filter": True,
    }
    plain = Status(**given)  # type: ignore[arg-type]
    assert {each.name for each in fields(Status)} == {*given, "plugin"}
    assert plain.by("P") == replace(plain, plugin="P")
    assert plain.by("P").by("Q").plugin == "P"
