"""The example load_aware on a real API server, with an aggregated metrics API that is polled."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.metrics_api import metrics_api
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "load_aware"


def test_pods_follow_the_load_that_an_aggregated_api_measures(control_plane: ControlPlane) -> None:
    config = yaml.safe_load((EXAMPLE / "config.yaml").read_text(encoding="utf-8"))
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"][0]["weight"] = 100
    with metrics_api(control_plane) as api, Workload(control_plane, "load") as work:
        work.node("load-a")
        work.node("load-b")
        api.cpu = {"load-a": "3", "load-b": "100m"}
        api.requests.clear()
        process = start_kubestow(control_plane, config, (), name="kubestow-load")
        work.pod("first")
        assert work.until_bound("first")["first"] == "load-b"
        # It cannot be watched, and nobody asks for that again.
        api.cpu = {"load-a": "100m", "load-b": "3"}
        lists = api.requests["list"]
        until(lambda: api.requests["list"] > lists, "the API is polled")
        assert api.requests["watch"] <= 1

        numbers = itertools.count()

        def goes_elsewhere() -> bool:
            name = f"later-{next(numbers)}"
            work.pod(name)
            return work.until_bound(name)[name] == "load-a"

        until(goes_elsewhere, "the new measurements decide")
        process.stop_cleanly()
