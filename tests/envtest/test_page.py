"""`kubestow ui` as a process, beside a scheduler and a real API server."""

from __future__ import annotations

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.page_process import page
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest


def test_a_person_finds_nodes_queue_and_the_story_of_a_pod(control_plane: ControlPlane) -> None:
    scheduler = start_kubestow(control_plane, name="kubestow-page")
    with Workload(control_plane, "page") as work:
        work.node("page-1", labels={"topology.kubernetes.io/zone": "a"})
        work.node("page-2", unschedulable=True)
        work.pod("fits", cpu="1500m")
        work.pod("large", cpu="64")
        work.until_bound("fits")
        work.until_rejected("large")
        server = ("--server", f"https://localhost:{scheduler.port}", "--insecure-skip-tls-verify")
        with page(control_plane.kubeconfig, *server) as ask:
            nodes = {node["name"]: node for node in ask("nodes?limit=500")["nodes"]}
            node = ask("node?name=page-1")
            queue = ask("queue?namespace=page")
            waiting = ask("waiting?namespace=page")
            story = ask("explain?pod=page/large")
            summary = ask("summary")
    scheduler.stop()
    assert (nodes["page-1"]["zone"], nodes["page-2"]["unschedulable"]) == ("a", True)
    assert [(pod["name"], pod["requests"]["cpu"]) for pod in node["pods"]] == [("fits", 1.5)]
    assert [pod["name"] for pod in queue["pods"]] == ["large"]
    assert waiting["headline"] == "1 pod waits: it lacks CPU"
    assert [group["pod"] for group in waiting["groups"]] == ["large"]
    reasons = {reason for each in story["pod"]["nodes"]["rejections"] for reason in each["reasons"]}
    assert "Insufficient cpu" in reasons
    assert summary["nodes"] >= 2
