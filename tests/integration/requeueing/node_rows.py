"""Rows about nodes: what they have, are labelled and tainted with, and declare."""

from __future__ import annotations

from typing import Final

from tests.integration.requeueing.rows import (
    GPU,
    NOT_READY,
    OTHER_GPU,
    Create,
    Delete,
    Patch,
    Row,
    allocatable,
    device_class,
    node,
    pod,
    relabelled,
    tainted,
    tolerations,
)

TAINTS: Final = ("TaintToleration",)
AFFINITY: Final = ("NodeAffinity",)
FIT: Final = ("NodeResourcesFit",)
FIT_AND_AFFINITY: Final = ("NodeAffinity", "NodeResourcesFit")
PORTS: Final = ("NodePorts",)
UNSCHEDULABLE: Final = ("NodeUnschedulable",)
FEATURES: Final = ("NodeDeclaredFeatures",)
DEVICES: Final = ("NodeResourcesFit", "DynamicResources")

FEATURE: Final = "UserNamespacesHostNetwork"
"""Needed by a pod with a user namespace of its own on the host's network."""

P1: Final = frozenset({"p1"})
P2: Final = frozenset({"p2"})
P3: Final = frozenset({"p3"})

_GROUPS_B_C: Final = (pod("p1", group="b"), pod("p2", group="c"))
_TWO_NODES: Final = (node("node1", "4"), node("node2", "2", group="b"))
_GPU_LOST: Final = (allocatable(gpu=None, memory="8Gi"),)
_MORE_MEMORY: Final = (allocatable(memory="8Gi"),)
_NEEDS_FEATURE: Final = pod("p1", hostNetwork=True, hostUsers=False)


def _only(*plugins: str) -> frozenset[str]:
    return frozenset(plugins)


