"""Collecting registrations, and evaluating hints."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.meta import ObjectMeta
from scheduler.api.node import Node, NodeSpec, Taint
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ConfigurationError,
    EventResource,
    QueuedPodInfo,
    QueueingHint,
)
from scheduler.queue import DEFAULT_EVENTS, build_hint_map, registered_resources
from scheduler.queue.in_flight import InFlightEvent
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queueing_hints import HintIndex, QueueingStrategy
from tests.unit.queue.doubles import (
    NODE_ADD,
    NODE_LABEL,
    PROFILE,
    QUEUE,
    SKIP,
    FilterDouble,
    make_pod,
)

NODE_TAINT = ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT)
TIME = ClusterEvent("Time", ActionType.TICK)


class Silent:
    """Filters, and does not say what it waits for."""

    name = "Silent"

    def filter(self, state: Any, pod: Any, node: Any) -> None: ...


class ScoreOnly:
    name = "ScoreOnly"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(NODE_ADD)]


class Broken(Silent):
    name = "Broken"

    def events_to_register(self) -> list[ClusterEventWithHint]:
        raise RuntimeError("no idea")


def events(*plugins: object, **options: bool) -> list[tuple[str, ClusterEvent]]:
    return [(each.plugin, each.event) for each in build_hint_map(plugins, **options)]


class TestBuilding:
    def test_a_plugin_without_events_to_register_gets_the_default_events(self) -> None:
        assert events(Silent()) == [("Silent", each.event) for each in DEFAULT_EVENTS]
        assert {each.event.action_type for each in DEFAULT_EVENTS} == {ActionType.ALL}
        resources = {each.event.resource for each in DEFAULT_EVENTS}
        assert resources == set(EventResource) - {
            "AssignedPod",
            "UnscheduledPod",
            "TargetPod",
            "*",
            "Time",
        }

    def test_an_empty_list_means_nothing_and_other_kinds_of_plugins_do_not_count(self) -> None:
        assert events(FilterDouble("P"), ScoreOnly()) == []

    def test_extenders_register_the_default_events_under_their_own_name(self) -> None:
        found = events(extenders=True)
        assert {plugin for plugin, _ in found} == {"Extender"}
        assert len(found) == len(DEFAULT_EVENTS)

    @pytest.mark.parametrize(
        ("registered", "added"),
        [
            ([NODE_ADD], True),
            ([NODE_LABEL, ClusterEvent("Node", ActionType.ADD | ActionType.DELETE)], True),
            ([NODE_ADD, NODE_TAINT], False),
            ([NODE_LABEL], False),
            ([ClusterEvent("Node", ActionType.ALL)], False),
            ([ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)], False),
        ],
    )
    def test_a_registration_of_new_nodes_covers_removed_taints_too(
        self, registered: list[ClusterEvent], added: bool
    ) -> None:
        found = events(FilterDouble("P", [(event, SKIP) for event in registered]))
        assert (("P", NODE_TAINT) in found[len(registered) :]) is added

    def test_events_to_register_that_raises_is_a_configuration_error(self) -> None:
        with pytest.raises(ConfigurationError, match=r"plugin Broken: .* RuntimeError: no idea"):
            build_hint_map([Broken()])

    def test_without_queueing_hints_every_event_queues_but_not_those_of_kubestow(self) -> None:
        plugin = FilterDouble("P", [(NODE_LABEL, SKIP), (TIME, SKIP)])
        hints = [each.hint for each in build_hint_map([plugin], queueing_hints=False)]
        assert hints[0] is None
        assert hints[1] is not None

    def test_without_queueing_hints_a_pods_own_status_does_not_wake_it(self) -> None:
        """Its condition is written after each attempt; to wake for that would never end."""
        update = ClusterEvent("Pod", ActionType.UPDATE)
        plugin = FilterDouble("P", [(update, QUEUE)])
        (only,) = build_hint_map([plugin], queueing_hints=False)
        pod, other = make_pod("a"), make_pod("b")
        refused = make_pod("a", nominated="n")
        assert only.hint is not None
        assert only.hint(pod, pod, refused) is SKIP
        assert only.hint(other, pod, refused) is QUEUE
        assert only.hint(pod, pod, make_pod("a", labels={"new": "label"})) is QUEUE
        assert only.hint(pod, None, pod) is QUEUE

    def test_resources_are_collected_for_the_informers(self) -> None:
        one = build_hint_map([FilterDouble("P", [(NODE_LABEL, QUEUE)])])
        two = build_hint_map([FilterDouble("Q", [(NODE_ADD, QUEUE), (TIME, QUEUE)])])
        assert registered_resources({"one": one, "two": two}) == {
            "Node": ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT,
            "Time": ActionType.TICK,
        }
        assert registered_resources({}) == {}


def node(*taints: tuple[str, str], unschedulable: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name="n"),
        spec=NodeSpec(
            unschedulable=unschedulable,
            taints=tuple(Taint(key=key, effect=effect) for key, effect in taints),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        (node(("k", "NoSchedule")), node(), QUEUE),
        (node(("k", "NoExecute")), node(("other", "NoSchedule")), QUEUE),
        (node(unschedulable=True), node(), QUEUE),
        (node(), node(("k", "NoSchedule")), SKIP),
        (node(("k", "PreferNoSchedule")), node(), SKIP),
        (node(("k", "NoSchedule")), node(("k", "NoSchedule"), ("l", "NoSchedule")), SKIP),
        (None, node(), QUEUE),
    ],
)
def test_the_automatic_registration_queues_when_a_node_repels_less(
    old: object, new: object, result: QueueingHint
) -> None:
    index = HintIndex(
        {PROFILE: build_hint_map([FilterDouble("P", [(NODE_ADD, SKIP)])])}, QueueMetrics()
    )
    info = rejected_by("P")
    decision = index.evaluate(InFlightEvent(NODE_TAINT, old, new, "x"), info, None)
    assert (decision.strategy is QueueingStrategy.SKIP) is (result is SKIP)


def rejected_by(*plugins: str, pending: str = "") -> QueuedPodInfo:
    info = QueuedPodInfo(make_pod("a"), 0.0)
    info.unschedulable_plugins = set(plugins)
    info.pending_plugins = {pending} if pending else set()
    return info


def evaluated(
    *plugins: FilterDouble, event: ClusterEvent, info: QueuedPodInfo, new: object = None
) -> QueueingStrategy:
    index = HintIndex({PROFILE: build_hint_map(plugins)}, QueueMetrics())
    return index.evaluate(InFlightEvent(event, None, new, event.label), info, None).strategy


class TestEvaluating:
    def test_no_matching_registration_means_skip_without_a_call(self) -> None:
        plugin = FilterDouble("P", [(NODE_LABEL, QUEUE)])
        assert evaluated(plugin, event=NODE_ADD, info=rejected_by("P")) is QueueingStrategy.SKIP
        assert plugin.calls == []

    def test_evaluation_continues_after_skip_and_stops_at_queue(self) -> None:
        plugins = [
            FilterDouble("P1", [(NODE_LABEL, SKIP)]),
            FilterDouble("P2", [(NODE_LABEL, QUEUE)]),
            FilterDouble("P3", [(NODE_LABEL, QUEUE)]),
        ]
        info = rejected_by("P1", "P2", "P3")
        assert evaluated(*plugins, event=NODE_LABEL, info=info) is QueueingStrategy.AFTER_BACKOFF
        assert [len(plugin.calls) for plugin in plugins] == [1, 1, 0]

    def test_hints_of_plugins_that_did_not_reject_the_pod_are_not_evaluated(self) -> None:
        plugins = [
            FilterDouble("P1", [(NODE_LABEL, SKIP)]),
            FilterDouble("P2", [(NODE_LABEL, SKIP)]),
            FilterDouble("P3", [(NODE_LABEL, QUEUE)]),
        ]
        assert (
            evaluated(*plugins, event=NODE_LABEL, info=rejected_by("P1", "P2"))
            is QueueingStrategy.SKIP
        )
        assert [len(plugin.calls) for plugin in plugins] == [1, 1, 0]

    def test_one_queue_of_several_registrations_of_a_plugin_is_enough(self) -> None:
        plugin = FilterDouble(
            "P",
            [
                (NODE_ADD, QUEUE),
                (NODE_LABEL, QUEUE),
                (ClusterEvent("Node", ActionType.UPDATE), QUEUE),
            ],
        )
        assert (
            evaluated(plugin, event=NODE_LABEL, info=rejected_by("P"))
            is QueueingStrategy.AFTER_BACKOFF
        )
        assert len(plugin.calls) == 1

    @pytest.mark.parametrize("order", [["Plain", "Pending"], ["Pending", "Plain"]])
    def test_a_pending_plugin_decides_whatever_comes_first(self, order: list[str]) -> None:
        plugins = [FilterDouble(name, [(NODE_LABEL, QUEUE)]) for name in order]
        info = rejected_by("Plain", pending="Pending")
        assert evaluated(*plugins, event=NODE_LABEL, info=info) is QueueingStrategy.IMMEDIATELY

    def test_a_raising_hint_queues(self) -> None:
        plugin = FilterDouble("P", [(NODE_LABEL, ValueError("wrong type"))])
        assert (
            evaluated(plugin, event=NODE_LABEL, info=rejected_by("P"))
            is QueueingStrategy.AFTER_BACKOFF
        )

    def test_a_result_that_is_no_hint_queues(self) -> None:
        plugin = FilterDouble("P", [(NODE_LABEL, lambda pod, old, new: None)])
        assert (
            evaluated(plugin, event=NODE_LABEL, info=rejected_by("P"))
            is QueueingStrategy.AFTER_BACKOFF
        )

    @pytest.mark.parametrize(
        ("new", "strategy"),
        [
            (None, QueueingStrategy.AFTER_BACKOFF),
            (make_pod("a"), QueueingStrategy.AFTER_BACKOFF),
            (make_pod("other"), QueueingStrategy.SKIP),
        ],
    )
    def test_a_wildcard_concerns_all_or_the_one_pod_it_names(
        self, new: object, strategy: QueueingStrategy
    ) -> None:
        plugin = FilterDouble("P", [(ClusterEvent("*", ActionType.ALL), SKIP)])
        event = ClusterEvent("*", ActionType.ALL, "ForceActivate")
        info = rejected_by("P", pending="P")
        assert evaluated(plugin, event=event, info=info, new=new) is strategy
        assert plugin.calls == []

    @pytest.mark.parametrize(
        ("resource", "actions", "incoming", "action", "matches"),
        [
            ("*", ActionType.ADD, "Node", ActionType.ADD, True),
            ("*", ActionType.ALL, "Node", ActionType(24), True),
            ("*", ActionType.UPDATE_NODE_LABEL, "Pod", ActionType.UPDATE, False),
            ("Pod", ActionType(259), "TargetPod", ActionType.UPDATE_POD_LABEL, True),
            ("Pod", ActionType(259), "AssignedPod", ActionType.UPDATE, False),
            ("Pod", ActionType.UPDATE, "AssignedPod", ActionType.ADD, False),
            ("Node", ActionType.ALL, "*", ActionType.ALL, False),
            ("*", ActionType.ALL, "Time", ActionType.TICK, False),
            ("Pod", ActionType.ALL, "TargetPod", ActionType.UPDATE_POD_ANNOTATION, False),
        ],
    )
    def test_which_registrations_an_event_finds(
        self, resource: str, actions: ActionType, incoming: str, action: ActionType, matches: bool
    ) -> None:
        plugin = FilterDouble("P", [(ClusterEvent(resource, actions), SKIP)])
        index = HintIndex({PROFILE: build_hint_map([plugin])}, QueueMetrics())
        found = index.subscription(ClusterEvent(incoming, action)).plugins
        assert found == (("P",) if matches else ())
