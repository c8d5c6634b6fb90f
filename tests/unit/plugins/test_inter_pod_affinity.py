"""InterPodAffinity case by case: reasons, the first of a group, quirks, arguments and hints.

Counting itself is held against a walk over pods in `test_inter_pod_affinity_contract`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import InterPodAffinity
from plugins.inter_pod_affinity.plugin import InterPodAffinityArgs
from scheduler.api import Namespace, Pod
from scheduler.api.hashed_conditions import Conditions
from scheduler.api.pod_affinity import AffinityTerm, compile_pod_affinity
from scheduler.api.selectors import CompiledLabelSelector
from scheduler.api.signatures import signature
from scheduler.cache import NodeOverlay
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    Code,
    ConfigurationError,
    CycleState,
    EventResource,
)
from tests.unit.plugins.clusters import Cluster, hint, node, pod, rejected
from tests.unit.plugins.random_neighbours import PREFERRED, REQUIRED

OWN = "node(s) didn't match pod affinity rules"
OWN_ANTI = "node(s) didn't match pod anti-affinity rules"
THEIRS = "node(s) didn't satisfy existing pods anti-affinity rules"
NODES = {"a": {"zone": "1"}, "b": {"zone": "1"}, "c": {"zone": "2"}, "d": {"rack": "1"}}


def term(app: str = "a", key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def weighted(weight: int, *args: Any, **more: Any) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": term(*args, **more)}


def asking(near: Any = (), far: Any = (), app: str = "a", **more: Any) -> Pod:
    """A pod with terms; a term with a weight is a preferred one."""
    sides = {}
    for side, terms in (("podAffinity", near), ("podAntiAffinity", far)):
        preferred = [each for each in terms if "weight" in each]
        hard = [each for each in terms if "weight" not in each]
        sides[side] = {REQUIRED: hard, PREFERRED: preferred}
    spec = {"affinity": sides} if near or far else {}
    return pod({**spec, **more.pop("spec", {})}, metadata={"labels": {"app": app}, **more})


def cluster(**placed: Pod) -> Cluster:
    """Nodes a and b in zone 1, c in zone 2, d in none; with pods on them."""
    return Cluster(
        [node(name, labels=labels) for name, labels in NODES.items()],
        {name: [each] for name, each in placed.items()},
    )


def refused(made: Cluster, incoming: Pod) -> dict[str, str]:
    if "filter" in sits_out(made, incoming):
        return {}
    plugin = InterPodAffinity(None, made.handle())
    found = rejected(plugin, made, made.intern(incoming))
    return {name: "".join(reasons) for name, reasons in found.items()}


def sits_out(made: Cluster, incoming: Pod, args: InterPodAffinityArgs | None = None) -> str:
    """Return the phases in which the plugin returns Skip."""
    plugin = InterPodAffinity(args, made.handle())
    made.intern(incoming)
    filtering = plugin.pre_filter(CycleState(), incoming, made.table)
    scoring = plugin.pre_score(CycleState(), incoming, made.table, made.table.rows)
    skipped = (("filter", filtering), ("score", scoring))
    return " ".join(name for name, each in skipped if each is not None and each.skip)


def final(made: Cluster, incoming: Pod, args: InterPodAffinityArgs | None = None) -> list[int]:
    plugin, state, table = InterPodAffinity(args, made.handle()), CycleState(), made.table
    made.intern(incoming)
    assert plugin.pre_score(state, incoming, table, table.rows) is None
    scores = plugin.score_rows(state, incoming, table, table.rows)
    assert scores.tolist() == [
        plugin.score(state, incoming, table.node_info(row)) for row in table.rows.tolist()
    ]
    result: list[int] = plugin.normalize_scores(state, incoming, table, table.rows, scores).tolist()
    return result


def test_without_any_terms_the_plugin_sits_out() -> None:
    assert sits_out(cluster(a=asking()), asking()) == "filter score"


def test_terms_of_placed_pods_that_are_about_others_do_not_matter() -> None:
    made = cluster(a=asking(far=[term("b")]), b=asking(near=[weighted(1, "b")]))
    assert sits_out(made, asking()) == "filter score"


def test_own_affinity_admits_the_domains_of_matching_pods() -> None:
    made = cluster(a=asking())
    assert refused(made, asking(near=[term()], app="b")) == {"c": OWN, "d": OWN}


def test_one_pod_must_match_all_affinity_terms() -> None:
    wanted = [term("a"), term("b")]
    made = cluster(a=asking(app="a"), b=asking(app="b"))
    assert refused(made, asking(near=wanted, app="c")) == dict.fromkeys("abcd", OWN)


def test_the_first_of_a_group_may_go_wherever_the_keys_are() -> None:
    made = cluster(c=asking(app="b"))
    assert refused(made, asking(near=[term()])) == {"d": OWN}
    assert refused(made, asking(near=[term()], app="z")) == dict.fromkeys("abcd", OWN)
    # A match on a node without the key founds no group; one with the key does.
    made.place(asking(), "d")
    assert refused(made, asking(near=[term()])) == {"d": OWN}
    made.place(asking(), "c")
    assert refused(made, asking(near=[term()])) == dict.fromkeys("abd", OWN)


def test_any_anti_affinity_term_keeps_away_from_its_domain() -> None:
    made = cluster(a=asking(), d=asking(app="b"))
    unwanted = [term("a"), term("b", "rack"), term("a", "unknown")]
    assert refused(made, asking(far=unwanted, app="c")) == {
        "a": OWN_ANTI,
        "b": OWN_ANTI,
        "d": OWN_ANTI,
    }


def test_anti_affinity_of_placed_pods_keeps_plain_pods_away() -> None:
    made = cluster(a=asking(far=[term("z"), term("z", "unknown")]))
    assert refused(made, asking(app="z")) == {"a": THEIRS, "b": THEIRS}


def test_reasons_come_in_the_order_affinity_anti_affinity_the_others() -> None:
    made = cluster(a=asking(app="b", far=[term("z")]), c=asking(app="b"))
    incoming = asking(near=[term("b", "zone")], far=[term("b", "zone")], app="z")
    assert refused(made, incoming) == {"a": OWN_ANTI, "b": OWN_ANTI, "c": OWN_ANTI, "d": OWN}


def test_terminating_pods_count() -> None:
    made = cluster(a=asking(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert refused(made, asking(far=[term()], app="b")) == {"a": OWN_ANTI, "b": OWN_ANTI}


def negative(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A namespace selector."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def namespace(name: str, **labels: str) -> Namespace:
    made = Namespace()
    made.metadata.name, made.metadata.labels = name, labels
    return made


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, False),
        ({"namespaces": ["team"]}, True),
        ({"namespaces": ["else"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "t"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "u"}}}, False),
        # Not every namespace, as upstream has it (kubernetes#141526).
        ({"namespaceSelector": negative("team", "DoesNotExist")}, False),
        ({"namespaceSelector": negative("team", "NotIn", "t")}, False),
        ({"namespaceSelector": negative("team", "NotIn", "u")}, True),
        ({"namespaceSelector": negative("other", "DoesNotExist")}, True),
        ({"namespaceSelector": negative("team", "NotIn", "t"), "namespaces": ["team"]}, True),
    ],
)
def test_terms_cover_the_namespaces_that_their_selector_selects(
    more: dict[str, Any], *, counts: bool
) -> None:
    """The same for terms of the incoming and of placed pods, required and preferred."""
    made = cluster(a=asking(namespace="team"))
    made.add_object("namespaces", namespace("team", team="t"))
    own = asking(far=[term(**more)], app="b")
    assert refused(made, own) == ({"a": OWN_ANTI, "b": OWN_ANTI} if counts else {})
    preferred = asking(far=[weighted(1, **more)], app="b")
    assert sits_out(made, preferred) == ("filter" if counts else "filter score")
    made = cluster(a=own)
    made.add_object("namespaces", namespace("team", team="t"))
    theirs = asking(namespace="team")
    assert refused(made, theirs) == ({"a": THEIRS, "b": THEIRS} if counts else {})
    made = cluster(a=asking(near=[weighted(1, **more)], app="b"))
    made.add_object("namespaces", namespace("team", team="t"))
    assert sits_out(made, theirs) == ("filter" if counts else "filter score")


def test_of_a_namespace_without_an_object_only_the_name_is_known() -> None:
    chosen: dict[str, Any] = {
        "namespaceSelector": negative("kubernetes.io/metadata.name", "NotIn", "team")
    }
    made = cluster(a=asking(far=[term(**chosen)], app="b"))
    assert refused(made, asking(namespace="team")) == {}
    assert refused(made, asking(namespace="new")) == {"a": THEIRS, "b": THEIRS}


def test_a_namespace_that_gains_a_label_is_seen() -> None:
    made = cluster(a=asking(namespace="team"))
    plugin = InterPodAffinity(None, made.handle())
    chosen: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "t"}}}
    incoming = made.intern(asking(far=[term(**chosen)], app="b"))
    assert rejected(plugin, made, incoming) == {}
    made.add_object("namespaces", namespace("team", team="t"))
    assert sorted(rejected(plugin, made, incoming)) == ["a", "b"]


def test_terms_of_placed_pods_look_at_the_labels_of_the_namespace() -> None:
    chosen: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "t"}}}
    made = cluster(a=asking(far=[term(**chosen)]))
    assert refused(made, asking()) == {}
    made.add_object("namespaces", namespace("default", team="t"))
    assert refused(made, asking()) == {"a": THEIRS, "b": THEIRS}


def test_terms_that_cannot_be_parsed_reject_the_pod_and_name_their_list() -> None:
    made = cluster()
    plugin = InterPodAffinity(None, made.handle())
    incoming = made.intern(asking(near=[term("{bad}")], far=[weighted(1, "{bad}")]))
    result = plugin.pre_filter(CycleState(), incoming, made.table)
    assert result is not None
    assert result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert result.message.startswith(
        "parsing pod: [requiredAffinityTerms: [0].labelSelector.matchLabels[app]"
    )
    assert ", preferredAntiAffinityTerms: [0].podAffinityTerm.labelSelector." in result.message
    scoring = plugin.pre_score(CycleState(), incoming, made.table, made.table.rows)
    assert scoring is not None
    assert scoring.code is Code.ERROR
    assert "failed to parse pod: " in scoring.message


def test_broken_terms_of_placed_pods_are_passed_over() -> None:
    broken = cluster(a=asking(far=[term("z"), term("{bad}")], near=[weighted(2, "z")]))
    assert refused(broken, asking(app="z")) == {}
    assert final(broken, asking(app="z")) == [100, 100, 0, 0]


@pytest.mark.parametrize(
    ("placed", "incoming", "expected"),
    [
        ({"a": asking()}, asking(near=[weighted(5)], app="b"), [100, 100, 0, 0]),
        ({"a": asking()}, asking(far=[weighted(5)], app="b"), [0, 0, 100, 100]),
        ({"a": asking(near=[weighted(5)])}, asking(), [100, 100, 0, 0]),
        ({"a": asking(far=[weighted(5)])}, asking(), [0, 0, 100, 100]),
        ({"a": asking(near=[term()])}, asking(), [100, 100, 0, 0]),
        (
            {"a": asking(), "c": asking(app="b")},
            asking(near=[weighted(1, "a"), weighted(5, "b")], app="c"),
            [20, 20, 100, 0],
        ),
        # Weights that cancel out are a contribution all the same.
        ({"a": asking()}, asking(near=[weighted(5)], far=[weighted(5)], app="b"), [0, 0, 0, 0]),
    ],
)
def test_scores(placed: dict[str, Pod], incoming: Pod, expected: list[int]) -> None:
    assert final(cluster(**placed), incoming) == expected


def test_arguments_decide_what_placed_pods_contribute() -> None:
    required_only = cluster(a=asking(near=[term()]))
    preferring = cluster(a=asking(near=[weighted(3)]))
    weightless = InterPodAffinityArgs(hard_pod_affinity_weight=0)
    ignoring = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
    assert sits_out(required_only, asking(), weightless) == "filter score"
    assert sits_out(required_only, asking(), ignoring) == "filter score"
    assert sits_out(preferring, asking(), ignoring) == "filter score"
    # Without effect for a pod that has preferences of its own.
    assert final(preferring, asking(near=[weighted(1, "b")]), ignoring) == [100, 100, 0, 0]


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_weight_out_of_range_is_refused(weight: int) -> None:
    args = InterPodAffinityArgs(hard_pod_affinity_weight=weight)
    with pytest.raises(ConfigurationError, match=r"hardPodAffinityWeight: .* \[0, 100\]"):
        InterPodAffinity(args, cluster().handle())


def test_terms_are_compiled_once_for_all_who_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counting(affinity: Any, namespace: str) -> Any:
        compiled.append(namespace)
        return compile_pod_affinity(affinity, namespace)

    monkeypatch.setattr(signature, "compile_pod_affinity", counting)
    made = cluster()
    plugin = InterPodAffinity(None, made.handle())
    waiting = made.intern(asking(far=[term()], app="w"))
    metadata = msgspec.structs.replace(waiting.metadata, uid="gone")
    gone = msgspec.structs.replace(waiting, metadata=metadata)
    on_a = msgspec.structs.replace(waiting.spec, node_name="a")

    for _ in range(3):
        state = CycleState()
        plugin.pre_filter(state, waiting, made.table)
        made.cache.add_pod(msgspec.structs.replace(gone, spec=on_a))
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        hint(plugin, deleted, waiting, gone, None)
        made.cache.remove_pod(gone)

    assert compiled == ["default"]


def test_terms_of_a_pod_with_very_many_get_no_columns() -> None:
    made = cluster(a=pod(metadata={"labels": {"app": "a"}}))
    plugin = InterPodAffinity(None, made.handle())
    hostile = [
        *(term(f"none-{index}") for index in range(500)),
        *(term("a", key=f"absent-{index}") for index in range(500)),
        *({**term(), "labelSelector": absent(index)} for index in range(500)),
    ]
    waiting = made.intern(asking(far=hostile, app="w"))

    state = CycleState()
    assert plugin.pre_filter(state, waiting, made.table) is None
    codes = plugin.filter_rows(state, waiting, made.table, made.table.rows)

    assert codes.tolist() == [2, 2, 0, 0]
    assert not made.table.selector_counts.statistics().columns
    assert rejected(plugin, made, waiting)


@pytest.mark.parametrize("kind", ["far", "near", "preferred"])
def test_each_pod_is_held_against_very_many_terms_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster(a=pod(metadata={"labels": {"app": "a"}}))
    for index in range(100):
        labels = {f"k{number}": "x" for number in range(index, index + 5)}
        made.place(pod(metadata={"name": f"p{index}", "labels": labels}), "abcd"[index % 4])
    for index in range(400):
        made.place(pod(metadata={"name": f"q{index}", "labels": {"app": f"q{index}"}}), "a")
    about = [{**term(), "labelSelector": absent(index)} for index in range(1_000)]
    if kind == "preferred":
        kind, about = "far", [{"weight": 1, "podAffinityTerm": each} for each in about]
    waiting = made.intern(asking(**{kind: about}, app="w"))
    plugin = InterPodAffinity(None, made.handle())
    matched = []
    matches = CompiledLabelSelector.matches
    held = []
    hold = Conditions.hold

    def counted(self: CompiledLabelSelector, labels: Any) -> bool:
        matched.append(labels)
        return matches(self, labels)

    def counted_too(self: Conditions, labels: Any) -> Any:
        held.append(labels)
        return hold(self, labels)

    monkeypatch.setattr(CompiledLabelSelector, "matches", counted)
    monkeypatch.setattr(Conditions, "hold", counted_too)
    plugin.pre_filter(CycleState(), waiting, made.table)
    plugin.pre_score(CycleState(), waiting, made.table, made.table.rows)
    assert not matched
    # Those without the labels that are mentioned are all answered at once.
    assert 1 <= len(held) <= 2 * 102
    assert not made.table.selector_counts.statistics().columns


def test_what_the_terms_of_a_victim_say_is_found_out_once_however_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = cluster()
    plugin = InterPodAffinity(None, made.handle())
    victims = [
        made.place(
            asking(far=[{**term(), "labelSelector": absent(index)} for index in range(500)]),
            "ab"[number % 2],
        )
        for number in range(10)
    ]
    waiting = made.intern(asking(app="w"))
    state = CycleState()
    plugin.pre_filter(state, waiting, made.table)
    compiled: list[Pod] = []
    monkeypatch.setattr(signature, "compile_pod_affinity", compiled.append)
    monkeypatch.setattr(AffinityTerm, "matches", None)
    held = []
    hold = Conditions.hold

    def counted(self: Conditions, labels: Any) -> Any:
        held.append(labels)
        return hold(self, labels)

    monkeypatch.setattr(Conditions, "hold", counted)
    for number, victim in enumerate(victims):
        on = NodeOverlay(made.table, number % 2)
        assert plugin.filter(state, waiting, on) is not None
        for by in (plugin.remove_pod, plugin.add_pod, plugin.remove_pod):
            by(state, waiting, victim, on)
    assert plugin.filter(state, waiting, NodeOverlay(made.table, 0)) is None
    assert not compiled
    assert len(held) <= len(victims)


def absent(index: int) -> dict[str, Any]:
    """A selector that every existing pod matches."""
    return {"matchExpressions": [{"key": f"k{index}", "operator": "DoesNotExist"}]}


def test_more_terms_than_the_limit_are_rejected_and_bind_no_other_pod() -> None:
    made = cluster()
    plugin = InterPodAffinity(None, made.handle())
    hostile = made.intern(asking(far=[term(key="zone")] * 3000, app="a"))

    status = plugin.pre_filter(CycleState(), hostile, made.table)
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert "too many pod affinity terms: kubestow reads at most 2500" in status.message
    made.place(hostile, "a")
    assert plugin.pre_filter(CycleState(), made.intern(asking()), made.table) is not None
    assert not made.table.has_existing_pod_terms
