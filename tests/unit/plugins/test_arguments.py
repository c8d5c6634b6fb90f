"""Defaults and validation of the resource plugins' arguments (`validation_pluginargs.go`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import NodeResourcesBalancedAllocation, NodeResourcesFit
from plugins.node_resources.arguments import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from scheduler.framework import ConfigurationError
from tests.unit.plugins.clusters import Cluster


def fit(**raw: Any) -> NodeResourcesFitArgs:
    return msgspec.convert(raw, NodeResourcesFitArgs)


def strategy(**raw: Any) -> NodeResourcesFitArgs:
    return fit(scoringStrategy={"type": "LeastAllocated", **raw})


def ratio(*points: tuple[int, int]) -> NodeResourcesFitArgs:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


@pytest.mark.parametrize("args", [fit(), fit(scoringStrategy=None), NodeResourcesFitArgs()])
def test_the_default_strategy(args: NodeResourcesFitArgs) -> None:
    assert msgspec.json.decode(msgspec.json.encode(args)) == {
        "ignoredResources": [],
        "ignoredResourceGroups": [],
        "scoringStrategy": {
            "type": "LeastAllocated",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
            "requestedToCapacityRatio": None,
        },
    }


def test_weight_zero_is_one_and_no_resources_are_the_default() -> None:
    weighted = strategy(resources=[{"name": "cpu"}, {"name": "a/b", "weight": 5}])
    assert weighted.scoring_strategy is not None
    assert [each.weight for each in weighted.scoring_strategy.resources] == [1, 5]
    bare = strategy(resources=[])
    assert bare.scoring_strategy is not None
    assert [each.name for each in bare.scoring_strategy.resources] == ["cpu", "memory"]


RATIO = "scoringStrategy.requestedToCapacityRatio"


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        pytest.param(fit(), [], id="defaults"),
        pytest.param(
            fit(ignoredResources=["a/b", "/x"], ignoredResourceGroups=["example.com"]),
            [("ignoredResources[1]", 'Invalid value: "/x": must be a name')],
            id="resource name",
        ),
        pytest.param(
            fit(ignoredResourceGroups=["a/b"]),
            [
                (
                    "ignoredResourceGroups[0]",
                    "Invalid value: \"a/b\": resource group name can't contain '/'",
                )
            ],
            id="group with a slash",
        ),
        pytest.param(
            strategy(type=""),
            [("scoringStrategy.type", 'Unsupported value: "": supported values: "LeastAllocated"')],
            id="no type",
        ),
        pytest.param(
            strategy(resources=[{"name": "cpu", "weight": 101}, {"name": "memory", "weight": -1}]),
            [
                (
                    "scoringStrategy.resources[0].weight",
                    "Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
                ),
                (
                    "scoringStrategy.resources[1].weight",
                    "Invalid value: -1: resource weight of memory not in valid range (0, 100]",
                ),
            ],
            id="weights",
        ),
        pytest.param(
            strategy(type="RequestedToCapacityRatio"),
            [(RATIO, "Required value: must be specified when type is RequestedToCapacityRatio")],
            id="ratio missing",
        ),
        pytest.param(
            strategy(requestedToCapacityRatio={"shape": [{"utilization": 0, "score": 1}]}),
            [(RATIO, "Forbidden: must be nil when type is not RequestedToCapacityRatio")],
            id="ratio not wanted",
        ),
        pytest.param(
            ratio(),
            [(f"{RATIO}.shape", "Required value: at least one point must be specified")],
            id="no points",
        ),
        pytest.param(
            ratio((50, 1), (50, 2), (40, 3)),
            [
                (
                    f"{RATIO}.shape[1].utilization",
                    "Invalid value: 50: values must be sorted in increasing order",
                )
            ],
            id="only the first unsorted point is reported",
        ),
        pytest.param(
            ratio((-1, 11), (101, 0)),
            [
                (f"{RATIO}.shape[0].utilization", "Invalid value: -1: not in valid range [0, 100]"),
                (f"{RATIO}.shape[0].score", "Invalid value: 11: not in valid range [0, 10]"),
                (
                    f"{RATIO}.shape[1].utilization",
                    "Invalid value: 101: not in valid range [0, 100]",
                ),
            ],
            id="ranges",
        ),
    ],
)
def test_fit(args: NodeResourcesFitArgs, problems: list[tuple[str, str]]) -> None:
    found = list(NodeResourcesFit.validate_args(args))

    assert [path for path, _ in found] == [path for path, _ in problems]
    for (_, message), (_, start) in zip(found, problems, strict=True):
        assert message.startswith(start)


def test_balanced_allocation() -> None:
    raw = [{"name": "cpu"}, {"name": "memory", "weight": 2}, {"name": "cpu"}]
    args = msgspec.convert({"resources": raw}, NodeResourcesBalancedAllocationArgs)

    assert list(NodeResourcesBalancedAllocation.validate_args(args)) == [
        ("resources[1].weight", "Invalid value: 2: must be 1"),
        ("resources[2].name", 'Duplicate value: "cpu"'),
    ]


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="ignoredResource"):
        fit(ignoredResource=[])


def test_a_plugin_built_with_bad_arguments_names_every_problem() -> None:
    args = fit(ignoredResources=["/"], ignoredResourceGroups=["a/b"])

    with pytest.raises(ConfigurationError) as caught:
        NodeResourcesFit(args, Cluster().handle())

    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "ignoredResources[0]",
        "ignoredResourceGroups[0]",
    ]
