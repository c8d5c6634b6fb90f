"""A control plane with an audit log, and replicas of kubestow that reach it through proxies."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.robustness.audit_log import POLICY, AuditLog
from benchmarks.robustness.proxy import Proxy
from benchmarks.robustness.wall_clock import WallClock, build
from devtools.control_plane.control_plane import (
    ApiServerOptions,
    Binaries,
    ControlPlane,
    ManagedProcess,
)
from devtools.control_plane.credentials import ADMIN_GROUP, write_kubeconfig
from devtools.control_plane.ports import free_port

REPLICAS: Final = 2
LEASE: Final = {
    # Shorter than the defaults in the same proportions, so that a takeover fits into a round.
    "leaderElect": True,
    "leaseDuration": "6s",
    "renewDeadline": "4s",
    "retryPeriod": "1s",
    "resourceNamespace": "default",
}
CONFIGURATION: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": LEASE,
    # Slow enough for a round's pods to take seconds: faults must find binds under way.
    "clientConnection": {"qps": 60, "burst": 10},
    "podMaxBackoffSeconds": 2,
}


class Replica:
    """One replica: its process, which is started again when it ends, its proxy and its clock."""

    def __init__(
        self, name: str, control_plane: ControlPlane, proxy: Proxy, clock: WallClock, token: str
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.clock = clock
        self.starts = 0
        self._control_plane = control_plane
        self._token = token
        self._process: ManagedProcess | None = None

    @property
    def process(self) -> ManagedProcess:
        """The process that was started last."""
        assert self._process is not None
        return self._process

    def ensure_running(self) -> None:
        """Start the process if there is none, as a Deployment would."""
        if self._process is not None and self._process.running:
            return
        directory = self._control_plane.files.directory
        kubeconfig = directory / f"{self.name}.kubeconfig"
        write_kubeconfig(
            kubeconfig,
            port=self.proxy.port,
            authority=self._control_plane.files.authority,
            token=self._token,
            user=self.name,
            namespace="default",
        )
        config = directory / f"{self.name}.config"
        connection = {**CONFIGURATION["clientConnection"], "kubeconfig": str(kubeconfig)}
        config.write_text(json.dumps({**CONFIGURATION, "clientConnection": connection}))
        port = free_port()
        command = [
            sys.executable, "-m", "scheduler", "run", f"--config={config}",
            f"--secure-port={port}", "--bind-address=127.0.0.1",
        ]  # fmt: skip
        self._process = self._control_plane.start_process(
            self.name, command, port=port, wait=False, environment=self.clock.environment
        )
        self.starts += 1


class Site:
    """Everything that runs."""

    def __init__(
        self, control_plane: ControlPlane, replicas: list[Replica], audit: AuditLog
    ) -> None:
        self.control_plane = control_plane
        self.replicas = replicas
        self.audit = audit

    def leader(self) -> Replica:
        """The replica that holds the Lease by the audit log; the first one while none does."""
        self.audit.read()
        return next(
            (one for one in self.replicas if one.name == self.audit.leader), self.replicas[0]
        )

    def standby(self) -> Replica:
        """A replica that does not lead."""
        leader = self.leader()
        return next(one for one in self.replicas if one is not leader)

    def ensure_running(self) -> None:
        """Start whatever has ended."""
        if not self.control_plane.etcd.running:
            self.control_plane.start_etcd()
        if not self.control_plane.api_server.running:
            self.control_plane.start_apiserver()
        for replica in self.replicas:
            replica.ensure_running()


@contextmanager
def site(directory: Path, binaries: Binaries | None = None) -> Iterator[Site]:
    """Run it; the files below `directory` stay."""
    policy, log = directory / "audit-policy.json", directory / "audit.log"
    policy.write_text(json.dumps(POLICY))
    options = ApiServerOptions(
        extra_arguments=(
            f"--audit-policy-file={policy}",
            f"--audit-log-path={log}",
            "--audit-log-maxsize=2000",
        )
    )
    with ExitStack() as stack:
        control_plane = ControlPlane(binaries, options, directory / "plane")
        tokens = {f"replica-{number}": secrets.token_urlsafe(32) for number in range(REPLICAS)}
        with control_plane.files.tokens.open("a") as file:
            for name, token in tokens.items():
                file.write(f'{token},{name},{name},"{ADMIN_GROUP}"\n')
        stack.enter_context(control_plane)
        library = build(directory)
        replicas = []
        for name, token in tokens.items():
            proxy = stack.enter_context(Proxy(control_plane.port))
            clock = WallClock(library, directory / f"{name}.clock")
            replicas.append(Replica(name, control_plane, proxy, clock, token))
        yield Site(control_plane, replicas, AuditLog(log))
