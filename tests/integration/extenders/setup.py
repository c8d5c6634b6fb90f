"""Configurations with extenders, and what the API server has of a pod afterwards."""

from __future__ import annotations

from typing import Any

from devtools.embedded_service import condition, find
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer

BY_NAME: dict[str, Any] = {"nodeCacheCapable": True}
"""The extender is sent the names of nodes instead of whole nodes."""
QUICK: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def entry(extender: ExtenderServer, *verbs: str, **options: Any) -> dict[str, Any]:
    """An extender that takes part in the steps named."""
    weight = {"weight": 1} if "prioritize" in verbs else {}
    return {
        "urlPrefix": extender.url + "/",
        **{f"{verb}Verb": verb for verb in verbs},
        **weight,
        **options,
    }


def message(cluster: EmbeddedCluster, name: str = "p") -> str:
    """The message of the pod's condition PodScheduled."""
    return str(condition(cluster, name).get("message", ""))


def uid(cluster: EmbeddedCluster, name: str) -> str:
    found = find(cluster, name)
    assert found is not None
    return str(found["metadata"]["uid"])
