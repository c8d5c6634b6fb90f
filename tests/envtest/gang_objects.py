"""PodGroups of the custom resource on an API server, and their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane
from tests.envtest.workload import Workload, until

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: Final = Path(__file__).parents[2] / "examples" / "gang" / "crd.yaml"
LABEL: Final = "scheduling.x-k8s.io/pod-group"
ENABLED: Final = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}
PROFILES: Final = {"profiles": [{"schedulerName": "kubestow", "plugins": ENABLED}]}


@contextmanager
def served_groups(control_plane: ControlPlane) -> Iterator[None]:
    """Serve PodGroups."""
    (definition,) = yaml.safe_load_all(DEFINITION.read_text(encoding="utf-8"))
    control_plane.admin.request("POST", DEFINITIONS, definition)
    name = definition["metadata"]["name"]
    yield
    control_plane.admin.request("DELETE", f"{DEFINITIONS}/{name}")
    until(lambda: gone(control_plane, name), "the definition is gone")


def gone(control_plane: ControlPlane, name: str) -> bool:
    try:
        control_plane.admin.request("GET", f"{DEFINITIONS}/{name}")
    except ApiError:
        return True
    return False


def add_group(
    control_plane: ControlPlane,
    work: Workload,
    name: str,
    minimum: int,
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Create a PodGroup as soon as the API server takes it."""
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{work.namespace}/podgroups"
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"minMember": minimum},
    }

    def made() -> bool:
        try:
            control_plane.admin.ensure(path, body)
        except ApiError:
            return False
        return True

    until(made, "the API server takes a PodGroup")
