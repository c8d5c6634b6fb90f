"""The command lines of etcd and kube-apiserver, and the choices a test has about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from devtools.control_plane.ports import LOOPBACK

SERVICE_ACCOUNT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerOptions:
    """Departures of a test's API server from kube-apiserver's defaults."""

    authorization_modes: tuple[str, ...] = ("Node", "RBAC")
    """Authorizers in order. RBAC is on so that missing permissions show up here first."""

    disabled_admission_plugins: tuple[str, ...] = ("TaintNodesByCondition", "ServiceAccount")
    """Both wait for a controller that plain tests do not run: the first taints each new node until
    a node controller clears it, the second rejects pods until a service account exists. Upstream's
    own scheduler benchmark disables the same two."""

    enabled_admission_plugins: tuple[str, ...] = ()
    """In addition to those that are on by default."""

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """For the API server only; the other components take their own."""

    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    """API groups to serve or not, such as {"scheduling.k8s.io/v1beta1": True}."""

    throttled: bool = False
    """Whether to keep the limits on requests in flight, including priority and fairness. Off,
    because a benchmark would measure those limits, and a test that saturates them would be slow at
    random."""

    extra_arguments: tuple[str, ...] = ()
    """Appended as they are. The last occurrence of a flag wins, so they override all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files of the control plane, all below one directory."""

    directory: Path

    @property
    def logs(self) -> Path:
        """One log per process name."""
        return self.directory / "logs"

    @property
    def etcd_data(self) -> Path:
        """The database; the only part that grows."""
        return self.directory / "etcd"

    @property
    def certificates(self) -> Path:
        """Filled by the API server at its first start, read again at the next."""
        return self.directory / "certificates"

    @property
    def authority(self) -> Path:
        """The serving certificate followed by the authority that signed it."""
        return self.certificates / "apiserver.crt"

    @property
    def tokens(self) -> Path:
        """The static token file."""
        return self.directory / "tokens.csv"

    @property
    def signing_key(self) -> Path:
        """Private key for service account tokens."""
        return self.directory / "service-account.key"

    @property
    def verification_key(self) -> Path:
        """Public key for service account tokens."""
        return self.directory / "service-account.pub"

    @property
    def kubeconfig(self) -> Path:
        """For the administrator."""
        return self.directory / "admin.kubeconfig"


def etcd_arguments(files: Files, *, port: int, peer_port: int) -> list[str]:
    """Return the arguments of a single-member etcd that may lose data when the machine fails."""
    client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
    return [
        "--name=envtest",
        f"--data-dir={files.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=envtest={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 * 1024**3}",
        "--log-level=warn",
    ]


def api_server_arguments(
    files: Files, options: ApiServerOptions, *, port: int, etcd_port: int
) -> list[str]:
    """Return the arguments of kube-apiserver on `port`."""
    arguments = [
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--bind-address={LOOPBACK}",
        # Otherwise taken from a network interface, which fails on a machine without one.
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={files.certificates}",
        # The `kubernetes` service must not point at a loopback address, so it gets no endpoints.
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        f"--authorization-mode={','.join(options.authorization_modes)}",
        f"--token-auth-file={files.tokens}",
        f"--service-account-issuer={SERVICE_ACCOUNT_ISSUER}",
        f"--service-account-signing-key-file={files.signing_key}",
        f"--service-account-key-file={files.verification_key}",
    ]
    if options.disabled_admission_plugins:
        arguments.append(
            f"--disable-admission-plugins={','.join(options.disabled_admission_plugins)}"
        )
    if options.enabled_admission_plugins:
        arguments.append(
            f"--enable-admission-plugins={','.join(options.enabled_admission_plugins)}"
        )
    if not options.throttled:
        arguments += [
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
        ]
    arguments += switches("--feature-gates", options.feature_gates)
    arguments += switches("--runtime-config", options.runtime_config)
    return [*arguments, *options.extra_arguments]


def switches(flag: str, values: Mapping[str, bool]) -> list[str]:
    """Return `flag` with its list of name=true|false, or nothing if `values` is empty."""
    if not values:
        return []
    return [f"{flag}={','.join(f'{name}={str(on).lower()}' for name, on in values.items())}"]
