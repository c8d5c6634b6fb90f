"""PreFilter, Filter and the search for nodes: framework-cycle-config.md 11, facts 26 to 63."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.framework import (
    SKIP,
    Code,
    Columns,
    CycleState,
    NominatingInfo,
    PostFilterResult,
    PreFilterResult,
    ReuseRule,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import Calls, World, plugin


def narrowing(*names: str) -> Callable[..., PreFilterResult]:
    return lambda *_: PreFilterResult(frozenset(names))


def answering(status: Status | None) -> Callable[..., Status | None]:
    return lambda *_: status


def three_nodes(*plugins: type[Any], **options: Any) -> World:
    world = World(*plugins, **options)
    world.nodes("node1", "node2", "node3")
    return world


def raising(text: str = "boom") -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise ValueError(text)

    return fail


# -- PreFilter -----------------------------------------------------------------------------------


def test_all_pre_filters_may_skip_and_their_filters_are_then_not_called() -> None:
    first = plugin("A", pre_filter=answering(SKIP), filter=raising())
    second = plugin("B", pre_filter=answering(SKIP))
    attempt = three_nodes(first, second).attempt()
    assert attempt.failure is None
    assert attempt.state.skip_filter == {"A", "B"}


def test_after_unschedulable_the_other_pre_filters_still_run() -> None:
    first = plugin("A", pre_filter=answering(unschedulable("no", "never")))
    second = plugin("B", pre_filter=answering(SKIP))
    attempt = three_nodes(first, second).attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == "0/3 nodes are available: no, never."
    assert attempt.failure.unschedulable_plugins == {"A"}
    assert attempt.state.skip_filter == {"B"}


def test_the_last_of_several_unschedulable_pre_filters_is_reported() -> None:
    first = plugin("A", pre_filter=answering(unschedulable("first")))
    second = plugin("B", pre_filter=answering(unschedulable("second")))
    attempt = three_nodes(first, second).attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == "0/3 nodes are available: second."
    assert attempt.failure.unschedulable_plugins == {"B"}


def test_unresolvable_stops_pre_filter() -> None:
    calls = Calls()
    first = plugin("A", pre_filter=answering(unresolvable("no")))
    second = plugin("B", pre_filter=calls("B"))
    assert three_nodes(first, second).failure_message() == "0/3 nodes are available: no."
    assert calls.made == []


def test_an_empty_set_of_nodes_stops_pre_filter() -> None:
    calls = Calls()
    world = three_nodes(plugin("A", pre_filter=narrowing()), plugin("B", pre_filter=calls("B")))
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == ("0/3 nodes are available: node(s) didn't satisfy plugin A.")
    assert attempt.failure.unschedulable_plugins == {"A"}
    assert calls.made == []


def test_sets_with_nothing_in_common_name_all_plugins_in_order() -> None:
    world = three_nodes(
        plugin("P3", pre_filter=narrowing("node2")), plugin("P2", pre_filter=narrowing("node1"))
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == (
        "0/3 nodes are available: node(s) didn't satisfy plugin(s) [P2 P3] simultaneously."
    )
    assert attempt.failure.unschedulable_plugins == {"P2", "P3"}


def test_overlapping_sets_leave_their_intersection() -> None:
    world = three_nodes(
        plugin("A", pre_filter=narrowing("node1", "node2")),
        plugin("B", pre_filter=narrowing("node2", "node3")),
    )
    assert world.chosen() == "node2"


def test_nodes_outside_of_the_narrowed_set_get_the_absent_status() -> None:
    world = World(
        plugin("PreFilter", pre_filter=narrowing("node2")),
        plugin("Filter", filter=answering(unschedulable("no"))),
    )
    world.nodes("node1", "node2")
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == (
        "0/2 nodes are available: 1 no, 1 node(s) didn't satisfy plugin(s) [PreFilter]."
    )
    assert attempt.failure.unschedulable_plugins == {"PreFilter", "Filter"}


def test_a_narrowed_set_of_unknown_nodes_leaves_no_candidate() -> None:
    calls = Calls()
    world = three_nodes(plugin("A", pre_filter=narrowing("gone"), filter=calls("filter")))
    assert world.failure_message() == (
        "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A]."
    )
    assert calls.made == []


def test_a_narrowing_plugin_is_responsible_even_if_a_later_pre_filter_rejects() -> None:
    world = three_nodes(
        plugin("A", pre_filter=narrowing("node1")),
        plugin("B", pre_filter=answering(unschedulable("no"))),
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.unschedulable_plugins == {"A", "B"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (raising(), 'running PreFilter plugin "A": boom'),
        (answering(error("boom")), 'running PreFilter plugin "A": boom'),
        (answering(pending("later")), 'running PreFilter plugin "A": later'),
        (answering(Status(Code.WAIT, ("hm",))), 'running PreFilter plugin "A": hm'),
    ],
)
def test_anything_else_in_pre_filter_is_an_error(answer: Callable[..., Any], message: str) -> None:
    attempt = three_nodes(plugin("A", pre_filter=answer)).attempt()
    assert attempt.failure is not None
    assert attempt.failure.reason == "SchedulerError"
    assert attempt.failure.message == message
    assert attempt.failure.unschedulable_plugins == frozenset()


# -- Filter --------------------------------------------------------------------------------------


def test_the_first_plugin_that_rejects_a_node_is_reported_and_the_next_is_not_asked() -> None:
    calls = Calls()
    world = three_nodes(
        plugin("A", filter=answering(None)),
        plugin("B", filter=answering(unschedulable("b"))),
        plugin("C", filter=calls("C", unschedulable("c"))),
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == "0/3 nodes are available: 3 b."
    assert attempt.failure.unschedulable_plugins == {"B"}
    assert calls.made == []


def test_plugins_that_reject_different_nodes_are_all_responsible() -> None:
    def only(name: str, status: Status) -> Callable[..., Status | None]:
        return lambda state, pod, node: status if node.name == name else None

    world = three_nodes(
        plugin("A", filter=only("node1", unschedulable("a"))),
        plugin("B", filter=only("node2", pending("b"))),
        plugin("C", filter=only("node3", unresolvable("c", "c2"))),
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == "0/3 nodes are available: 1 a, 1 b, 1 c, 1 c2."
    assert attempt.failure.unschedulable_plugins == {"A", "B", "C"}
    assert attempt.failure.pending_plugins == {"B"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (raising(), 'running "A" filter plugin: boom'),
        (answering(error("boom")), 'running "A" filter plugin: boom'),
        (answering(SKIP), 'running "A" filter plugin: unexpected status Skip'),
        (answering(Status(Code.WAIT, ("hm",))), 'running "A" filter plugin: hm'),
    ],
)
def test_anything_else_in_filter_is_an_error(answer: Callable[..., Any], message: str) -> None:
    attempt = three_nodes(plugin("A", filter=answer)).attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == message
    assert not attempt.failure.rejected


COLUMNAR = {"filter": answering(None), "filter_reuse": ReuseRule(Columns.USAGE)}


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"filter_rows": raising()}, 'running "A" filter plugin: boom'),
        (
            {"filter_rows": lambda state, pod, table, rows: np.zeros(1, dtype=np.int32)},
            'running "A" filter plugin: filter_rows gave 1 codes for 3 rows',
        ),
        (
            {
                "filter_rows": lambda state, pod, table, rows: np.ones(3, dtype=np.int32),
                "filter_status": raising(),
            },
            'running "A" filter plugin: boom',
        ),
        (
            {
                "filter_rows": lambda state, pod, table, rows: np.ones(3, dtype=np.int32),
                "filter_status": answering(error("broken")),
            },
            'running "A" filter plugin: broken',
        ),
    ],
)
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("rule", [ReuseRule(Columns.USAGE), None])
def test_a_broken_columnar_filter_is_an_error(
    methods: dict[str, Any], message: str, reuse: bool, rule: ReuseRule | None
) -> None:
    world = three_nodes(plugin("A", **{**COLUMNAR, **methods, "filter_reuse": rule}), reuse=reuse)
    assert world.failure_message() == message
    assert world.cache.statistics().assumed_pods == 0


def test_codes_of_one_plugin_become_different_reasons() -> None:
    statuses = {1: unschedulable("few"), 7: unresolvable("none")}
    world = three_nodes(
        plugin(
            "A",
            filter=answering(None),
            filter_reuse=ReuseRule(Columns.EXISTENCE),
            filter_rows=lambda state, pod, table, rows: np.array([7, 1, 7], dtype=np.int32),
            filter_status=lambda state, pod, code: statuses[code],
        )
    )
    assert world.failure_message() == "0/3 nodes are available: 1 few, 2 none."


@pytest.mark.parametrize("scalar_first", [True, False])
@pytest.mark.parametrize("rule", [ReuseRule(Columns.EXISTENCE), None])
def test_scalar_and_columnar_plugins_keep_the_order_of_the_profile(
    scalar_first: bool, rule: ReuseRule | None
) -> None:
    scalar = plugin("Scalar", filter=answering(unschedulable("scalar")))
    columnar = plugin(
        "Columnar",
        filter=answering(unschedulable("columnar")),
        filter_reuse=rule,
        filter_rows=lambda state, pod, table, rows: np.ones(len(rows), dtype=np.int32),
        filter_status=answering(unschedulable("columnar")),
    )
    order = (scalar, columnar) if scalar_first else (columnar, scalar)
    expected = "scalar" if scalar_first else "columnar"
    world = three_nodes(*order)
    for _ in range(2):
        assert world.failure_message() == f"0/3 nodes are available: 3 {expected}."


def test_an_empty_cluster_is_its_own_failure() -> None:
    calls = Calls()
    attempt = World(plugin("A", pre_filter=calls("A"))).attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == "no nodes available to schedule pods"
    assert attempt.failure.reason == "Unschedulable"
    assert attempt.failure.unschedulable_plugins == frozenset()
    assert calls.made == []


# -- what a rejection may ask for ----------------------------------------------------------------


def test_the_earliest_wish_to_be_tried_again_counts() -> None:
    waits = {"node1": 30.0, "node2": 10.0, "node3": None}
    world = three_nodes(
        plugin(
            "A",
            filter=lambda state, pod, node: unschedulable("no", requeue_after=waits[node.name]),
        )
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.requeue_after == 10.0
    attempt.failure.apply(attempt.info, world.clock.now())
    assert attempt.info.requeue_at == world.clock.now() + 10.0
    assert attempt.info.unschedulable_plugins == {"A"}


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (("Quota", "Quota", "Quota"), "Quota"),
        (("Quota", "Quota", ""), "Unschedulable"),
        (("Quota", "Other", "Quota"), "Unschedulable"),
    ],
)
def test_a_condition_reason_holds_only_if_all_nodes_agree(
    reasons: tuple[str, ...], expected: str
) -> None:
    by_node = dict(zip(("node1", "node2", "node3"), reasons, strict=True))
    world = three_nodes(
        plugin(
            "A",
            filter=lambda state, pod, node: Status(
                Code.UNSCHEDULABLE, ("no",), condition_reason=by_node[node.name]
            ),
        )
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.reason == expected
    assert attempt.failure.rejected


QUOTA = Status(Code.UNSCHEDULABLE, ("quota",), condition_reason="Quota", skip_post_filter=True)
NEVER = replace(QUOTA, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
PLAIN = unschedulable("plain", requeue_after=7.0)


@pytest.mark.parametrize(
    ("answers", "reason", "skipped", "requeue_after"),
    [
        ((QUOTA,), "Quota", True, None),
        ((NEVER,), "Quota", True, None),
        ((QUOTA, QUOTA), "Quota", True, None),
        ((PLAIN, QUOTA), "Unschedulable", False, 7.0),
        ((QUOTA, PLAIN), "Unschedulable", False, 7.0),
        ((PLAIN, NEVER), "Unschedulable", False, 7.0),
        ((NEVER, PLAIN), "Quota", True, None),
    ],
)
def test_pre_filter_rejections_are_heeded_together(
    answers: tuple[Status, ...], reason: str, skipped: bool, requeue_after: float | None
) -> None:
    calls = Calls()
    world = three_nodes(
        *(
            plugin(f"P{number}", pre_filter=lambda *_, answer=answer: answer)
            for number, answer in enumerate(answers)
        ),
        plugin("Last", post_filter=calls("PostFilter", PostFilterResult(unschedulable("no")))),
    )
    failure = world.attempt().failure
    assert failure is not None
    assert (failure.reason, calls.made == []) == (reason, skipped)
    assert failure.requeue_after == requeue_after


def test_a_condition_reason_of_filter_does_not_speak_for_nodes_that_pre_filter_left_out() -> None:
    world = three_nodes(
        plugin("N", pre_filter=narrowing("node1", "node2")), plugin("Q", filter=answering(QUOTA))
    )
    failure = world.attempt().failure
    assert failure is not None
    assert failure.reason == "Unschedulable"


# -- how many nodes are looked at ----------------------------------------------------------------


def scalar_world(nodes: int, **options: Any) -> tuple[World, Calls]:
    calls = Calls()
    world = World(
        plugin("F", filter=calls("filter")),
        plugin("S", score=lambda state, pod, node: 1),
        **options,
    )
    world.nodes(*(f"n{index}" for index in range(nodes)))
    return world, calls


@pytest.mark.parametrize(
    ("nodes", "options", "looked_at"),
    [
        (10, {}, 10),
        (1000, {}, 420),
        (1000, {"percentage": 40, "global_percentage": 100}, 400),
        (1000, {"global_percentage": 30}, 300),
        (1000, {"percentage": 1}, 100),
        (150, {"percentage": 10}, 100),
        (99, {"percentage": 10}, 99),
        (1000, {"percentage": 100}, 1000),
    ],
)
def test_the_search_ends_when_enough_nodes_are_found(
    nodes: int, options: dict[str, int], looked_at: int
) -> None:
    world, calls = scalar_world(nodes, **options)
    attempt = world.attempt()
    assert attempt.result is not None
    assert calls.take() == ["filter"] * looked_at
    assert attempt.result.feasible_nodes == attempt.result.evaluated_nodes == looked_at


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"), [(6000, 0, 300), (6000, 40, 2400), (1_000_000, 0, 50_000)]
)
def test_the_number_of_nodes_follows_upstreams_formula(
    nodes: int, percentage: int, expected: int
) -> None:
    world, _ = scalar_world(1, percentage=percentage)
    assert world.algorithm.search._feasible_to_find(nodes) == expected


def test_without_scoring_one_node_is_enough() -> None:
    calls = Calls()
    attempt = three_nodes(plugin("F", filter=calls("filter"))).attempt()
    assert attempt.result is not None
    assert (calls.made, attempt.result.evaluated_nodes) == (["filter"], 1)


def columnar(**methods: Any) -> type[Any]:
    return plugin(
        "F",
        filter=answering(None),
        filter_reuse=ReuseRule(Columns.EXISTENCE),
        filter_rows=lambda state, pod, table, rows: np.zeros(len(rows), dtype=np.int32),
        filter_status=answering(unschedulable("no")),
        score_rows=lambda state, pod, table, rows: np.zeros(len(rows), dtype=np.int64),
        score_reuse=ReuseRule(Columns.EXISTENCE),
        **methods,
    )


@pytest.mark.parametrize(
    ("percentage", "looked_at"), [(None, 500), (0, 500), (100, 500), (30, 150), (1, 100)]
)
def test_columnar_profiles_look_at_all_nodes_unless_told_otherwise(
    percentage: int | None, looked_at: int
) -> None:
    world = World(columnar(), percentage=percentage)
    world.nodes(*(f"n{index}" for index in range(500)))
    attempt = world.attempt()
    assert attempt.result is not None
    assert attempt.result.feasible_nodes == looked_at


@pytest.mark.parametrize("reuse", [True, False])
def test_each_cycle_begins_where_the_last_one_ended(reuse: bool) -> None:
    seen: list[str] = []

    def note(state: CycleState, pod: Any, node: Any) -> None:
        seen.append(node.name)

    world = World(
        plugin("F", filter=note), plugin("S", score=lambda *_: 1), percentage=30, reuse=reuse
    )
    names = [f"n{index}" for index in range(500)]
    world.nodes(*names)
    for _ in range(5):
        world.chosen()
    assert [len(seen), seen[150], seen[300], seen[499], seen[500]] == [
        5 * 150,
        "n150",
        "n300",
        "n499",
        "n0",
    ]


def test_nodes_that_were_rejected_move_the_start_too() -> None:
    seen: list[str] = []

    def every_other(state: CycleState, pod: Any, node: Any) -> Status | None:
        seen.append(node.name)
        return unschedulable("odd") if int(node.name[1:]) % 2 else None

    world = World(plugin("F", filter=every_other), plugin("S", score=lambda *_: 1), percentage=20)
    world.nodes(*(f"n{index}" for index in range(600)))
    attempt = world.attempt()
    assert attempt.result is not None
    # 20 % of 600 are found after 239 nodes: the 120 even ones and 119 odd ones between them.
    assert (attempt.result.feasible_nodes, attempt.result.evaluated_nodes) == (120, 239)
    seen.clear()
    world.attempt(world.pod("q"))
    assert seen[0] == "n239"


# -- nominated nodes and nominated pods ----------------------------------------------------------


def counting_filter(rejected: tuple[str, ...] = ()) -> tuple[World, Calls]:
    calls = Calls()

    def check(state: CycleState, pod: Any, node: Any) -> Status | None:
        calls(node.name)()
        return unschedulable("no") if node.name in rejected else None

    return three_nodes(plugin("F", filter=check), plugin("S", score=lambda *_: 0)), calls


def test_a_nominated_node_that_passes_is_the_only_one_looked_at() -> None:
    world, calls = counting_filter()
    attempt = world.attempt(world.pod(nominated="node2"))
    assert attempt.result is not None
    assert (attempt.node_name, calls.made) == ("node2", ["node2"])
    assert (attempt.result.evaluated_nodes, attempt.result.feasible_nodes) == (1, 1)


def test_a_nominated_node_that_fails_costs_one_more_call() -> None:
    world, calls = counting_filter(rejected=("node2",))
    assert world.chosen(world.pod(nominated="node2")) in ("node1", "node3")
    assert calls.made == ["node2", "node1", "node2", "node3"]


def test_an_unknown_nominated_node_is_ignored() -> None:
    world, calls = counting_filter()
    world.chosen(world.pod(nominated="gone"))
    assert calls.made == ["node1", "node2", "node3"]


def test_a_failing_plugin_on_the_nominated_node_is_not_the_end() -> None:
    calls = Calls()

    def once(state: CycleState, pod: Any, node: Any) -> None:
        calls(node.name)()
        if len(calls.made) == 1:
            raise ValueError

    world = three_nodes(plugin("F", filter=once), plugin("S", score=lambda *_: 0))
    world.chosen(world.pod(nominated="node3"))
    assert calls.made == ["node3", "node1", "node2", "node3"]


def test_the_narrowing_of_pre_filter_does_not_bind_the_nominated_node() -> None:
    world = three_nodes(plugin("A", pre_filter=narrowing("node1"), filter=answering(None)))
    assert world.chosen(world.pod(nominated="node3")) == "node3"


@pytest.mark.parametrize(
    ("priority", "times"), [(5, 1), (10, 2), (11, 2)], ids=["lower", "equal", "higher"]
)
def test_filters_run_twice_where_a_pod_of_equal_or_higher_priority_is_nominated(
    priority: int, times: int
) -> None:
    world, calls = counting_filter()
    other = world.pod("other", priority=priority)
    world.nominations.add_nominated_pod(other, NominatingInfo("node2"))
    world.chosen(world.pod(priority=10))
    assert sorted(calls.made) == sorted(["node1", "node2", "node3"] + ["node2"] * (times - 1))


def test_a_pod_does_not_count_against_itself() -> None:
    world, calls = counting_filter()
    pod = world.pod()
    world.nominations.add_nominated_pod(pod, NominatingInfo("node2"))
    world.chosen(pod)
    assert sorted(calls.made) == ["node1", "node2", "node3"]


def crowded(node: Any) -> Status | None:
    return unschedulable("occupied") if node.pod_count else None


def space_plugin(columnar_form: bool, **methods: Any) -> type[Any]:
    forms: dict[str, Any] = {"filter": lambda state, pod, node: crowded(node)}
    if columnar_form:
        forms |= {
            "filter_reuse": ReuseRule(Columns.USAGE),
            "filter_rows": lambda state, pod, table, rows: np.minimum(
                table.pod_count[rows], 1
            ).astype(np.int32),
            "filter_status": answering(unschedulable("occupied")),
        }
    return plugin("Space", **forms, **methods)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("columnar_form", [True, False])
def test_a_nominated_pod_takes_its_place(columnar_form: bool, reuse: bool) -> None:
    world = World(space_plugin(columnar_form), reuse=reuse)
    world.nodes("node1", "node2")
    other = world.pod("other")
    world.nominations.add_nominated_pod(other, NominatingInfo("node1"))
    assert world.chosen() == "node2"
    world.nominations.add_nominated_pod(world.pod("third"), NominatingInfo("node2"))
    assert world.failure_message() == "0/2 nodes are available: 2 occupied."
    world.nominations.delete_nominated_pod_if_exists(other)
    assert world.chosen() == "node1"


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("narrowed", [True, False])
def test_the_reason_on_a_full_node_counts_the_nominated_pods(reuse: bool, narrowed: bool) -> None:
    """Upstream's first pass has the nominated pods on the node, and its status is the one kept."""

    def count(state: CycleState, pod: Any, node: Any) -> Status | None:
        return unschedulable(f"{node.pod_count} pods") if node.pod_count else None

    chooser = {"pre_filter": narrowing("node1")} if narrowed else {}
    world = World(
        plugin(
            "Count",
            filter=count,
            filter_reuse=ReuseRule(Columns.USAGE),
            filter_rows=lambda state, pod, table, rows: table.pod_count[rows].astype(np.int32),
            filter_status=lambda state, pod, code: unschedulable(f"{code} pods"),
            **chooser,
        ),
        reuse=reuse,
    )
    world.nodes("node1")
    world.cache.add_pod(world.pod("placed", nodeName="node1"))
    world.nominations.add_nominated_pod(world.pod("other"), NominatingInfo("node1"))
    assert world.failure_message() == "0/1 nodes are available: 1 2 pods."


