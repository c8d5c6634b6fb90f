"""Decisions remembered of a burst on a real API server: each names the node of its pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

PODS = 120


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_kubestow(
        control_plane,
        {"clientConnection": {"qps": 1000, "burst": 1000}},
        name="kubestow-decisions",
    )
    yield process
    process.stop_cleanly()


def test_every_decision_of_a_burst_names_the_node_of_its_pod(
    control_plane: ControlPlane, kubestow: ManagedProcess
) -> None:
    def page(query: str) -> dict[str, Any]:
        status, body = get_endpoint(
            kubestow.port, f"/debug/decisions{query}", control_plane.admin_token
        )
        assert status == 200, body
        return dict(json.loads(body))

    with Workload(control_plane, "decisions") as work:
        for index in range(4):
            work.node(f"decisions-{index}", cpu="8")
        for index in range(PODS):
            work.pod(f"p{index}", cpu="100m")
        work.pod("big", cpu="64")
        bound = work.until_bound(*(f"p{index}" for index in range(PODS)))
        nodes = {f"{work.namespace}/{name}": node for name, node in bound.items()}
        decided = until(
            lambda: _all_bound(page(f"?namespace={work.namespace}&limit=500"), PODS), "recorded"
        )
        assert {pod: each["node"] for pod, each in decided.items()} == nodes
        for each in decided.values():
            assert each["best"][0]["node"] == each["node"]
            assert each["phases"]["bind"] > 0
        rejected = page(f"?pod={work.namespace}/big")["decisions"][-1]
        assert rejected["result"] == "unschedulable"
        (rejection,) = [
            each for each in rejected["rejections"] if each["plugin"] == "NodeResourcesFit"
        ]
        assert rejection["detail"].startswith("wants 64 cpu, the largest node has ")


def test_preemption_is_remembered_with_its_victim(
    control_plane: ControlPlane, kubestow: ManagedProcess
) -> None:
    control_plane.admin.ensure(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "decisions-high"}, "value": 1000},
    )
    with Workload(control_plane, "decisions-preemption") as work:
        work.node("decisions-full", cpu="1")
        work.pod("small", cpu="800m", terminationGracePeriodSeconds=0)
        work.until_bound("small")
        work.pod("big", cpu="800m", priorityClassName="decisions-high")
        work.until_bound("big")

        def ended() -> list[dict[str, Any]]:
            path = f"/debug/decisions?pod={work.namespace}/big"
            status, body = get_endpoint(kubestow.port, path, control_plane.admin_token)
            assert status == 200, body
            found = list(json.loads(body)["decisions"])
            return found if found[-1]["bound"] else []

        first, *_, last = until(ended, "the binding is recorded")
    assert (first["result"], first["nominated_node"]) == ("unschedulable", "decisions-full")
    assert first["victims"] == [f"{work.namespace}/small"]
    assert (last["result"], last["node"]) == ("placed", "decisions-full")


def _all_bound(page: dict[str, Any], count: int) -> dict[str, dict[str, Any]]:
    bound = {each["pod"]: each for each in page["decisions"] if each["bound"]}
    return bound if len(bound) == count else {}
