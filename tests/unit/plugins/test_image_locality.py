"""ImageLocality: upstream's `image_locality.go`. Images are named after their size in MiB."""

from __future__ import annotations

from typing import Any

import pytest

from plugins import ImageLocality
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import MEBIBYTE, Cluster, node, pod, raw_scores


def cluster_with(*sizes: set[int]) -> Cluster:
    return Cluster(
        node(
            f"n{index}",
            images=[
                {"names": [f"registry:5000/{size}:latest"], "sizeBytes": size * MEBIBYTE}
                for size in sorted(images)
            ],
        )
        for index, images in enumerate(sizes)
    )


def image(size: int) -> str:
    return f"registry:5000/{size}"


def running(*sizes: int, init: tuple[int, ...] = (), volumes: tuple[int, ...] = ()) -> Any:
    return pod(
        {
            "containers": [container(f"c{size}", image=image(size)) for size in sizes],
            "initContainers": [container(f"i{size}", image=image(size)) for size in init],
            "volumes": [{"name": f"v{s}", "image": {"reference": image(s)}} for s in volumes],
        }
    )


@pytest.mark.parametrize(
    ("subject", "nodes", "expected"),
    [
        pytest.param(running(40, 250), [{40, 300, 2000}, {250, 10}], [0, 5], id="below 23 MB is 0"),
        pytest.param(running(40, 300), [{40, 300, 2000}, {250, 10}], [7, 0], id="both on one node"),
        pytest.param(running(10, 4000), [{4000, 30}, {250, 10}], [100, 0], id="capped"),
        pytest.param(
            running(10, 4000), [{4000, 30}, {250, 10}, set()], [66, 0, 0], id="a third node dilutes"
        ),
        pytest.param(
            running(300, 600, 900),
            [{600, 40, 900}, {300, 600, 900}, set()],
            [32, 36, 0],
            id="three containers",
        ),
        pytest.param(running(30, 40), [{20, 30, 40}, {4000, 30}], [1, 0], id="small images"),
        pytest.param(
            running(30, volumes=(300,)),
            [{300, 600, 900}, {4000, 30}],
            [6, 0],
            id="an image volume counts like a container",
        ),
        pytest.param(
            running(1200, volumes=(1600,)),
            [{1200}, {1200, 1600}],
            [59, 100],
            id="a volume raises the cap, so that its image makes a difference",
        ),
        pytest.param(
            running(1200, init=(10,), volumes=(11, 1600)),
            [{1200, 10}, {1200, 10, 1600}],
            [29, 49],
            id="volumes, init containers and containers",
        ),
        pytest.param(
            running(300, init=(30,)), [{40, 300, 2000}, {20, 30, 40}], [6, 0], id="init container"
        ),
        pytest.param(running(7), [{40}, {300}], [0, 0], id="image nowhere"),
        pytest.param(
            pod({"containers": []}), [{40}, {300}], [0, 0], id="no containers, nothing to divide by"
        ),
    ],
)
def test_score(subject: Any, nodes: list[set[int]], expected: list[int]) -> None:
    cluster = cluster_with(*nodes)

    assert raw_scores(ImageLocality(None, cluster.handle()), cluster, subject) == expected


def test_a_reference_counts_as_often_as_it_is_used() -> None:
    cluster = cluster_with({300}, set())
    twice = pod(
        {"containers": [container("a", image=image(300)), container("b", image=image(300))]}
    )
    plugin = ImageLocality(None, cluster.handle())

    assert raw_scores(plugin, cluster, twice) == [(300 - 23) * 100 // (2000 - 23), 0]
