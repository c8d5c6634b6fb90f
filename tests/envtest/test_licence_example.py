"""The example licence_tokens on a real API server: pods wait for tokens of a custom resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.definitions import defined
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "licence_tokens"
ANNOTATION: Final = "example.com/licences"


def pod(work: Workload, name: str, licences: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "annotations": {ANNOTATION: licences}},
        "spec": {
            "schedulerName": work.scheduler_name,
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    work.control_plane.admin.request("POST", f"/api/v1/namespaces/{work.namespace}/pods", body)


def test_pods_wait_for_tokens_over_a_restart(control_plane: ControlPlane) -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "licence_tokens:LicenceTokens"}]}}
    config = {"profiles": [{"schedulerName": "kubestow", "plugins": enabled}]}
    arguments = [f"--plugin-dir={EXAMPLE}", "--pod-max-in-unschedulable-pods-duration=0s"]
    with (
        defined(control_plane, EXAMPLE / "pools.yaml") as pools,
        Workload(control_plane, "licences") as work,
    ):
        work.node("n1")
        process = start_kubestow(control_plane, config, arguments, name="kubestow-licences")
        pod(work, "first", "matlab=3")
        work.until_bound("first")
        process.stop_cleanly()

        process = start_kubestow(control_plane, config, arguments, name="kubestow-licences-2")
        pod(work, "second", "matlab=3")
        assert "licence pool matlab" in str(work.until_rejected("second")["message"])
        control_plane.admin.request("PATCH", f"{pools}/matlab", {"spec": {"tokens": 6}})
        work.until_bound("second")
        pod(work, "third", "matlab=2")
        work.until_rejected("third")
        work.delete_pod("first")
        work.until_bound("third")
        process.stop_cleanly()
