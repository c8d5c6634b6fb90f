"""Merging and expansion of plugin sets as in upstream, and properties of both."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.merging import Expanded, Listed, MergedSet, expand, merge_set
from config.types import POINTS
from scheduler.framework.field_errors import FieldErrors
from scheduler.framework.registry import Registry
from tests.unit.config.doubles import AVAILABLE, DEFAULTS, body, load, names, plugin, problems

# -- merging (section 1.9) ------------------------------------------------------------------------

D = (Listed("D1"), Listed("D2"))


def user(enabled: str = "", disabled: str = "") -> MergedSet:
    """`A B:2` as a user's set."""
    entries = (entry.partition(":") for entry in enabled.split())
    listed = tuple(Listed(name, int(weight or 0)) for name, _, weight in entries)
    return MergedSet(listed, tuple(disabled.split()))


@pytest.mark.parametrize(
    ("enabled", "disabled", "expected"),
    [
        ("", "", "D1 D2"),
        ("C", "", "D1 D2 C"),
        ("C D2", "D2", "D1 C D2"),
        ("C D1 D2", "*", "C D1 D2"),
        ("D2:2 D1:1", "", "D1:1 D2:2"),
        ("D2:2 D2:4", "", "D1 D2:4 D2:2"),
        ("", "D1", "D2"),
        ("", "*", ""),
        ("", "X", "D1 D2"),
    ],
)
def test_default_and_user_set_become_one(enabled: str, disabled: str, expected: str) -> None:
    merged = merge_set(D, user(enabled, disabled))
    assert merged == user(expected, disabled)


# -- expansion (sections 1.10 and 1.11) -----------------------------------------------------------

A = plugin("A", "preFilter preScore score")
N = plugin("N", "filter score")
S = plugin("S", "preScore score")
F = plugin("F", "filter")
Q = plugin("Q", "queueSort")
B = plugin("B", "bind")
TOYS = Registry([A, N, S, F, Q, B])


def expanded(sets: dict[str, MergedSet], found: FieldErrors | None = None) -> Expanded:
    complete = {point: sets.get(point, MergedSet()) for point in POINTS}
    return expand(complete, "plugins", TOYS, found if found is not None else FieldErrors())


def test_multipoint_reaches_every_point_a_plugin_implements() -> None:
    result = expanded({"multiPoint": user("A S F")})
    assert result.points["preFilter"] == ("A",)
    assert result.points["filter"] == ("F",)
    assert result.points["preScore"] == ("A", "S")
    assert result.points["score"] == ("A", "S")
    assert result.points["bind"] == ()
    assert result.plugins == ("A", "F", "S")


@pytest.mark.parametrize(
    ("multi", "own", "point", "expected"),
    [
        ("A", user(disabled="A"), "score", ""),
        ("A S", user(disabled="*"), "preScore", ""),
        ("N A S", user("S A"), "score", "S A N"),
        ("A S", user("N S A"), "score", "S A N"),
        ("A S", user("N"), "score", "A S N"),
        ("", user("S A"), "score", "S A"),
        ("A S", user("S", "*"), "score", "S"),
        ("N", user("F"), "filter", "N F"),
        ("N F", user("F"), "filter", "F N"),
        # Off and listed again at the point: the multiPoint copy goes, the own entry is last.
        ("A S", user("A", "A"), "score", "S A"),
    ],
)
def test_order_at_a_point(multi: str, own: MergedSet, point: str, expected: str) -> None:
    result = expanded({"multiPoint": user(multi), point: own})
    assert result.points[point] == tuple(expected.split())


@pytest.mark.parametrize(
    ("multi", "score", "weights"),
    [
        ("A:5", "", {"A": 5}),
        ("A S", "S:5 A:3", {"S": 5, "A": 3}),
        ("A:7 S:2", "A", {"A": 1, "S": 2}),
        ("A S:0", "", {"A": 1, "S": 1}),
        ("F:9", "", {}),
    ],
)
def test_weights(multi: str, score: str, weights: dict[str, int]) -> None:
    result = expanded({"multiPoint": user(multi), "score": user(score)})
    assert dict(result.weights) == weights


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        ({"preFilter": user("A A")}, 'plugin "A" already registered as "PreFilterPlugin"'),
        ({"multiPoint": user("S S")}, 'plugin "S" already registered as "PreScorePlugin"'),
    ],
)
def test_a_plugin_listed_twice_is_reported(sets: dict[str, MergedSet], problem: str) -> None:
    found = FieldErrors()
    expanded(sets, found)
    assert found.lines() == [f"plugins: {problem}"]


# -- properties -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "N", "S", "F", "Q", "B"])
ENTRIES = st.lists(st.tuples(NAMES, st.integers(0, 3)), unique_by=lambda entry: entry[0])
SETS = st.builds(
    lambda enabled, disabled: MergedSet(
        tuple(Listed(name, weight) for name, weight in enabled), tuple(disabled)
    ),
    ENTRIES,
    st.lists(st.sampled_from(["A", "N", "S", "F", "*"]), unique=True),
)


