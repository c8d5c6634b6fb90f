"""ImageLocality counts image volumes like containers (kubernetes#138952)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest

APP: Final[dict[str, Any]] = {"names": ["registry.example.org/app:1"], "sizeBytes": 1_200_000_000}
DATA: Final[dict[str, Any]] = {"names": ["registry.example.org/data:1"], "sizeBytes": 1_600_000_000}
PODS: Final = 10


def test_the_node_with_the_image_of_the_volume_is_chosen_each_time(
    control_plane: ControlPlane,
) -> None:
    """The image of the container alone would already reach the bound of one image."""
    with Workload(control_plane, "image-volumes") as work:
        for name, images in (("image-app", [APP]), ("image-app-and-data", [APP, DATA])):
            work.node(name)
            path = f"/api/v1/nodes/{name}/status"
            control_plane.admin.request("PATCH", path, {"status": {"images": images}})
        process = start_kubestow(control_plane, {}, name="kubestow-image-volumes")
        try:
            volume = {"name": "data", "image": {"reference": DATA["names"][0]}}
            for number in range(PODS):
                work.pod(
                    f"p-{number}",
                    cpu="0",
                    container={"image": APP["names"][0]},
                    volumes=[volume],
                )
            assert set(work.until_bound().values()) == {"image-app-and-data"}
        finally:
            process.stop()
