"""Hypothesis strategies for clusters and pods. Import it only where Hypothesis is installed.

    @given(cluster=clusters(MyPlugin), incoming=pods(MyPlugin))
    def test_what_always_holds(cluster: Cluster, incoming: JsonObject) -> None: ...

The clusters are those of `check_plugin`, with the labels and annotations that the plugin's source
names; Hypothesis shrinks a failing one.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from scheduler.offline.builders import JsonObject, pod
from scheduler.testing.cluster import Cluster
from scheduler.testing.enabling import Arguments
from scheduler.testing.random_clusters import NAMESPACES, PRIORITIES, RandomCluster, words_of


def clusters(
    plugin: Any, args: Arguments | None = None, *, max_nodes: int = 6, max_pods: int = 8
) -> st.SearchStrategy[Cluster]:
    """Return a strategy of clusters with the plugin enabled, nodes, and pods on them."""

    def build(random: Random, nodes: int, running: int) -> Cluster:
        cluster = Cluster()
        cluster.enable(plugin, args)
        found = RandomCluster(cluster.world, random, words_of(plugin, args))
        found.fill(nodes=nodes, running=running, pending=0)
        return cluster

    return st.builds(
        build,
        st.randoms(use_true_random=False),
        st.integers(1, max_nodes),
        st.integers(0, max_pods),
    )


def pods(plugin: Any, args: Arguments | None = None) -> st.SearchStrategy[JsonObject]:
    """Return a strategy of pending pods, as manifests for `Cluster.add_pods`."""
    words = words_of(plugin, args)
    texts = st.dictionaries(st.sampled_from(words.keys), st.sampled_from(words.values))
    return st.builds(
        pod,
        st.just("incoming"),
        namespace=st.sampled_from(NAMESPACES),
        cpu=st.sampled_from(("100m", "500m", 1, 2)),
        labels=texts,
        annotations=texts,
        priority=st.sampled_from(PRIORITIES),
    )