@given(ENTRIES, SETS)
def test_merging_again_changes_nothing(
    defaults: list[tuple[str, int]], given_set: MergedSet
) -> None:
    listed = tuple(Listed(name, weight) for name, weight in defaults)
    once = merge_set(listed, given_set)
    assert merge_set(listed, once) == once
    assert {entry.name for entry in given_set.enabled} <= {entry.name for entry in once.enabled}


@given(SETS, SETS, SETS)
def test_expansion_lists_each_plugin_once_and_only_where_it_belongs(
    multi: MergedSet, score: MergedSet, bind: MergedSet
) -> None:
    found = FieldErrors()
    result = expanded({"multiPoint": multi, "score": score, "bind": bind}, found)
    assert not found
    for point, listed in result.points.items():
        assert len(set(listed)) == len(listed), point
    assert set(result.weights) == set(result.points["score"])
    assert all(weight >= 1 for weight in result.weights.values())
    implementing = {"A", "N", "S"}
    wanted = {entry.name for entry in score.enabled} & implementing
    assert wanted <= set(result.points["score"])
    assert set(result.points["score"]) <= implementing
    if "*" in score.disabled:
        assert set(result.points["score"]) == wanted


# -- through a whole configuration ----------------------------------------------------------------


def test_the_default_profile() -> None:
    configuration = load(None)
    assert names(configuration, "preFilter") == (
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "DynamicResources",
        "NodeDeclaredFeatures",
    )
    assert names(configuration, "postFilter") == ("DynamicResources", "DefaultPreemption")
    assert names(configuration, "bind") == ("DefaultBinder",)
    assert dict(configuration.profiles[0].weights) == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_defaults_come_in_the_order_handed_in_less_what_is_missing() -> None:
    available = {one.name for one in AVAILABLE}
    enabled = load(None).effective.profiles[0].plugins
    assert enabled is not None
    assert [entry.name for entry in enabled.multi_point.enabled] == [
        name for name, _ in DEFAULTS if name in available
    ]


@pytest.mark.parametrize(
    ("gate", "plugin"),
    [
        ("PodSchedulingReadiness", "SchedulingGates"),
    ],
)
def test_a_gate_takes_its_plugin_out_of_the_defaults(gate: str, plugin: str) -> None:
    from config import FeatureGates

    assert plugin in load(None).profiles[0].plugins
    gates = FeatureGates.parse(f"{gate}=false")
    assert plugin not in load(None, feature_gates=gates).profiles[0].plugins


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (
            "{score: {enabled: [{name: NodeResourceFit}]}}",
            (
                'score.enabled[0].name: ScorePlugin "NodeResourceFit" does not exist; '
                'did you mean "NodeResourcesFit"?'
            ),
        ),
        (
            "{multiPoint: {enabled: [{name: nodeports}]}}",
            (
                'multiPoint.enabled[0].name: plugin "nodeports" does not exist; '
                'did you mean "NodePorts"?'
            ),
        ),
        (
            "{score: {enabled: [{name: NodePorts}]}}",
            'score.enabled[0].name: plugin "NodePorts" does not extend ScorePlugin plugin',
        ),
        (
            "{placementScore: {enabled: [{name: NodePorts}]}}",
            (
                'placementScore.enabled[0].name: plugin "NodePorts" does not extend '
                "PlacementScorePlugin plugin"
            ),
        ),
        (
            "{preFilter: {enabled: [{name: NodePorts}, {name: NodePorts}]}}",
            'preFilter.enabled[1].name: plugin "NodePorts" already registered as "PreFilterPlugin"',
        ),
        (
            "{multiPoint: {enabled: [{name: NodePorts}, {name: NodePorts, weight: 4}]}}",
            (
                'multiPoint.enabled[0].name: plugin "NodePorts" already registered as '
                '"PreFilterPlugin"'
            ),
        ),
        ("{filter: {enabled: [{name: ''}]}}", "filter.enabled[0].name: Required value"),
        ("{filter: {enabled: [{name: '*'}]}}", 'filter.enabled[0].name: FilterPlugin "*" does not'),
        (
            "{filter: {disabled: [{name: NodePort}]}}",
            'filter.disabled[0].name: plugin "NodePort" does not exist; did you mean "NodePorts"?',
        ),
        (
            "{multiPoint: {enabled: [{name: PodTopologySpread}]}}",
            (
                'multiPoint.enabled[0].name: plugin "PodTopologySpread" does not exist: it is a '
                "plugin of kube-scheduler that this version of kubestow does not have; remove "
                "the entry"
            ),
        ),
    ],
)
def test_impossible_lists(plugins: str, expected: str) -> None:
    (found,) = problems(f"profiles: [{{schedulerName: s, plugins: {plugins}}}]")
    assert found.startswith(f"profiles[0].plugins.{expected}")


