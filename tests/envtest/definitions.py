"""Definitions of custom resources on a real API server, from the files of examples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane
from tests.envtest.workload import until

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@contextmanager
def defined(control_plane: ControlPlane, path: Path) -> Iterator[str]:
    """Create the definition and the object in a file; yield the path of the objects.

    The kind is served a moment after its definition exists. The definition goes at the end.
    """
    definition, example = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    spec = definition["spec"]
    objects = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    control_plane.admin.request("POST", DEFINITIONS, definition)
    try:
        until(lambda: _ensured(control_plane, objects, example), f"{objects} are served")
        yield objects
    finally:
        name = definition["metadata"]["name"]
        control_plane.admin.request("DELETE", f"{DEFINITIONS}/{name}")


def _ensured(control_plane: ControlPlane, objects: str, body: dict[str, Any]) -> bool:
    try:
        control_plane.admin.ensure(objects, body)
    except ApiError:
        return False
    return True
