"""Start `kubestow run` as a process of its own against a control plane, as a user would."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.ports import free_port

API_VERSION = "kubescheduler.config.k8s.io/v1"


def start_kubestow(
    control_plane: ControlPlane,
    config: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    *,
    feature_gates: Mapping[str, bool] | None = None,
    kubeconfig: Path | None = None,
    name: str = "kubestow",
    environment: Mapping[str, str] | None = None,
) -> ManagedProcess:
    """Start kubestow and wait until it is ready.

    Args:
        control_plane: where to.
        config: a KubeSchedulerConfiguration without its head; connection and `leaderElect: false`
            are added where it does not set them.
        arguments: appended to the command line.
        feature_gates: gates to set.
        kubeconfig: the user to act as; the administrator by default.
        name: of the process and its log, to run more than one.
        environment: in addition to what every component gets.
    """
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        **(config or {}),
    }
    document.setdefault("leaderElection", {"leaderElect": False})
    connection = dict(document.get("clientConnection") or {})
    connection.setdefault("kubeconfig", str(kubeconfig or control_plane.kubeconfig))
    document["clientConnection"] = connection
    path = control_plane.files.directory / f"{name}.config"
    path.write_text(json.dumps(document, indent=2) + "\n")
    port = free_port()
    command = [
        sys.executable, "-m", "scheduler", "run", f"--config={path}", f"--secure-port={port}",
        "--bind-address=127.0.0.1", *arguments,
    ]  # fmt: skip
    if feature_gates:
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in feature_gates.items())
        command.append(f"--feature-gates={gates}")
    return control_plane.start_process(name, command, port=port, environment=environment)
