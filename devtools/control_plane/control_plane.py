"""A real etcd and kube-apiserver, and on request kube-scheduler and kube-controller-manager.

    with ControlPlane() as control_plane:
        control_plane.kubectl("get", "namespaces")
        scheduler = control_plane.start_scheduler()
        measure(scheduler.pid)

Everything listens on 127.0.0.1 and keeps its files in one directory; leaving the context ends all
processes. The interface is synchronous: from a coroutine, call it in a worker thread.

Nothing here imitates a node: bound pods stay Pending until a test or a fake kubelet changes them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self, cast

from devtools.control_plane.admin import AdminClient, JsonObject, serves_ok
from devtools.control_plane.api_server import (
    ApiServerOptions,
    Files,
    api_server_arguments,
    etcd_arguments,
)
from devtools.control_plane.binaries import Binaries, BinariesMissingError
from devtools.control_plane.components import (
    controller_manager_arguments,
    scheduler_arguments,
    scheduler_configuration,
)
from devtools.control_plane.credentials import (
    ADMIN_USER,
    write_kubeconfig,
    write_service_account_keys,
    write_token_file,
)
from devtools.control_plane.ports import LOOPBACK, free_port
from devtools.control_plane.processes import ManagedProcess, ProcessError, Processes

__all__ = [
    "ApiServerOptions",
    "Binaries",
    "BinariesMissingError",
    "ControlPlane",
    "KubectlError",
    "ManagedProcess",
    "ProcessError",
]

START_TIMEOUT_SECONDS: Final = 180.0
"""For each process to become ready: about two seconds, and many times that on a busy machine."""

KUBECTL_TIMEOUT_SECONDS: Final = 180.0


class KubectlError(RuntimeError):
    """kubectl ended with an error status; the text has its command and its error output."""


class ControlPlane:
    """One API server with its etcd, from `start` (or `with`) to `stop`.

    Not thread-safe: one thread at a time. It can be started once only.
    """

    def __init__(
        self,
        binaries: Binaries | None = None,
        options: ApiServerOptions | None = None,
        directory: Path | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            binaries: what to run; by default what `Binaries.find` finds.
            options: how to run the API server.
            directory: where to keep files; it stays, with the logs, after `stop`. By default a
                temporary directory that is removed by `stop`, unless the start failed.
        """
        self.binaries = binaries or Binaries.find()
        self.options = options or ApiServerOptions()
        self._keep_directory = directory is not None
        self.files = Files(
            directory=directory or Path(tempfile.mkdtemp(prefix="kubestow-envtest-"))
        )
        self.files.logs.mkdir(parents=True)
        self.port = free_port()
        self._etcd_port, self._etcd_peer_port = free_port(), free_port()
        write_service_account_keys(self.files.signing_key, self.files.verification_key)
        self.admin_token = write_token_file(self.files.tokens)
        self.admin = AdminClient(self.port, self.admin_token, self.files.authority)
        #: All that it started.
        self.processes = Processes(self.files.logs)
        self._etcd: ManagedProcess | None = None
        self._api_server: ManagedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the API server."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file; it exists after the start."""
        return self.files.kubeconfig

    @property
    def etcd(self) -> ManagedProcess:
        """The etcd process that was started last."""
        return _started(self._etcd, "etcd")

    @property
    def api_server(self) -> ManagedProcess:
        """The kube-apiserver process that was started last."""
        return _started(self._api_server, "kube-apiserver")

    def start(self) -> None:
        """Start etcd and the API server, and wait until the API server is ready.

        Raises:
            ProcessError: one of them did not start; nothing is left running and the logs are kept.
        """
        try:
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self._keep_directory = True
            self.stop()
            raise

    def stop(self) -> None:
        """End every process and delete the data. Calling it again does nothing."""
        self.admin.close()
        self.processes.close()
        # Logs explain a failure; the database of a benchmark only fills the disk.
        shutil.rmtree(
            self.files.etcd_data if self._keep_directory else self.files.directory,
            ignore_errors=True,
        )

    def start_etcd(self) -> ManagedProcess:
        """Start etcd with the data it had before, if any. `start` does it for you."""
        arguments = etcd_arguments(self.files, port=self._etcd_port, peer_port=self._etcd_peer_port)
        self._etcd = self._run("etcd", self.binaries.etcd, arguments, port=self._etcd_port)
        return self._etcd

    def start_apiserver(self) -> ManagedProcess:
        """Start the API server and wait for it; port and certificate are the same each time."""
        arguments = api_server_arguments(
            self.files, self.options, port=self.port, etcd_port=self._etcd_port
        )
        process = self._run(
            "kube-apiserver", self.binaries.kube_apiserver, arguments, port=self.port
        )
        self._api_server = process
        process.wait_until(self._api_server_is_ready, timeout=START_TIMEOUT_SECONDS, what="ready")
        if not self.kubeconfig.exists():
            self._write_kubeconfig(self.kubeconfig, self.admin_token, ADMIN_USER, "default")
        return process

    def stop_apiserver(self, timeout: float = 3.0) -> None:
        """Shut the API server down: SIGTERM, then SIGKILL after `timeout` seconds.

        From the SIGTERM on it accepts no connection, but it serves open watches for another minute
        if it is allowed to; so with a watcher about, `timeout` decides when the watches are cut.
        """
        self.api_server.stop(timeout)

    def kill_apiserver(self) -> None:
        """Let the API server crash (SIGKILL): connections are cut without a word."""
        self.api_server.kill()

    def restart_apiserver(self) -> ManagedProcess:
        """Shut the API server down as `stop_apiserver` does and start it again."""
        self.stop_apiserver()
        return self.start_apiserver()

    def start_scheduler(
        self,
        config: Mapping[str, object] | Path | None = None,
        arguments: Sequence[str] = (),
        *,
        feature_gates: Mapping[str, bool] | None = None,
        kubeconfig: Path | None = None,
        name: str = "kube-scheduler",
    ) -> ManagedProcess:
        """Start kube-scheduler and wait until it has synced.

        Args:
            config: a KubeSchedulerConfiguration without its head (apiVersion, kind), to which the
                connection to this control plane, raised client limits and `leaderElect: false` are
                added where it does not set them; or a file, used as it is, which must name a
                kubeconfig.
            arguments: appended to the command line.
            feature_gates: for the scheduler only.
            kubeconfig: the user to act as; the administrator by default.
            name: of the process and its log, to run more than one.

        Raises:
            BinariesMissingError: this set of binaries has no kube-scheduler.
            ProcessError: it did not start.
        """
        binary = self.binaries.require("kube-scheduler")
        kubeconfig = kubeconfig or self.kubeconfig
        if not isinstance(config, Path):
            document = scheduler_configuration(config or {}, kubeconfig)
            config = self.files.directory / f"{name}.config"
            config.write_text(json.dumps(document, indent=2) + "\n")
        port = free_port()
        line = scheduler_arguments(
            config, port=port, kubeconfig=kubeconfig, feature_gates=feature_gates or {}
        )
        process = self._run(name, binary, [*line, *arguments], port=port)
        process.wait_until(
            lambda: serves_ok(port, "/readyz"), timeout=START_TIMEOUT_SECONDS, what="ready"
        )
        return process

    def start_controller_manager(
        self,
        arguments: Sequence[str] = (),
        *,
        controllers: Sequence[str] = ("*",),
        feature_gates: Mapping[str, bool] | None = None,
        kubeconfig: Path | None = None,
        name: str = "kube-controller-manager",
    ) -> ManagedProcess:
        """Start kube-controller-manager and wait until it is healthy.

        Args:
            arguments: appended to the command line.
            controllers: which ones to run, as for the flag `--controllers`, such as
                "job-controller", or "*" and "-node-lifecycle-controller".
            feature_gates: for the controller manager only.
            kubeconfig: the user to act as; the administrator by default.
            name: of the process and its log.

        Raises:
            BinariesMissingError: this set of binaries has no kube-controller-manager.
            ProcessError: it did not start.
        """
        binary = self.binaries.require("kube-controller-manager")
        kubeconfig = kubeconfig or self.kubeconfig
        port = free_port()
        line = controller_manager_arguments(
            self.files,
            port=port,
            kubeconfig=kubeconfig,
            controllers=controllers,
            feature_gates=feature_gates or {},
        )
        process = self._run(name, binary, [*line, *arguments], port=port)
        process.wait_until(
            lambda: serves_ok(port, "/healthz"), timeout=START_TIMEOUT_SECONDS, what="healthy"
        )
        return process

    def start_process(
        self,
        name: str,
        command: Sequence[str],
        *,
        port: int,
        wait: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> ManagedProcess:
        """Start any other component that serves /readyz over HTTPS at `port`.

        Args:
            name: of the process and its log.
            command: its command line.
            port: where it serves.
            wait: until it is ready; without, it may not even have begun to listen.
            environment: in addition to what every component gets.
        """
        variables = {
            **self._environment(),
            "PYTHONPATH": str(Path.cwd()),
            **(environment or {}),
        }
        process = self.processes.start(name, command, port=port, environment=variables)
        if wait:
            process.wait_until(
                lambda: serves_ok(port, "/readyz"), timeout=START_TIMEOUT_SECONDS, what="ready"
            )
        return process

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> str:
        """Run kubectl as the administrator, or the user of `kubeconfig`, and return its output.

        Raises:
            KubectlError: it ended with an error status.
        """
        command = [
            str(self.binaries.kubectl),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            *arguments,
        ]
        done = subprocess.run(
            command,
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT_SECONDS,
            env=self._environment(),
            check=False,
        )
        if done.returncode != 0:
            line = " ".join(arguments)
            msg = f"kubectl {line} ended with status {done.returncode}: {done.stderr.strip()}"
            raise KubectlError(msg)
        return done.stdout

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 3600) -> str:
        """Return a token for a service account.

        The account is created, without any permission, if it is missing.

        `seconds` is the token's life; the API server refuses less than 600.
        """
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.admin.ensure(accounts, {"metadata": {"name": name}})
        response = self.admin.request(
            "POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": seconds}}
        )
        return str(cast("JsonObject", response["status"])["token"])

    def service_account_kubeconfig(self, namespace: str, name: str, *, seconds: int = 3600) -> Path:
        """Write a kubeconfig with a new token from `service_account_token`."""
        path = self.files.directory / f"{namespace}.{name}.kubeconfig"
        self._write_kubeconfig(
            path, self.service_account_token(namespace, name, seconds=seconds), name, namespace
        )
        return path

    def _api_server_is_ready(self) -> bool:
        # `default` appears a moment after /readyz turns green; pods cannot be created before.
        return self.admin.answers_ok("/readyz") and self.admin.answers_ok(
            "/api/v1/namespaces/default"
        )

    def _write_kubeconfig(self, path: Path, token: str, user: str, namespace: str) -> None:
        authority = self.files.authority
        write_kubeconfig(
            path, port=self.port, authority=authority, token=token, user=user, namespace=namespace
        )

    def _run(
        self, name: str, binary: Path, arguments: Sequence[str], *, port: int
    ) -> ManagedProcess:
        command = [str(binary), *arguments]
        return self.processes.start(name, command, port=port, environment=self._environment())

    def _environment(self) -> dict[str, str]:
        """Keep the user's kubeconfig, kubectl cache and etcd settings out, let Go be tuned."""
        tuning = {name: value for name, value in os.environ.items() if name.startswith("GO")}
        return tuning | {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.files.directory),
        }


def _started(process: ManagedProcess | None, name: str) -> ManagedProcess:
    if process is None:
        msg = f"{name} was not started: use the control plane in a `with` statement or call start()"
        raise ProcessError(msg)
    return process
