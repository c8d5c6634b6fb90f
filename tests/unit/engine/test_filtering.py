"""PreFilter and Filter (schedule_one.go: findNodesThatFitPod)."""

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
    PostFilterResult,
    ReuseRule,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import (
    Calls,
    World,
    answering,
    narrowing,
    plugin,
    raising,
    three_nodes,
)

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


def test_disjoint_sets_name_all_plugins_in_order() -> None:
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


def test_nodes_outside_of_the_set_get_the_absent_status() -> None:
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


def test_a_set_of_unknown_nodes_leaves_no_candidate() -> None:
    calls = Calls()
    world = three_nodes(plugin("A", pre_filter=narrowing("gone"), filter=calls("filter")))
    assert world.failure_message() == (
        "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A]."
    )
    assert calls.made == []


def test_a_plugin_that_left_nodes_out_is_responsible_even_if_a_later_pre_filter_rejects() -> None:
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


def test_the_first_plugin_that_rejects_a_node_is_reported_and_the_next_does_not_run() -> None:
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


def test_a_filter_without_reuse_gives_the_reason_of_nodes_that_a_later_filter_rejects() -> None:
    def columnar(name: str, rule: ReuseRule | None, *rejected: int) -> type[Any]:
        return plugin(
            name,
            filter=answering(None),
            filter_reuse=rule,
            filter_rows=lambda state, pod, table, rows: np.isin(rows, rejected).astype(np.int32),
            filter_status=answering(unschedulable(name)),
        )

    world = three_nodes(
        columnar("Early", None, 2), columnar("Kept", ReuseRule(), 1, 2), columnar("Late", None, 0)
    )
    for _ in range(2):
        message = world.failure_message()
        assert message == "0/3 nodes are available: 1 Early, 1 Kept, 1 Late."


def test_rows_that_a_plugin_is_asked_about_cannot_be_changed_by_it() -> None:
    def change(state: Any, pod: Any, table: Any, rows: Any) -> Any:
        rows[:] = 0
        return np.zeros(len(rows), dtype=np.int32)

    for rule in (None, ReuseRule()):
        world = three_nodes(plugin("A", **COLUMNAR | {"filter_rows": change, "filter_reuse": rule}))
        assert world.failure_message() == (
            'running "A" filter plugin: assignment destination is read-only'
        )


def test_an_empty_cluster_is_its_own_failure() -> None:
    calls = Calls()
    attempt = World(plugin("A", pre_filter=calls("A"))).attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == "no nodes available to schedule pods"
    assert attempt.failure.reason == "Unschedulable"
    assert attempt.failure.unschedulable_plugins == frozenset()
    assert calls.made == []


def test_a_plugin_may_name_another_reason_than_unschedulable() -> None:
    """In an empty cluster as well, for autoscalers begin there too."""
    named = plugin(
        "Q",
        reserve=answering(None),
        unschedulable_reason=lambda pod: ("Quota", f"no share is left for {pod.metadata.name}"),
    )
    failure = World(named).attempt().failure
    assert failure is not None
    assert failure.reason == "Quota"
    assert failure.message == "no share is left for p. no nodes available to schedule pods"
    rejects = plugin("A", filter=answering(unschedulable("no")))
    failure = three_nodes(rejects, named).attempt().failure
    assert failure is not None
    assert failure.reason == "Quota"
    assert failure.message == "no share is left for p. 0/3 nodes are available: 3 no."
    failure = three_nodes(plugin("B", filter=answering(QUOTA)), named).attempt().failure
    assert failure is not None
    assert failure.message.startswith("0/3 nodes"), "a rejection's own reason comes first"
    silent = plugin("S", reserve=answering(None), unschedulable_reason=lambda pod: None)
    failure = three_nodes(rejects, silent).attempt().failure
    assert failure is not None
    assert failure.reason == "Unschedulable"


@pytest.mark.parametrize("nodes", [0, 3])
def test_a_plugin_that_fails_to_name_a_reason_fails_the_attempt(nodes: int) -> None:
    def raising(_pod: object) -> None:
        raise ValueError("oh")

    named = plugin("Q", reserve=answering(None), unschedulable_reason=raising)
    rejects = plugin("A", filter=answering(unschedulable("no")))
    world = three_nodes(rejects, named) if nodes else World(rejects, named)
    failure = world.attempt().failure
    assert failure is not None
    assert (failure.reason, failure.rejected) == ("SchedulerError", False)
    assert failure.message == 'running UnschedulableReason plugin "Q": oh'


# -- what a rejection may ask for ----------------------------------------------------------------


def test_the_earliest_requested_retry_counts() -> None:
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
def test_options_of_all_pre_filter_rejections_count(
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


def test_a_condition_reason_of_filter_does_not_count_for_nodes_that_pre_filter_left_out() -> None:
    world = three_nodes(
        plugin("N", pre_filter=narrowing("node1", "node2")), plugin("Q", filter=answering(QUOTA))
    )
    failure = world.attempt().failure
    assert failure is not None
    assert failure.reason == "Unschedulable"
