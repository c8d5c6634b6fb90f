"""Every in-tree plugin keeps the contract on random clusters; its reuse rules are complete."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from plugins import NodeAffinity, NodeName, NodeResourcesFit, in_tree
from plugins.node_affinity import NodeAffinityArgs
from plugins.node_resources.arguments import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from scheduler.testing import (
    PluginCase,
    check_plugin_contract,
    check_reuse_contract,
)
from tests.unit.plugins.clusters import Cluster
from tests.unit.plugins.random_clusters import SCALARS, change, clusters, pods

RESOURCES = [
    {"name": name, "weight": weight}
    for weight, name in enumerate(("cpu", "memory", "ephemeral-storage", *SCALARS), 1)
]


def strategy(kind: str, **more: Any) -> NodeResourcesFitArgs:
    raw = {"scoringStrategy": {"type": kind, "resources": RESOURCES, **more}}
    return msgspec.convert(raw, NodeResourcesFitArgs)


SHAPE = [{"utilization": u, "score": s} for u, s in ((0, 2), (40, 10), (100, 0))]
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["b"]}]}
        ]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 5,
            "preference": {
                "matchExpressions": [{"key": "size", "operator": "Gt", "values": ["8"]}]
            },
        }
    ],
}
VARIANTS: list[tuple[type[Any], Any]] = [
    *((plugin, None) for plugin in in_tree()),
    (NodeAffinity, msgspec.convert({"addedAffinity": ADDED}, NodeAffinityArgs)),
    (NodeResourcesFit, NodeResourcesFitArgs(ignored_resources=SCALARS[:1])),
    (NodeResourcesFit, strategy("LeastAllocated")),
    (NodeResourcesFit, strategy("MostAllocated")),
    (
        NodeResourcesFit,
        strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": SHAPE}),
    ),
    (
        next(each for each in in_tree() if each.name == "NodeResourcesBalancedAllocation"),
        msgspec.convert(
            {"resources": [{"name": each["name"]} for each in RESOURCES]},
            NodeResourcesBalancedAllocationArgs,
        ),
    ),
]
QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    # Shrinking takes minutes, and a violation names plugin, node and results anyway.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def build(variant: tuple[type[Any], Any], cluster: Cluster) -> Any:
    plugin, args = variant
    return plugin(args, cluster.handle())


@pytest.mark.slow
@QUICK
@given(cluster=clusters(), subject=st.lists(pods(), min_size=1, max_size=3))
def test_contract(cluster: Cluster, subject: list[Any]) -> None:
    case = PluginCase(cluster.table, [cluster.intern(pod) for pod in subject])

    for variant in VARIANTS:
        check_plugin_contract(build(variant, cluster), case)


@pytest.mark.slow
@QUICK
@given(cluster=clusters(), subject=pods(), data=st.data())
def test_reuse_rules_are_complete(cluster: Cluster, subject: Any, data: st.DataObject) -> None:
    case = PluginCase(cluster.table, [cluster.intern(subject)])

    def changes() -> None:
        for _ in range(3):
            change(data.draw, cluster)

    # Each check runs inside the change of the one before, so that all see the same changes.
    cause = changes
    for variant in VARIANTS:
        cause = partial(check_reuse_contract, build(variant, cluster), case, cause)
    cause()


def test_results_that_no_node_decides_are_not_invalidated_by_usage() -> None:
    assert NodeName.filter_reuse is not None
    assert not NodeName.filter_reuse.columns & ~128
