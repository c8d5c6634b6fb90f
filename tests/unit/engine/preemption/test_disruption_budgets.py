"""Very many budgets: found by label, and compiled once, only in namespaces with victims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devtools.hostile.work import WorkCount
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.selectors import Requirement, compile_label_selector
from scheduler.engine.preemption import disruption_budgets
from scheduler.engine.preemption.disruption_budgets import DisruptionBudgets
from scheduler.engine.preemption.outcomes import Outcomes
from scheduler.framework import unschedulable
from tests.unit.api.objects import pod

REFUSED = unschedulable("no")

_labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz"))
_expressions = st.lists(
    st.one_of(
        st.builds(
            lambda key, operator, values: {"key": key, "operator": operator, "values": values},
            st.sampled_from("ab"),
            st.sampled_from(("In", "NotIn")),
            st.lists(st.sampled_from("xyz"), min_size=1, max_size=2),
        ),
        st.builds(
            lambda key, operator: {"key": key, "operator": operator},
            st.sampled_from("ab"),
            st.sampled_from(("Exists", "DoesNotExist")),
        ),
    ),
    max_size=2,
)


def budget(
    name: str,
    selector: Mapping[str, Any] | None,
    *,
    namespace: str = "n",
    allowed: int = 0,
    disrupted: Sequence[str] = (),
) -> PodDisruptionBudget:
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted)},
    }
    return msgspec.convert(body, PodDisruptionBudget)


def expressions(count: int, offset: int) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": f"k{offset + index}", "operator": "DoesNotExist"} for index in range(count)
        ]
    }


def victim(labels: Mapping[str, str], namespace: str = "n") -> Any:
    return pod(metadata={"name": "v", "namespace": namespace, "labels": labels})


def claims_by_budget(
    budgets: DisruptionBudgets, listed: Sequence[PodDisruptionBudget], pods: Sequence[Any]
) -> dict[tuple[str, str], int]:
    _, _, claims = budgets.split(pods)
    found: Counter[tuple[str, str]] = Counter()
    for selection, count in claims.items():
        for place in selection.indices.tolist():
            metadata = listed[place].metadata
            found[metadata.namespace, metadata.name] += count
    return dict(found)


@given(st.lists(_expressions, max_size=4), st.lists(_labels, max_size=4))
def test_a_pod_counts_with_every_budget_that_selects_it(
    selectors: list[list[dict[str, Any]]], labels: list[dict[str, str]]
) -> None:
    listed = [
        budget(f"b{number}", {"matchExpressions": each}) for number, each in enumerate(selectors)
    ]
    pods = [victim(each) for each in labels]

    claims = claims_by_budget(DisruptionBudgets(listed), listed, pods)

    expected: dict[tuple[str, str], int] = {}
    for each in listed:
        selector = compile_label_selector(each.spec.selector)
        number = sum(bool(of) and selector.matches(of) for of in labels)
        if number and not selector.empty:
            expected["n", each.metadata.name] = number
    assert claims == expected


def test_selectors_are_compiled_for_namespaces_with_victims_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = []
    init = Requirement.__init__

    def counted(self: Requirement, *args: Any) -> None:
        compiled.append(args)
        init(self, *args)

    monkeypatch.setattr(Requirement, "__init__", counted)
    listed = [budget(f"b{number}", expressions(50, 50 * number)) for number in range(20)]
    listed += [
        budget(f"o{number}", expressions(50, 50 * number), namespace="other")
        for number in range(20)
    ]

    budgets = DisruptionBudgets(listed)
    budgets.split([victim({"a": "x"}, "third")])
    assert not compiled
    assert len(claims_by_budget(budgets, listed, [victim({"a": "x"})])) == 20
    assert len(compiled) == 20 * 50

    # The status of one changes with every eviction.
    listed[3] = budget("b3", expressions(50, 150), allowed=1)
    again = budgets.renewed(listed)
    assert again is not budgets
    assert len(claims_by_budget(again, listed, [victim({"a": "x"})])) == 20
    assert len(compiled) == 20 * 50

    listed[3] = budget("b3", {"matchLabels": {"a": "y"}})
    assert len(claims_by_budget(again.renewed(listed), listed, [victim({"a": "x"})])) == 19
    assert len(compiled) == 20 * 50 + 1


def test_budgets_for_other_labels_are_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [budget(f"b{number}", {"matchLabels": {"a": f"x{number}"}}) for number in range(5_000)]
    budgets = DisruptionBudgets(listed)
    budgets.split([victim({"a": "none"})])
    compiled = []
    accepts = Requirement.accepts

    def counted(self: Requirement, value: str | None) -> bool:
        compiled.append(value)
        return accepts(self, value)

    monkeypatch.setattr(Requirement, "accepts", counted)
    for _ in range(3):
        budgets.split([victim({"a": "x7"}) for _ in range(10)])
    assert len(compiled) == 1


@given(
    st.lists(
        st.tuples(
            _expressions,
            st.integers(-1, 3) | st.sampled_from((-(1 << 62), 1 << 62)),
            st.lists(st.sampled_from(("p0", "p1", "p2")), max_size=2),
        ),
        max_size=4,
    ),
    st.lists(_labels, max_size=5),
    st.integers(0, 2),
)
def test_victims_overdraw_budgets_as_if_charged_one_by_one(
    budgets: list[tuple[list[dict[str, Any]], int, list[str]]],
    labels: list[dict[str, str]],
    many: int,
) -> None:
    listed = [
        budget(f"b{number}", {"matchExpressions": each}, allowed=allowed, disrupted=disrupted)
        for number, (each, allowed, disrupted) in enumerate(budgets)
    ]
    pods = [
        pod(metadata={"name": f"p{number}", "namespace": "n", "labels": each})
        for number, each in enumerate(labels)
    ]

    expected = []
    left = [each.status.disruptions_allowed for each in listed]
    for each in pods:
        overdrawn = False
        for place, of in enumerate(listed):
            selector = compile_label_selector(of.spec.selector)
            selects = each.metadata.labels and selector.matches(each.metadata.labels)
            disrupted = each.metadata.name in of.status.disrupted_pods
            if selects and not selector.empty and not disrupted:
                left[place] -= 1
                overdrawn = overdrawn or left[place] < 0
        if overdrawn:
            expected.append(each)

    # Few are charged in a loop, many in arrays: the answer is the same.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disruption_budgets, "_MANY_BUDGETS", many)
        violating, others, _ = DisruptionBudgets(listed).split(pods)

    assert violating == expected
    assert others == [each for each in pods if each not in expected]


def test_the_cost_of_a_node_does_not_grow_with_unrelated_budgets() -> None:
    work = WorkCount()

    def lines(count: int) -> int:
        listed = [budget(f"b{number}", {"matchLabels": {"a": "x"}}) for number in range(count)]
        budgets = DisruptionBudgets(listed)
        outcomes = Outcomes(100)
        budgets.split([victim({"a": "x"})])
        with work.counting():
            for row in range(100):
                _, _, claims = budgets.split([victim({"a": "x"})] * 3)
                outcomes.note(row, REFUSED, claims)
        return work.lines

    # Listing 40 times the budgets once takes a few lines each; 100 nodes with 3 victims take none.
    few, many = lines(50), lines(2_000)
    assert many - few < 10 * 2_000


def test_only_nodes_with_more_victims_than_a_changed_budget_allows_are_dry_run_again() -> None:
    def listed(allowed: int) -> list[PodDisruptionBudget]:
        return [
            budget("x", {"matchLabels": {"a": "x"}}, allowed=allowed),
            budget("all", {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, allowed=5),
        ]

    before = DisruptionBudgets(listed(2))
    outcomes = Outcomes(4)
    x, y = victim({"a": "x"}), victim({"a": "y"})
    for row, pods in enumerate(([x], [x, x], [y, y], [x, x, y])):
        outcomes.note(row, REFUSED, before.split(pods)[2])

    after = before.renewed(listed(1))
    limits = after.limits_since(before)
    assert limits is not None
    assert sorted(outcomes.claiming_more(limits)) == [1, 3]

    outcomes.forget([1, 3])
    assert outcomes.claiming_more(limits) == []
    assert DisruptionBudgets(listed(1)[:1]).limits_since(after) is None