NODE_ROWS: Final[tuple[Row, ...]] = (
    Row(
        number="1",
        plugins=("TaintToleration", "NodeResourcesFit"),
        initial=[node(cpu="2", taint=NOT_READY)],
        pending=[pod("p1", cpu="4"), pod("p2", cpu="4", tolerate=NOT_READY)],
        rejected_by={"p1": _only("TaintToleration"), "p2": _only("NodeResourcesFit")},
        trigger=[allocatable(cpu="4")],
        requeued=P2,
    ),
    Row(
        number="3",
        plugins=AFFINITY,
        initial=[node(group="a")],
        pending=_GROUPS_B_C,
        trigger=[relabelled("Node", "node1", group="b")],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="4",
        plugins=FIT_AND_AFFINITY,
        initial=[node(cpu="2", group="a"), node("node2", group="b")],
        pending=[pod("p1", group="a", cpu="4")],
        rejected_by={"p1": frozenset(FIT_AND_AFFINITY)},
        trigger=[relabelled("Node", "node1", unrelated="u")],
    ),
    Row(
        number="5",
        plugins=AFFINITY,
        initial=[node(group="a")],
        pending=_GROUPS_B_C,
        trigger=[Create(node("node2", group="b"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="6",
        plugins=TAINTS,
        initial=[node(taint="k")],
        pending=[pod("p1"), pod("p2")],
        trigger=[
            Patch(
                "Pod",
                "p1",
                {
                    "spec": {
                        "tolerations": [
                            *tolerations("k"),
                            # An update may only add, and the server had added these.
                            *(
                                {
                                    "key": f"node.kubernetes.io/{key}",
                                    "operator": "Exists",
                                    "effect": "NoExecute",
                                    "tolerationSeconds": 300,
                                }
                                for key in ("not-ready", "unreachable")
                            ),
                        ]
                    }
                },
            )
        ],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="7",
        plugins=TAINTS,
        initial=[node(taint=NOT_READY)],
        pending=[pod("p1", tolerate="k1"), pod("p2", tolerate="k2"), pod("p3")],
        trigger=[tainted("node1", "k1")],
        requeued=P1,
    ),
    Row(
        number="8",
        plugins=TAINTS,
        initial=[node(taint=NOT_READY)],
        pending=[pod("p1", tolerate="k1"), pod("p2")],
        trigger=[Create(node("node2", taint="k1"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="9",
        plugins=FIT,
        initial=[node(cpu="2")],
        pending=[pod("p1", cpu="4")],
        trigger=[
            Patch(
                "Pod",
                "p1",
                {
                    "spec": {
                        "containers": [
                            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
                        ]
                    }
                },
                "resize",
            )
        ],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="10",
        plugins=FIT,
        initial=[node(cpu="2"), pod("bound", on="node1", cpu="2")],
        pending=[pod("p2", cpu="2")],
        trigger=[Delete("Pod", "bound")],
        requeued=P2,
        mode="B",
    ),
    Row(
        number="11",
        plugins=FIT,
        initial=[node(cpu="2")],
        pending=[pod("p1", cpu="4"), pod("p2", cpu="5")],
        trigger=[Create(node("node2", "4"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="12",
        plugins=FIT,
        initial=[node(cpu="2")],
        pending=[pod("p1", cpu="4"), pod("p2", cpu="5")],
        trigger=[allocatable(cpu="4")],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="14",
        plugins=DEVICES,
        initial=[node(gpu=1)],
        pending=[pod("p1", cpu="5", resources={GPU: "1"})],
        trigger=_GPU_LOST,
    ),
    Row(
        number="16",
        plugins=("NodeAffinity", *DEVICES),
        initial=[*_TWO_NODES, device_class(GPU)],
        pending=[pod("p1", cpu="4", resources={GPU: "1"}, group="b")],
        trigger=_MORE_MEMORY,
        requeued=P1,
    ),
    Row(
        number="17",
        plugins=FIT,
        initial=[node()],
        pending=[pod("p1", resources={GPU: "1"}), pod("p2", resources={OTHER_GPU: "1"})],
        trigger=[Create(device_class(GPU))],
        requeued=P1,
    ),
    Row(
        number="18",
        plugins=FIT,
        initial=[node(), device_class()],
        pending=[pod("p1", resources={GPU: "1"}), pod("p2", resources={OTHER_GPU: "1"})],
        trigger=[Patch("DeviceClass", "class1", {"spec": {"extendedResourceName": GPU}})],
        requeued=P1,
    ),
    Row(
        number="19",
        plugins=FIT_AND_AFFINITY,
        initial=_TWO_NODES,
        pending=[pod("p1", cpu="4", group="b")],
        rejected_by={"p1": frozenset(FIT_AND_AFFINITY)},
        trigger=_MORE_MEMORY,
    ),
    Row(
        number="20",
        plugins=FIT_AND_AFFINITY,
        initial=_TWO_NODES,
        pending=[pod("p1", cpu="4", group="b")],
        rejected_by={"p1": frozenset(FIT_AND_AFFINITY)},
        trigger=[allocatable(cpu="5")],
        requeued=P1,
    ),
    Row(
        number="21",
        plugins=FIT_AND_AFFINITY,
        initial=[
            node(pods=2),
            node("node2", pods=1, group="b"),
            pod("bound", on="node2"),
        ],
        pending=[pod("p2", group="b")],
        rejected_by={"p2": frozenset(FIT_AND_AFFINITY)},
        trigger=[allocatable(pods="3")],
        requeued=P2,
    ),
    Row(
        number="22",
        plugins=TAINTS,
        initial=[node(taint=NOT_READY)],
        pending=[pod("p1")],
        trigger=[relabelled("Pod", "p1", new="label")],
    ),
    Row(
        number="23",
        plugins=FIT_AND_AFFINITY,
        initial=[node(cpu="2"), node("node2", "2")],
        pending=[pod("p1", node_name="node1", cpu="4")],
        mode="B",
    ),
    Row(
        number="32",
        plugins=PORTS,
        initial=[node(), pod("p01", on="node1", port=8080), pod("p02", on="node1", port=8081)],
        pending=[pod("p3", port=8080), pod("p4", port=8081)],
        trigger=[Delete("Pod", "p01")],
        requeued=P3,
    ),
    Row(
        number="33",
        plugins=PORTS,
        initial=[node(), pod("bound", on="node1", port=8080)],
        pending=[pod("p2", port=8080)],
        trigger=[Create(node("node2"))],
        requeued=P2,
    ),
    Row(
        number="34",
        plugins=UNSCHEDULABLE,
        initial=[node(unschedulable=True)],
        pending=[pod("p1")],
        trigger=[Patch("Node", "node1", {"spec": {"unschedulable": None}})],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="35",
        plugins=UNSCHEDULABLE,
        initial=[node(unschedulable=True)],
        pending=[pod("p1")],
        trigger=[Create(node("node2"))],
        requeued=P1,
        mode="B",
    ),
    Row(
        number="36",
        plugins=UNSCHEDULABLE,
        initial=[node(unschedulable=True)],
        pending=[pod("p1")],
        trigger=[Create(node("node2", unschedulable=True))],
    ),
    Row(
        number="68",
        plugins=FEATURES,
        initial=[node()],
        pending=[_NEEDS_FEATURE],
        trigger=[Patch("Node", "node1", {"status": {"declaredFeatures": [FEATURE]}}, "status")],
        requeued=P1,
    ),
    Row(
        number="69",
        plugins=FEATURES,
        initial=[node()],
        pending=[_NEEDS_FEATURE],
        trigger=[relabelled("Node", "node1", new="label")],
    ),
    Row(
        number="70",
        plugins=FEATURES,
        initial=[node()],
        pending=[_NEEDS_FEATURE],
        needs="a feature whose need an update of the pod can end (upstream's test invents one)",
        requeued=P1,
    ),
    Row(
        number="71",
        plugins=FEATURES,
        initial=[node()],
        pending=[_NEEDS_FEATURE],
        trigger=[relabelled("Pod", "p1", new="label")],
    ),
)
