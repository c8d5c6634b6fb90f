"""The example licence_tokens on a real API server: pods wait for tokens of a custom resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from testing.control_plane.admin import ApiError
from testing.control_plane.control_plane import ControlPlane
from testing.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "licence_tokens"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS: Final = "/apis/example.com/v1/licencepools"
ANNOTATION: Final = "example.com/licences"


def create_pools(control_plane: ControlPlane) -> None:
    """Apply pools.yaml; its kind is served a moment after its definition."""
    definition, pool = yaml.safe_load_all((EXAMPLE / "pools.yaml").read_text(encoding="utf-8"))
    control_plane.admin.request("POST", DEFINITIONS, definition)

    def created() -> bool:
        try:
            control_plane.admin.ensure(POOLS, pool)
        except ApiError:
            return False
        return True

    until(created, "the API server serves licence pools")


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
    create_pools(control_plane)
    try:
        with Workload(control_plane, "licences") as work:
            work.node("n1")
            process = start_kubestow(control_plane, config, arguments, name="kubestow-licences")
            pod(work, "first", "matlab=3")
            work.until_bound("first")
            process.stop()
            assert process.returncode == 0, process.describe("did not end cleanly")

            process = start_kubestow(control_plane, config, arguments, name="kubestow-licences-2")
            pod(work, "second", "matlab=3")
            assert "licence pool matlab" in str(work.until_rejected("second")["message"])
            control_plane.admin.request("PATCH", f"{POOLS}/matlab", {"spec": {"tokens": 6}})
            work.until_bound("second")
            pod(work, "third", "matlab=2")
            work.until_rejected("third")
            work.delete_pod("first")
            work.until_bound("third")
            process.stop()
            assert process.returncode == 0, process.describe("did not end cleanly")
    finally:
        control_plane.admin.request("DELETE", f"{DEFINITIONS}/licencepools.example.com")
