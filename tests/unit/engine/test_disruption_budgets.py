"""Budgets of very many selectors: found by label, compiled once, and only where a victim is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.selectors import Requirement, compile_label_selector
from scheduler.engine.disruption_budgets import DisruptionBudgets
from tests.unit.api.objects import pod

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
    name: str, selector: Mapping[str, Any] | None, *, namespace: str = "n", allowed: int = 0
) -> PodDisruptionBudget:
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
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


@given(st.lists(_expressions, max_size=4), st.lists(_labels, max_size=4))
def test_a_pod_counts_with_every_budget_that_selects_it(
    selectors: list[list[dict[str, Any]]], labels: list[dict[str, str]]
) -> None:
    listed = [
        budget(f"b{number}", {"matchExpressions": each}) for number, each in enumerate(selectors)
    ]
    pods = [victim(each) for each in labels]

    _, _, claims = DisruptionBudgets(listed).split(pods)

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
    assert len(budgets.split([victim({"a": "x"})])[2]) == 20
    assert len(compiled) == 20 * 50

    # The status of one changes with every eviction.
    listed[3] = budget("b3", expressions(50, 150), allowed=1)
    again = budgets.renewed(listed)
    assert again is not budgets
    assert len(again.split([victim({"a": "x"})])[2]) == 20
    assert len(compiled) == 20 * 50

    listed[3] = budget("b3", {"matchLabels": {"a": "y"}})
    assert len(again.renewed(listed).split([victim({"a": "x"})])[2]) == 19
    assert len(compiled) == 20 * 50 + 1


def test_budgets_about_other_labels_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [budget(f"b{number}", {"matchLabels": {"a": f"x{number}"}}) for number in range(5_000)]
    budgets = DisruptionBudgets(listed)
    budgets.split([victim({"a": "none"})])
    asked = []
    accepts = Requirement.accepts

    def counted(self: Requirement, value: str | None) -> bool:
        asked.append(value)
        return accepts(self, value)

    monkeypatch.setattr(Requirement, "accepts", counted)
    for _ in range(3):
        budgets.split([victim({"a": "x7"}) for _ in range(10)])
    assert len(asked) == 1
