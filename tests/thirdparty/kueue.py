"""Kueue as its manifests install it, but the controller runs as a process, not a Deployment.

It issues its certificates itself, into a Secret; where a kubelet would mount that, `Kueue` writes
the files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from devtools.control_plane.control_plane import ManagedProcess
from devtools.control_plane.ports import LOOPBACK, free_port
from tests.thirdparty import manifests
from tests.thirdparty.cluster import Cluster

Json = dict[str, Any]

NAMESPACE: Final = "kueue-system"
ACCOUNT: Final = "kueue-controller-manager"
CERTIFICATE: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/kueue-webhook-server-cert"
GATES: Final = {
    # Serves at a fixed port, through the API server's aggregation.
    "VisibilityOnDemand": False,
    "ElasticJobsViaWorkloadSlices": True,
}
FRAMEWORKS: Final = ("batch/job", "pod")


class Kueue:
    """Kueue's objects in the cluster, installed once; its controller may start several times."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._program = cluster.program("kueue")
        self._certificates = cluster.directory / "kueue-certificates"
        self._certificates.mkdir()
        self._webhook_port = free_port()
        rendered = manifests.kustomized(cluster.plane, self._program.sources / "config" / "default")
        objects = manifests.of_kinds(rendered)
        manifests.call_webhooks_at(objects, self._webhook_port)
        manifests.apply(cluster.plane, objects)
        self._kubeconfig = cluster.kubeconfig_of(NAMESPACE, ACCOUNT)

    def start(
        self, config: Mapping[str, Any] | None = None, *, name: str = "kueue"
    ) -> ManagedProcess:
        """Start the controller and wait until its webhooks respond.

        Args:
            config: entries over those of its Configuration below.
            name: of the process and its log.
        """
        port = free_port()
        document = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"{LOOPBACK}:{port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": LOOPBACK,
                "port": self._webhook_port,
                "certDir": str(self._certificates),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": True},
            "integrations": {"frameworks": list(FRAMEWORKS)},
            "featureGates": GATES,
            **(config or {}),
        }
        path = self._cluster.directory / f"{name}.yaml"
        path.write_text(json.dumps(document, indent=2) + "\n")
        command = [str(self._program.binary), f"--config={path}", "--zap-log-level=2"]
        return self._cluster.start(
            name,
            command,
            port=port,
            environment={"KUBECONFIG": str(self._kubeconfig)},
            meanwhile=self._mount_certificates,
        )

    def _mount_certificates(self) -> None:
        """Write the content of the Secret into files, once it has any."""
        secret = self._cluster.get(CERTIFICATE)
        for name, content in secret.get("data", {}).items():
            file = self._certificates / name
            if not file.exists():
                file.write_bytes(base64.b64decode(content))
