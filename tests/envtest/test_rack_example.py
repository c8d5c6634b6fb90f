"""The example rack_aware on a real API server: a rack that is full, and what makes room."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "rack_aware"
RACK: Final = "topology.kubernetes.io/rack"


def test_a_rack_takes_its_share_of_an_app(control_plane: ControlPlane) -> None:
    config = {
        "profiles": [
            {
                "schedulerName": "kubestow",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "plugins.extra.rack_aware:RackAware"}]}
                },
                "pluginConfig": [
                    {
                        "name": "kubestow.io/RackAware",
                        "args": {"label": "app", "levels": [{"key": RACK, "maxPercent": 50}]},
                    }
                ],
            }
        ]
    }
    arguments = ["--pod-max-in-unschedulable-pods-duration=0s"]
    with Workload(control_plane, "racks") as work:
        work.node("n1", labels={RACK: "r1"})
        process = start_kubestow(control_plane, config, arguments, name="kubestow-racks")
        work.pod("web-1", labels={"app": "web"})
        work.until_bound("web-1")
        work.pod("web-2", labels={"app": "web"})
        assert f"whose {RACK} had its share" in str(work.until_rejected("web-2")["message"])
        # Of three pods, half are two.
        work.pod("web-3", labels={"app": "web"}, cpu="1000")
        work.until_bound("web-2")
        process.stop_cleanly()
