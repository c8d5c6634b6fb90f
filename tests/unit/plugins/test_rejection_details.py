"""The numbers behind rejections, by plugin; the reasons themselves stay as upstream has them."""

from __future__ import annotations

from typing import Any

import pytest

from plugins import node_affinity
from scheduler.framework import RejectedNodes, unschedulable
from tests.unit.engine.harness import plugin
from tests.unit.explain.examining.explaining import ExplainedWorld, fail, in_tree_world

ZONE = "topology.kubernetes.io/zone"


def details(world: ExplainedWorld, plugin_name: str, **spec: Any) -> list[str]:
    """Return the details of one plugin for a pending pod, those of most nodes first."""
    world.pending("wanted", **spec)
    found = world.examined("wanted")
    assert not found.error
    return [each.detail for each in found.rejections if each.plugin == plugin_name]


def room(cpu: str, **labels: str) -> dict[str, Any]:
    return {
        "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
        "labels": {"kubernetes.io/hostname": "h", **labels},
    }


def test_the_most_free_cpu_is_that_of_a_node_that_passes_everything_else() -> None:
    world = in_tree_world()
    world.node("n1", **room("8"))
    world.node("n7", **room("8"))
    world.node("tainted", **room("5"), spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    world.cache.add_pod(world.pod("a", nodeName="n1", **world.requests(6000)))
    world.cache.add_pod(world.pod("b", nodeName="n7", **world.requests(4500)))
    assert details(world, "NodeResourcesFit", **world.requests(6000)) == [
        "wants 6 cpu, most free on a node that passes everything else: 3.5 (n7)"
    ]


def test_a_pod_larger_than_every_node() -> None:
    world = in_tree_world()
    world.node("n1", **room("8"))
    assert details(world, "NodeResourcesFit", **world.requests(9500)) == [
        "wants 9.5 cpu, the largest node has 8"
    ]


def test_where_other_plugins_reject_every_node_as_well() -> None:
    """NodeResourcesFit comes before PodTopologySpread in the profile."""
    world = in_tree_world()
    world.node("n1", **room("1"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    found = details(
        world, "NodeResourcesFit", **world.requests(2000), topologySpreadConstraints=[constraint]
    )
    assert found == ["wants 2 cpu, the largest node of these has 1"]


def test_no_room_for_more_pods() -> None:
    world = in_tree_world()
    world.node("n1", allocatable={"cpu": "8", "memory": "32Gi", "pods": "1"})
    world.cache.add_pod(world.pod("a", nodeName="n1"))
    assert details(world, "NodeResourcesFit") == ["most room for pods on a node: 1 of 1 (n1)"]


def test_taints_are_counted_by_node() -> None:
    world = in_tree_world()
    gpu = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
    drain = {"key": "drain", "effect": "NoExecute"}
    tolerated = {"key": "ok", "effect": "NoSchedule"}
    world.node("n1", spec={"taints": [gpu]})
    world.node("n2", spec={"taints": [gpu, drain]})
    world.node("n3", spec={"taints": [gpu, tolerated]})
    found = details(world, "TaintToleration", tolerations=[{"key": "ok", "operator": "Exists"}])
    assert found == ["gpu=a100:NoSchedule on 3, drain:NoExecute on 1"]


def test_conditions_on_labels_are_counted_one_by_one() -> None:
    world = in_tree_world()
    for index, zone in enumerate("aab"):
        world.node(f"n{index}", labels={"zone": zone, "disk": "ssd"})
    terms = [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["c", "d"]},
                {"key": "disk", "operator": "In", "values": ["ssd"]},
            ]
        }
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert details(world, "NodeAffinity", affinity={"nodeAffinity": required}) == [
        "zone in (c, d): 0 of 3; disk=ssd: 3 of 3; nodes have zone a (2), b (1)"
    ]


@pytest.mark.parametrize(
    ("wanted", "note"),
    [
        ("zone0", "; nodes have zone-0 (2), zone-1 (1); did you mean zone-0?"),
        ("zone9", "; nodes have zone-0 (2), zone-1 (1)"),
        ("z" * 200, "; nodes have zone-0 (2), zone-1 (1)"),
    ],
)
def test_a_value_that_no_node_has_is_told_with_those_that_there_are(wanted: str, note: str) -> None:
    world = in_tree_world()
    for index, zone in enumerate((0, 0, 1)):
        world.node(f"n{index}", labels={ZONE: f"zone-{zone}"})
    found = details(world, "NodeAffinity", nodeSelector={ZONE: wanted})
    assert found == [f"{ZONE}={wanted}: 0 of 3{note}"[:300]]


def test_a_value_that_some_node_has_is_no_slip() -> None:
    world = in_tree_world()
    world.node("n0", labels={ZONE: "zone-0"}, spec={"unschedulable": True})
    world.node("n1", labels={ZONE: "zone-1"})
    assert details(world, "NodeAffinity", nodeSelector={ZONE: "zone-0"}) == [
        f"{ZONE}=zone-0: 0 of 1"
    ]


@pytest.mark.parametrize(
    ("names", "detail"),
    [
        (["n9"], "node n9 does not exist"),
        (["n9", "n8"], "none of the nodes n8, n9 exists"),
        (["n1", "n9"], "n1, n9"),
    ],
)
def test_the_nodes_that_a_pod_names_are_named(names: list[str], detail: str) -> None:
    world = in_tree_world()
    world.node("n0")
    world.node("n1", spec={"unschedulable": True})
    named = {"key": "metadata.name", "operator": "In", "values": names}
    terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    # Two terms, so that the pod is not taken for that of a DaemonSet.
    terms["nodeSelectorTerms"] *= 2
    assert details(world, "NodeAffinity", affinity={"nodeAffinity": required}) == [detail]


def test_the_node_of_a_pod_of_a_daemon_set_is_named() -> None:
    world = in_tree_world()
    world.node("n0")
    named = {"key": "metadata.name", "operator": "In", "values": ["n9"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    found = details(world, "NodeAffinity", affinity={"nodeAffinity": required})
    assert found == ["node n9 does not exist"]


def test_of_many_values_few_are_named() -> None:
    world = in_tree_world()
    for index in range(60):
        world.node(f"n{index}", labels={"rack": f"{'r' * 20}-{index:02}"})
    (found,) = details(world, "NodeAffinity", nodeSelector={"rack": "x"})
    assert found.endswith("rrr-04 (1) and 55 more")


class Counted(str):
    """A value of a label that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_the_work_is_not_the_product_of_wanted_values_and_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = [(Counted(f"host-{number}"), 1) for number in range(200)]
    monkeypatch.setattr(node_affinity, "values_of_nodes", lambda *_: known)
    world = in_tree_world()
    world.node("n0", labels={"host": "host-0"})
    wanted = {"key": "host", "operator": "In", "values": [f"none-{at}" for at in range(500)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    (found,) = details(world, "NodeAffinity", affinity={"nodeAffinity": required})
    assert "nodes have host-0 (1)" in found
    # Values that differ have equal hashes now and then.
    assert Counted.compared < 2_000


def test_the_domains_of_a_spread_constraint_with_their_skews() -> None:
    world = in_tree_world()
    for zone, pods in (("a", 2), ("b", 0), ("c", 1)):
        world.node(f"n{zone}", **room("8", **{ZONE: zone}))
        for index in range(pods):
            placed = world.pod(f"{zone}{index}", nodeName=f"n{zone}")
            placed.metadata.labels = {"app": "x"}
            world.cache.add_pod(placed)
    world.cache.remove_node("nb")
    world.node("nb", **room("8", **{ZONE: "b"}), spec={"unschedulable": True})
    pod = world.pod(
        "wanted",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ],
    )
    pod.metadata.labels = {"app": "x"}
    world.queue.add(world.exists(pod))
    found = world.examined("wanted")
    (detail,) = [each.detail for each in found.rejections if each.plugin == "PodTopologySpread"]
    assert detail == f"{ZONE}, maxSkew 1, pods that count: b 0 (skew 1), c 1 (skew 2), a 2 (skew 3)"


def affinity(kind: str, app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_affinity_that_no_pod_meets() -> None:
    world = in_tree_world()
    world.node("n1", **room("8", **{ZONE: "a"}))
    assert details(world, "InterPodAffinity", affinity=affinity("podAffinity", "db")) == [
        (
            f"app=db by {ZONE} matches 0 pods; no pod matches them all, nor does the pod itself, "
            "so it starts no group"
        )
    ]


def test_anti_affinity_names_the_pod_in_the_way() -> None:
    world = in_tree_world()
    world.node("n1", **room("8", **{ZONE: "a"}))
    placed = world.pod("db-0", nodeName="n1")
    placed.metadata.labels = {"app": "db"}
    world.cache.add_pod(placed)
    assert details(world, "InterPodAffinity", affinity=affinity("podAntiAffinity", "db")) == [
        f"app=db by {ZONE} matches default/db-0 on n1"
    ]


def test_anti_affinity_of_a_placed_pod_is_named() -> None:
    world = in_tree_world()
    world.node("n1", **room("8", **{ZONE: "a"}))
    other = world.pod("proud", nodeName="n1", affinity=affinity("podAntiAffinity", "web"))
    world.cache.add_pod(other)
    pod = world.pod("wanted")
    pod.metadata.labels = {"app": "web"}
    world.queue.add(world.exists(pod))
    (rejection,) = world.examined("wanted").rejections
    assert rejection.detail == f"anti-affinity of default/proud on n1, by {ZONE}"


def test_a_port_in_use_is_named_with_its_pod() -> None:
    world = in_tree_world()
    world.node("n1", **room("8"))
    port = {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}
    spec: dict[str, Any] = {"containers": [{"name": "c", "ports": [port]}]}
    world.cache.add_pod(world.pod("ingress", nodeName="n1", **spec))
    assert details(world, "NodePorts", **spec) == ["TCP 8080 on 1, on n1 by default/ingress"]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (lambda *_: "7 of 9", "7 of 9"),
        (lambda *_: "", ""),
        (lambda *_: "x" * 500, "x" * 296 + " ..."),
        (fail, "no detail: RuntimeError('broken')"),
    ],
)
def test_a_plugin_of_ones_own_may_add_a_detail(answer: Any, shown: str) -> None:
    world = ExplainedWorld(
        plugin("Mine", filter=lambda *_: unschedulable("full"), explain_rejection=answer)
    )
    world.nodes("n1", "n2")
    world.pending()
    (rejection,) = world.examined().rejections
    assert (rejection.reasons, rejection.nodes, rejection.detail) == (("full",), 2, shown)


def test_a_plugin_learns_which_nodes_pass_everything_else() -> None:
    seen: list[RejectedNodes] = []

    def explain(_state: Any, _pod: Any, _table: Any, rejected: RejectedNodes) -> str:
        seen.append(rejected)
        return f"{len(rejected.otherwise_fit)} of {len(rejected.rows)}"

    world = ExplainedWorld(
        plugin("Mine", filter=lambda *_: unschedulable("full"), explain_rejection=explain),
        plugin(
            "Other",
            filter=lambda _s, _p, node: unschedulable("no") if node.name == "n1" else None,
        ),
    )
    world.nodes("n1", "n2", "n3")
    world.pending()
    (rejection,) = world.examined().rejections
    assert rejection.detail == "2 of 3"
    assert seen[0].status.plugin == "Mine"
