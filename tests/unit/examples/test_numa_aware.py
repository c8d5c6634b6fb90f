"""NumaAware: pods go where one NUMA zone has room for them, as the kubelet will find it."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.extra.numa_aware.demand import demand_of
from plugins.extra.numa_aware.plugin import (
    INVALID,
    MAX_CONTAINERS,
    NAME,
    NOT_ALIGNED,
    REASONS,
    TOO_MANY,
    NumaAware,
    NumaAwareArgs,
)
from plugins.extra.numa_aware.topology import (
    CONTAINER,
    MAX_ZONES,
    POD,
    TOPOLOGIES,
    NodeResourceTopology,
    never_more,
    topology_of,
)
from plugins.extra.numa_aware.zones import MAX_RESOURCES
from scheduler import offline
from scheduler.api import Pod
from scheduler.framework import CycleState
from scheduler.framework.bundled import StateInBundle
from scheduler.framework.plugin_class import class_problems
from scheduler.offline import JsonObject, World
from scheduler.testing import Cluster, PluginCase, check_plugin, check_plugin_contract, node, pod
from scheduler.testing.enabling import EnabledPlugin, world_with
from tests.unit.plugins import clusters

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "numa_aware"
GPU: Final = "nvidia.com/gpu"


def zone(number: int, **available: object) -> JsonObject:
    resources = [
        {"name": name.replace("gpu", GPU), "capacity": 8, "allocatable": 8, "available": each}
        for name, each in {"memory": "8Gi", **available}.items()
    ]
    return {"name": f"node-{number}", "type": "Node", "resources": resources}


def topology(
    name: str, *zones: JsonObject, scope: str = "container", policy: str = "single-numa-node"
) -> JsonObject:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": list(zones),
    }


def cpus(*available: int, **more: str) -> list[JsonObject]:
    """Zones with so many free CPUs."""
    return [zone(number, cpu=each, **more) for number, each in enumerate(available)]


def container(name: str, *, limits: bool = True, **amounts: object) -> JsonObject:
    stated = {key.replace("gpu", GPU): each for key, each in amounts.items()}
    resources: JsonObject = {"requests": stated}
    if limits:
        resources["limits"] = stated
    return {"name": name, "resources": resources}


def guaranteed(name: str, *cpu: object, init: object = None, sidecar: object = None) -> JsonObject:
    """A pod of the QoS class Guaranteed, with a container for each amount of CPU."""
    before = []
    if init is not None:
        before.append(container("init", cpu=init, memory="1Mi"))
    if sidecar is not None:
        before.append({**container("side", cpu=sidecar, memory="1Mi"), "restartPolicy": "Always"})
    containers = [container(f"c{i}", cpu=each, memory="1Mi") for i, each in enumerate(cpu)]
    return pod(name, spec={"containers": containers, "initContainers": before})


@pytest.fixture
def numa(cluster: Cluster) -> Cluster:
    cluster.enable(NumaAware)
    return cluster


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("wanted", "in_container_scope", "in_pod_scope"),
    [
        (guaranteed("p", 3), True, True),
        (guaranteed("p", 4), False, False),
        (guaranteed("p", 3, 2), True, False),
        (guaranteed("p", 2, 2), True, False),
        (guaranteed("p", 3, 3), False, False),
        (guaranteed("p", 1, 1, 1), True, True),
        (guaranteed("p", 2, init=3), True, True),
        (guaranteed("p", 2, init=4), False, False),
        (guaranteed("p", 2, sidecar=2), True, False),
        (guaranteed("p", 3, sidecar=3), False, False),
        (guaranteed("p", 2, sidecar=3), True, False),
        (guaranteed("p", "2500m"), True, True),
        (pod("p", spec={"containers": [container("c", limits=False, cpu=4)]}), True, True),
        (pod("p"), True, True),
    ],
)
def test_a_zone_must_have_enough_for_each_container_or_for_the_pod(
    numa: Cluster, wanted: JsonObject, in_container_scope: bool, in_pod_scope: bool, scope: str
) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(topology("n", *cpus(2, 3), scope=scope))
    numa.add_pods(wanted)
    if in_pod_scope if scope == "pod" else in_container_scope:
        numa.assert_scheduled("p")
    else:
        numa.assert_unschedulable("p", plugin=NAME, reason=REASONS[NOT_ALIGNED])


@pytest.mark.parametrize(
    ("zones", "wanted", "fits"),
    [
        ([zone(0, cpu=4, gpu=0), zone(1, cpu=0, gpu=1)], 1, False),
        ([zone(0, cpu=4, gpu=1), zone(1, cpu=4, gpu=0)], 1, True),
        ([zone(0, cpu=4, gpu=1), zone(1, cpu=4, gpu=1)], 2, False),
        (cpus(4, 4), 2, True),
        ([zone(0, gpu=2)], 1, False),
    ],
)
def test_devices_come_from_the_zone_of_the_cpus_where_zones_have_them(
    numa: Cluster, zones: list[JsonObject], wanted: int, fits: bool
) -> None:
    numa.add_node(node("n", cpu=16, resources={GPU: 8}))
    numa.add(topology("n", *zones))
    numa.add_pods(pod("p", spec={"containers": [container("c", cpu=1, memory="1Mi", gpu=wanted)]}))
    if fits:
        numa.assert_scheduled("p")
    else:
        numa.assert_unschedulable("p", plugin=NAME)


def test_devices_of_other_qos_classes_are_aligned_too(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=16, resources={GPU: 8}))
    numa.add(topology("n", zone(0, cpu=0, gpu=1), zone(1, cpu=0, gpu=1)))
    numa.add_pods(pod("one", spec={"containers": [container("c", gpu=1)]}))
    numa.add_pods(pod("two", spec={"containers": [container("c", gpu=2)]}))
    numa.assert_scheduled("one")
    numa.assert_unschedulable("two", plugin=NAME)


@pytest.mark.parametrize(
    "made",
    [
        None,
        topology("n", *cpus(1, 1), policy="none"),
        topology("n", *cpus(1, 1), policy="best-effort"),
        {**topology("n", *cpus(1, 1)), "attributes": [], "topologyPolicies": ["Restricted"]},
        topology("other", *cpus(1, 1)),
    ],
)
def test_a_node_without_the_policy_accepts_every_pod(
    numa: Cluster, made: JsonObject | None
) -> None:
    numa.add_node(node("n", cpu=16))
    if made is not None:
        numa.add(made)
    numa.add_pods(guaranteed("p", 8))
    numa.assert_scheduled("p")


@pytest.mark.parametrize(
    "made",
    [
        topology("n"),
        topology("n", *cpus(*[1] * (MAX_ZONES + 1))),
        topology("n", {"name": "left", "type": "Node"}),
        topology("n", zone(0, cpu="many")),
        topology("n", zone(0, **{f"r{number}": 1 for number in range(MAX_RESOURCES)})),
    ],
)
def test_zones_that_make_no_sense_keep_pods_off_their_node(numa: Cluster, made: JsonObject) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(made)
    numa.add_pods(guaranteed("p", 1))
    numa.add_pods(pod("burstable", cpu=1))
    numa.assert_unschedulable("p", plugin=NAME, reason=REASONS[INVALID])
    numa.assert_scheduled("burstable")


def test_a_pod_with_very_many_containers_is_rejected(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=100))
    numa.add_pods(guaranteed("p", *[1] * (MAX_CONTAINERS + 1)))
    numa.assert_unschedulable("p", plugin=NAME, reason=TOO_MANY)


def test_a_pod_waits_for_a_zone_and_not_for_changes_that_cannot_help(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(topology("n", *cpus(2, 3)))
    numa.add_pods(guaranteed("p", 4))
    numa.assert_unschedulable("p", plugin=NAME)
    numa.add(topology("n", *cpus(2, 1)))
    numa.assert_unschedulable("p", plugin=NAME)
    (waiting,) = numa.world.waiting()
    assert waiting.attempts == 1
    numa.add(topology("n", *cpus(2, 4)))
    numa.assert_scheduled("p")


def test_placed_pods_count_in_every_zone_until_the_object_can_have_them(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(topology("n", *cpus(4, 4)))
    numa.add_pods(guaranteed("a", 3))
    numa.assert_scheduled("a")
    numa.add_pods(guaranteed("b", 3))
    numa.assert_unschedulable("b", plugin=NAME, reason="placed just now")
    numa.tick(5)
    numa.add(topology("n", *cpus(1, 4)))
    numa.assert_unschedulable("b", plugin=NAME)
    numa.tick(60)
    numa.assert_scheduled("b")
    numa.add_pods(guaranteed("c", 3))
    numa.tick(600)
    # No update has come: nobody knows what is left.
    numa.assert_unschedulable("c", plugin=NAME)
    numa.add(topology("n", *cpus(1, 4)))
    numa.assert_scheduled("c")


def test_the_end_of_a_pod_frees_what_was_reserved_for_it(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(topology("n", *cpus(4)))
    numa.add_pods(guaranteed("a", 3))
    numa.assert_scheduled("a")
    numa.add_pods(guaranteed("b", 3))
    numa.assert_unschedulable("b", plugin=NAME)
    numa.world.delete_pod("default/a")
    numa.tick(40)
    numa.assert_scheduled("b")


def test_pods_of_other_schedulers_count_until_their_kubelet_has_them(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(topology("n", *cpus(4)))
    running = guaranteed("running", 3)
    running["spec"]["nodeName"] = "n"
    running["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    numa.add(running)
    numa.add_pods(guaranteed("a", 1))
    numa.assert_scheduled("a")
    bound = guaranteed("bound", 2)
    bound["spec"]["nodeName"] = "n"
    numa.add(bound)
    numa.add_pods(guaranteed("b", 2))
    numa.assert_unschedulable("b", plugin=NAME, reason="placed just now")


@pytest.mark.parametrize(
    ("strategy", "expected"), [("LeastAllocated", "free"), ("MostAllocated", "full")]
)
def test_zones_are_spared_or_filled(cluster: Cluster, strategy: str, expected: str) -> None:
    cluster.enable(NumaAware, {"scoringStrategy": strategy}, weight=100)
    for name, free in (("full", 2), ("free", 8)):
        cluster.add_node(node(name, cpu=16))
        cluster.add(topology(name, *cpus(free, free)))
    cluster.add_pods(guaranteed("p", 2))
    cluster.assert_scheduled("p", node=expected)


def test_a_trial_leaves_no_reservation(numa: Cluster) -> None:
    numa.add_node(node("n", cpu=16))
    numa.add(topology("n", *cpus(4)))
    numa.add_pods(guaranteed("kept", 2))
    numa.assert_scheduled("kept")
    for _ in range(2):
        with numa.world.trial() as trial:
            assert trial.place(guaranteed("a", 2)).node == "n"
            assert not trial.place(guaranteed("b", 2))
            trial.add(topology("n", *cpus(8)))
            assert trial.place(guaranteed("c", 4)).node == "n"
    numa.add_pods(guaranteed("d", 2))
    numa.assert_scheduled("d")


def test_reservations_go_into_bundles_and_come_back() -> None:
    def cluster() -> Cluster:
        made = Cluster()
        made.enable(NumaAware)
        made.add_node(node("n", cpu=16))
        made.add(topology("n", *cpus(4, 4)))
        return made

    with cluster() as first, cluster() as second:
        first.add_pods(guaranteed("a", 3))
        first.assert_scheduled("a")
        first.tick(5)
        first.add(topology("n", *cpus(1, 4)))
        first.tick(0)
        pieces = msgspec.json.decode(msgspec.json.encode(list(first.plugin(NAME).bundle_state())))
        assert [each["amounts"]["cpu"] for each in pieces] == [3000]

        second.add(topology("n", *cpus(1, 4)))
        second.world._settle()
        restored = second.plugin(NAME)
        assert isinstance(restored, StateInBundle)
        restored.restore_bundle_state(pieces)
        assert list(restored.bundle_state()) == pieces
        for each in (first, second):
            each.add_pods(guaranteed("b", 3))
            each.assert_unschedulable("b", plugin=NAME, reason="placed just now")
            each.tick(61)
            each.assert_scheduled("b")
        with pytest.raises(ValueError, match="node"):
            restored.restore_bundle_state([{"uid": "u"}])


# -- the example as a whole ----------------------------------------------------------------------


def test_the_files_of_the_example_fit_together() -> None:
    with World.load(EXAMPLE / "crd.yaml", config=EXAMPLE / "config.yaml") as world:
        world.add_nodes(offline.node("node-1", cpu=16))
        world.add_pods(guaranteed("fits", 3))
        world.add_pods(guaranteed("waits", 4))
        result = world.schedule()
        assert [each.pod for each in result.placed] == ["default/fits"]
        assert [each.plugins for each in result.waiting] == [(NAME,)]


def test_the_schema_has_every_field_that_is_read() -> None:
    definition, example = yaml.safe_load_all((EXAMPLE / "crd.yaml").read_text(encoding="utf-8"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    record = msgspec.convert(example, NodeResourceTopology)
    read = set(msgspec.to_builtins(record)) - {"metadata"}
    assert read <= set(schema)
    assert topology_of(record).scope == CONTAINER
    assert [each["cpu"].available for each in topology_of(record).zones] == [2000, 3000]


def test_the_class_keeps_the_contract() -> None:
    assert list(class_problems(NumaAware)) == []
    check_plugin(NumaAware, clusters=3)


@pytest.mark.parametrize(("seconds", "paths"), [(0, []), (-1, ["settleTime"])])
def test_a_negative_time_is_named(seconds: int, paths: list[str]) -> None:
    args = NumaAwareArgs(settle_time=timedelta(seconds=seconds))
    assert [path for path, _ in NumaAware.validate_args(args)] == paths


@pytest.mark.parametrize(
    ("policies", "attributes", "scope"),
    [
        (["SingleNUMANodePodLevel"], {}, POD),
        (["SingleNUMANodeContainerLevel"], {}, CONTAINER),
        (["SingleNUMANodePodLevel"], {"topologyManagerPolicy": "none"}, 0),
        (["SingleNUMANodePodLevel"], {"topologyManagerScope": "container"}, CONTAINER),
        (["BestEffortPodLevel"], {"topologyManagerScope": "pod"}, 0),
        ([], {"topologyManagerPolicy": "single-numa-node"}, CONTAINER),
        ([], {}, 0),
    ],
)
def test_attributes_win_over_policies(
    policies: list[str], attributes: dict[str, str], scope: int
) -> None:
    made = msgspec.convert(
        {
            "topologyPolicies": policies,
            "attributes": [{"name": key, "value": each} for key, each in attributes.items()],
            "zones": cpus(1),
        },
        NodeResourceTopology,
    )
    assert topology_of(made).scope == scope


# -- properties ----------------------------------------------------------------------------------

free = st.lists(st.integers(0, 4), min_size=1, max_size=3)
amounts = st.lists(st.sampled_from((1, 2, 3, 4, "500m")), min_size=1, max_size=3)


@settings(max_examples=40)
@given(
    zones=st.lists(st.one_of(st.none(), free), min_size=3, max_size=3),
    scope=st.sampled_from(("container", "pod")),
    wanted=amounts,
    reserved=st.booleans(),
)
def test_the_forms_agree_and_the_contract_holds(
    zones: list[list[int] | None], scope: str, wanted: list[object], reserved: bool
) -> None:
    cluster = clusters.Cluster(clusters.node(f"n{i}") for i in range(3))
    plugin = NumaAware(NumaAwareArgs(), cluster.handle())
    for number, each in enumerate(zones):
        if each is not None:
            made = topology(f"n{number}", *cpus(*each), scope=scope)
            cluster.add_object(TOPOLOGIES, msgspec.convert(made, NodeResourceTopology))
    subject = typed(guaranteed("p", *wanted))
    if reserved:
        plugin.reserve(CycleState(), typed(guaranteed("r", 2)), "n1")
    clusters.statuses(plugin, cluster, subject)
    check_plugin_contract(plugin, PluginCase(cluster.table, [subject]))


def typed(manifest: JsonObject) -> Pod:
    made = clusters.pod(manifest["spec"], metadata=manifest["metadata"])
    made.metadata.uid = made.metadata.uid or made.metadata.name
    return made


@settings(max_examples=25)
@given(
    before=free,
    after=free,
    wanted=amounts,
)
def test_what_is_never_more_helps_no_pod(
    before: list[int], after: list[int], wanted: list[object]
) -> None:
    old, new = (
        topology_of(msgspec.convert(topology("n", *cpus(*each)), NodeResourceTopology))
        for each in (before, after)
    )
    if never_more(old, new) and not kubelet_accepts(before, wanted):
        assert not kubelet_accepts(after, wanted)


def kubelet_accepts(available: list[int], wanted: list[object]) -> list[int] | None:
    """Place containers as the kubelet does; return what is left in the zones."""
    left = [each * 1000 for each in available]
    demand = demand_of(typed(guaranteed("p", *wanted)))
    assert demand is not None
    for each in demand.requests(CONTAINER):
        cpu = each.amounts["cpu"]
        chosen = next((i for i, there in enumerate(left) if there >= cpu), None)
        if chosen is None:
            return None
        left[chosen] -= cpu
    return left


@pytest.mark.slow
@settings(max_examples=15)
@given(
    arrivals=st.lists(
        st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=2), max_size=4), max_size=4
    )
)
def test_no_kubelet_rejects_a_pod_that_was_placed(arrivals: list[list[list[int]]]) -> None:
    zones: dict[str, list[int]] = {"n1": [4, 4], "n2": [4, 3]}
    with world_with([EnabledPlugin(NumaAware)]) as world:
        for name, each in zones.items():
            world.add_nodes(offline.node(name, cpu=16))
            world.add(topology(name, *cpus(*each)))
        count = 0
        for pods in arrivals:
            for wanted in pods:
                count += 1
                world.add_pods(guaranteed(f"p{count}", *wanted))
            by_node: dict[str, list[str]] = defaultdict(list)
            for placed in world.schedule().placed:
                by_node[placed.node].append(placed.pod)
            for name, keys in by_node.items():
                for key in keys:
                    containers = world.pod(key).spec.containers
                    wanted_cpus = [each.resources.requests["cpu"] for each in containers]
                    left = kubelet_accepts(zones[name], list(wanted_cpus))
                    assert left is not None, (key, name, zones)
                    zones[name] = [each // 1000 for each in left]
            world.run(until=world.now + 61)
            for name, each in zones.items():
                world.add(topology(name, *cpus(*each)))
