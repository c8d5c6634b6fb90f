"""A production-like cluster: all default admission plugins, all controllers, nodes, and kubestow.

    with Cluster(binaries, find_programs, directory) as cluster:
        cluster.start_kubestow()
        cluster.node("n1", {"cpu": "8", "pods": "110"})

kubestow runs with the ServiceAccount and the ConfigMap of its manifests. Nodes and the kubelets on
them are kwok's: pods that are bound become ready at once, and end when a test ends them.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import (
    ApiServerOptions,
    Binaries,
    ControlPlane,
    ManagedProcess,
)
from devtools.control_plane.kubestow import start_kubestow
from devtools.control_plane.ports import LOOPBACK, free_port
from tests.envtest.guarded_plane import MANIFESTS, apply_manifests
from tests.envtest.workload import until

Json = dict[str, Any]

NAMESPACE: Final = "kubestow-system"
ACCOUNT: Final = "kubestow"
TOKEN_SECONDS: Final = 6 * 3600
START_TIMEOUT_SECONDS: Final = 180.0

STAGES: Final = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
"""What kwok does to nodes and pods; without its stage that ends the pods of Jobs at once."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A program that was built, and the sources that its manifests come from."""

    binary: Path
    sources: Path


class Cluster:
    """One control plane with kwok, and whatever is started beside it. Not thread-safe."""

    def __init__(
        self,
        binaries: Binaries,
        programs: Callable[..., dict[str, Installed]],
        directory: Path,
        *,
        components: Sequence[str] = (),
        options: ApiServerOptions | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            binaries: of the control plane.
            programs: finds third-party programs by their names.
            directory: for files and logs.
            components: of our manifests that are applied.
            options: of the API server; by default, no admission plugin is switched off.
        """
        self._programs = programs
        self._components = components
        options = options or ApiServerOptions(disabled_admission_plugins=())
        self.plane = ControlPlane(binaries, options, directory)
        self.admin = self.plane.admin
        self.directory = directory

    def __enter__(self) -> Self:
        self.plane.start()
        try:
            self.plane.start_controller_manager()
            folder = MANIFESTS / "components"
            apply_manifests(
                self.plane, self.directory, [folder / each for each in self._components]
            )
            self._start_kwok()
        except BaseException:
            self.plane.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.plane.stop()

    def program(self, name: str) -> Installed:
        """Return a third-party program; skips the test if it is missing."""
        return self._programs(name)[name]

    def start_kubestow(
        self,
        config: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        *,
        feature_gates: Mapping[str, bool] | None = None,
        name: str = "kubestow",
    ) -> ManagedProcess:
        """Start kubestow as its manifests do; `config` replaces entries of its configuration."""
        stored: Any = self.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/kubestow")
        document = yaml.safe_load(stored["data"]["config.yaml"])
        return start_kubestow(
            self.plane,
            {**document, **(config or {})},
            arguments,
            feature_gates=feature_gates,
            kubeconfig=self.kubeconfig_of(NAMESPACE, ACCOUNT),
            name=name,
        )

    def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """Write a kubeconfig of a service account, with a token that outlives the tests."""
        return self.plane.service_account_kubeconfig(namespace, account, seconds=TOKEN_SECONDS)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        port: int,
        path: str = "/readyz",
        environment: Mapping[str, str] | None = None,
        meanwhile: Callable[[], object] = dict,
    ) -> ManagedProcess:
        """Start a third-party program and wait until it returns 200 over plain HTTP.

        Args:
            name: name of the process and its log.
            command: its command line.
            port: port of its readiness endpoint.
            path: path of its readiness endpoint.
            environment: variables in addition to those of every component.
            meanwhile: called until it is ready, to provide what it waits for.
        """
        process = self.plane.start_process(
            name, command, port=port, wait=False, environment=environment
        )

        def ready() -> bool:
            meanwhile()
            return responds_ok(port, path)

        process.wait_until(ready, timeout=START_TIMEOUT_SECONDS, what="ready")
        return process

    def node(
        self, name: str, amounts: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """Create a node, and wait until pods may be placed on it."""
        body = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "status": {"capacity": dict(amounts), "allocatable": dict(amounts)},
        }
        self.admin.request("POST", "/api/v1/nodes", body)
        until(lambda: self._is_open(name), f"node {name} is ready and has no taint")

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace, and wait until pods can be created in it."""
        body = {"metadata": {"name": name, "labels": dict(labels or {})}}
        self.admin.ensure("/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.admin.answers_ok(account), f"service account of namespace {name}")

    def finish(self, namespace: str, name: str) -> None:
        """Let the containers of a bound pod end well, once it runs.

        kwok writes the phase from what it saw of the pod. A pod that ended before kwok took note
        would run again.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        until(lambda: self.get(path)["status"]["phase"] == "Running", f"{namespace}/{name} runs")
        self.admin.request("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}})

    def get(self, path: str) -> Json:
        """Return an object or a list."""
        return self.admin.request("GET", path)

    def find(self, path: str) -> Json | None:
        """Return an object, or None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def items(self, path: str) -> list[Json]:
        """Return the objects of a list."""
        items: list[Json] = self.get(path)["items"]
        return items

    def create(self, path: str, body: Mapping[str, object]) -> Json:
        """Create an object in the collection at a path."""
        return self.admin.request("POST", path, body)

    def _is_open(self, name: str) -> bool:
        node = self.get(f"/api/v1/nodes/{name}")
        conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def _start_kwok(self) -> None:
        kwok = self.program("kwok")
        stages = kwok.sources / "kustomize" / "stage"
        config = self.directory / "kwok.yaml"
        config.write_text("\n---\n".join((stages / stage).read_text() for stage in STAGES))
        port = free_port()
        command = [
            str(kwok.binary), f"--kubeconfig={self.plane.kubeconfig}", f"--config={config}",
            "--manage-all-nodes=true", "--node-lease-duration-seconds=40",
            f"--server-address={LOOPBACK}:{port}",
        ]  # fmt: skip
        self.start("kwok", command, port=port, path="/healthz")


def responds_ok(port: int, path: str) -> bool:
    """Whether a server on this machine responds to a GET over plain HTTP with 200."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