@pytest.mark.parametrize(
    "plugins",
    [
        "{score: {disabled: [{name: '*'}]}}",
        "{filter: {disabled: [{name: VolumeZone}]}}",
        "{multiPoint: {disabled: [{name: PodTopologySpread}, {name: GangScheduling}]}}",
        "{placementGenerate: {}, placementScore: {disabled: [{name: '*'}]}}",
    ],
)
def test_possible_lists(plugins: str) -> None:
    assert problems(f"profiles: [{{schedulerName: s, plugins: {plugins}}}]") == ()


def test_star_in_multipoint_leaves_exactly_what_is_listed() -> None:
    profile = body(
        "profiles:\n- plugins:\n    multiPoint:\n      disabled: [{name: '*'}]\n"
        "      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: ImageLocality}]\n"
    ).profiles[0]
    assert set(profile.plugins) == {"PrioritySort", "DefaultBinder", "ImageLocality"}


def test_a_profile_must_be_able_to_sort_and_to_bind() -> None:
    found = problems(
        "profiles: [{schedulerName: s, plugins: {multiPoint: {disabled: [{name: '*'}]}}}]"
    )
    assert [line.partition(" (line")[0] for line in found] == [
        (
            "profiles[0].plugins: only one queue sort plugin required for profile with scheduler "
            'name "s", but got 0; enable PrioritySort'
        ),
        (
            "profiles[0].plugins: at least one bind plugin is needed for profile with scheduler "
            'name "s"; enable DefaultBinder'
        ),
    ]


OTHER_SORT = plugin("OtherSort", "queueSort")


def test_two_sorters_in_one_profile() -> None:
    text = "profiles: [{plugins: {multiPoint: {enabled: [{name: OtherSort}]}}}]"
    (found,) = problems(text, OTHER_SORT)
    assert "but got 2: PrioritySort, OtherSort" in found


def test_profiles_must_sort_alike() -> None:
    changed = "{disabled: [{name: PrioritySort}], enabled: [{name: OtherSort}]}"  # at one point
    at_point = f"[{{schedulerName: a}}, {{schedulerName: b, plugins: {{queueSort: {changed}}}}}]"
    (found,) = problems(f"profiles: {at_point}", OTHER_SORT)
    assert found.startswith("profiles[1].plugins.queueSort: Invalid value: [")
    assert "must be the same for all profiles" in found
    at_multi = f"[{{schedulerName: a}}, {{schedulerName: b, plugins: {{multiPoint: {changed}}}}}]"
    (found,) = problems(f"profiles: {at_multi}", OTHER_SORT)
    assert found.startswith(
        'profiles[1].plugins.queueSort: different queue sort plugins for profile "b": '
        '"OtherSort", first: "PrioritySort"'
    )


def test_profiles_must_sort_with_the_same_arguments() -> None:
    from tests.unit.config.doubles import BalancedArgs

    sorter = plugin("OtherSort", "queueSort", BalancedArgs)
    sort = "plugins: {multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: OtherSort}]}}"
    args = "pluginConfig: [{name: OtherSort, args: {resources: []}}]"
    (found,) = problems(
        f"profiles: [{{schedulerName: a, {sort}}}, {{schedulerName: b, {sort}, {args}}}]", sorter
    )
    assert found.startswith("profiles[1].pluginConfig: different queue sort plugin args")


def test_only_one_sorter_at_its_point() -> None:
    enabled = "{enabled: [{name: PrioritySort}, {name: OtherSort}]}"
    found = problems(f"profiles: [{{plugins: {{queueSort: {enabled}}}}}]", OTHER_SORT)
    assert "only one queue sort plugin can be enabled" in found[0]


def test_missing_plugins_are_passed_over_on_request() -> None:
    text = "profiles: [{plugins: {multiPoint: {enabled: [{name: PodTopologySpread, weight: 20}]}}}]"
    configuration = body(text, tolerate_missing=True)
    assert "PodTopologySpread" not in configuration.profiles[0].plugins
    assert configuration.profiles[0].plugins == load(None).profiles[0].plugins


def test_an_alias_stands_for_the_declared_name() -> None:
    quota: Any = plugin("ResourceQuota", "preFilter", aliases=("resourcequota",))
    configuration = body(
        "profiles:\n"
        "- schedulerName: a\n  plugins:\n    multiPoint: {enabled: [{name: resourcequota}]}\n"
        "    preFilter: {disabled: [{name: resourcequota}]}\n"
        "- schedulerName: b\n  plugins: {preFilter: {enabled: [{name: resourcequota}]}}\n"
        "  pluginConfig: [{name: resourcequota, args: {}}]\n",
        quota,
    )
    assert "ResourceQuota" not in names(configuration, "preFilter", 0)
    assert "ResourceQuota" in names(configuration, "preFilter", 1)
