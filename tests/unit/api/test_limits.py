"""Limits of what one pod may state: beyond them it is rejected and never compiled."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import PodSignatures, limits, pod_affinity, selectors
from scheduler.api.pod_affinity import compile_pod_affinity
from scheduler.api.tolerations import TolerationIndex, tolerates
from tests.unit.api.objects import node, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(index: int, **more: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"k{index}": "v"}}, **more}


def affinity(*terms: dict[str, Any]) -> Any:
    return pod(spec={"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}).spec.affinity


def test_as_many_pod_terms_as_the_limit_are_read() -> None:
    made = compile_pod_affinity(affinity(*map(term, range(limits.MAX_POD_TERMS))), "default")

    assert len(made.required_anti) == limits.MAX_POD_TERMS
    assert not made.errors


@pytest.mark.parametrize(
    "terms",
    [
        [term(index) for index in range(limits.MAX_POD_TERMS + 1)],
        [{"topologyKey": "zone"}] * 80_000,
        [term(0, namespaces=[f"n{index}" for index in range(limits.MAX_VALUES + 1)])],
        [
            {
                "topologyKey": "zone",
                "namespaceSelector": {"matchLabels": {f"k{index}": "v" for index in range(3000)}},
            }
        ],
        [
            {
                "topologyKey": "zone",
                "labelSelector": {
                    "matchExpressions": [
                        {"key": "k", "operator": "NotIn", "values": list(map(str, range(30_000)))}
                    ]
                },
            }
        ],
    ],
    ids=["terms", "terms without selectors", "namespaces", "requirements", "values"],
)
def test_pod_terms_beyond_the_limit_are_rejected_unread(
    terms: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = affinity(*terms)
    monkeypatch.setattr(pod_affinity, "compile_label_selector", None)

    made = compile_pod_affinity(given, "default")

    assert not made.required_anti
    assert "kubestow reads at most" in made.parsing_problem


def node_terms(number: int) -> list[dict[str, Any]]:
    return [
        {"matchExpressions": [{"key": f"k{index}", "operator": "Exists"}]}
        for index in range(number)
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {f"k{index}": "v" for index in range(limits.MAX_NODE_CONDITIONS + 1)}},
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": node_terms(limits.MAX_NODE_CONDITIONS + 1)}
                }
            }
        },
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}] * 400_000}}}},
    ],
    ids=["map", "terms", "empty terms"],
)
def test_node_requirements_beyond_the_limit_are_rejected_unread(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = pod(spec=spec)
    PodSignatures().intern(given)
    monkeypatch.setattr(selectors.Requirement, "__init__", None)

    required = given.signature.required_node_affinity

    assert required is not None
    assert "kubestow reads at most" in str(required.errors[0])
    assert not required.matches({}, "n")


def test_node_preferences_beyond_the_limit_are_rejected_unread() -> None:
    terms = [{"weight": 1, "preference": each} for each in node_terms(5001)]
    given = pod(spec={"affinity": {"nodeAffinity": {PREFERRED: terms}}})
    PodSignatures().intern(given)

    preferred = given.signature.preferred_node_affinity

    assert preferred is not None
    assert "kubestow reads at most" in str(preferred.error)


def test_the_index_of_tolerations_agrees_with_a_walk() -> None:
    made = [
        {"key": key, "operator": operator, "value": value, "effect": effect}
        for key in ("", "a")
        for operator in ("", "Equal", "Exists", "Lt")
        for value in ("", "1")
        for effect in ("", "NoSchedule", "NoExecute")
    ]
    every = pod(spec={"tolerations": made}).spec.tolerations
    taints = [
        {"key": key, "value": value, "effect": effect}
        for key in ("a", "b")
        for value in ("", "1", "2")
        for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
    ]
    for taint in node(spec={"taints": taints}).spec.taints:
        for each in every:
            assert TolerationIndex((each,)).covers(taint) == tolerates(each, taint)
        assert TolerationIndex(every).covers(taint)
