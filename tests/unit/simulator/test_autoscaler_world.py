"""The autoscaler's simulation agrees with the scheduler's own plugins, world by world.

Resources are left to table tests (`test_autoscaler`): a pod without requests fits anywhere.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import NodeAffinity, NodeUnschedulable, PodTopologySpread, TaintToleration
from plugins.node_affinity import NodeAffinityArgs
from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from scheduler.api import Pod
from simulator.controllers.autoscaler_world import AutoscalerWorld, Candidate, SimNode, estimate
from tests.unit.api.objects import pod as api_pod
from tests.unit.plugins.clusters import Cluster, node, rejected

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMES = ("n1", "n2", "n3", "n4", "n5")

labels = st.fixed_dictionaries(
    {}, optional={ZONE: st.sampled_from("abc"), "disk": st.sampled_from(("ssd", "hdd"))}
)
selectors = st.sampled_from(
    (
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"app": "b"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {},
        None,
    )
)
constraints = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": st.sampled_from((ZONE, HOST)),
            "maxSkew": st.integers(1, 2),
            "whenUnsatisfiable": st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": selectors,
        },
        optional={
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": st.sampled_from(("Honor", "Ignore")),
            "nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore")),
            "matchLabelKeys": st.just(["rev"]),
        },
    ),
    max_size=2,
    unique_by=lambda each: (each["topologyKey"], each["whenUnsatisfiable"]),
)
taints = st.lists(st.sampled_from(({"key": "k", "effect": "NoSchedule"},)), max_size=1)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod of some app, revision and namespace, perhaps going away."""
    meta: dict[str, Any] = {
        "labels": {"app": draw(st.sampled_from("ab")), "rev": draw(st.sampled_from("12"))},
        "namespace": draw(st.sampled_from(("default", "default", "other"))),
    }
    if draw(st.integers(0, 5)) == 0:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return api_pod({}, metadata=meta)


@st.composite
def asking(draw: st.DrawFn) -> Pod:
    """The pod that looks for a place."""
    spec: dict[str, Any] = {"topologySpreadConstraints": draw(constraints)}
    if draw(st.booleans()):
        spec["nodeSelector"] = {"disk": "ssd"}
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    app = {"app": draw(st.sampled_from("ab")), "rev": "1"}
    return api_pod(spec, metadata={"labels": app})


@settings(max_examples=60)
@given(st.data())
def test_it_agrees_with_the_plugins(data: st.DataObject) -> None:
    made = [
        node(
            name,
            labels={**data.draw(labels), HOST: name},
            taints=data.draw(taints),
            unschedulable=data.draw(st.booleans()),
        )
        for name in data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    ]
    cluster = Cluster(made)
    world = AutoscalerWorld(SimNode.of(each) for each in made)
    for _ in range(data.draw(st.integers(0, 6))):
        placed, where = data.draw(pods()), data.draw(st.sampled_from(made)).name
        world.occupy(where, placed)
        cluster.place(placed, where)
    pod = data.draw(asking())
    candidate = Candidate(pod)
    ours = {name for name, each in world.nodes.items() if world.reason_against(candidate, each)}
    cluster.intern(pod)
    handle = cluster.handle()
    filters: list[Any] = [NodeUnschedulable(None, handle), TaintToleration(None, handle)]
    # These two skip pods without their constraints, and must not be called then.
    if pod.spec.node_selector:
        filters.append(NodeAffinity(NodeAffinityArgs(), handle))
    if candidate.spreads:
        filters.append(PodTopologySpread(PodTopologySpreadArgs(), handle))
    theirs = {name for plugin in filters for name in rejected(plugin, cluster, pod)}
    assert ours == theirs


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(0, 4))
def test_an_estimate_fits_what_it_promises(sizes: list[int], most: int) -> None:
    template = SimNode.of(node("new", labels={HOST: "new"}))
    waiting = []
    for number, size in enumerate(sizes):
        container = {"name": "c", "resources": {"requests": {"cpu": str(size)}}}
        meta = {"name": f"p{number}", "uid": f"u{number}"}
        waiting.append(Candidate(api_pod({"containers": [container]}, metadata=meta)))
    found = estimate(AutoscalerWorld([]), waiting, template, most)
    assert found.nodes <= most
    promised = [candidate.amounts["cpu"] for candidate in found.pods]
    assert sum(promised) <= found.nodes * 4000
    assert all(amount <= 4000 for amount in promised)
    too_large = Counter(size > 4 for size in sizes)[True]
    assert len(found.rejected) == (too_large if most else 0) or found.nodes == most
