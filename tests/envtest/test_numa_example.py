"""The example numa_aware on a real API server: pods follow NodeResourceTopology objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.definitions import defined
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "numa_aware"
NAME: Final = "kubestow.io/NumaAware"


def zones(*cpus: int) -> dict[str, Any]:
    """Return a patch: zones with so many free CPUs."""
    found = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": 8, "allocatable": 8, "available": each},
                {
                    "name": "memory", "capacity": "8Gi", "allocatable": "8Gi", "available": "8Gi",
                },
            ],
        }
        for number, each in enumerate(cpus)
    ]  # fmt: skip
    return {"zones": found}


def guaranteed(work: Workload, name: str, cpu: str) -> None:
    amounts = {"cpu": cpu, "memory": "16Mi"}
    work.pod(name, container={"resources": {"requests": amounts, "limits": amounts}})


def test_pods_follow_the_numa_zones_of_a_node(control_plane: ControlPlane) -> None:
    config = yaml.safe_load((EXAMPLE / "config.yaml").read_text(encoding="utf-8"))
    config["profiles"][0]["pluginConfig"][0]["args"]["settleTime"] = "0s"
    arguments = ["--pod-max-in-unschedulable-pods-duration=0s"]
    admin = control_plane.admin
    with (
        defined(control_plane, EXAMPLE / "crd.yaml") as topologies,
        Workload(control_plane, "numa") as work,
    ):
        work.node("node-1", cpu="16")
        process = start_kubestow(control_plane, config, arguments, name="kubestow-numa")
        guaranteed(work, "first", "3")
        work.until_bound("first")
        guaranteed(work, "second", "3")
        assert "placed just now" in str(work.until_rejected("second")["message"])
        # Every CPU of both zones, and the pod that was placed.
        admin.request("PATCH", f"{topologies}/node-1", zones(2, 5))
        work.until_bound("second")
        guaranteed(work, "third", "6")
        assert "without a NUMA zone" in str(work.until_rejected("third")["message"])
        admin.request("PATCH", f"{topologies}/node-1", zones(2, 8))
        work.until_bound("third")
        process.stop_cleanly()
