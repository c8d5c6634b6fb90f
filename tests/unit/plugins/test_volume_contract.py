"""Volume plugins on random storage: both forms agree, and what they keep equals a fresh look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from plugins import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone
from plugins.volume_binding.arguments import SCORING_GATE
from scheduler.framework import CycleState, Status
from scheduler.testing import PluginCase, check_plugin_contract
from tests.unit.plugins.clusters import Cluster, node, pod
from tests.unit.plugins.volume_objects import (
    SELECTED,
    add,
    attachment,
    capacity,
    claim,
    csi,
    csi_driver,
    csi_node,
    storage_class,
    volume,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODES, ZONES = ("n0", "n1", "n2", "n3"), ("a", "b")
CLAIMS, VOLUMES = ("c0", "c1", "c2", "c3"), ("v0", "v1", "v2", "v3")
CLASSES, DRIVERS = ("local", "made", "small"), ("d0", "d1")
SIZES = ("1Gi", "2Gi", "3Gi")
QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def _claim(name: str, bound: str, chosen: str, class_name: str, size: str, mode: str) -> Any:
    made: dict[str, Any] = {"class_name": class_name, "size": size, "modes": (mode,)}
    if bound or not chosen:
        return claim(name, bound, **made)
    return claim(name, annotations={SELECTED: chosen}, **made)


def claims_called(*names: str) -> st.SearchStrategy[Any]:
    return st.builds(
        _claim,
        one_of(*names),
        one_of("", "", "", *VOLUMES, "missing"),
        one_of("", "", "", "", *NODES),
        one_of(*CLASSES),
        one_of(*SIZES),
        one_of("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"),
    )


affinities = st.one_of(
    st.none(),
    st.dictionaries(
        one_of(HOST, ZONE), st.lists(one_of(*NODES, *ZONES), min_size=1, max_size=3), min_size=1
    ),
)


def _volume(name: str, driver: str, zone: str, **more: Any) -> Any:
    labels = {ZONE: zone} if zone else {}
    return volume(name, spec=csi(f"h-{name}", driver), labels=labels, **more)


def volumes_called(*names: str) -> st.SearchStrategy[Any]:
    return st.builds(
        _volume,
        one_of(*names),
        one_of(*DRIVERS),
        one_of("", "", *ZONES),
        class_name=one_of(*CLASSES),
        size=one_of(*SIZES),
        nodes=affinities,
        claimed_by=one_of("", "", "", *CLAIMS),
        modes=one_of(("ReadWriteOnce",), ("ReadWriteOnce", "ReadWriteOncePod")),
    )


limits = st.dictionaries(one_of(*DRIVERS), one_of(None, 0, 1, 2))
csi_nodes = st.builds(csi_node, one_of(*NODES), limits)
attachments = st.builds(
    attachment, one_of("a0", "a1", "a2"), one_of(*NODES), one_of(*VOLUMES), one_of(*DRIVERS)
)
capacities = st.builds(
    lambda name, topology, size: capacity(name, "small", topology, capacity=size),
    one_of("k0", "k1", "k2"),
    one_of(None, {}, {ZONE: "a"}, {HOST: "n1"}, {ZONE: "b", HOST: "n2"}),
    one_of(*SIZES),
)
classes = st.builds(
    lambda topologies: storage_class("made", "d0", topologies=topologies),
    one_of([], [{ZONE: ["a"]}], [{ZONE: ["b"], HOST: ["n0", "n1"]}, {HOST: ["n2"]}]),
)
things = st.one_of(
    claims_called(*CLAIMS), volumes_called(*VOLUMES), csi_nodes, attachments, capacities, classes
)
disks = one_of(
    {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
    {"gcePersistentDisk": {"pdName": "x"}},
    {"awsElasticBlockStore": {"volumeID": "y"}},
)
named = st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, one_of(*CLAIMS))
sources = st.one_of(disks, named, named)
pods = st.builds(
    lambda found: pod({"volumes": [{"name": f"x{i}", **each} for i, each in enumerate(found)]}),
    st.lists(sources, min_size=1, max_size=2),
)
placements = st.tuples(one_of(*NODES), pods)


@st.composite
def clusters(draw: Callable[..., Any]) -> Cluster:
    cluster = Cluster(
        node(name, labels=draw(one_of({HOST: name, ZONE: "a"}, {HOST: name, ZONE: "b"}, {})))
        for name in NODES
    )
    add(
        cluster,
        storage_class("local", "kubernetes.io/no-provisioner"),
        storage_class("made", "d0"),
        storage_class("small", "d1"),
        csi_driver("d1", storageCapacity=True),
    )
    for name in CLAIMS:
        add(cluster, draw(claims_called(name)))
    for name in VOLUMES:
        add(cluster, draw(volumes_called(name)))
    add(cluster, *draw(st.lists(things, max_size=8)))
    for name, made in draw(st.lists(placements, max_size=5)):
        cluster.place(made, name)
    return cluster


def build(cluster: Cluster) -> list[Any]:
    handle = cluster.handle(**{SCORING_GATE: True})
    return [
        VolumeRestrictions(None, handle),
        NodeVolumeLimits(None, handle),
        VolumeBinding(None, handle),
        VolumeZone(None, handle),
    ]


def codes_of(plugin: Any, cluster: Cluster, subject: Any) -> Any:
    """Return the columnar codes of every node."""
    state, table = CycleState(), cluster.table
    found = plugin.pre_filter(state, subject, table)
    if isinstance(found, Status):
        return found
    codes = plugin.filter_rows(state, subject, table, table.rows)
    return [plugin.filter_status(state, subject, code) if code else None for code in codes.tolist()]


@QUICK
@given(cluster=clusters(), subject=st.lists(pods, min_size=1, max_size=3))
def test_contract(cluster: Cluster, subject: list[Any]) -> None:
    case = PluginCase(cluster.table, [cluster.intern(each) for each in subject])
    for plugin in build(cluster):
        check_plugin_contract(plugin, case)


@pytest.mark.slow
@QUICK
@given(cluster=clusters(), subject=pods, data=st.data())
def test_what_is_kept_equals_a_fresh_look(
    cluster: Cluster, subject: Any, data: st.DataObject
) -> None:
    kept = build(cluster)
    placed: list[Any] = []
    for _ in range(8):
        for old, fresh in zip(kept, build(cluster), strict=True):
            assert codes_of(old, cluster, subject) == codes_of(fresh, cluster, subject)
        match data.draw(one_of("object", "object", "place", "remove", "node")):
            case "object":
                add(cluster, data.draw(st.one_of(volumes_called(*VOLUMES), attachments, things)))
            case "place":
                name, made = data.draw(placements)
                if cluster.table.row_of(name) is not None:
                    made.metadata.uid = f"more-{len(placed)}"
                    made.spec.node_name = name
                    cluster.cache.add_pod(cluster.intern(made))
                    placed.append(made)
            case "remove" if placed:
                cluster.cache.remove_pod(placed.pop())
            case "node":
                name = data.draw(one_of(*NODES, "n4"))
                cluster.cache.set_node(node(name, labels={HOST: name, ZONE: "b"}))
