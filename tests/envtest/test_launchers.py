"""Launchers of kube-scheduler start kubestow unchanged but for the image.

Each file in `launchers` has what one launcher applies to a cluster: see its head for the source.
The test applies it, starts the container's command line in a folder that has the mounted files,
with a token of the pod's ServiceAccount, sends the probes, and waits for a pod to be bound.
What differs from a pod: the folder stands before paths of mounted files, `--secure-port` is added
since ports of this machine are shared, and KUBECONFIG stands for the mounted token.
"""

from __future__ import annotations

import http
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.ports import free_port
from scheduler.service.serving.self_signed import make_pair
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

FOLDER: Final = Path(__file__).parent / "launchers"
QUOTAS: Final = frozenset({"resourcequotas", "resourcequotas/status"})
_CLAIMS: Final = "resourceclaims.resource.k8s.io"
ALLOCATION: Final = {_CLAIMS, f"{_CLAIMS}/status", f"{_CLAIMS}/binding", "pods/finalizers"}
"""What DynamicResources writes. Many roles are of the time before it was on by default."""
_RULES: Final = "devicetaintrules.resource.k8s.io"
"""Of v1.37; the ClusterRole that kube-apiserver makes has it, others do not yet."""
MISSING: Final = {
    "aws": QUOTAS
    | ALLOCATION
    | {
        _RULES,
        "volumeattachments.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceslices.resource.k8s.io",
    },
    # They do not let kube-scheduler read the authorities of client certificates.
    "jupyterhub": QUOTAS | {"configmaps", _CLAIMS, _RULES},
    "openshift": QUOTAS | {"configmaps"},
    "scheduler-plugins": QUOTAS | ALLOCATION | {_RULES},
}
"""Resources of which the launcher's roles do not give what is optional; see docs/launchers.md."""

PROGRAM: Final = """\
#!{python}
import sys
from scheduler.cli.main import main
sys.exit(main())
"""
"""The script of the image."""


@dataclass(frozen=True)
class Launcher:
    """The objects that a launcher applies."""

    name: str
    documents: tuple[dict[str, Any], ...]
    text: str

    def only(self, kind: str) -> dict[str, Any]:
        (found,) = (each for each in self.documents if each["kind"] == kind)
        return found

    @property
    def namespace(self) -> str:
        return str(self.only("Deployment")["metadata"]["namespace"])

    @property
    def pod(self) -> dict[str, Any]:
        return dict(self.only("Deployment")["spec"]["template"]["spec"])

    @property
    def container(self) -> dict[str, Any]:
        return dict(self.pod["containers"][0])

    @property
    def configuration(self) -> dict[str, Any]:
        (text,) = self.only("ConfigMap")["data"].values()
        return dict(yaml.safe_load(text))

    @property
    def scheduler_name(self) -> str:
        return str(self.configuration["profiles"][0]["schedulerName"])

    def mount(self, root: Path) -> None:
        """Write the files of the pod's volumes below `root`."""
        paths = {each["name"]: each["mountPath"] for each in self.container["volumeMounts"]}
        for volume in self.pod["volumes"]:
            folder = root / paths[volume["name"]].lstrip("/")
            folder.mkdir(parents=True)
            for name, content in self._files(volume).items():
                (folder / name).write_text(content)

    def command(self, root: Path) -> list[str]:
        """Return the container's command line, with paths below `root`."""
        mounted = tuple(each["mountPath"] for each in self.container["volumeMounts"])
        line = [*self.container["command"], *self.container.get("args", ())]
        return [
            f"{flag}={root}{value}" if value.startswith(mounted) else argument
            for argument in line
            for flag, _, value in [argument.partition("=")]
        ]

    def _files(self, volume: dict[str, Any]) -> dict[str, str]:
        if "configMap" in volume:
            assert volume["configMap"]["name"] == self.only("ConfigMap")["metadata"]["name"]
            return dict(self.only("ConfigMap")["data"])
        if "secret" in volume:
            # As the operator of serving certificates makes it.
            certificate, key = make_pair(datetime.now(UTC), timedelta(days=1))
            return {"tls.crt": certificate.decode(), "tls.key": key.decode()}
        return {}


def read(name: str) -> Launcher:
    text = (FOLDER / f"{name}.yaml").read_text()
    return Launcher(name, tuple(yaml.safe_load_all(text)), text)


def binary(root: Path, path: str) -> str:
    """Make the program and its link at `path`, as the image has them; return the link."""
    program = root / "opt/kubestow/bin/kubestow"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    link = root / path.lstrip("/")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(program)
    return str(link)