def test_plugins_follow_nominated_pods_with_a_state_of_their_own() -> None:
    class Tally:
        def __init__(self, pods: int) -> None:
            self.pods = pods

        def clone(self) -> Tally:
            return Tally(self.pods)

    def add_pod(state: CycleState, pod: Any, added: Any, node: Any) -> None:
        state.read("Tally").pods += 1

    seen: list[tuple[str, int]] = []

    def check(state: CycleState, pod: Any, node: Any) -> None:
        seen.append((node.name, state.read("Tally").pods))

    world = three_nodes(
        plugin(
            "Tally",
            pre_filter=lambda state, pod, table: state.write("Tally", Tally(0)),
            add_pod=add_pod,
            filter=check,
            score=lambda *_: 0,
        )
    )
    for name in ("other", "third"):
        world.nominations.add_nominated_pod(world.pod(name), NominatingInfo("node1"))
    world.chosen()
    assert sorted(seen) == [("node1", 0), ("node1", 2), ("node2", 0), ("node3", 0)]


@pytest.mark.parametrize(
    "answer", [raising("broken"), answering(error("broken")), answering(unschedulable("broken"))]
)
def test_a_failing_add_pod_is_an_error_for_higher_priorities_only(
    answer: Callable[..., Any],
) -> None:
    world = three_nodes(
        plugin("A", pre_filter=answering(None), add_pod=answer, filter=answering(None))
    )
    world.nominations.add_nominated_pod(world.pod("low", priority=1), NominatingInfo("node1"))
    world.chosen(world.pod(priority=5))
    world.nominations.add_nominated_pod(world.pod("high", priority=9), NominatingInfo("node1"))
    attempt = world.attempt(world.pod(priority=5))
    assert attempt.failure is not None
    assert attempt.failure.message == 'running AddPod on PreFilter plugin "A": broken'
    assert attempt.failure.reason == "SchedulerError"


def test_a_plugin_that_skipped_is_not_told_about_nominated_pods() -> None:
    calls = Calls()
    world = three_nodes(
        plugin("A", pre_filter=answering(SKIP), add_pod=calls("add"), filter=calls("filter"))
    )
    world.nominations.add_nominated_pod(world.pod("other"), NominatingInfo("node1"))
    world.chosen()
    assert calls.made == []
