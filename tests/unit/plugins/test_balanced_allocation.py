"""NodeResourcesBalancedAllocation: upstream's scores. CPU in millicores, memory in bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import NodeResourcesBalancedAllocation
from plugins.node_resources.arguments import NodeResourcesBalancedAllocationArgs
from scheduler.api import Pod
from scheduler.framework import SKIP, CycleState
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import Cluster, node, pod, raw_scores

GPU = "nvidia.com/gpu"
Usage = tuple[int, ...]
WITH_GPU = msgspec.convert(
    {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": GPU}]},
    NodeResourcesBalancedAllocationArgs,
)


def requests(usage: Usage) -> dict[str, Any]:
    """(CPU, memory) or (CPU, memory, GPUs)."""
    stated = {"cpu": f"{usage[0]}m", "memory": usage[1]}
    return {**stated, GPU: usage[2]} if len(usage) > 2 else stated


def requesting(usage: Usage) -> Pod:
    return pod({"containers": [container(requests=requests(usage))]})


@pytest.mark.parametrize(
    ("args", "wanted", "nodes", "expected"),
    [
        pytest.param(
            None,
            (3000, 5000),
            [((4000, 10000), None), ((6000, 10000), None)],
            [68, 75],
            id="empty nodes",
        ),
        pytest.param(
            None,
            (3000, 5000),
            [((10000, 20000), (3000, 0)), ((10000, 20000), (3000, 5000))],
            [73, 74],
            id="used nodes",
        ),
        pytest.param(
            None,
            (3000, 5000),
            [((10000, 20000), (3000, 0)), ((10000, 50000), (3000, 5000))],
            [73, 70],
            id="unequal nodes",
        ),
        pytest.param(
            None,
            (0, 5000),
            [((3000, 5000), (3000, 0)), ((3000, 5000), None)],
            [100, 50],
            id="the two extremes",
        ),
        pytest.param(
            None,
            (3000, 0),
            [((6000, 10000), (3000, 0)), ((6000, 10000), (3000, 5000))],
            [62, 62],
            id="one resource wanted",
        ),
        pytest.param(
            WITH_GPU,
            (0, 0, 1),
            [((3500, 40000, 8), (3000, 5000, 3)), ((3500, 40000, 8), (3000, 5000))],
            [75, 76],
            id="three resources",
        ),
        pytest.param(
            WITH_GPU,
            (3000, 5000),
            [((3500, 40000, 8), None), ((3500, 40000), None)],
            [56, 56],
            id="a resource not wanted is left out",
        ),
        pytest.param(
            None,
            (3000, 5000),
            [((0, 10000), None), ((6000, 0), (3000, 0)), ((0, 0), None), ((4000, 10000), None)],
            [75, 75, 75, 68],
            id="quirk: a single resource is always even",
        ),
        pytest.param(
            None, (9000, 90000), [((1000, 1000), (5000, 0))], [100], id="shares are capped at 1"
        ),
    ],
)
def test_score(
    args: NodeResourcesBalancedAllocationArgs | None,
    wanted: Usage,
    nodes: list[tuple[Usage, Usage | None]],
    expected: list[int],
) -> None:
    cluster = Cluster(
        (node(f"n{i}", allocatable=requests(size)) for i, (size, _) in enumerate(nodes)),
        {f"n{i}": [requesting(used)] for i, (_, used) in enumerate(nodes) if used is not None},
    )
    plugin = NodeResourcesBalancedAllocation(args, cluster.handle())

    assert raw_scores(plugin, cluster, requesting(wanted)) == expected


@pytest.mark.parametrize(
    "wanted", [pod(), requesting((0, 0)), pod({"containers": [container(requests={GPU: 1})]})]
)
def test_a_pod_that_requests_none_of_the_resources_is_skipped(wanted: Pod) -> None:
    cluster = Cluster([node()])
    plugin = NodeResourcesBalancedAllocation(None, cluster.handle())
    state, table = CycleState(), cluster.table

    assert plugin.pre_score(state, wanted, table, table.rows) is SKIP
    assert plugin.score(state, wanted, table.node_info(0)) == 0
    assert plugin.score_rows(state, wanted, table, table.rows).tolist() == [0]


def test_pod_level_requests_count() -> None:
    stated = pod({"resources": {"requests": requests((3000, 5000))}})
    cluster = Cluster([node("n", allocatable=requests((4000, 10000)))])
    plugin = NodeResourcesBalancedAllocation(None, cluster.handle())

    assert raw_scores(plugin, cluster, stated) == [68]
