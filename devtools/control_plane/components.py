"""The command lines of kube-scheduler and kube-controller-manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from devtools.control_plane.admin import JsonObject
from devtools.control_plane.api_server import Files, switches
from devtools.control_plane.ports import LOOPBACK

CLIENT_LIMIT: Final = 5000
"""Requests per second, and burst, that the components allow themselves. Upstream's defaults of 50
and 100 would be what a benchmark measures; 5000 is what upstream's scheduler benchmark sets."""


def scheduler_configuration(config: Mapping[str, object], kubeconfig: Path) -> JsonObject:
    """Return `config` with head, connection and leader election filled in where not given."""
    defaults: JsonObject = {
        "clientConnection": {
            "kubeconfig": str(kubeconfig),
            "qps": CLIENT_LIMIT,
            "burst": CLIENT_LIMIT,
        },
        "leaderElection": {"leaderElect": False},
    }
    sections = {
        name: {**cast("JsonObject", default), **cast("JsonObject", config.get(name, {}))}
        for name, default in defaults.items()
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**head, **config, **sections}


def scheduler_arguments(
    config: Path, *, port: int, kubeconfig: Path, feature_gates: Mapping[str, bool]
) -> list[str]:
    """Return the arguments of kube-scheduler.

    Leader election is left to the file, because a flag would override it.
    """
    return [
        *_serving_arguments(port, kubeconfig),
        f"--config={config}",
        *switches("--feature-gates", feature_gates),
    ]


def controller_manager_arguments(
    files: Files,
    *,
    port: int,
    kubeconfig: Path,
    controllers: Sequence[str],
    feature_gates: Mapping[str, bool],
) -> list[str]:
    """Return the arguments of kube-controller-manager."""
    return [
        *_serving_arguments(port, kubeconfig),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--kube-api-qps={CLIENT_LIMIT}",
        f"--kube-api-burst={CLIENT_LIMIT}",
        f"--controllers={','.join(controllers)}",
        f"--service-account-private-key-file={files.signing_key}",
        f"--root-ca-file={files.authority}",
        *switches("--feature-gates", feature_gates),
    ]


def _serving_arguments(port: int, kubeconfig: Path) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]
