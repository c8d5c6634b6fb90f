"""Queueing hints of InterPodAffinity: which changes wake which pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from plugins import InterPodAffinity
from scheduler.api import Namespace, Pod
from scheduler.framework import ActionType, ClusterEvent, EventResource
from tests.unit.plugins.clusters import hint, node
from tests.unit.plugins.random_neighbours import Maker, seeds
from tests.unit.plugins.test_inter_pod_affinity import asking, cluster, namespace, term


def other(app: str = "a", *, on: str = "a", **more: Any) -> Pod:
    return asking(app=app, uid="other", spec={"nodeName": on}, **more)


WANTS, AVOIDS = asking(near=[term()], app="w"), asking(far=[term()], app="w")
AVOIDS_BOTH = asking(far=[term("a"), term("b")], app="w")
FOUNDS = asking(near=[term()])


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        (WANTS, None, other(), True),
        (WANTS, None, other("b"), False),
        (WANTS, None, other(on=""), False),
        (AVOIDS, None, other(), False),
        (WANTS, other("b"), other(), True),
        (WANTS, other(), other(), False),
        (AVOIDS, other(), other("b"), True),
        (AVOIDS, other("b"), other(), False),
        (AVOIDS, other(), None, True),
        # Either term alone keeps the pod away (kubernetes#139161).
        (AVOIDS_BOTH, other(), None, True),
        (AVOIDS_BOTH, other(), other("c"), True),
        (AVOIDS_BOTH, other(), other("b"), False),
        (AVOIDS_BOTH, other("c"), None, False),
        (AVOIDS, other("b"), None, False),
        (WANTS, other("b", far=[term("w")]), None, True),
        (WANTS, other("b", far=[term("b"), term("w")]), None, True),
        (WANTS, other("b", far=[term("b")]), None, False),
        # The last pod of a group left, so that the next one founds it anew.
        (FOUNDS, other(), None, True),
        (FOUNDS, other(), other("b"), True),
        (WANTS, other(), None, False),
    ],
)
def test_pods_that_matter_wake(
    waiting: Pod, old: Pod | None, new: Pod | None, *, expected: bool
) -> None:
    if old is None or new is None:
        action = ActionType.ADD if old is None else ActionType.DELETE
    else:
        action = ActionType.UPDATE_POD_LABEL
    plugin = InterPodAffinity(None, cluster().handle())
    event = ClusterEvent(EventResource.ASSIGNED_POD, action)
    assert hint(plugin, event, waiting, old, new) == expected


def test_own_labels_wake() -> None:
    plugin = InterPodAffinity(None, cluster().handle())
    event = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL)
    assert hint(plugin, event, WANTS, asking(), asking(app="b"))


IN_NAMESPACES: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "t"}}}
ELSEWHERE: dict[str, Any] = {"namespace": "team"}


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        # kubernetes#141953
        (asking(near=[term(**IN_NAMESPACES)]), None, other(**ELSEWHERE), True),
        (asking(near=[term(**IN_NAMESPACES)]), None, other(), False),
        # kubernetes#141954
        (asking(far=[term(**IN_NAMESPACES)]), other(**ELSEWHERE), None, True),
        (asking(far=[term(**IN_NAMESPACES)]), other(), None, False),
        (asking(**ELSEWHERE), other(far=[term(**IN_NAMESPACES)]), None, True),
        (asking(), other(far=[term(**IN_NAMESPACES)]), None, False),
    ],
)
def test_hints_look_at_the_labels_of_namespaces(
    waiting: Pod, old: Pod | None, new: Pod | None, *, expected: bool
) -> None:
    made = cluster()
    made.add_object("namespaces", namespace("team", team="t"))
    plugin = InterPodAffinity(None, made.handle())
    action = ActionType.ADD if old is None else ActionType.DELETE
    event = ClusterEvent(EventResource.ASSIGNED_POD, action)
    assert hint(plugin, event, waiting, old, new) == expected


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        (WANTS, None, {"zone": "1"}, True),
        (WANTS, None, {"rack": "1"}, False),
        (AVOIDS, None, {}, True),
        # Anti-affinity of others may keep it away from all other nodes.
        (asking(), None, {}, True),
        (WANTS, {}, {"zone": "1"}, True),
        (WANTS, {"zone": "2"}, {"zone": "1"}, True),
        (WANTS, {"zone": "1"}, {}, False),
        (FOUNDS, {"zone": "1"}, {}, True),
        (AVOIDS, {"zone": "1"}, {}, True),
        (AVOIDS, {"zone": "1"}, {"zone": "2"}, True),
        (AVOIDS, {}, {"zone": "1"}, False),
        (AVOIDS, {"zone": "1", "rack": "1"}, {"zone": "1"}, False),
        (asking(app="z"), {"zone": "1"}, {"zone": "2"}, True),
        (asking(app="z"), {"gone": "1"}, {}, True),
        (asking(app="z"), {"rack": "1"}, {}, False),
        (asking(app="y"), {"zone": "1"}, {"zone": "2"}, False),
        (FOUNDS, {"zone": "1"}, None, True),
        (WANTS, {"zone": "1"}, None, False),
        (AVOIDS, {"zone": "1"}, None, True),
        (AVOIDS, {"rack": "1"}, None, False),
        (asking(app="z"), {"zone": "1"}, None, True),
        (asking(app="y"), {"zone": "1"}, None, False),
    ],
)
def test_nodes_that_change_domains_wake(
    waiting: Pod, old: dict[str, str] | None, new: dict[str, str] | None, *, expected: bool
) -> None:
    """On node a there is a pod with anti-affinity to z by zone."""
    action = ActionType.UPDATE_NODE_LABEL
    if old is None or new is None:
        action = ActionType.ADD if old is None else ActionType.DELETE
    before, after = (None if each is None else node("a", labels=each) for each in (old, new))
    plugin = InterPodAffinity(None, cluster(a=asking(far=[term("z")])).handle())
    event = ClusterEvent(EventResource.NODE, action)
    assert hint(plugin, event, waiting, before, after) == expected


def test_an_empty_node_that_is_removed_wakes_nobody() -> None:
    event = ClusterEvent(EventResource.NODE, ActionType.DELETE)
    plugin = InterPodAffinity(None, cluster().handle())
    assert not hint(plugin, event, AVOIDS, node("a", labels={"zone": "1"}), None)


TEAM, OTHER_TEAM = namespace("team", team="t"), namespace("team", team="u")


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        (asking(near=[term(**IN_NAMESPACES)]), OTHER_TEAM, TEAM, True),
        (asking(far=[term(**IN_NAMESPACES)]), TEAM, OTHER_TEAM, True),
        (asking(far=[term(**IN_NAMESPACES)]), TEAM, None, True),
        (asking(near=[term(**IN_NAMESPACES)]), None, TEAM, True),
        (asking(near=[term(**IN_NAMESPACES)]), TEAM, TEAM, False),
        (asking(near=[term()]), OTHER_TEAM, TEAM, False),
        # Terms of placed pods may select its namespace no longer.
        (asking(namespace="team"), TEAM, OTHER_TEAM, True),
    ],
)
def test_namespaces_that_terms_select_or_no_longer_select_wake(
    waiting: Pod, old: Namespace | None, new: Namespace | None, *, expected: bool
) -> None:
    plugin = InterPodAffinity(None, cluster(a=asking(far=[term("z")])).handle())
    action = ActionType.ADD if old is None else ActionType.UPDATE
    event = ClusterEvent(EventResource.NAMESPACE, ActionType.DELETE if new is None else action)
    assert hint(plugin, event, waiting, old, new) == expected


@given(seed=seeds)
def test_keys_never_deny_what_a_hint_says(seed: int) -> None:
    maker = Maker(seed)
    made = maker.cluster()
    plugin = InterPodAffinity(None, made.handle())
    waiting = made.intern(maker.pod(terms=0.9))
    old, new = made.intern(maker.pod(terms=0.5)), made.intern(maker.pod(terms=0.5))
    old.spec.node_name = new.spec.node_name = "n0"
    for event, before, after in (
        (ActionType.ADD, None, new),
        (ActionType.DELETE, old, None),
        (ActionType.UPDATE_POD_LABEL, old, new),
    ):
        hint(plugin, ClusterEvent(EventResource.ASSIGNED_POD, event), waiting, before, after)
