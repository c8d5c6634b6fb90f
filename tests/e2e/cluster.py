"""A whole cluster for upstream's specs: control plane, controllers, one scheduler, fake nodes.

The scheduler serves the name `default-scheduler`, and there is no other. All admission plugins that
are on by default are on, and kube-controller-manager runs every controller that is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from scheduler.client.rest import ApiClient
from simulator import Settings
from simulator.outside_kubelets import OutsideKubelets, templates

NODES: Final = 4
ZONES: Final = 2

GATES: Final = {
    "GenericWorkload": True,
    "WorkloadWithJob": True,
    "DRAPartitionableDevicesType": True,
    "DRAResourcePoolStatus": True,
}
"""Off by default: specs about them would find no API."""

APIS: Final = {"scheduling.k8s.io/v1beta1": True, "resource.k8s.io/v1alpha3": True}
"""What belongs to the gates."""

RUN_SECONDS: Final = 60.0
"""How long containers run that may end: longer than specs look at those that sleep for long, and
short enough for a spec that waits for a Job."""

SCHEDULERS: Final = ("kubestow", "kube-scheduler")

NAMESPACE: Final = "kubestow-system"
ACCOUNT: Final = "kubestow"
TOKEN_SECONDS: Final = 4 * 3600

_MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
_PERMISSIONS: Final = (
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
)


PER_NODE: Final = "kube-proxy-fluentd-elasticsearch-node-problem-detector"
"""Upstream waits a minute before most specs for system pods of these three names on each node, and
then goes on without them. One pod that has all three saves a quarter of an hour."""

_SYSTEM_PODS: Final = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": PER_NODE, "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": PER_NODE}},
        "template": {
            "metadata": {"labels": {"app": PER_NODE}},
            "spec": {
                "containers": [{"name": "none", "image": "none.invalid/none:1"}],
                "priorityClassName": "system-node-critical",
                # It stays where specs taint nodes.
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 0,
            },
        },
    },
}


@contextmanager
def cluster_with(scheduler: str, directory: Path) -> Iterator[ControlPlane]:
    """Run the cluster without nodes; its logs stay in `directory`, which is emptied first."""
    shutil.rmtree(directory, ignore_errors=True)
    options = ApiServerOptions(
        disabled_admission_plugins=(), feature_gates=GATES, runtime_config=APIS
    )
    with ControlPlane(options=options, directory=directory) as plane:
        plane.start_controller_manager(feature_gates=GATES)
        if scheduler == "kube-scheduler":
            plane.start_scheduler(feature_gates=GATES)
        else:
            _start_kubestow(plane)
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(_SYSTEM_PODS))
        yield plane


def _start_kubestow(plane: ControlPlane) -> None:
    """Start kubestow with the permissions of the manifests; a Deployment would not run here."""
    objects = yaml.safe_load_all(plane.kubectl("kustomize", str(_MANIFESTS)))
    permissions = [each for each in objects if each["kind"] in _PERMISSIONS]
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(permissions))
    # Those of the manifests are without groups of pods.
    gates = ",".join(f"{name}=true" for name in GATES)
    command = [sys.executable, "-m", "scheduler", "config", "rbac", f"--feature-gates={gates}"]
    roles = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    plane.kubectl("apply", "-f", "-", stdin=roles)
    start_kubestow(
        plane,
        {"profiles": [{"schedulerName": "default-scheduler"}]},
        ["--replace-default-scheduler"],
        feature_gates=GATES,
        kubeconfig=plane.service_account_kubeconfig(NAMESPACE, ACCOUNT, seconds=TOKEN_SECONDS),
    )


def nodes_of(client: ApiClient) -> OutsideKubelets:
    """Run the fake nodes."""
    settings = Settings(run_seconds=RUN_SECONDS)
    return OutsideKubelets(client, templates(NODES, zones=ZONES), settings)
