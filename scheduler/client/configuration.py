"""The address of the API server and our credentials for it.

From a kubeconfig (`kubeconfig`), or from the service account of our own pod. Credential plugins are
in `exec_plugin`, identity providers in `oidc`, TLS contexts in `http.tls`.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scheduler.client import in_cluster_loader
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.credentials import (
    Credentials,
    Issued,
    IssuedCredentials,
    StaticCredentials,
    TokenFileCredentials,
)
from scheduler.client.exec_plugin import ExecCredential, ExecPlugin
from scheduler.client.http.tls import ClientTls, Pem, TlsSettings
from scheduler.client.kubeconfig import (
    Headers,
    KubeconfigCluster,
    KubeconfigEntry,
    User,
    select,
    server_url,
)
from scheduler.files import read_file, reason

if TYPE_CHECKING:
    from scheduler.client.oidc import OidcProvider

SERVICE_ACCOUNT_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

NOTHING_CONFIGURED: Final = (
    "invalid configuration: no configuration has been provided: not in a cluster (no "
    "KUBERNETES_SERVICE_HOST), KUBECONFIG is not set and {default} does not exist; "
    "give --kubeconfig or --master, or set KUBECONFIG"
)

NO_CONTEXT: Final = (
    "context {context}: there is no kubeconfig that could have it: KUBECONFIG is not set and "
    "{default} does not exist"
)


@dataclass(frozen=True, slots=True)
class ClientConfiguration:
    """The endpoint and the credentials of connections. `server` has no trailing slash."""

    server: str
    tls: ClientTls | None = None
    credentials: Credentials = field(default_factory=StaticCredentials)
    server_hostname: str | None = None
    proxy: str | None = None
    source: str = ""
    kubectl: str = "kubectl"
    """The command that uses the same configuration, for messages."""
    impersonation: Headers = ()
    """Headers of each request to the API server, if the kubeconfig acts as another user."""

    async def authorization(self) -> str | None:
        """Return the `Authorization` header for the next request."""
        return await self.credentials.authorization()


async def load_configuration(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    master: str = "",
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT_DIRECTORY,
    clock: Clock | None = None,
) -> ClientConfiguration:
    """Find and load the cluster configuration.

    The first that exists of: `kubeconfig`, the files in KUBECONFIG, the service account of our own
    pod, `~/.kube/config`, `master` alone. `master` overrides the server of each. Only a kubeconfig
    has contexts: with `context` nothing else is used.

    Raises:
        ConfigurationError: there is no configuration, or it cannot be used.
    """
    clock = clock or SystemClock()
    if kubeconfig:
        return await _from_kubeconfig([kubeconfig], context, master, clock)
    if environ.get("KUBECONFIG"):
        paths = environ["KUBECONFIG"].split(os.pathsep)
        return await _from_kubeconfig(paths, context, master, clock)
    if environ.get("KUBERNETES_SERVICE_HOST") and not context:
        return _in_cluster(environ, service_account, master, clock)
    default = _default_kubeconfig(environ)
    if default.is_file():
        return await _from_kubeconfig([str(default)], context, master, clock)
    if context:
        raise ConfigurationError(NO_CONTEXT.format(context=context, default=default))
    if master:
        server = server_url(master)
        tls = ClientTls(clock=clock) if server.startswith("https") else None
        kubectl = f"kubectl --server={shlex.quote(server)}"
        return ClientConfiguration(server, tls, source="--master", kubectl=kubectl)
    raise ConfigurationError(NOTHING_CONFIGURED.format(default=default))


def selected_namespace(
    kubeconfig: str = "", context: str = "", environ: Mapping[str, str] = os.environ
) -> str:
    """Return the namespace of a context as kubectl does; empty if no kubeconfig names one."""
    named = kubeconfig or environ.get("KUBECONFIG") or str(_default_kubeconfig(environ))
    try:
        return select(_existing(named.split(os.pathsep)), context or None).namespace
    except ConfigurationError:
        return ""


def selected_server(path: str) -> tuple[str, str]:
    """Return the server and the context that a kubeconfig selects.

    Raises:
        ConfigurationError: it selects none.
    """
    with _named_errors([path]) as found:
        selected = select(found, None)
    return server_url(selected.cluster.value.server), selected.context


def _default_kubeconfig(environ: Mapping[str, str]) -> Path:
    # As client-go: in a container the user may have no home directory.
    return Path(environ.get("HOME") or "/") / ".kube" / "config"


def _existing(paths: Sequence[str]) -> list[Path]:
    # Not Path.expanduser, which raises where the user has no home directory.
    found = (Path(os.path.expanduser(path)) for path in paths if path)  # noqa: PTH111
    return [path for path in found if path.is_file()]


def _in_cluster(
    environ: Mapping[str, str], service_account: Path, master: str, clock: Clock
) -> ClientConfiguration:
    loaders = in_cluster_loader.load()
    target = _Target()
    try:
        loaders.in_cluster_config_loader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            try_refresh_token=False,
            environ=dict(environ),
        ).load_and_set(target)
        server = server_url(master or target.host)
    except OSError as error:
        msg = f"in-cluster configuration ({error.filename}): {reason(error)}"
        raise ConfigurationError(msg) from error
    except (loaders.config_exception, ConfigurationError) as error:
        msg = f"in-cluster configuration ({service_account}): {error}"
        raise ConfigurationError(msg) from error
    return ClientConfiguration(
        server=server,
        tls=_tls(server, TlsSettings(service_account / "ca.crt"), clock),
        credentials=TokenFileCredentials(service_account / "token", clock),
        source="in-cluster",
    )


@dataclass
class _Target:
    """The object that the loader fills: it sets attributes by name."""

    host: str = ""
    api_key: dict[str, str] = field(default_factory=dict)


async def _from_kubeconfig(
    paths: Sequence[str], context: str | None, master: str, clock: Clock
) -> ClientConfiguration:
    with _named_errors(paths) as found:
        return await _load_kubeconfig(found, context, master, clock)


@contextmanager
def _named_errors(paths: Sequence[str]) -> Iterator[list[Path]]:
    """Yield those of the files that exist; errors about them become `kubeconfig PATHS: ...`."""
    found, named = _existing(paths), os.pathsep.join(paths)
    if not found:
        problem = "no such file"
        if any(Path(path).exists() for path in paths if path):
            problem = "a pipe or a device, not a file"
        raise ConfigurationError(f"kubeconfig {named}: {problem}")
    try:
        yield found
    except ConfigurationError as error:
        raise ConfigurationError(f"kubeconfig {named}: {error}") from error


async def _load_kubeconfig(
    paths: Sequence[Path], context: str | None, master: str, clock: Clock
) -> ClientConfiguration:
    selected = select(paths, context)
    cluster, user = selected.cluster.value, selected.user.value
    # `master` before anything else, so that the scheme decides about certificates.
    cluster.server = master or cluster.server
    server = server_url(cluster.server)
    settings = TlsSettings(
        _pem(cluster.certificate_authority, cluster.certificate_authority_data,
             selected.cluster.folder, "certificate-authority"),
        _pem(user.client_certificate, user.client_certificate_data,
             selected.user.folder, "client-certificate"),
        _pem(user.client_key, user.client_key_data, selected.user.folder, "client-key"),
        verify=not cluster.insecure_skip_tls_verify,
    )  # fmt: skip
    plugin = _exec_plugin(selected.user, selected.cluster)
    provider = _provider(selected.user, clock)
    tls = _tls(server, settings, clock)
    credentials: Credentials
    if plugin is not None:
        credentials = await _plugin_credentials(plugin, tls, clock)
    elif provider is not None:
        credentials = IssuedCredentials(provider.issue, await provider.first(), clock)
    elif user.token_file:
        credentials = TokenFileCredentials(selected.user.folder / user.token_file, clock)
    else:
        credentials = StaticCredentials(_authorization(user))
    # The files of KUBECONFIG are merged, and kubectl finds them itself.
    files = [f"--kubeconfig={paths[0]}"] if len(paths) == 1 else []
    servers, of_server = ([f"--server={server}"], ", server of --master") if master else ([], "")
    return ClientConfiguration(
        server=server,
        tls=tls,
        credentials=credentials,
        server_hostname=cluster.tls_server_name or None,
        proxy=cluster.proxy_url or None,
        source=f"kubeconfig {os.pathsep.join(map(str, paths))}, context {selected.context}"
        f"{of_server}",
        kubectl=shlex.join(["kubectl", *files, f"--context={selected.context}", *servers]),
        impersonation=user.impersonation(),
    )


def _authorization(user: User) -> str | None:
    if user.token:
        return f"Bearer {user.token}"
    if user.username or user.password:
        return f"Basic {base64.b64encode(f'{user.username}:{user.password}'.encode()).decode()}"
    return None


def _exec_plugin(
    user: KubeconfigEntry[User], cluster: KubeconfigEntry[KubeconfigCluster]
) -> ExecPlugin | None:
    if user.value.exec_ is None:
        return None
    return ExecPlugin(user.value.exec_, str(user.folder), _cluster_info(cluster))


def _cluster_info(entry: KubeconfigEntry[KubeconfigCluster]) -> dict[str, Any]:
    """Return `spec.cluster` of an ExecCredential, with which a plugin can reach the cluster."""
    cluster = entry.value
    info: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "proxy-url": cluster.proxy_url,
        "certificate-authority-data": cluster.certificate_authority_data,
    }
    info = {name: value for name, value in info.items() if value}
    if cluster.certificate_authority and not cluster.certificate_authority_data:
        path = entry.folder / cluster.certificate_authority
        try:
            content = read_file(path)
        except OSError as error:
            raise ConfigurationError(f"certificate-authority {path}: {reason(error)}") from error
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    for extension in cluster.extensions:
        if extension.name == "client.authentication.k8s.io/exec":
            info["config"] = extension.extension
    return info


def _provider(user: KubeconfigEntry[User], clock: Clock) -> OidcProvider | None:
    section = user.value.auth_provider
    if section is None:
        return None
    if section.get("name") != "oidc":
        msg = f"no auth provider found for name {section.get('name')!r}; use exec"
        raise ConfigurationError(msg)
    # It imports aiohttp, a quarter of the start-up time of a command that asks a scheduler.
    from scheduler.client.oidc import OidcProvider  # noqa: PLC0415

    return OidcProvider(section.get("config") or {}, str(user.folder), clock)


async def _plugin_credentials(
    plugin: ExecPlugin, tls: ClientTls | None, clock: Clock
) -> Credentials:
    async def issue() -> Issued:
        return _issued(await plugin.run(), tls)

    return IssuedCredentials(issue, await issue(), clock)


def _issued(credential: ExecCredential, tls: ClientTls | None) -> Issued:
    if credential.key and tls is not None:
        try:
            tls.use_certificate(credential.certificate, credential.key)
        except ConfigurationError as error:
            raise ConfigurationError(f"credential provider: {error}") from error
    header = f"Bearer {credential.token}" if credential.token else None
    return Issued(header, credential.expires_at)


def _pem(file: str, data: str, folder: Path, name: str) -> Pem | None:
    """Return the path or the content of certificates or a key.

    Raises:
        ConfigurationError: the data is not base64.
    """
    if data:
        try:
            return base64.b64decode(data)
        except binascii.Error as error:
            raise ConfigurationError(f"{name}-data: no base64") from error
    return folder / file if file else None


def _tls(server: str, settings: TlsSettings, clock: Clock) -> ClientTls | None:
    if not server.startswith("https"):
        return None
    try:
        return ClientTls(settings, clock)
    except ConfigurationError as error:
        raise ConfigurationError(f"certificates for {server}: {error}") from error
