"""Request sums. Upstream's own results are in the vectors."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.quantity import QuantityError
from scheduler.api.requests import (
    DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU,
    Resources,
    assigned_requests,
    incoming_requests,
    is_extended_resource_name,
    node_allocatable,
    non_zero_requests,
    pod_limits,
    scalar_resource_names,
    scoring_requests,
)
from tests.unit.api.objects import container, node, pod

GI = 1 << 30
MI = 1 << 20


def cpus(*amounts: str) -> list[dict[str, Any]]:
    return [container(f"c{i}", requests={"cpu": each}) for i, each in enumerate(amounts)]


def init(cpu: str, name: str = "i", *, sidecar: bool = False) -> dict[str, Any]:
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return container(name, requests={"cpu": cpu}, **policy)


@pytest.mark.parametrize(
    ("spec", "milli_cpu"),
    [
        ({"containers": cpus("1", "2")}, 3000),
        ({"containers": cpus("1", "2"), "overhead": {"cpu": "500m"}}, 3500),
        ({"containers": cpus("1", "2"), "initContainers": [init("2")]}, 3000),
        ({"containers": cpus("1", "2"), "initContainers": [init("5")]}, 5000),
        (
            {"containers": cpus("1"), "initContainers": [init("2", sidecar=True), init("5", "j")]},
            7000,
        ),
        (
            {"containers": cpus("1"), "initContainers": [init("5"), init("2", "j", sidecar=True)]},
            5000,
        ),
        (
            {
                "containers": cpus("3"),
                "initContainers": [init("1", sidecar=True), init("2", "j", sidecar=True)],
            },
            6000,
        ),
        ({"containers": cpus("0.5m", "0.5m")}, 1),
        ({"containers": []}, 0),
    ],
)
def test_containers_add_up_and_init_containers_peak(spec: dict[str, Any], milli_cpu: int) -> None:
    assert incoming_requests(pod(spec)).milli_cpu == milli_cpu


def test_every_kind_of_resource_lands_in_its_place() -> None:
    requests = {
        "memory": "1Gi",
        "ephemeral-storage": "1500m",
        "example.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "vendor.io/nic": "0",
        "storage": "5Gi",
        "pods": "1",
    }
    amounts = incoming_requests(pod({"containers": [container(requests=requests)]}))
    assert amounts == Resources(
        memory=GI,
        ephemeral_storage=2,
        scalars=(("example.com/gpu", 2), ("hugepages-2Mi", 4 * MI), ("vendor.io/nic", 0)),
    )
    assert amounts.scalar("example.com/gpu") == 2
    assert amounts.scalar("absent") == 0


def test_a_stated_zero_scalar_keeps_a_pod_from_being_empty() -> None:
    assert Resources().empty
    assert not Resources(scalars=(("vendor.io/nic", 0),)).empty


def test_pod_level_requests_replace_what_they_name_and_nothing_else() -> None:
    subject = pod(
        {
            "containers": [
                container(
                    requests={
                        "cpu": "1",
                        "memory": "2Gi",
                        "ephemeral-storage": "1",
                        "hugepages-2Mi": "2Mi",
                    }
                )
            ],
            "resources": {
                "requests": {"memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "9"}
            },
            "overhead": {"memory": "1Gi"},
        }
    )
    assert incoming_requests(subject) == Resources(
        milli_cpu=1000,
        memory=2 * GI,
        ephemeral_storage=1,
        scalars=(("hugepages-2Mi", 4 * MI),),
    )
    assert scoring_requests(subject).memory == 3 * GI


def resized(
    spec: str, actuated: str, allocated: str | None = None, *, reason: str = "", where: str = "c"
) -> dict[str, Any]:
    """Parts of a running pod whose kubelet reports a size of its own."""
    status: dict[str, Any] = {"name": where, "resources": {"requests": {"cpu": actuated}}}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    conditions = (
        [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    )
    return {
        "spec": {"containers": [container(requests={"cpu": spec})]},
        "status": {"containerStatuses": [status], "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("parts", "milli_cpu"),
    [
        (resized("4", "2", "2"), 4000),
        (resized("4", "2", "2", reason="Deferred"), 4000),
        (resized("4", "2", "2", reason="Infeasible"), 2000),
        (resized("4", "2", "3", reason="Infeasible"), 3000),
        (resized("1", "2"), 2000),
        (resized("1", "2", "3"), 3000),
        (resized("1", "2", where="stranger"), 1000),
    ],
)
def test_a_running_pod_takes_the_larger_size_while_it_is_resized(
    parts: dict[str, Any], milli_cpu: int
) -> None:
    subject = pod(**parts)
    assert assigned_requests(subject).milli_cpu == milli_cpu
    assert non_zero_requests(subject) == (milli_cpu, DEFAULT_MEMORY)
    assert incoming_requests(subject).milli_cpu == int(
        1000 * int(parts["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    )


def test_only_restartable_init_containers_can_be_resized() -> None:
    statuses = [
        {"name": name, "resources": {"requests": {"cpu": "4"}}} for name in ("once", "sidecar")
    ]
    subject = pod(
        {
            "containers": cpus("1"),
            "initContainers": [init("1", "once"), init("1", "sidecar", sidecar=True)],
        },
        status={"initContainerStatuses": statuses},
    )
    assert assigned_requests(subject).milli_cpu == 5000


@pytest.mark.parametrize(("reason", "milli_cpu"), [("", 3000), ("Infeasible", 2000)])
def test_pod_level_requests_are_resized_by_the_same_rule(reason: str, milli_cpu: int) -> None:
    conditions = (
        [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    )
    subject = pod(
        {"containers": cpus("1"), "resources": {"requests": {"cpu": "3"}}},
        status={
            "resources": {"requests": {"cpu": "2"}},
            "allocatedResources": {"cpu": "1"},
            "conditions": conditions,
        },
    )
    assert assigned_requests(subject).milli_cpu == milli_cpu
    assert incoming_requests(subject).milli_cpu == 3000


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, (100, 200 * MI)),
        ({"containers": [container("a"), container("b")]}, (200, 400 * MI)),
        ({"containers": cpus("50m")}, (50, 200 * MI)),
        ({"containers": [container(requests={"cpu": "0", "memory": "0"})]}, (0, 0)),
        (
            {"containers": [container("a"), container("b")], "initContainers": [container("i")]},
            (200, 400 * MI),
        ),
        ({"containers": []}, (0, 0)),
        ({"containers": [container()], "overhead": {"cpu": "10m"}}, (110, 200 * MI)),
    ],
)
def test_scoring_counts_defaults_for_containers_that_state_nothing(
    spec: dict[str, Any], expected: tuple[int, int]
) -> None:
    subject = pod(spec)
    scoring = scoring_requests(subject)
    assert non_zero_requests(subject) == expected
    assert (scoring.milli_cpu, scoring.memory) == expected


def test_with_pod_level_requests_defaults_fill_only_what_nothing_states() -> None:
    subject = pod({"containers": [container()], "resources": {"requests": {"cpu": "30m"}}})
    assert non_zero_requests(subject) == (30, 200 * MI)
    stated = pod(
        {
            "containers": [container("a", requests={"memory": "1Mi"}), container("b")],
            "resources": {"requests": {"cpu": "30m"}},
        }
    )
    assert non_zero_requests(stated) == (30, MI)
    assert scoring_requests(stated) == Resources(milli_cpu=200, memory=201 * MI)


def test_limits_take_overhead_only_where_there_is_a_limit() -> None:
    subject = pod(
        {
            "containers": [container(limits={"cpu": "1", "memory": "1Gi"})],
            "initContainers": [container("i", limits={"cpu": "3"})],
            "resources": {"limits": {"memory": "2Gi"}},
            "overhead": {"cpu": "1", "ephemeral-storage": "1Gi"},
        }
    )
    assert {name: str(each) for name, each in pod_limits(subject).items()} == {
        "cpu": "4",
        "memory": "2Gi",
    }


def test_allocatable_of_a_node() -> None:
    subject = node(
        status={
            "allocatable": {
                "cpu": "3920m",
                "memory": "16Gi",
                "ephemeral-storage": "10G",
                "pods": "110",
                "example.com/gpu": "8",
                "storage": "1",
            },
            "capacity": {"cpu": "4"},
        }
    )
    resources = Resources(
        milli_cpu=3920,
        memory=16 * GI,
        ephemeral_storage=10**10,
        scalars=(("example.com/gpu", 8),),
    )
    assert node_allocatable(subject) == (resources, 110)
    assert node_allocatable(node()) == (Resources(), 0)


def test_an_unreadable_amount_is_reported_with_its_text() -> None:
    with pytest.raises(QuantityError, match="lots"):
        incoming_requests(pod({"containers": cpus("lots")}))
    with pytest.raises(QuantityError, match="many"):
        node_allocatable(node(status={"allocatable": {"pods": "many"}}))


def test_thousands_of_names_are_classified_as_single_ones_are() -> None:
    domains = ("a.io", "b.io", "A.io", "requests.a.io", "x.kubernetes.io", "hugepages-a.io", "a/b")
    own = ("gpu", "", "-", "a" * 63, "a" * 64)
    listed = [f"{domain}/{name}" for domain in domains for name in own]
    listed += ["cpu", "memory", "pods", "gpu", "hugepages-2Mi", "attachable-volumes-x", "/", ""]

    assert scalar_resource_names(listed) == [
        name
        for name in listed
        if name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
        or is_extended_resource_name(name)
    ]


def test_only_cpu_and_memory_count_for_scoring_however_many_resources_are_named() -> None:
    many = {f"example.com/r{index}": "1" for index in range(40)}
    made = pod(
        spec={
            "containers": [
                {"name": "c", "resources": {"requests": {**many, "cpu": "250m"}}},
                {"name": "d", "resources": {"requests": {**many, "memory": "1Mi"}}},
            ]
        }
    )

    assert non_zero_requests(made) == (250 + DEFAULT_MILLI_CPU, (1 << 20) + DEFAULT_MEMORY)
