"""PreScore, Score, NormalizeScore, weights, the choice; reuse saves work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from devtools.conformance.deciding import decide
from scheduler.framework import SKIP, Columns, ReuseRule, Status, error, unschedulable
from tests.unit.engine.harness import Calls, World, plugin, raising, three_nodes

BY_NAME = {"node1": 10, "node2": 30, "node3": 20}


def scores(by_name: Mapping[str, int] = BY_NAME) -> Callable[..., Any]:
    return lambda state, pod, node: by_name[node.name]


def score_rows(by_name: Mapping[str, int] = BY_NAME) -> Callable[..., Any]:
    return lambda state, pod, table, rows: np.array([by_name[table.names[row]] for row in rows])


def scalar(name: str = "S", by_name: Mapping[str, int] = BY_NAME, **methods: Any) -> type[Any]:
    return plugin(name, score=scores(by_name), **methods)


def volatile(name: str = "S", by_name: Mapping[str, int] = BY_NAME, **methods: Any) -> type[Any]:
    return plugin(name, score_rows=score_rows(by_name), **methods)


def reusable(name: str = "S", by_name: Mapping[str, int] = BY_NAME, **methods: Any) -> type[Any]:
    rule = ReuseRule(Columns.USAGE)
    return plugin(name, score_rows=score_rows(by_name), score_reuse=rule, **methods)


FORMS = pytest.mark.parametrize("form", [scalar, volatile, reusable])
Form = Callable[..., type[Any]]


def normalize(state: Any, pod: Any, table: Any, rows: Any, given: Any) -> Any:
    return given * 100 // given.max()


def totals(world: World) -> dict[str, int]:
    return decide(world.algorithm, world.cache.table, world.pod()).totals


@FORMS
def test_the_highest_total_wins(form: Form) -> None:
    assert three_nodes(form()).chosen() == "node2"


@FORMS
def test_scores_are_normalised_weighted_and_added(form: Form) -> None:
    world = three_nodes(
        form("A", normalize_scores=normalize),
        form("B", {"node1": 100, "node2": 7, "node3": 50}),
        weights={"A": 2, "B": 3},
    )
    for _ in range(2):
        assert totals(world) == {
            "node1": 2 * 33 + 300,
            "node2": 2 * 100 + 21,
            "node3": 2 * 66 + 150,
        }


@FORMS
def test_a_weight_of_zero_means_one(form: Form) -> None:
    assert totals(three_nodes(form(), weights={"S": 0})) == BY_NAME


@FORMS
def test_fractions_of_normalised_scores_are_dropped_before_weighting(form: Form) -> None:
    def fractions(state: Any, pod: Any, table: Any, rows: Any, given: Any) -> Any:
        return given / given.max() * 100

    world = three_nodes(form(normalize_scores=fractions), weights={"S": 3})
    for _ in range(2):
        assert totals(world) == {"node1": 3 * 33, "node2": 3 * 100, "node3": 3 * 66}


@FORMS
def test_only_feasible_nodes_are_normalised(form: Form) -> None:
    world = three_nodes(
        form(normalize_scores=normalize),
        plugin(
            "F",
            filter=lambda state, pod, node: unschedulable("no") if node.name == "node2" else None,
        ),
    )
    for _ in range(2):
        assert totals(world) == {"node1": 50, "node3": 100}


@FORMS
def test_a_plugin_that_skips_in_pre_score_does_not_score(form: Form) -> None:
    world = three_nodes(form(pre_score=lambda *_: SKIP), plugin("T", score=lambda *_: 1))
    assert totals(world) == dict.fromkeys(BY_NAME, 1)


def test_when_all_skip_every_total_is_zero_and_a_node_is_chosen() -> None:
    calls = Calls()
    world = three_nodes(
        plugin("A", pre_score=lambda *_: SKIP, score=calls("A", 5)),
        plugin("B", pre_score=lambda *_: SKIP, score=calls("B", 5)),
    )
    assert totals(world) == dict.fromkeys(BY_NAME, 0)
    attempt = world.attempt()
    assert attempt.result is not None
    assert attempt.state.skip_score == {"A", "B"}
    assert calls.made == []


def test_one_feasible_node_is_taken_without_scoring() -> None:
    calls = Calls()
    world = World(plugin("S", pre_score=calls("pre"), score=calls("score", 1)))
    world.nodes("node1")
    assert world.chosen() == "node1"
    assert calls.made == []


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("score", [101, -1])
@FORMS
def test_a_final_score_out_of_range_is_an_error(form: Form, score: int, reuse: bool) -> None:
    world = three_nodes(form("S", {**BY_NAME, "node3": score}), reuse=reuse)
    for _ in range(2):
        assert world.failure_message() == (
            'applying score defaultWeights on Score plugins: plugin "S" returns an invalid score '
            f"{score}, it should in the range of [0, 100] after normalizing"
        )


@FORMS
def test_a_normalised_score_out_of_range_is_an_error(form: Form) -> None:
    world = three_nodes(form(normalize_scores=lambda state, pod, table, rows, given: given + 90))
    assert "returns an invalid score 120" in world.failure_message()


@FORMS
def test_an_invalid_score_of_a_node_that_does_not_fit_counts_once_it_fits(form: Form) -> None:
    world = three_nodes(
        form("S", {**BY_NAME, "node3": 500}),
        plugin(
            "F",
            filter=lambda *_: None,
            filter_reuse=ReuseRule(Columns.TAINTS),
            filter_rows=lambda state, pod, table, rows: table.unschedulable[rows].astype(np.int32),
            filter_status=lambda *_: unschedulable("cordoned"),
        ),
    )
    # One form of the filter is enough: no pod is nominated here.
    world.node("node3", spec={"unschedulable": True})
    for _ in range(2):
        assert world.chosen() == "node2"
    world.node("node3")
    for _ in range(2):
        assert "returns an invalid score 500" in world.failure_message()
    world.node("node3", spec={"unschedulable": True})
    assert world.chosen() == "node2"


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"score": raising()}, 'running Score plugins: plugin "S" failed with: boom'),
        ({"score_rows": raising()}, 'running Score plugins: plugin "S" failed with: boom'),
        (
            {"score_rows": lambda *_: np.zeros(2, dtype=np.int64)},
            'running Score plugins: plugin "S" failed with: score_rows gave 2 scores for 3 rows',
        ),
        (
            {"score": lambda *_: error("bad node")},
            'running Score plugins: plugin "S" failed with: bad node',
        ),
        (
            {"score": lambda *_: 1, "normalize_scores": raising()},
            'running Normalize on Score plugins: plugin "S" failed with: boom',
        ),
        (
            {"score": lambda *_: 1, "normalize_scores": lambda *_: error("no")},
            'running Normalize on Score plugins: plugin "S" failed with: no',
        ),
        (
            {"score": lambda *_: 1, "pre_score": raising()},
            'running PreScore plugin "S": boom',
        ),
        (
            {"score": lambda *_: 1, "pre_score": lambda *_: unschedulable("no")},
            'running PreScore plugin "S": no',
        ),
    ],
)
@pytest.mark.parametrize("rule", [ReuseRule(Columns.USAGE), None])
def test_a_failing_plugin_ends_the_attempt_with_an_error(
    methods: dict[str, Any], message: str, rule: ReuseRule | None
) -> None:
    calls = Calls()
    world = three_nodes(
        plugin("S", score_reuse=rule, **methods), plugin("P", post_filter=calls("PostFilter"))
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == message
    assert attempt.failure.reason == "SchedulerError"
    assert world.cache.statistics().assumed_pods == 0
    assert calls.made == []


def test_results_of_one_plugin_are_right_after_another_failed() -> None:
    failing: list[Status] = []

    def second(state: Any, pod: Any, table: Any, rows: Any) -> Any:
        if failing:
            raise ValueError
        return np.zeros(len(rows), dtype=np.int64)

    world = three_nodes(
        plugin(
            "First",
            score_reuse=ReuseRule(Columns.USAGE),
            score_rows=lambda state, pod, table, rows: table.pod_count[rows],
        ),
        plugin("Second", score_reuse=ReuseRule(Columns.USAGE), score_rows=second),
    )
    assert totals(world) == {"node1": 0, "node2": 0, "node3": 0}
    failing.append(error("now"))
    world.cache.add_pod(world.pod("other", nodeName="node2"))
    assert decide(world.algorithm, world.cache.table, world.pod()).error
    failing.clear()
    assert totals(world) == {"node1": 0, "node2": 1, "node3": 0}


# -- the choice ----------------------------------------------------------------------------------


def equal_world(**options: Any) -> World:
    return three_nodes(scalar("S", dict.fromkeys(BY_NAME, 50)), **options)


def test_ties_are_broken_at_random_over_all_of_the_best() -> None:
    world = equal_world()
    assert {world.chosen() for _ in range(50)} == {"node1", "node2", "node3"}


def test_the_same_seed_gives_the_same_choices() -> None:
    def choices(seed: int) -> list[str]:
        world = equal_world(seed=seed)
        return [world.chosen() for _ in range(20)]

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)


def test_without_any_score_plugin_every_feasible_node_may_be_chosen() -> None:
    world = three_nodes(
        plugin(
            "F",
            filter=lambda *_: None,
            filter_reuse=ReuseRule(Columns.EXISTENCE),
            filter_rows=lambda state, pod, table, rows: np.zeros(len(rows), dtype=np.int32),
            filter_status=lambda *_: unschedulable("no"),
        )
    )
    assert {world.chosen() for _ in range(50)} == {"node1", "node2", "node3"}


# -- reuse saves work ----------------------------------------------------------------------------


class Watched:
    """Filter and Score by pod count; records the nodes it evaluates."""

    name = "Watched"
    filter_reuse = ReuseRule(Columns.USAGE)
    score_reuse = ReuseRule(Columns.USAGE, ("services",))
    calls: list[tuple[str, list[str]]] = []

    def __init__(self, args: object, handle: object) -> None: ...

    def _note(self, what: str, table: Any, rows: Any) -> None:
        self.calls.append((what, [table.names[row] for row in rows]))

    def pre_filter(self, state: Any, pod: Any, table: Any) -> None:
        self.calls.append(("pre_filter", []))
        state.write("Watched", 1)

    pre_filter_reusable = True

    def filter_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        assert state.read("Watched") == 1
        self._note("filter", table, rows)
        return np.zeros(len(rows), dtype=np.int32)

    def filter_status(self, state: Any, pod: Any, code: int) -> Status:
        return unschedulable("full")

    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        self._note("score", table, rows)
        return table.pod_count[rows]

    @classmethod
    def take(cls) -> list[tuple[str, list[str]]]:
        calls, cls.calls = cls.calls, []
        return calls


def test_a_second_pod_of_a_signature_evaluates_changed_rows_only() -> None:
    Watched.take()
    world = three_nodes(Watched)
    everything = ["node1", "node2", "node3"]
    world.attempt(world.pod("first", nominated=""))
    assert Watched.take() == [("pre_filter", []), ("filter", everything), ("score", everything)]
    changed = world.cache.get_pod("first")
    assert changed is not None
    node = changed.spec.node_name
    world.attempt(world.pod("second"))
    assert Watched.take() == [("filter", [node]), ("score", [node])]


def test_a_pod_of_another_signature_starts_afresh() -> None:
    Watched.take()
    world = three_nodes(Watched)
    world.chosen()
    Watched.take()
    world.chosen(world.pod(**world.requests(100)))
    assert [what for what, _ in Watched.take()] == ["pre_filter", "filter", "score"]


def test_changes_that_a_plugin_does_not_depend_on_cost_nothing() -> None:
    Watched.take()
    world = three_nodes(Watched)
    totals(world)
    Watched.take()
    world.node("node1", labels={"zone": "a"})
    totals(world)
    assert Watched.take() == []


def test_a_new_version_evaluates_the_column_of_its_plugin_only() -> None:
    Watched.take()
    world = three_nodes(Watched)
    totals(world)
    Watched.take()
    world.cache.table.bump("services")
    totals(world)
    assert Watched.take() == [("score", ["node1", "node2", "node3"])]
    world.cache.table.bump("namespaces")
    totals(world)
    assert Watched.take() == []


def test_a_new_node_is_evaluated_and_a_removed_one_is_not() -> None:
    Watched.take()
    world = three_nodes(Watched)
    totals(world)
    Watched.take()
    world.nodes("node4")
    world.cache.remove_node("node1")
    assert set(totals(world)) == {"node2", "node3", "node4"}
    assert Watched.take() == [("filter", ["node4"]), ("score", ["node4"])]
