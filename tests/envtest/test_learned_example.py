"""The example learned_score on a real API server: pods go where the model sees the least loss."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "learned_score"
if "CI" not in os.environ:
    # There, what is missing is an error.
    pytest.importorskip("onnxruntime", reason="kubestow[learned] is not installed")


def test_the_second_pod_joins_the_first(control_plane: ControlPlane) -> None:
    config = yaml.safe_load((EXAMPLE / "config.yaml").read_text("utf-8"))
    with Workload(control_plane, "learned") as work:
        for name in ("n1", "n2", "n3"):
            work.node(name, cpu="8")
        process = start_kubestow(
            control_plane, config, [f"--plugin-dir={EXAMPLE}"], name="kubestow-learned"
        )
        for name in ("first", "second"):
            work.pod(name, cpu="500m")
            work.until_bound(name)
        nodes = work.bound()
        assert nodes["first"] == nodes["second"]
        process.stop_cleanly()
