"""The example gpu_sharing on a real API server: churn, a restart, and no GPU that is oversold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler.api.quantity import milli_value
from testing.control_plane.control_plane import ControlPlane
from testing.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "gpu_sharing"
UNITS: Final = "alibabacloud.com/gpu-milli"
INDEX: Final = "alibabacloud.com/gpu-index"
SIZES: Final = (300, 700, 400, 1000, 600, 2000, 250, 500)


def gpu_pod(work: Workload, name: str, units: int) -> None:
    amounts = {"cpu": "100m", UNITS: str(units)}
    work.pod(name, container={"resources": {"requests": amounts, "limits": amounts}})


def usage(pods: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Units in use by node and device, as the annotations say."""
    found: Counter[tuple[str, str]] = Counter()
    for each in pods.values():
        if not each["spec"].get("nodeName"):
            continue
        indexes = each["metadata"]["annotations"][INDEX].split("-")
        units = milli_value(each["spec"]["containers"][0]["resources"]["requests"][UNITS]) // 1000
        for index in indexes:
            found[each["spec"]["nodeName"], index] += units // len(indexes)
    return found


@pytest.mark.parametrize("policy", ["fgd-best-fit", "random"])
def test_gpus_are_shared_and_not_oversold(control_plane: ControlPlane, policy: str) -> None:
    config = yaml.safe_load((EXAMPLE / f"{policy}.yaml").read_text(encoding="utf-8"))
    arguments = [f"--plugin-dir={EXAMPLE}"]
    with Workload(control_plane, f"gpus-{policy}") as work:
        for name in ("g1", "g2"):
            work.node(name, resources={UNITS: "4000"})
        process = start_kubestow(control_plane, config, arguments, name=f"kubestow-{policy}")
        for number, units in enumerate(SIZES):
            gpu_pod(work, f"a{number}", units)
        work.until_bound(*(f"a{number}" for number in range(len(SIZES))))
        before = {
            name: each["metadata"]["annotations"][INDEX] for name, each in work.pods().items()
        }
        process.stop()
        assert process.returncode == 0, process.describe("did not end cleanly")
        for name in ("a1", "a5"):
            work.delete_pod(name)
        process = start_kubestow(control_plane, config, arguments, name=f"kubestow-{policy}-2")
        for number, units in enumerate((700, 300, 1000)):
            gpu_pod(work, f"b{number}", units)
        work.until_bound("b0", "b1", "b2")
        pods = work.pods()
        assert max(usage(pods).values()) <= 1000
        kept = {name: each["metadata"]["annotations"][INDEX] for name, each in pods.items()}
        assert {name: kept[name] for name in before if name in kept}.items() <= before.items()
        process.stop()
        assert process.returncode == 0, process.describe("did not end cleanly")
