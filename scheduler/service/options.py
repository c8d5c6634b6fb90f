"""The options of a run: the command line as one frozen record, and the configuration it names.

The command line builds a `RunOptions`, which the application reads instead of flags. Flags that set
a field of KubeSchedulerConfiguration go to `overrides`, so that the effective configuration always
shows the values in force.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

import plugins
from config import (
    DEFAULT_NAMESPACE,
    Configuration,
    FeatureGates,
    KubeSchedulerConfiguration,
    load_configuration,
)
from scheduler.files import read_file
from scheduler.framework.registry import Registry, entry_point_plugins
from scheduler.framework.status import ConfigurationError
from scheduler.sanitizing.encodings import as_utf8

NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where a pod finds the namespace it runs in."""

LogFormat = Literal["text", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """The HTTPS endpoints."""

    #: Address to listen on; unspecified (`0.0.0.0`, `::`) means all.
    bind_address: str = "0.0.0.0"  # noqa: S104  (upstream's default; probes come from outside)
    #: 10259 as upstream; 0 serves nothing.
    secure_port: int = 10259
    #: Folder of `kube-scheduler.crt` and `.key`, made there if absent. Empty: kept in memory.
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    #: `VersionTLS10` ... `VersionTLS13`. Empty: TLS 1.2.
    tls_min_version: str = ""
    #: IANA names, for TLS 1.2. Empty: OpenSSL's own choice.
    tls_cipher_suites: tuple[str, ...] = ()
    permit_port_sharing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Access control of the endpoints. Durations in seconds."""

    #: Kubeconfig of the cluster that reviews tokens. Empty: the scheduler's own.
    authentication_kubeconfig: str = ""
    #: Kubeconfig of the cluster that reviews access. Empty: the scheduler's own.
    authorization_kubeconfig: str = ""
    #: How long a review is cached. Upstream's default: a revoked token is refused soon, and a
    #: scraper every few seconds costs the API server little.
    token_ttl: float = 10.0
    authorized_ttl: float = 10.0
    unauthorized_ttl: float = 10.0
    #: Paths open to everyone; a trailing `*` matches a prefix.
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    #: Authorities of client certificates. Empty: those that the API server publishes.
    client_ca_file: str = ""
    #: Whether to leave those unread; without a file no certificates are requested then.
    skip_lookup: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingOptions:
    """Format and level of the log."""

    #: None: text on a terminal, JSON elsewhere.
    format: LogFormat | None = None
    #: As klog: 0 to 3 is info, 4 and above debug.
    verbosity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `kubestow run`."""

    #: A KubeSchedulerConfiguration. Empty: defaults.
    config_file: str = ""
    #: `--kubeconfig` beside `config_file`, which may name the same cluster or none.
    kubeconfig: str = ""
    #: Address of the API server; overrides the one in the kubeconfig.
    master: str = ""
    #: Values by dotted path that override the file, from flags such as `--leader-elect=false`.
    overrides: Mapping[str, Any] = field(default_factory=dict)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    #: Allow the scheduler name `default-scheduler` and the Lease `kube-scheduler`.
    replace_default_scheduler: bool = False
    #: Folders with third-party plugins.
    plugin_dirs: tuple[str, ...] = ()
    #: Time after which an unschedulable pod is retried even without an event.
    pod_max_in_unschedulable_pods: timedelta = timedelta(minutes=5)
    serving: ServingOptions = ServingOptions()
    access: AccessOptions = AccessOptions()
    logging: LoggingOptions = LoggingOptions()
    #: Whole names of metrics that are not exposed.
    disabled_metrics: tuple[str, ...] = ()
    #: Warnings to log at the start: flags that have no effect.
    warnings: tuple[str, ...] = ()


def read_configuration(
    options: RunOptions, registry: Registry | None = None, *, text: str | None = None
) -> Configuration:
    """Read, complete and check the configuration of a run. Puts the plugin folders on `sys.path`.

    Plugins that the configuration names as `module:Class` are added to `registry`. `text` takes the
    place of the file's content.

    Raises:
        ConfigurationError: lists every problem, or why a file cannot be read.
    """
    add_plugin_directories(options.plugin_dirs)
    if text is None and options.config_file:
        text = _text(options.config_file)
    configuration = load_configuration(
        text,
        registry=available_plugins() if registry is None else registry,
        default_plugins=plugins.DEFAULT_PLUGINS,
        allow_default_scheduler=options.replace_default_scheduler,
        feature_gates=options.feature_gates,
        namespace=own_namespace(),
        overrides=options.overrides,
        further=partial(_further_problems, options),
    )
    return _with_kubeconfig(configuration, options.kubeconfig)


def seconds(value: timedelta | None) -> float:
    """Return the seconds of a duration; 0 for none."""
    return 0.0 if value is None else value.total_seconds()


def _further_problems(
    options: RunOptions, configuration: KubeSchedulerConfiguration
) -> Iterable[tuple[str, str]]:
    """Yield problems that need the command line or other files."""
    named = configuration.client_connection.kubeconfig
    if options.kubeconfig and named and named != options.kubeconfig:
        yield from _two_clusters(options.kubeconfig, named)
    yield from _unusable_extenders(configuration)


def _two_clusters(flag: str, named: str) -> Iterable[tuple[str, str]]:
    """Report a flag --kubeconfig and a configuration that name different clusters."""
    # Imported here, as below.
    from scheduler.client.configuration import selected_server  # noqa: PLC0415
    from scheduler.client.errors import ConfigurationError as KubeconfigError  # noqa: PLC0415

    try:
        ours, theirs = selected_server(flag), selected_server(named)
    except KubeconfigError as error:
        detail = f"--kubeconfig {flag} is given as well, and they cannot be compared: {error}"
    else:
        if ours[0] == theirs[0]:
            return
        detail = (
            f"{named} is for {theirs[0]} (context {theirs[1]}), --kubeconfig {flag} for {ours[0]} "
            f"(context {ours[1]})"
        )
    yield "clientConnection.kubeconfig", f"{detail}; name the cluster in one place only"


def _with_kubeconfig(configuration: Configuration, flag: str) -> Configuration:
    """Return the configuration with the flag's cluster if it names none."""
    effective = configuration.effective
    connection = effective.client_connection
    if not flag or connection.kubeconfig:
        return configuration
    connection = msgspec.structs.replace(connection, kubeconfig=flag)
    effective = msgspec.structs.replace(effective, client_connection=connection)
    return dataclasses.replace(configuration, effective=effective)


def _unusable_extenders(configuration: KubeSchedulerConfiguration) -> Iterable[tuple[str, str]]:
    """Yield problems of URLs and TLS files, on which a start would fail."""
    if not configuration.extenders:
        return ()
    # Imported here: it loads the whole HTTP client, which commands that read a file do not need.
    from scheduler.extenders.transport import extender_problems  # noqa: PLC0415

    return extender_problems(configuration.extenders)


def available_plugins() -> Registry:
    """Return in-tree plugins and those of installed distributions."""
    return Registry([*plugins.in_tree(), *entry_point_plugins()])


def add_plugin_directories(directories: Iterable[str]) -> None:
    """Append folders to `sys.path`: never before our own packages and those installed.

    Raises:
        ConfigurationError: names every folder that does not exist.
    """
    absent = [each for each in directories if not Path(each).is_dir()]
    if absent:
        raise ConfigurationError([f"--plugin-dir: {each} is not a directory" for each in absent])
    for each in directories:
        # Not resolved: a reload finds the folder that a link points to by then.
        path = str(Path(each).absolute())
        if path not in sys.path:
            sys.path.append(path)


def own_namespace(
    environ: Mapping[str, str] = os.environ, namespace_file: Path = NAMESPACE_FILE
) -> str:
    """Return this process's namespace: POD_NAMESPACE, the service account's, or our default."""
    stated = environ.get("POD_NAMESPACE", "").strip()
    if stated:
        return stated
    try:
        return read_file(namespace_file).decode().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def own_pod(environ: Mapping[str, str] = os.environ, namespace_file: Path = NAMESPACE_FILE) -> str:
    """Return the pod that this process runs in, as `namespace/name`; empty outside of a cluster.

    Its name is POD_NAME, or else the host's, which is the pod's without `hostNetwork`.
    """
    name = environ.get("POD_NAME", "").strip()
    if not name and "KUBERNETES_SERVICE_HOST" not in environ:
        return ""
    return f"{own_namespace(environ, namespace_file)}/{name or socket.gethostname()}"


def own_host(bind_address: str) -> str:
    """Return where other machines find a process that listens on this address.

    Its host's name if it listens on all addresses.

    >>> own_host("192.0.2.7")
    '192.0.2.7'
    """
    try:
        everywhere = ip_address(bind_address).is_unspecified
    except ValueError:
        everywhere = not bind_address
    return socket.gethostname() if everywhere else bind_address


def _text(path: str) -> str:
    try:
        return as_utf8(read_file(path)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 text: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
