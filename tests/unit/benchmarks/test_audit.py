"""Runs that lost, doubled or overfilled anything are found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchmarks.audit import allocated_twice, audit, overfilled
from benchmarks.operations import Observed


def observed(**changes: Any) -> Observed:
    right = Observed(
        opened=0.0, closed=1.0, created_all=0.5, created=(0.1,), bound=(0.4,), nodes=("n",),
        bound_twice=(), objects={}, generator_cpu=0.0,
    )  # fmt: skip
    return msgspec.structs.replace(right, **changes)


def node(name: str = "n", **allocatable: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"pods": "2"} | allocatable}}


def pod(where: str = "n", phase: str = "Pending", **requests: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"resources": {"requests": requests}}],
            **({"nodeName": where} if where else {}),
        },
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], []),
        ([pod(cpu="500m"), pod(cpu="500m")], []),
        ([pod(cpu="500m"), pod(cpu="501m")], ["n (cpu)"]),
        ([pod(), pod(), pod()], ["n (pods)"]),
        ([pod(), pod(), pod(phase="Succeeded")], []),
        ([pod(cpu="1"), pod("", cpu="1")], []),
        ([pod("gone")], ["gone (no such node)"]),
        ([pod(**{"foo.com/bar": "1"})], ["n (foo.com/bar)"]),
    ],
)
def test_nodes_with_too_much_on_them(pods: list[dict[str, Any]], expected: list[str]) -> None:
    assert overfilled([node(cpu="1")], pods) == expected


def test_a_clean_run_has_no_problems() -> None:
    assert audit(observed(), [node(cpu="1")], [pod(cpu="1")], []) == []


def test_each_problem_is_named() -> None:
    found = audit(
        observed(nodes=("n", ""), bound_twice=("a/b", "a/c", "a/d", "a/e")),
        [node(cpu="1")],
        [pod(cpu="2")],
        [claim("a"), claim("a")],
    )

    assert found == [
        "1 pods were never bound",
        "bound twice: a/b, a/c, a/d and 1 more",
        "bound over capacity: n (cpu)",
        "allocated twice: d/n/a",
    ]


def claim(device: str, **result: Any) -> dict[str, Any]:
    found = {"driver": "d", "pool": "n", "device": device, **result}
    return {"status": {"allocation": {"devices": {"results": [found]}}}}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([{}, claim("a"), claim("b")], []),
        ([claim("a"), claim("a")], ["d/n/a"]),
        ([claim("a", shareID="x"), claim("a", shareID="y")], []),
        ([claim("a"), claim("a", adminAccess=True)], []),
    ],
)
def test_devices_that_two_claims_hold(claims: list[dict[str, Any]], expected: list[str]) -> None:
    assert allocated_twice(claims) == expected


def test_resources_that_devices_stand_for_need_no_room_on_the_node() -> None:
    served = pod(**{"example.com/gpu": "1"})
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    served["status"]["extendedResourceClaimStatus"] = {"requestMappings": [mapping]}
    assert overfilled([node()], [served]) == []
