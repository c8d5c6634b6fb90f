"""Gangs of 20 pods of `scheduling.k8s.io`, whose groups a controller would make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

MEMBERS: Final = 20
"""Pods of a gang."""


def _group(index: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"gang-{index}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}},
    }


def _member(index: int) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10.1",
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"member-{index:05d}"},
        "spec": {
            "containers": [container],
            "schedulingGroup": {"podGroupName": f"gang-{index // MEMBERS}"},
        },
    }


GANG_TEMPLATES: Final[dict[str, Callable[[int, int], dict[str, Any]]]] = {
    "gang": lambda i, _n: _group(i),
    "gang-member": lambda i, _n: _member(i),
}
"""Templates as in `benchmarks.templates`."""
