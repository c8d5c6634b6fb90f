"""Random small clusters with tiny alphabets, so that ties, gaps and corner cases are common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from scheduler.api import Node, Pod
from tests.unit.api.objects import container
from tests.unit.api.objects import pod as api_pod
from tests.unit.plugins.clusters import MEBIBYTE, Cluster, node

NAMES = ("n0", "n1", "n2", "n3", "n4", "n5", "n6")
KEYS, VALUES = ("zone", "size", "kubernetes.io/hostname"), ("a", "b", "7", "10", "-3", "")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = ("app", "db:2", "host:5000/web")
SCALARS = ("example.com/gpu", "example.com/fpga", "hugepages-2Mi")
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
taints = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("a", "b", "node.kubernetes.io/unschedulable")),
            "value": st.sampled_from(("", "1")),
            "effect": st.sampled_from(EFFECTS),
        }
    ),
    max_size=3,
)
tolerations = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("", "a", "b", "node.kubernetes.io/unschedulable")),
            "operator": st.sampled_from(("", "Equal", "Exists", "Gt")),
            "value": st.sampled_from(("", "1")),
            "effect": st.sampled_from(("", *EFFECTS)),
        }
    ),
    max_size=2,
)
quantities = st.sampled_from((0, 1, 2, 3, 5, 8))
amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": quantities,
        "memory": quantities.map(lambda count: count * 64 * MEBIBYTE),
        "ephemeral-storage": quantities,
        **dict.fromkeys(SCALARS, quantities),
    },
)
ports = st.lists(
    st.fixed_dictionaries(
        {
            "hostPort": st.sampled_from((80, 81)),
            "protocol": st.sampled_from(("TCP", "UDP")),
            "hostIP": st.sampled_from(("", "10.0.0.1", "10.0.0.2", "::")),
        }
    ),
    max_size=2,
)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from((*KEYS, "absent")),
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(st.sampled_from((*VALUES, "{bad}")), min_size=1, max_size=6),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "operator": st.sampled_from(("Exists", "DoesNotExist"))}
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(("Gt", "Lt")),
            "values": st.sampled_from((["7"], ["8"], ["x"], [])),
        }
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.sampled_from(("metadata.name", "metadata.name", "metadata.uid")),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(st.sampled_from((*NAMES, "gone")), min_size=1, max_size=2),
    }
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(expressions, max_size=2),
        "matchFields": st.lists(fields, max_size=1),
    },
)
node_affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(terms, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(0, 100), "preference": terms}), max_size=2
        ),
    },
)


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"requests": draw(amounts), "image": draw(st.sampled_from(IMAGES))}
    fields["ports"] = draw(ports)
    if draw(st.booleans()):
        fields["restartPolicyRules"] = [{"action": "RestartAllContainers"}]
    return container(name, **fields)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """An incoming pod, not interned."""
    spec: dict[str, Any] = {
        "containers": [draw(containers(f"c{index}")) for index in range(draw(st.integers(1, 2)))],
        "tolerations": draw(tolerations),
        "nodeName": draw(st.sampled_from(("", "", "", "n1", "gone"))),
    }
    if draw(st.booleans()):
        spec["affinity"] = {"nodeAffinity": draw(node_affinities)}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(labels)
    if draw(st.integers(0, 3)) == 0:
        spec["resources"] = {"requests": draw(amounts)}
    if draw(st.integers(0, 3)) == 0:
        spec |= {"hostNetwork": True, "hostUsers": False}
    if draw(st.integers(0, 5)) == 0:
        spec["resourceClaims"] = [{"name": "claim"}]
    return api_pod(spec)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    images = draw(
        st.lists(st.sampled_from(("app:latest", "db:2", "host:5000/web:latest")), unique=True)
    )
    return node(
        name,
        labels=draw(labels),
        taints=draw(taints),
        unschedulable=draw(st.booleans()),
        allocatable={**draw(amounts), "pods": draw(st.integers(0, 3))},
        images=[
            {"names": [image], "sizeBytes": draw(st.integers(1, 900)) * MEBIBYTE}
            for image in images
        ],
        declaredFeatures=draw(st.lists(st.sampled_from(FEATURES), unique=True)),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Five to seven nodes (more than the shortcut for few rows takes), holes, and pods."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=5))
    cluster = Cluster([draw(nodes(name)) for name in names])
    for _ in range(draw(st.integers(0, 4))):
        change(draw, cluster)
    return cluster


def change(draw: Callable[..., Any], cluster: Cluster) -> None:
    """One random change: a node added, replaced or removed, a pod placed or gone."""
    match draw(st.sampled_from(("place", "set node", "place", "remove pod", "remove node"))):
        case "place":
            cluster.place(draw(pods()), draw(st.sampled_from(NAMES)))
        case "remove pod":
            placed = [each.pod for each in cluster.cache._pods.values()]
            if placed:
                cluster.cache.remove_pod(draw(st.sampled_from(placed)))
        case "set node":
            cluster.cache.set_node(draw(nodes(draw(st.sampled_from(NAMES)))))
        case _:
            cluster.cache.remove_node(draw(st.sampled_from(NAMES)))
