"""Rows about other pods: affinity, anti-affinity, spreading."""

from __future__ import annotations

from typing import Final

from tests.integration.requeueing.rows import (
    NOT_READY,
    Create,
    Delete,
    Json,
    Row,
    node,
    pod,
    relabelled,
    tainted,
)

AFFINITY: Final = ("InterPodAffinity",)
SPREAD: Final = ("PodTopologySpread",)

P1: Final = frozenset({"p1"})
P2: Final = frozenset({"p2"})
P3: Final = frozenset({"p3"})


def _spread(name: str, label: str, key: str, domains: int, tolerate: str = "") -> Json:
    return pod(name, labels=label, spread=(label, key, domains), tolerate=tolerate)


_FULL_NODE: Final = (
    node(node="n1"),
    pod("p01", on="node1", labels="a"),
    pod("p02", on="node1", labels="b"),
)
_NODE_AND_ZONE: Final = (
    node(node="n1"),
    node("node2", zone="z1"),
    pod("p01", on="node1", labels="a"),
    pod("p02", on="node2", labels="a"),
)
_THREE: Final = (_spread("p3", "a", "node", 3), _spread("p4", "a", "zone", 3))

POD_ROWS: Final[tuple[Row, ...]] = (
    Row(
        number="2",
        plugins=AFFINITY,
        initial=[node(node="n1"), pod("bound", on="node1", labels="a", anti="a@node")],
        pending=[pod("p2", labels="a", anti="a@node")],
        trigger=[Create(node("node2", taint=NOT_READY, node="n2")), tainted("node2", "")],
        requeued=P2,
        mode="B",
    ),
    Row(
        number="24",
        plugins=AFFINITY,
        initial=[node(node="n1"), pod("bound", on="node1", labels="a b")],
        pending=[pod("p2", anti="a@node"), pod("p3", anti="b@node")],
        trigger=[relabelled("Pod", "bound", a=None)],
        requeued=P2,
    ),
    Row(
        number="25",
        plugins=AFFINITY,
        initial=_FULL_NODE,
        pending=[pod("p3", anti="a@node"), pod("p4", anti="b@node")],
        trigger=[Delete("Pod", "p01")],
        requeued=P3,
    ),
    Row(
        number="26",
        plugins=AFFINITY,
        initial=[
            node(node="n1"),
            pod("p01", on="node1", anti="a@node"),
            pod("p02", on="node1", anti="b@node"),
        ],
        pending=[pod("p3", labels="a"), pod("p4", labels="b")],
        trigger=[Delete("Pod", "p01")],
        requeued=P3,
    ),
    Row(
        number="27",
        plugins=AFFINITY,
        initial=[node(node="n1"), pod("bound", on="node1")],
        pending=[pod("p2", affinity="a@node"), pod("p3", affinity="b@node")],
        trigger=[relabelled("Pod", "bound", a="x")],
        requeued=P2,
    ),
    Row(
        number="28",
        plugins=AFFINITY,
        initial=[node(node="n1")],
        pending=[pod("p1", affinity="x@zone"), pod("p2", affinity="y@region")],
        trigger=[Create(node("node2", zone="z1"))],
        requeued=P1,
    ),
    Row(
        number="29",
        plugins=("NodeAffinity", "InterPodAffinity"),
        initial=[
            node(region="1"),
            node("node2", region="2", group="b"),
            pod("bound", on="node1", labels="a"),
        ],
        pending=[
            pod("p2", labels="a", affinity="a@node"),
            pod("p3", labels="a", affinity="a@other"),
            pod("p4", affinity="a@region", group="b"),
        ],
        rejected_by={"p4": frozenset({"NodeAffinity", "InterPodAffinity"})},
        trigger=[relabelled("Node", "node1", node="n1", region="2")],
        requeued=frozenset({"p2", "p4"}),
    ),
    Row(
        number="30",
        plugins=AFFINITY,
        initial=[
            node(node="n1", service="a", other="o"),
            pod("bound", on="node1", labels="a"),
        ],
        pending=[
            pod("p2", anti="a@node"),
            pod("p3", anti="a@service"),
            pod("p4", anti="a@other"),
        ],
        trigger=[relabelled("Node", "node1", node=None, service="b")],
        requeued=frozenset({"p2", "p3"}),
    ),
    Row(
        number="31",
        plugins=AFFINITY,
        initial=[node(zone="z1", node="n1"), pod("bound", on="node1", labels="a")],
        pending=[pod("p2", anti="a@zone"), pod("p3", anti="a@node")],
        trigger=[Create(node("node2", zone="z2"))],
        requeued=frozenset({"p2", "p3"}),
        mode="B",
    ),
    Row(
        number="37",
        plugins=SPREAD,
        initial=_FULL_NODE,
        pending=[_spread("p3", "a", "node", 3), _spread("p4", "b", "node", 3)],
        trigger=[Create(pod("p05", on="node1", labels="a"))],
        requeued=P3,
    ),
    Row(
        number="38",
        plugins=SPREAD,
        initial=_FULL_NODE,
        pending=[_spread("p3", "a", "node", 3), _spread("p4", "b", "node", 3)],
        trigger=[relabelled("Pod", "p01", a=None, c="x")],
        requeued=P3,
    ),
    Row(
        number="39",
        plugins=SPREAD,
        initial=_FULL_NODE,
        pending=[_spread("p3", "a", "node", 2), _spread("p4", "b", "node", 3)],
        trigger=[Delete("Pod", "p01")],
        requeued=P3,
    ),
    Row(
        number="40",
        plugins=SPREAD,
        initial=_NODE_AND_ZONE,
        pending=[_spread("p3", "a", "node", 2), _spread("p4", "a", "zone", 2)],
        trigger=[Create(node("node3", node="n3"))],
        requeued=P3,
    ),
    Row(
        number="41",
        plugins=SPREAD,
        initial=[
            node(node="n1", region="r1", service="a"),
            node("node2", node="n2", region="r1", service="a"),
            *(pod(f"p0{n}", on=f"node{1 + n % 2}", labels="a") for n in range(4)),
        ],
        pending=[
            _spread(name, "a", key, 3)
            for name, key in (
                ("p5", "node"),
                ("p6", "zone"),
                ("p7", "region"),
                ("p8", "other"),
                ("p9", "service"),
            )
        ],
        trigger=[relabelled("Node", "node2", node=None, zone="z1", service="b")],
        requeued=frozenset({"p5", "p6", "p9"}),
    ),
    Row(
        number="42",
        plugins=SPREAD,
        initial=_NODE_AND_ZONE,
        pending=_THREE,
        trigger=[Delete("Node", "node2")],
        requeued=frozenset({"p4"}),
    ),
    Row(
        number="43",
        plugins=SPREAD,
        initial=_NODE_AND_ZONE,
        pending=_THREE,
        trigger=[Delete("Node", "node2")],
        requeued=frozenset({"p3", "p4"}),
        mode="N",
    ),
    Row(
        number="44",
        plugins=SPREAD,
        initial=[*_NODE_AND_ZONE, node("node3", taint="foo", zone="z1")],
        pending=[_spread("p3", "a", "node", 3), _spread("p4", "a", "zone", 3, tolerate="aaa")],
        trigger=[tainted("node3", "aaa")],
        requeued=frozenset({"p4"}),
        mode="B",
    ),
)
