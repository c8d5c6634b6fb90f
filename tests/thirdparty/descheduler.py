"""The descheduler against a control plane: its process and its policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from devtools.control_plane.admin import serves_ok
from devtools.control_plane.control_plane import ManagedProcess
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.ports import LOOPBACK, free_port
from tests.thirdparty.cluster import START_TIMEOUT_SECONDS, Cluster

NAMESPACE: Final = "kube-system"
ACCOUNT: Final = "descheduler-sa"
INTERVAL: Final = "2s"
"""Between its runs; five minutes in the manifests of its module."""


def install(cluster: Cluster) -> None:
    """Apply the permissions in the descheduler's module."""
    rbac = cluster.program("descheduler").sources / "kubernetes" / "base" / "rbac.yaml"
    cluster.plane.kubectl("apply", "-f", str(rbac))


def start_descheduler(
    cluster: Cluster, plugin: str, arguments: Mapping[str, Any], *, story: str, name: str
) -> Descheduler:
    """Start the descheduler with one balancing plugin, and wait until it is healthy.

    Args:
        cluster: on which it runs.
        plugin: name of the balancing plugin.
        arguments: of the plugin.
        story: the label of the nodes it balances.
        name: of the process and its log.
    """
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"story={story}",
        "profiles": [
            {
                "name": "test",
                "pluginConfig": [
                    {"name": plugin, "args": dict(arguments)},
                    {"name": "DefaultEvictor", "args": {"nodeFit": True}},
                ],
                "plugins": {"balance": {"enabled": [plugin]}},
            }
        ],
    }
    path = cluster.directory / f"{name}.policy"
    path.write_text(yaml.safe_dump(policy))
    port = free_port()
    command = [
        str(cluster.program("descheduler").binary),
        f"--kubeconfig={cluster.kubeconfig_of(NAMESPACE, ACCOUNT)}",
        f"--policy-config-file={path}",
        f"--descheduling-interval={INTERVAL}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        "--v=2",
    ]
    process = cluster.plane.start_process(name, command, port=port, wait=False)
    process.wait_until(
        lambda: serves_ok(port, "/healthz"), timeout=START_TIMEOUT_SECONDS, what="healthy"
    )
    return Descheduler(process)


class Descheduler:
    """One running descheduler."""

    def __init__(self, process: ManagedProcess) -> None:
        self.process = process

    def evictions(self) -> int:
        """Return the number of pods evicted so far."""
        return int(self._metric("descheduler_pods_evicted_total", 'result="success"'))

    def runs(self) -> int:
        """Return the number of completed runs."""
        return int(self._metric("descheduler_loop_duration_seconds_count"))

    def _metric(self, name: str, label: str = "") -> float:
        _, text = get_endpoint(self.process.port, "/metrics")
        pattern = re.compile(rf"^{name}(?:{{(.*)}})? (\S+)$", re.MULTILINE)
        return sum(float(value) for labels, value in pattern.findall(text) if label in labels)
