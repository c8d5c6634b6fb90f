"""GPU sharing: no GPU is oversold, restarts forget nothing, scores are those of the paper."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.gpu_sharing.gpu_sharing import (
    BestFit,
    DotProd,
    Fgd,
    GpuClustering,
    GpuPacking,
    GpuSharing,
    RandomDevice,
)
from examples.gpu_sharing.gpu_sharing.devices import (
    NO_GPU,
    Devices,
    Request,
    parsed,
    request_of,
    select,
)
from examples.gpu_sharing.gpu_sharing.fragmentation import (
    Fragmentation,
    FragmentationArgs,
    TypicalPod,
)
from scheduler.api import Node, Pod, PodSignatures
from scheduler.cache import Cache
from scheduler.framework import ConfigurationError
from scheduler.testing import Cluster, check_plugin, node, pod

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "gpu_sharing"
UNITS: Final = "alibabacloud.com/gpu-milli"
INDEX: Final = "alibabacloud.com/gpu-index"
POLICIES: Final = sorted(path.stem for path in EXAMPLE.glob("*.yaml"))
TYPICAL: Final = {"typicalPods": [{"cpu": 4000, "gpuMilli": 500, "gpus": 1}]}


def gpu_node(name: str, gpus: int = 2, cpu: int = 64) -> dict[str, Any]:
    return node(name, cpu=cpu, memory="256Gi", resources={UNITS: 1000 * gpus})


def gpu_pod(name: str, units: int, **parts: Any) -> dict[str, Any]:
    return pod(name, resources={UNITS: units} if units else {}, **parts)


def of_policy(name: str, *, seed: int = 0) -> Cluster:
    return Cluster(config=EXAMPLE / f"{name}.yaml", plugin_dirs=[EXAMPLE], seed=seed)


def usage(pods: Iterable[Any]) -> dict[tuple[str, int], int]:
    """Units in use by node and device, from annotations alone."""
    found: dict[tuple[str, int], int] = {}
    for each in pods:
        units = each.signature.requests.scalar(UNITS)
        if not each.spec.node_name or not units:
            continue
        indexes = [int(index) for index in each.metadata.annotations[INDEX].split("-")]
        assert len(indexes) == max(units // 1000, 1)
        for index in indexes:
            device = each.spec.node_name, index
            found[device] = found.get(device, 0) + units // len(indexes)
    return found


def pods_of(cluster: Cluster) -> list[Any]:
    return [cluster.world.pod(key) for key in cluster.world.placements()]


# -- requests and devices ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (0, NO_GPU),
        (-5, NO_GPU),
        (1, Request(1, 1)),
        (999, Request(999, 1)),
        (1000, Request(1000, 1)),
        (8000, Request(1000, 8)),
        (1001, None),
    ],
)
def test_units_are_a_share_or_whole_devices(units: int, expected: Request | None) -> None:
    assert request_of(units) == expected


@pytest.mark.parametrize(
    ("left", "units", "expected"),
    [
        ([500, 300, 300], 300, (1,)),
        ([200, 1000], 300, (1,)),
        ([200, 100], 300, None),
        ([1000, 500, 1000], 2000, (0, 2)),
        ([1000, 999], 2000, None),
        ([], 100, None),
    ],
)
def test_a_share_takes_the_tightest_device(
    left: list[int], units: int, expected: tuple[int, ...] | None
) -> None:
    request = request_of(units)
    assert request is not None
    assert select(left, request) == expected


@pytest.mark.parametrize("text", ["", "x", "-1", "0--1", "0-0", "64", "1-" * 5000, "\u0661", "0 "])
def test_a_malformed_annotation_names_no_device(text: str) -> None:
    assert parsed(text) == ()


# -- formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cpu", "scores"), [(8000, [45, 50]), (4000, [23, 23])])
def test_scores_of_fgd_are_those_computed_by_hand(cpu: int, scores: list[int]) -> None:
    fragmentation = Fragmentation([TypicalPod(cpu=4000, gpu_milli=500, gpus=1)])
    states = np.array([[500, 1000], [200, 1000], [500, 700]])
    free = np.array([cpu, cpu - 4000, cpu - 4000])
    found = fragmentation.of(states, free, None)
    assert fragmentation.score(found[0] - found[1:]).tolist() == scores


def test_a_model_that_typical_pods_exclude_is_fragmented() -> None:
    fragmentation = Fragmentation(
        [TypicalPod(cpu=0, gpu_milli=1000, gpus=1, models=("A10",), pods=3), TypicalPod(cpu=1)]
    )
    left = np.array([[1000], [1000]])
    kinds = fragmentation.kinds(["A10", "T4"])
    assert fragmentation.of(left, np.array([9, 9]), kinds).tolist() == [1000, 4000]


def by_definition(typical: list[TypicalPod], left: list[int], cpu: int, model: str) -> int:
    """Return the units that are useless to each typical pod, summed."""
    useless = 0
    for each in typical:
        enough = [free for free in left if free >= each.gpu_milli]
        fits = len(enough) >= each.gpus and cpu >= each.cpu
        fits = fits and (not each.models or model in each.models)
        uses_gpus = each.gpus > 0 and each.gpu_milli > 0
        useless += each.pods * (sum(left) - (sum(enough) if fits and uses_gpus else 0))
    return useless


@pytest.mark.parametrize("seed", range(20))
def test_the_table_of_typical_pods_gives_what_the_definition_does(seed: int) -> None:
    draw = random.Random(seed)
    models = ["A10", "T4", "V100", ""]
    typical = [
        TypicalPod(
            cpu=draw.choice([0, 1000, 4000, 9000]),
            gpu_milli=draw.choice([0, 1, 300, 500, 999, 1000]),
            gpus=draw.choice([0, 1, 2, 8]),
            models=tuple(draw.sample(models[:3], draw.choice([0, 0, 1, 2]))),
            pods=draw.randint(1, 5),
        )
        for _ in range(12)
    ]
    left = [[draw.choice([0, 299, 300, 500, 1000]) for _ in range(4)] for _ in range(30)]
    cpu = [draw.choice([-5, 0, 999, 1000, 9000]) for _ in left]
    of = [draw.choice(models) for _ in left]
    fragmentation = Fragmentation(typical)
    found = fragmentation.of(np.array(left), np.array(cpu), fragmentation.kinds(of))
    states = zip(left, cpu, of, strict=True)
    assert found.tolist() == [by_definition(typical, *each) for each in states]


def test_typical_pods_of_too_many_combinations_are_refused() -> None:
    pods = tuple(
        TypicalPod(cpu=number, gpu_milli=1 + number, gpus=1 + number % 8) for number in range(900)
    )
    args = FragmentationArgs(typical_pods=pods)
    assert [path for path, text in Fgd.validate_args(args) if "combinations" in text] == [
        "typicalPods"
    ]


# -- in a cluster --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_fills_the_devices_and_oversells_none(policy: str) -> None:
    with of_policy(policy) as cluster:
        for number in range(3):
            cluster.add_node(gpu_node(f"n{number}"))
        for number, units in enumerate([300, 2000, 700, 600, 400, 1000, 300, 900, 0]):
            cluster.add_pods(gpu_pod(f"p{number}", units))
        cluster.tick(1)
        used = usage(pods_of(cluster))
        assert len(used) > 3
        assert max(used.values()) <= 1000
        assert "default/p8" in cluster.world.placements()


def test_a_request_that_means_nothing_is_rejected_with_the_rule() -> None:
    with of_policy("fgd-best-fit") as cluster:
        cluster.add_node(gpu_node("n"))
        cluster.add_pods(gpu_pod("odd", 1500))
        cluster.assert_unschedulable(
            "odd", plugin="example.com/GpuSharing", reason="below 1000, or a multiple of 1000"
        )


def test_a_pod_waits_for_a_device_and_gets_it_when_another_ends() -> None:
    with of_policy("fgd-best-fit") as cluster:
        cluster.add_node(gpu_node("n"))
        cluster.add_pods(gpu_pod("a", 600))
        cluster.add_pods(gpu_pod("b", 600))
        cluster.assert_scheduled("a", node="n")
        cluster.add_pods(gpu_pod("c", 500))
        cluster.assert_unschedulable(
            "c", plugin="example.com/GpuSharing", reason="no GPU with enough free units"
        )
        cluster.world.remove("Pod", "a")
        cluster.tick(60)
        cluster.assert_scheduled("c", node="n")
        assert max(usage(pods_of(cluster)).values()) <= 1000


def test_fgd_chooses_the_device_that_typical_pods_use_least() -> None:
    with Cluster() as cluster:
        cluster.enable(GpuSharing)
        cluster.enable(Fgd, TYPICAL)
        cluster.add_node(gpu_node("n"))
        cluster.add_pods(gpu_pod("first", 500))
        cluster.assert_scheduled("first", node="n")
        cluster.add_pods(gpu_pod("second", 300, cpu=4))
        cluster.assert_scheduled("second", node="n")
        # BestFit would share the device of the first.
        assert cluster.world.pod("default/second").metadata.annotations[INDEX] == "1"


@pytest.mark.parametrize("annotation", ["", "7", "0-1", "nonsense"])
def test_a_pod_bound_by_hand_is_counted_and_reported(annotation: str) -> None:
    with of_policy("best-fit") as cluster:
        cluster.add_node(gpu_node("n"))
        for name in ("foreign", "stranger"):
            given = {INDEX: annotation} if annotation else {}
            cluster.add_pods(gpu_pod(name, 600, node="n", annotations=given))
        cluster.add_pods(gpu_pod("new", 500))
        cluster.assert_unschedulable(
            "new", plugin="example.com/GpuSharing", reason="no GPU with enough free units"
        )
        assert [each.reason for each in cluster.events].count("UnknownGpu") == (
            0 if annotation == "7" else 2
        )


SIZES: Final = st.sampled_from([0, 100, 250, 300, 500, 700, 1000, 2000, 4000])
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SIZES),
        st.tuples(st.just("end"), st.integers(0, 50)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(steps=STEPS, policy=st.sampled_from(["fgd-best-fit", "random"]))
def test_no_device_is_oversold_under_churn_and_restarts(
    steps: list[tuple[str, int]], policy: str
) -> None:
    cluster = _cluster(policy, {})
    for number, (step, value) in enumerate(steps):
        if step == "add":
            cluster.add_pods(gpu_pod(f"p{number}", value))
        elif step == "restart":
            bound = {each.key: each for each in pods_of(cluster)}
            cluster.close()
            cluster = _cluster(policy, bound)
        elif placed := sorted(cluster.world.placements()):
            cluster.world.remove("Pod", placed[value % len(placed)].partition("/")[2])
        cluster.tick(1)
        assert max(usage(pods_of(cluster)).values(), default=0) <= 1000
    cluster.close()


def _cluster(policy: str, bound: Mapping[str, Any]) -> Cluster:
    """A scheduler that starts and finds these pods."""
    cluster = of_policy(policy)
    for number, gpus in enumerate([1, 4]):
        cluster.add_node(gpu_node(f"n{number}", gpus=gpus))
    for each in bound.values():
        units = each.signature.requests.scalar(UNITS)
        name, annotations = each.metadata.name, dict(each.metadata.annotations)
        cluster.add_pods(gpu_pod(name, units, node=each.spec.node_name, annotations=annotations))
    return cluster


PLACEMENTS: Final = st.lists(
    st.tuples(SIZES, st.integers(0, 1), st.booleans(), st.booleans()), max_size=20
)


@given(PLACEMENTS)
def test_rows_that_pods_were_added_to_are_as_if_read_anew(
    placements: list[tuple[int, int, bool, bool]],
) -> None:
    cache, signatures, devices = Cache(), PodSignatures(), Devices(UNITS, INDEX)
    for number in (0, 1):
        cache.set_node(msgspec.convert(gpu_node(f"n{number}", gpus=1 + 3 * number), Node))
    table = cache.table
    for number, (units, at, is_current, ends) in enumerate(placements):
        incoming = msgspec.convert(gpu_pod(f"p{number}", units), Pod)
        incoming.metadata.uid = f"p{number}"
        signatures.intern(incoming)
        if is_current:
            devices.refresh(table)
        placed = cache.assume_pod(incoming, f"n{at}")
        others = devices.on_node(table.node_info(at), without=placed.metadata.uid)
        request = devices.request_of(placed) or NO_GPU
        indexes = select(others.left, request)
        if indexes is None:
            cache.forget_pod(placed.metadata.uid)
        elif request.gpus:
            devices.place(placed, request, indexes, table, at, others)
        if indexes and ends:
            devices.release(placed.metadata.uid)
            cache.forget_pod(placed.metadata.uid)
        devices.refresh(table)
        fresh = Devices(UNITS, INDEX)
        fresh._booked.update(devices._booked)
        fresh.refresh(table)
        for name in ("left", "counts", "kinds", "total", "most", "free"):
            assert getattr(devices, name).tolist() == getattr(fresh, name).tolist()


# -- contract and arguments ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        (GpuSharing, {}),
        (RandomDevice, {}),
        (Fgd, TYPICAL),
        (BestFit, {}),
        (DotProd, {}),
        (GpuPacking, {}),
        (GpuClustering, {}),
    ],
)
def test_the_plugins_keep_the_contract(plugin: type, args: dict[str, Any]) -> None:
    check_plugin(plugin, args)


@pytest.mark.parametrize(
    ("plugin", "args", "text"),
    [
        (GpuSharing, {"resource": "gpu"}, "args.resource"),
        (Fgd, {"typicalPods": []}, "args.typicalPods"),
        (Fgd, {"typicalPods": [{"cpu": 1, "gpuMilli": 1001}]}, r"args.typicalPods\[0\]"),
        (BestFit, {"maxGpus": 0}, "args.maxGpus"),
    ],
)
def test_arguments_are_checked(plugin: type, args: dict[str, Any], text: str) -> None:
    with Cluster() as cluster, pytest.raises(ConfigurationError, match=text):
        cluster.enable(plugin, args)
