"""The address of the API server and our credentials for it.

Only the configuration loaders of `kubernetes_asyncio` are used (`kubeconfig_loaders`), to parse
kubeconfig files. Credential plugins (`exec_plugin`), identity providers (`oidc`), TLS contexts
(`http.tls`), token files and renewal are ours.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scheduler.client import kubeconfig_loaders
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
from scheduler.files import read_file

if TYPE_CHECKING:
    from scheduler.client.oidc import OidcProvider

SERVICE_ACCOUNT_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

NOTHING_CONFIGURED: Final = (
    "invalid configuration: no configuration has been provided: not in a cluster (no "
    "KUBERNETES_SERVICE_HOST), KUBECONFIG is not set and {default} does not exist; "
    "give --kubeconfig or --master, or set KUBECONFIG"
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
    pod, `~/.kube/config`, `master` alone. `master` overrides the server of each.

    Raises:
        ConfigurationError: there is no configuration, or it cannot be used.
    """
    clock = clock or SystemClock()
    if kubeconfig:
        return await _from_kubeconfig(kubeconfig, context, master, clock)
    if environ.get("KUBECONFIG"):
        return await _from_kubeconfig(environ["KUBECONFIG"], context, master, clock)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster(environ, service_account, master, clock)
    default = _default_kubeconfig(environ)
    if default.is_file():
        return await _from_kubeconfig(str(default), context, master, clock)
    if master:
        server = master.rstrip("/")
        tls = ClientTls(clock=clock) if server.startswith("https") else None
        return ClientConfiguration(server, tls, source="--master")
    raise ConfigurationError(NOTHING_CONFIGURED.format(default=default))


def selected_server(paths: str) -> tuple[str, str]:
    """Return the server and the context that kubeconfig files select.

    Raises:
        ConfigurationError: they select none.
    """
    with _named_errors(paths) as found:
        merged = kubeconfig_loaders.load().kube_config_merger(found).config
        context, _, entry, _ = _selected(merged, None)
        return str(entry["cluster"]["server"]).rstrip("/"), context


def _default_kubeconfig(environ: Mapping[str, str]) -> Path:
    # As client-go: in a container the user may have no home directory.
    return Path(environ.get("HOME") or "/") / ".kube" / "config"


def _existing(paths: str) -> list[str]:
    # Not Path.expanduser, which raises where the user has no home directory.
    return [
        path
        for path in paths.split(os.pathsep)
        if path and Path(os.path.expanduser(path)).is_file()  # noqa: PTH111
    ]


def _in_cluster(
    environ: Mapping[str, str], service_account: Path, master: str, clock: Clock
) -> ClientConfiguration:
    loaders = kubeconfig_loaders.load()
    target: Any = _Loaded()
    try:
        loaders.in_cluster_config_loader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            try_refresh_token=False,
            environ=dict(environ),
        ).load_and_set(target)
    except (loaders.config_exception, OSError) as error:
        msg = f"in-cluster configuration ({service_account}): {error}"
        raise ConfigurationError(msg) from error
    return ClientConfiguration(
        server=(master or target.host).rstrip("/"),
        tls=_tls(target, TlsSettings(service_account / "ca.crt"), clock),
        credentials=TokenFileCredentials(service_account / "token", clock),
        source="in-cluster",
    )


@dataclass
class _Loaded:
    """The target that the loaders fill: they set attributes by name."""

    api_key: dict[str, str] = field(default_factory=dict)
    host: str = ""
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None


async def _from_kubeconfig(
    paths: str, context: str | None, master: str, clock: Clock
) -> ClientConfiguration:
    with _named_errors(paths) as found:
        return await _load_kubeconfig(found, context, master, clock)


@contextmanager
def _named_errors(paths: str) -> Iterator[str]:
    """Yield those of the files that exist; errors about them become `kubeconfig PATHS: ...`."""
    loaders = kubeconfig_loaders.load()
    found = _existing(paths)
    if not found:
        problem = "a pipe or a device, not a file" if Path(paths).exists() else "no such file"
        raise ConfigurationError(f"kubeconfig {paths}: {problem}")
    try:
        yield os.pathsep.join(found)
    except (ConfigurationError, loaders.config_exception) as error:
        raise ConfigurationError(f"kubeconfig {paths}: {error}") from error
    # The boundary to a third-party parser, which raises arbitrary exceptions on odd input.
    except Exception as error:
        msg = f"kubeconfig {paths}: not a usable kubeconfig file ({type(error).__name__}: {error})"
        raise ConfigurationError(msg) from error


def _selected(merged: Any, context: str | None) -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """Return the name and content of a context, its cluster's entry, and the folder of that."""
    if merged is None or not merged.value:
        raise ConfigurationError("the file is empty")
    chosen = context or merged.value.get("current-context")
    if not chosen:
        raise ConfigurationError("no current-context is set and no context was given")
    selected = _named(merged.value, "contexts", chosen)[0].get("context", {})
    return chosen, selected, *_named(merged.value, "clusters", selected.get("cluster"))


