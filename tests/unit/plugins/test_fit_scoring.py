"""Scores of NodeResourcesFit (`resource_allocation.go`). CPU in millicores, memory in bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import NodeResourcesFit
from plugins.node_resources.arguments import NodeResourcesFitArgs
from scheduler.api import Pod
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import Cluster, node, pod, raw_scores

EXT, FOO, BAR = "example.com/ext", "example.com/foo", "example.com/bar"
Usage = tuple[int, int] | dict[str, Any]


def requests(usage: Usage) -> dict[str, Any]:
    # An explicit zero stays zero: only what is not stated gets a default.
    return usage if isinstance(usage, dict) else {"cpu": f"{usage[0]}m", "memory": usage[1]}


def requesting(usage: Usage | None, **spec: Any) -> Pod:
    containers = [] if usage is None else [container(requests=requests(usage))]
    return pod({"containers": containers, **spec})


def scored(
    args: NodeResourcesFitArgs | None, wanted: Pod, *nodes: tuple[Usage, Usage | None]
) -> list[int]:
    """Scores of nodes given as (allocatable, what one pod there uses or None)."""
    cluster = Cluster(
        (
            node(f"n{index}", allocatable={**requests(size), "pods": 10})
            for index, (size, _) in enumerate(nodes)
        ),
        {
            f"n{index}": [requesting(used)]
            for index, (_, used) in enumerate(nodes)
            if used is not None
        },
    )
    return raw_scores(NodeResourcesFit(args, cluster.handle()), cluster, wanted)


def strategy(kind: str, *shape: tuple[int, int], **weights: int) -> NodeResourcesFitArgs:
    names = {"ext": EXT, "foo": FOO, "bar": BAR}
    raw: dict[str, Any] = {
        "type": kind,
        "resources": [
            {"name": names.get(name, name), "weight": weight} for name, weight in weights.items()
        ],
    }
    if shape:
        points = [{"utilization": utilization, "score": score} for utilization, score in shape]
        raw["requestedToCapacityRatio"] = {"shape": points}
    return msgspec.convert({"scoringStrategy": raw}, NodeResourcesFitArgs)


def least(**weights: int) -> NodeResourcesFitArgs:
    return strategy("LeastAllocated", **weights)


def most(**weights: int) -> NodeResourcesFitArgs:
    return strategy("MostAllocated", **weights)


def ratio(*shape: tuple[int, int], **weights: int) -> NodeResourcesFitArgs:
    return strategy("RequestedToCapacityRatio", *shape, **weights)


FALLING, RISING = ((0, 10), (100, 0)), ((0, 0), (100, 10))
SMALL, LARGE = (4000, 10000), (6000, 10000)


@pytest.mark.parametrize(
    ("args", "wanted", "nodes", "expected"),
    [
        pytest.param(None, None, [(SMALL, None), (LARGE, None)], [100, 100], id="no containers"),
        pytest.param(None, None, [((0, 0), None), ((0, 0), None)], [0, 0], id="no capacity"),
        pytest.param(None, (3000, 5000), [(SMALL, None), (LARGE, None)], [37, 50], id="empty"),
        pytest.param(
            least(memory=2, cpu=1),
            (3000, 5000),
            [(SMALL, None), (LARGE, None)],
            [41, 50],
            id="weights",
        ),
        pytest.param(
            None,
            None,
            [((10000, 20000), (6000, 0)), ((10000, 20000), (6000, 5000))],
            [70, 57],
            id="used nodes, nothing wanted",
        ),
        pytest.param(
            None,
            (3000, 5000),
            [((10000, 20000), (3000, 0)), ((10000, 20000), (3000, 5000))],
            [57, 45],
            id="used nodes",
        ),
        pytest.param(
            None,
            (3000, 5000),
            [((10000, 20000), (3000, 0)), ((10000, 50000), (3000, 5000))],
            [57, 60],
            id="unequal nodes",
        ),
        pytest.param(
            None,
            (3000, 0),
            [(SMALL, (3000, 0)), (SMALL, (3000, 5000))],
            [50, 25],
            id="over-committed",
        ),
        pytest.param(
            least(cpu=1, memory=1, ext=1),
            {"cpu": "3", "memory": 5000, EXT: 2},
            [
                ({"cpu": "6", "memory": 10000, EXT: 4}, None),
                ({"cpu": "6", "memory": 10000, EXT: 10}, None),
            ],
            [50, 60],
            id="extended resource wanted",
        ),
        pytest.param(
            least(cpu=1, memory=1, ext=2),
            (3000, 5000),
            [({"cpu": "6", "memory": 10000, EXT: 4}, None), (LARGE, None)],
            [50, 50],
            id="extended resource not wanted is left out, weight included",
        ),
        pytest.param(most(), (3000, 5000), [(SMALL, None), (LARGE, None)], [62, 50], id="most"),
        pytest.param(
            most(memory=2, cpu=1),
            (3000, 5000),
            [(SMALL, None), (LARGE, None)],
            [58, 50],
            id="weighted",
        ),
        pytest.param(
            most(),
            None,
            [((10000, 20000), (6000, 0)), ((10000, 20000), (6000, 5000))],
            [30, 42],
            id="most, used",
        ),
        pytest.param(
            most(),
            (5000, 9000),
            [((5000, 10000), None), ((10000, 9000), None)],
            [95, 75],
            id="most, full",
        ),
        pytest.param(
            most(ext=1),
            {EXT: 2},
            [({EXT: 4}, None), ({EXT: 10}, None)],
            [50, 20],
            id="most, extended only",
        ),
        pytest.param(
            ratio(*FALLING),
            (3000, 5000),
            [(SMALL, None), (LARGE, None)],
            [38, 50],
            id="ratio rounds",
        ),
        pytest.param(
            ratio(*FALLING),
            (3000, 5000),
            [(SMALL, (2000, 4000)), (LARGE, (1000, 2000))],
            [10, 32],
            id="quirk: a resource that scores 0 is dropped",
        ),
        pytest.param(
            ratio(*RISING),
            (3000, 5000),
            [(SMALL, (2000, 4000)), (LARGE, (1000, 2000))],
            [95, 68],
            id="rising shape",
        ),
        pytest.param(
            ratio((0, 0), (100, 1), ext=1),
            {EXT: 2},
            [({EXT: 8}, None), ({EXT: 4}, None)],
            [2, 5],
            id="scores of a shape are scaled",
        ),
        pytest.param(
            ratio((0, 0), (100, 1), ext=1),
            {EXT: 2},
            [({EXT: 8}, None), ({EXT: 4}, {EXT: 2})],
            [2, 10],
            id="extended usage counts",
        ),
        pytest.param(
            ratio((0, 0), (100, 1), ext=1),
            {},
            [({EXT: 8}, None), ({EXT: 4}, None)],
            [0, 0],
            id="none",
        ),
        pytest.param(
            ratio((0, 0), (100, 1), foo=3, bar=5),
            {FOO: 2, BAR: 2},
            [({FOO: 8, BAR: 4}, None), ({FOO: 4, BAR: 8}, None)],
            [4, 3],
            id="weights of two extended resources",
        ),
        pytest.param(
            ratio((0, 0), (100, 1), foo=3, bar=5),
            {FOO: 2, BAR: 2},
            [({FOO: 8, BAR: 4}, None), ({FOO: 4, BAR: 8}, {FOO: 4, BAR: 2})],
            [4, 7],
            id="over capacity counts as full",
        ),
        pytest.param(
            least(**{"ephemeral-storage": 1}),
            {"ephemeral-storage": 0},
            [({"ephemeral-storage": 100}, {"ephemeral-storage": 30}), (SMALL, None)],
            [70, 0],
            id="ephemeral storage counts though not wanted, and not where there is none",
        ),
        pytest.param(
            None,
            (0, 0),
            [
                ({"cpu": "4", "memory": "8Ei"}, None),
                ({"cpu": "4", "memory": "9Ei"}, (4000, 1 << 62)),
            ],
            # The pod counts for 2^53 bytes at most, the node for 2^63.
            [100, 43],
            id="amounts beyond reason stay within range",
        ),
    ],
)
def test_score(
    args: NodeResourcesFitArgs | None,
    wanted: Usage | None,
    nodes: list[tuple[Usage, Usage | None]],
    expected: list[int],
) -> None:
    assert scored(args, requesting(wanted), *nodes) == expected


def test_missing_requests_count_with_defaults() -> None:
    silent, size = {"containers": [container()]}, {"cpu": "250m", "memory": "1000Mi", "pods": 9}
    cluster = Cluster(
        [node("n0", allocatable=size), node("n1", allocatable=size)],
        {"n0": [pod(silent), pod(silent)]},
    )
    plugin = NodeResourcesFit(most(), cluster.handle())

    assert raw_scores(plugin, cluster, pod(silent)) == [(100 + 60) // 2, (40 + 20) // 2]


def test_pod_level_requests_of_the_incoming_pod_are_ignored() -> None:
    stated = pod(
        {
            "containers": [container(requests=requests((1000, 1000)))],
            "resources": {"requests": requests((3000, 9000))},
        }
    )

    assert scored(None, stated, ((4000, 10000), None)) == scored(
        None, requesting((1000, 1000)), ((4000, 10000), None)
    )


def test_resources_that_no_node_has_score_nothing() -> None:
    assert scored(least(ext=1), requesting({FOO: 1}), (SMALL, None), (LARGE, None)) == [0, 0]
