"""A plugin reads a custom resource of a real API server: absent, then served, then changed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

PLUGIN: Final = """
from scheduler.api import CustomObject
from scheduler.framework import ActionType, BasePlugin, ClusterEvent, ClusterEventWithHint
from scheduler.framework import unresolvable


class RackFilter(BasePlugin):
    name = "example.com/RackFilter"
    required_resources = ("example.com/v1/racks",)

    def __init__(self, args, handle) -> None:
        self._listers = handle.listers

    def filter(self, state, pod, node):
        rack = self._listers["example.com/v1/racks"].get(node.labels.get("example.com/rack", ""))
        if rack is None:
            return unresolvable("node(s) without a rack")
        assert isinstance(rack, CustomObject)
        return unresolvable("node(s) in closed racks") if rack.spec.get("closed") else None

    def events_to_register(self):
        changed = ClusterEvent("racks.v1.example.com", ActionType.ADD | ActionType.UPDATE)
        return [ClusterEventWithHint(changed)]
"""
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RACKS: Final = "/apis/example.com/v1/racks"
DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "racks.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "racks", "singular": "rack", "kind": "Rack"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def test_pods_follow_objects_of_a_custom_resource(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "rack_filter.py").write_text(PLUGIN, encoding="utf-8")
    enabled = {"multiPoint": {"enabled": [{"name": "rack_filter:RackFilter"}]}}
    admin = control_plane.admin
    process = start_kubestow(
        control_plane,
        {"profiles": [{"schedulerName": "kubestow", "plugins": enabled}]},
        [f"--plugin-dir={tmp_path}", "--pod-max-in-unschedulable-pods-duration=0s"],
        name="kubestow-racks",
    )
    try:
        with Workload(control_plane, "custom-resources") as work:
            work.node("n1", labels={"example.com/rack": "r1"})
            work.pod("p")
            assert "without a rack" in str(work.until_rejected("p")["message"])

            admin.request("POST", DEFINITIONS, DEFINITION)

            def make() -> bool:
                try:
                    body = {
                        "apiVersion": "example.com/v1",
                        "kind": "Rack",
                        "metadata": {"name": "r1"},
                        "spec": {"closed": True},
                    }
                    admin.ensure(RACKS, body)
                except ApiError:
                    return False
                return True

            until(make, "the API server serves racks")
            until(
                lambda: "closed racks" in str(work.condition("p").get("message")),
                "kubestow sees the rack",
            )
            admin.request("PATCH", f"{RACKS}/r1", {"spec": {"closed": False}})
            (node,) = work.until_bound("p").values()
            assert node.endswith("n1")
    finally:
        process.stop()
        admin.request("DELETE", f"{DEFINITIONS}/racks.example.com")
    assert process.returncode == 0, process.describe("did not end cleanly")