async def _load_kubeconfig(
    paths: str, context: str | None, master: str, clock: Clock
) -> ClientConfiguration:
    loaders = kubeconfig_loaders.load()
    merged = loaders.kube_config_merger(paths).config
    chosen, selected, entry, folder = _selected(merged, context)
    cluster = entry.get("cluster", {})
    user, base = _user(merged.value, selected.get("user"))
    if master:
        # Before loading, so that the scheme decides about certificates.
        cluster["server"] = master
    plugin = _exec_plugin(user, base, cluster, folder)
    provider = _provider(user, base, clock)
    authority = _pem(cluster, folder, "certificate-authority")
    certificate = _pem(user, base, "client-certificate")
    key = _pem(user, base, "client-key")
    loader = loaders.kube_config_loader(
        config_dict=merged, active_context=chosen, config_base_path=None
    )
    target = _Loaded()
    await loader.load_and_set(target)
    if not target.host:
        raise ConfigurationError(f"the cluster of context {chosen!r} has no server")
    tls = _tls(
        target, TlsSettings(authority, certificate, key, verify=bool(target.verify_ssl)), clock
    )
    credentials: Credentials
    if plugin is not None:
        credentials = await _plugin_credentials(plugin, tls, clock)
    elif provider is not None:
        credentials = IssuedCredentials(provider.issue, await provider.first(), clock)
    elif user.get("tokenFile"):
        credentials = TokenFileCredentials(Path(base) / str(user["tokenFile"]), clock)
    else:
        credentials = StaticCredentials(target.api_key.get("BearerToken"))
    return ClientConfiguration(
        server=target.host,
        tls=tls,
        credentials=credentials,
        server_hostname=target.tls_server_name,
        proxy=target.proxy,
        source=f"kubeconfig {paths}, context {chosen}",
    )


def _named(config: Mapping[str, Any], section: str, name: str | None) -> tuple[dict[str, Any], str]:
    """Return an entry of a merged kubeconfig and the folder of its file."""
    for node in config.get(section) or ():
        if node.value.get("name") == name:
            return node.value, str(Path(node.path).resolve().parent)
    known = ", ".join(sorted(str(node.value.get("name")) for node in config.get(section) or ()))
    msg = f"{section} has no entry named {name!r} (there are: {known or 'none'})"
    raise ConfigurationError(msg)


def _user(config: Mapping[str, Any], name: str | None) -> tuple[dict[str, Any], str]:
    if not name:
        return {}, ""
    entry, base = _named(config, "users", name)
    return entry.get("user") or {}, base


def _exec_plugin(
    user: dict[str, Any], base: str, cluster: Mapping[str, Any], folder: str
) -> ExecPlugin | None:
    """Remove the user's plugin from the configuration: the loader would start it itself."""
    section = user.pop("exec", None)
    if section is None:
        return None
    return ExecPlugin(section, base, _cluster_info(cluster, folder))


def _cluster_info(cluster: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return `spec.cluster` of an ExecCredential, with which a plugin can reach the cluster."""
    kept = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    info = {name: cluster[name] for name in kept if cluster.get(name)}
    if authority := cluster.get("certificate-authority-data"):
        info["certificate-authority-data"] = authority
    elif path := cluster.get("certificate-authority"):
        try:
            content = read_file(Path(folder) / path)
        except OSError as error:
            msg = f"certificate-authority {path}: {error.strerror or error}"
            raise ConfigurationError(msg) from error
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _provider(user: dict[str, Any], base: str, clock: Clock) -> OidcProvider | None:
    """Remove the user's identity provider from the configuration, as for a plugin."""
    section = user.pop("auth-provider", None)
    if section is None:
        return None
    if section.get("name") != "oidc":
        msg = f"no auth provider found for name {section.get('name')!r}; use exec"
        raise ConfigurationError(msg)
    # It imports aiohttp, a quarter of the start-up time of a command that asks a scheduler.
    from scheduler.client.oidc import OidcProvider  # noqa: PLC0415

    return OidcProvider(section.get("config") or {}, base, clock)


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


def _pem(section: dict[str, Any], folder: str, name: str) -> Pem | None:
    """Remove certificates or a key from the configuration: the loader would write a file.

    Raises:
        ConfigurationError: the data is not base64.
    """
    file, data = section.pop(name, None), section.pop(f"{name}-data", None)
    if data:
        try:
            return base64.b64decode(str(data))
        except binascii.Error as error:
            raise ConfigurationError(f"{name}-data: no base64") from error
    return Path(folder) / str(file) if file else None


def _tls(target: _Loaded, settings: TlsSettings, clock: Clock) -> ClientTls | None:
    if not target.host.startswith("https"):
        return None
    try:
        return ClientTls(settings, clock)
    except ConfigurationError as error:
        raise ConfigurationError(f"certificates for {target.host}: {error}") from error
