"""A pod that is bound on a real API server leaves its trace at a collector."""

from __future__ import annotations

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until
from tests.otlp_receiver import otlp_receiver

pytestmark = pytest.mark.envtest


def test_a_bound_pod_leaves_its_trace(control_plane: ControlPlane) -> None:
    with otlp_receiver() as receiver, Workload(control_plane, "traced") as work:
        kubestow = start_kubestow(
            control_plane,
            {
                "kubestow": {
                    "tracing": {"endpoint": receiver.url, "samplingRatePerMillion": 1_000_000}
                }
            },
            name="kubestow-traced",
        )
        work.node("node-traced", cpu="1")
        work.pod("fits", cpu="900m")
        work.until_bound("fits")
        work.pod("rejected", cpu="900m")
        message = work.until_rejected("rejected")["message"]
        # The last spans are sent at the end of the process.
        kubestow.stop_cleanly()
        root, *steps = until(lambda: receiver.trace_of("fits"), "the trace of the bound pod")
        assert root["attributes"]["k8s.node.name"] == "node-traced"
        assert root["attributes"]["kubestow.result"] == "scheduled"
        names = {span["name"] for span in steps}
        assert {"PreFilter", "Filter", "Reserve", "Bind"} <= names
        rejected, *_ = receiver.trace_of("rejected")
        assert rejected["message"] == message
