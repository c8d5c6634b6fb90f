"""PodTopologySpread case by case: constraints, defaults, quirks, arguments and hints.

Counting itself is held against a walk over pods in `test_pod_topology_spread_contract`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from plugins import PodTopologySpread
from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from plugins.pod_topology_spread.constraints import Constraints
from scheduler.api import Pod, ReplicaSet, ReplicationController, Service, selectors
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    Code,
    ConfigurationError,
    CycleState,
    EventResource,
    unresolvable,
)
from tests.unit.plugins.clusters import Cluster, hint, node, pod, rejected
from tests.unit.plugins.random_neighbours import HOST, ZONE

SKEW = ("node(s) didn't match pod topology spread constraints",)
MISSING = ("node(s) didn't match pod topology spread constraints (missing required label)",)
APP = {"matchLabels": {"app": "a"}}
NODES = {"a": "zone1", "b": "zone1", "x": "zone2", "y": "zone2"}


def constraint(key: str = ZONE, **fields: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": APP,
        **fields,
    }


def soft(key: str = ZONE, **fields: Any) -> dict[str, Any]:
    return constraint(key, whenUnsatisfiable="ScheduleAnyway", **fields)


def asking(*constraints: dict[str, Any], spec: Any = None, **metadata: Any) -> Pod:
    made = {"topologySpreadConstraints": list(constraints), **(spec or {})}
    return pod(made, metadata={"labels": {"app": "a"}, **metadata})


def cluster(*counts: int, **metadata: Any) -> Cluster:
    """Nodes a, b in zone1 and x, y in zone2, with so many matching pods each."""
    made = Cluster([node(name, labels={HOST: name, ZONE: zone}) for name, zone in NODES.items()])
    for name, count in zip(NODES, counts, strict=False):
        for _ in range(count):
            made.place(pod(metadata={"labels": {"app": "a"}, **metadata}), name)
    return made


def refused(made: Cluster, *constraints: dict[str, Any], **more: Any) -> str:
    """Return the names of the rejected nodes, concatenated."""
    plugin = PodTopologySpread(None, made.handle())
    return "".join(sorted(rejected(plugin, made, made.intern(asking(*constraints, **more)))))


def final(made: Cluster, *constraints: dict[str, Any], among: str = "abxy") -> list[int]:
    """Final scores of some nodes, which are the feasible ones."""
    plugin, state, table = PodTopologySpread(None, made.handle()), CycleState(), made.table
    rows = np.array([table.row_of(name) for name in among], dtype=np.intp)
    incoming = made.intern(asking(*constraints))
    assert plugin.pre_score(state, incoming, table, rows) is None
    scores = plugin.score_rows(state, incoming, table, rows)
    assert scores.tolist() == [
        plugin.score(state, incoming, table.node_info(row)) for row in rows.tolist()
    ]
    result: list[int] = plugin.normalize_scores(state, incoming, table, rows, scores).tolist()
    return result


@pytest.mark.parametrize(
    ("counts", "constraints", "expected"),
    [
        ((), [constraint()], ""),
        ((3, 0, 3, 0), [constraint()], ""),
        ((1, 0, 0, 0), [constraint()], "ab"),
        ((2, 1, 0, 3), [constraint(HOST)], "aby"),
        ((2, 1, 0, 3), [constraint(HOST, maxSkew=2)], "ay"),
        ((2, 1, 0, 3), [constraint(), constraint(HOST)], "aby"),
        ((2, 1, 0, 4), [constraint(), constraint(HOST)], "abxy"),
        ((2, 2, 1, 1), [constraint(HOST, maxSkew=2, minDomains=5)], "ab"),
        ((2, 2, 1, 1), [constraint(HOST, maxSkew=2, minDomains=4)], ""),
        ((5, 5, 0, 0), [constraint(labelSelector=None)], ""),
        # An empty selector counts no pod but the one that asks.
        ((5, 5, 0, 0), [constraint(labelSelector={})], ""),
        ((5, 5, 0, 0), [constraint("rack")], "abxy"),
    ],
)
def test_hard_constraints_turn_down_what_would_be_too_uneven(
    counts: tuple[int, ...], constraints: list[dict[str, Any]], expected: str
) -> None:
    assert refused(cluster(*counts), *constraints) == expected


def test_reasons_tell_skew_from_a_missing_label() -> None:
    made = cluster(1, 0, 0, 0)
    made.cache.set_node(node("lost", labels={HOST: "lost"}))
    plugin = PodTopologySpread(None, made.handle())
    reasons = rejected(plugin, made, made.intern(asking(constraint())))
    assert reasons == {"a": SKEW, "b": SKEW, "lost": MISSING}


@pytest.mark.parametrize(
    "metadata", [{"namespace": "other"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}]
)
def test_pods_of_other_namespaces_and_terminating_ones_do_not_count(metadata: Any) -> None:
    assert refused(cluster(3, 3, 0, 0, **metadata), constraint()) == ""


def test_nodes_outside_of_the_policies_neither_count_nor_are_turned_down() -> None:
    made = cluster(0, 2, 0, 1)
    made.cache.set_node(node("b", labels={HOST: "b", ZONE: "zone1", "out": ""}))
    picky = {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "out", "operator": "DoesNotExist"}]}
                    ]
                }
            }
        }
    }
    assert refused(made, constraint(), spec=picky) == "xy"
    assert refused(made, constraint(nodeAffinityPolicy="Ignore"), spec=picky) == "ab"


def test_match_label_keys_narrow_the_selector_unless_it_matches_nothing() -> None:
    made = cluster(2, 0, 0, 0)
    narrowed = constraint(matchLabelKeys=["version"])
    assert refused(made, narrowed) == "ab"
    assert refused(made, narrowed, labels={"app": "a", "version": "2"}) == ""
    made.place(pod(metadata={"labels": {"app": "a", "version": "2"}}), "x")
    assert refused(made, narrowed, labels={"app": "a", "version": "2"}) == "xy"
    nothing = constraint(matchLabelKeys=["version"], labelSelector=None)
    assert refused(made, nothing, labels={"app": "a", "version": "2"}) == ""


def test_a_selector_that_cannot_be_parsed_is_an_error_that_names_the_field() -> None:
    made = cluster()
    plugin = PodTopologySpread(None, made.handle())
    broken = {"matchLabels": {"app": "{bad}"}}
    for kind in (constraint, soft):
        incoming = made.intern(asking(kind(labelSelector=broken)))
        state = CycleState()
        statuses = (
            plugin.pre_filter(state, incoming, made.table),
            plugin.pre_score(state, incoming, made.table, made.table.rows),
        )
        (problem,) = [each for each in statuses if each is not None and each.code is Code.ERROR]
        assert 'matchLabels[app].values[0][app]: Invalid value: "{bad}"' in problem.message


@pytest.mark.parametrize(
    ("counts", "constraints", "among", "expected"),
    [
        ((), [soft()], "abxy", [100, 100, 100, 100]),
        ((2, 1, 0, 3), [soft(HOST)], "abxy", [20, 60, 100, 0]),
        ((2, 1, 0, 3), [soft(HOST, maxSkew=2)], "abxy", [33, 66, 100, 16]),
        ((4, 3, 2, 1), [soft(HOST, maxSkew=3)], "abxy", [44, 66, 77, 100]),
        ((4, 2, 1, 3), [soft(HOST)], "abx", [33, 83, 100]),
        ((4, 2, 1, 3), [soft()], "abx", [75, 75, 100]),
        ((2, 1, 2, 4), [soft(), soft(HOST)], "ax", [100, 63]),
        ((5, 0, 0, 0), [soft(labelSelector=None)], "abxy", [100, 100, 100, 100]),
    ],
)
def test_soft_constraints_prefer_what_is_less_crowded(
    counts: tuple[int, ...], constraints: list[dict[str, Any]], among: str, expected: list[int]
) -> None:
    assert final(cluster(*counts), *constraints, among=among) == expected


def test_a_node_without_the_label_scores_nothing() -> None:
    made = cluster(4, 2, 1, 0)
    made.cache.set_node(node("b", labels={ZONE: "zone1"}))
    assert final(made, soft(HOST), among="abx") == [16, 0, 100]


# -- defaults ------------------------------------------------------------------------------------

HARD_LIST = msgspec.convert(
    {
        "defaultingType": "List",
        "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        ],
    },
    PodTopologySpreadArgs,
)


def service(selector: dict[str, str] | None) -> Service:
    body = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}
    return msgspec.convert(body, Service)


@pytest.mark.parametrize(
    ("selector", "applies"),
    [({"app": "a"}, True), ({"app": "b"}, False), ({}, False), (None, False)],
)
def test_default_constraints_need_a_service_that_selects_something(
    selector: dict[str, str] | None, *, applies: bool
) -> None:
    made = cluster(1, 0, 0, 0)
    plugin = PodTopologySpread(HARD_LIST, made.handle())
    incoming = made.intern(asking())
    result = plugin.pre_filter(CycleState(), incoming, made.table)
    assert result is not None
    assert result.skip
    made.add_object("services", service(selector))
    result = plugin.pre_filter(CycleState(), incoming, made.table)
    assert (result is None) == applies


def test_default_constraints_take_the_selector_of_the_controller() -> None:
    made = cluster(1, 0, 0, 0)
    plugin = PodTopologySpread(HARD_LIST, made.handle())
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
    incoming = made.intern(asking(ownerReferences=[{**controller, "controller": True}]))
    body = {"metadata": {"name": "r", "namespace": "default"}, "spec": {"selector": APP}}
    made.add_object("replicasets", msgspec.convert(body, ReplicaSet))
    assert sorted(rejected(plugin, made, incoming)) == ["a", "b"]
    body = {**body, "spec": {"selector": {"app": "a"}}}
    made.add_object("replicationcontrollers", msgspec.convert(body, ReplicationController))
    controller |= {"apiVersion": "v1", "kind": "ReplicationController"}
    incoming = made.intern(asking(ownerReferences=[{**controller, "controller": True}]))
    assert sorted(rejected(plugin, made, incoming)) == ["a", "b"]


def test_any_constraint_of_its_own_rids_a_pod_of_defaults() -> None:
    made = cluster(1, 0, 0, 0)
    made.add_object("services", service({"app": "a"}))
    plugin = PodTopologySpread(HARD_LIST, made.handle())
    result = plugin.pre_filter(CycleState(), made.intern(asking(soft())), made.table)
    assert result is not None
    assert result.skip


def test_plain_pods_sit_out() -> None:
    made = cluster(1, 0, 0, 0)
    plugin, incoming = PodTopologySpread(None, made.handle()), made.intern(asking())
    for result in (
        plugin.pre_filter(CycleState(), incoming, made.table),
        plugin.pre_score(CycleState(), incoming, made.table, made.table.rows),
    ):
        assert result is not None
        assert result.skip


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"defaultingType": "Some"}, "defaultingType: Unsupported value"),
        (
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "z"}]},
            'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        ),
        ({"maxSkew": 0}, "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range"),
        ({"topologyKey": ""}, "defaultConstraints[0].topologyKey: Required value"),
        ({"topologyKey": "a b"}, "defaultConstraints[0].topologyKey: Invalid value"),
        ({"whenUnsatisfiable": ""}, "defaultConstraints[0].whenUnsatisfiable: Required value"),
        ({"whenUnsatisfiable": "No"}, "defaultConstraints[0].whenUnsatisfiable: Unsupported"),
        ({"labelSelector": {}}, "defaultConstraints[0].labelSelector: Forbidden: constraint must"),
    ],
)
def test_bad_arguments_are_refused_with_their_path(raw: dict[str, Any], expected: str) -> None:
    if not any(key.startswith("default") for key in raw):
        whole = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **raw}
        raw = {"defaultingType": "List", "defaultConstraints": [whole]}
    with pytest.raises(ConfigurationError) as caught:
        PodTopologySpread(msgspec.convert(raw, PodTopologySpreadArgs), cluster().handle())
    assert expected in str(caught.value)


def test_repeated_default_constraints_are_refused() -> None:
    raw = msgspec.to_builtins(HARD_LIST)
    raw["defaultConstraints"] *= 2
    with pytest.raises(ConfigurationError, match="Duplicate value"):
        PodTopologySpread(msgspec.convert(raw, PodTopologySpreadArgs), cluster().handle())


# -- hints ---------------------------------------------------------------------------------------

ASSIGNED = EventResource.ASSIGNED_POD


def other(app: str = "a", *, on: str = "a", **metadata: Any) -> Pod:
    return pod({"nodeName": on}, metadata={"uid": "o", "labels": {"app": app}, **metadata})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, other(), True),
        (None, other("b"), False),
        (None, other(on=""), False),
        (None, other(namespace="else"), False),
        (other(), None, True),
        (other("b"), None, False),
        (other(), other("b"), True),
        (other("b"), other("a"), True),
        (other("a"), other("a", annotations={"x": "y"}), False),
        (asking(), pod(metadata={"labels": {"app": "b"}}), True),
    ],
)
def test_pods_that_count_wake(old: Pod | None, new: Pod | None, *, expected: bool) -> None:
    if old is None or new is None:
        action = ActionType.ADD if old is None else ActionType.DELETE
    else:
        action = ActionType.UPDATE_POD_LABEL
    plugin = PodTopologySpread(None, cluster().handle())
    assert hint(plugin, ClusterEvent(ASSIGNED, action), asking(constraint()), old, new) == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", True), ("Ignore", False)])
def test_own_tolerations_wake_where_taints_are_honoured(policy: str, *, expected: bool) -> None:
    waiting = asking(constraint(nodeTaintsPolicy=policy))
    tolerating = asking(
        constraint(nodeTaintsPolicy=policy), spec={"tolerations": [{"operator": "Exists"}]}
    )
    event = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION)
    plugin = PodTopologySpread(None, cluster().handle())
    assert hint(plugin, event, waiting, waiting, tolerating) == expected


BOTH = {ZONE: "1", HOST: "h"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, BOTH, True),
        (None, {ZONE: "1"}, False),
        (BOTH, None, True),
        ({ZONE: "1"}, None, False),
        (BOTH, {**BOTH, ZONE: "2"}, True),
        (BOTH, {**BOTH, "else": "2"}, False),
        (BOTH, {ZONE: "1"}, True),
        ({ZONE: "1"}, {ZONE: "2"}, False),
    ],
)
def test_nodes_that_change_domains_wake(old: Any, new: Any, *, expected: bool) -> None:
    before, after = (None if each is None else node(labels=each) for each in (old, new))
    action = ActionType.UPDATE_NODE_LABEL
    if before is None or after is None:
        action = ActionType.ADD if before is None else ActionType.DELETE
    plugin = PodTopologySpread(None, cluster().handle())
    event = ClusterEvent(EventResource.NODE, action)
    waiting = asking(constraint(), constraint(HOST))
    assert hint(plugin, event, waiting, before, after) == expected


def test_a_taint_that_changes_on_a_node_with_all_keys_wakes() -> None:
    plugin = PodTopologySpread(None, cluster().handle())
    event = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
    tainted = node(labels=BOTH, taints=[{"key": "t", "effect": "NoSchedule"}])
    assert hint(plugin, event, asking(constraint()), tainted, node(labels=BOTH))


def test_node_hints_are_the_signature_s_own_unless_defaults_are_hard() -> None:
    for args, expected in ((None, True), (HARD_LIST, False)):
        *_, for_nodes = PodTopologySpread(args, cluster().handle()).events_to_register()
        assert for_nodes.per_signature == expected


@pytest.mark.parametrize("made", [constraint, soft])
def test_a_pod_with_more_constraints_than_are_read_is_refused(made: Any) -> None:
    cluster = Cluster([node("a", labels={ZONE: "1"})])
    plugin = PodTopologySpread(None, cluster.handle())
    hostile = asking(*(made(f"k{index}") for index in range(12_000)))

    status = plugin.pre_filter(CycleState(), cluster.intern(hostile), cluster.table)

    message = "too many topology spread constraints: kubestow reads at most 250"
    assert status == unresolvable(message)
    assert not cluster.table.selector_counts.statistics().columns


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        (
            {
                "labelSelector": {
                    "matchExpressions": [
                        {"key": "k", "operator": "NotIn", "values": list(map(str, range(25_001)))}
                    ]
                }
            },
            "values in topology spread constraints: kubestow reads at most 25000",
        ),
        (
            {"labelSelector": {"matchLabels": {f"k{index}": "v" for index in range(2_501)}}},
            "requirements in topology spread constraints: kubestow reads at most 2500",
        ),
        (
            {"matchLabelKeys": [f"k{index}" for index in range(2_501)]},
            "requirements in topology spread constraints: kubestow reads at most 2500",
        ),
    ],
    ids=["values", "requirements", "label keys"],
)
def test_a_constraint_too_large_to_be_read_is_refused_uncompiled(
    parts: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster([node("a", labels={ZONE: "1"})])
    plugin = PodTopologySpread(None, cluster.handle())
    hostile = cluster.intern(asking({**constraint(), **parts}))
    monkeypatch.setattr(selectors.Requirement, "__init__", None)

    assert plugin.pre_filter(CycleState(), hostile, cluster.table) == unresolvable(
        f"too many {what}"
    )


def test_deduced_selectors_are_remembered_up_to_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("plugins.pod_topology_spread.constraints._MAX_SELECTOR_BYTES", 100_000)
    made = cluster()
    made.add_object("services", service({"app": "a"}))
    constraints = Constraints(PodTopologySpreadArgs(), made.handle())
    remembered = constraints._selectors
    for number in range(30):
        labels = {f"{key:0200}/name": f"{number:063}" for key in range(60)}
        constraints.soft(pod(metadata={"labels": labels}))
        # The values alone have nearly 4 kB, the keys 12.
        assert 16_000 * len(remembered) < remembered.nbytes <= 100_000
