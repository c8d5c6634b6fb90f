"""A control plane with our manifests and the policies of deferred quota, as users apply them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from devtools.control_plane.admin import JsonObject
from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
COMPONENTS: Final = [
    MANIFESTS / "components" / name for name in ("deferred-quota-policies", "deferred-quota-mark")
]


@contextmanager
def guarded_plane(
    binaries: Binaries, directory: Path, arguments: Sequence[str], *, controllers: Sequence[str]
) -> Iterator[ControlPlane]:
    """Run the plane; `arguments` and `controllers` are those of kube-controller-manager."""
    with ControlPlane(binaries, ApiServerOptions(), directory) as plane:
        plane.start_controller_manager(arguments, controllers=controllers)
        apply_manifests(plane, directory, COMPONENTS)
        yield plane


def apply_manifests(plane: ControlPlane, directory: Path, components: Sequence[Path]) -> None:
    """Apply our manifests with `components`; the overlay is written to `directory`."""
    overlay = directory / "overlay"
    overlay.mkdir()
    kustomization = {
        "resources": [os.path.relpath(MANIFESTS, overlay.resolve())],
        "components": [os.path.relpath(each, overlay.resolve()) for each in components],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    plane.kubectl("apply", "-k", str(overlay))


def node(name: str, amounts: Mapping[str, str]) -> JsonObject:
    """Return a node with resources for pods."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": dict(amounts),
            "allocatable": dict(amounts),
            "conditions": [ready],
            "nodeInfo": {"operatingSystem": "linux"},
        },
    }