@pytest.fixture(params=sorted(MISSING))
def launcher(request: pytest.FixtureRequest) -> Launcher:
    return read(request.param)


@pytest.fixture
def process(
    launcher: Launcher, control_plane: ControlPlane, tmp_path: Path
) -> Iterator[ManagedProcess]:
    """Apply the launcher's objects and run its container."""
    control_plane.kubectl("apply", "-f", "-", stdin=launcher.text)
    launcher.mount(tmp_path)
    path, *arguments = launcher.command(tmp_path)
    port = free_port()
    account = launcher.pod["serviceAccountName"]
    kubeconfig = control_plane.service_account_kubeconfig(launcher.namespace, account)
    variables = {each["name"]: each["value"] for each in launcher.container.get("env", ())}
    started = control_plane.start_process(
        launcher.scheduler_name,
        [binary(tmp_path, path), *arguments, f"--secure-port={port}"],
        port=port,
        wait=False,
        environment={**variables, "KUBECONFIG": str(kubeconfig)},
    )
    yield started
    started.stop()
    control_plane.kubectl("delete", "--wait=false", "-f", "-", stdin=launcher.text)


def answers(process: ManagedProcess, launcher: Launcher, probe: str) -> bool:
    """Send a probe as a kubelet does; false while nothing listens."""
    request = launcher.container[probe]["httpGet"]
    assert (request["scheme"], request["port"]) == ("HTTPS", 10259)
    try:
        status, _ = get_endpoint(process.port, f"/{request['path'].lstrip('/')}")
    except OSError:
        assert process.running, process.describe("ended")
        return False
    return status == http.HTTPStatus.OK


def missing(process: ManagedProcess) -> set[str]:
    """Return the resources of which optional permissions are missing, by the log."""
    lines = process.log.read_text().splitlines()
    found = [json.loads(line) for line in lines if 'permissions missing"' in line]
    assert {each["msg"] for each in found} <= {"optional permissions missing"}
    return {each.split()[1] for line in found for each in line["missing"]}


def test_a_launcher_starts_kubestow_in_place_of_kube_scheduler(
    launcher: Launcher, process: ManagedProcess, control_plane: ControlPlane
) -> None:
    until(lambda: answers(process, launcher, "livenessProbe"), "liveness")
    until(lambda: answers(process, launcher, "readinessProbe"), "readiness")
    with Workload(control_plane, f"by-{launcher.scheduler_name}", launcher.scheduler_name) as work:
        work.node(f"of-{launcher.scheduler_name}", cpu="4")
        work.pod("a")
        work.until_bound("a")
        until(lambda: work.events("Scheduled"), "an event")
        until(lambda: missing(process) >= MISSING[launcher.name], "warnings")
    election = launcher.configuration.get("leaderElection", {})
    flags = dict(argument.partition("=")[::2] for argument in process.command)
    if election.get("leaderElect", True):
        namespace = flags.get("--leader-elect-resource-namespace") or election["resourceNamespace"]
        name = flags.get("--leader-elect-resource-name") or election["resourceName"]
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        assert control_plane.admin.request("GET", path)["spec"]
    process.stop()
    assert missing(process) == MISSING[launcher.name]
    assert "has no effect" not in process.log.read_text()
    assert process.returncode == 0, process.describe("did not end cleanly")


DEFAULT_PLUGINS: Final = (
    "Coscheduling", "CapacityScheduling", "NodeResourceTopologyMatch", "NodeResourcesAllocatable",
)  # fmt: skip


def test_the_default_plugins_of_scheduler_plugins_are_refused_with_what_to_use(
    tmp_path: Path,
) -> None:
    document = read("scheduler-plugins").configuration
    profile = document["profiles"][0]
    profile["plugins"]["multiPoint"] = {
        "enabled": [{"name": name} for name in DEFAULT_PLUGINS],
        "disabled": [{"name": "PrioritySort"}],
    }
    profile["pluginConfig"] = [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}]
    file = tmp_path / "scheduler-config.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [binary(tmp_path, "/bin/kube-scheduler"), f"--config={file}"],
        capture_output=True, text=True, check=False, timeout=600,
        env={"PATH": os.defpath, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert done.returncode == 1
    for name in DEFAULT_PLUGINS[1:]:
        assert (
            f'plugin "{name}" does not exist: it is a Go plugin of scheduler-plugins' in done.stderr
        )
    assert "permitWaitingTimeSeconds: is an argument of Coscheduling: remove it" in done.stderr
    assert "enable PrioritySort" in done.stderr
    assert "Traceback" not in done.stderr
