"""Where the API server is and how to prove who we are.

Of `kubernetes_asyncio` only the configuration loaders are used (`kubeconfig_loaders`). They parse
kubeconfig files and run exec plugins and identity providers; TLS contexts, token files and renewal
are ours.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from scheduler.client import kubeconfig_loaders
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.credentials import (
    Credentials,
    Issued,
    IssuedCredentials,
    StaticCredentials,
    TokenFileCredentials,
)
from scheduler.client.errors import ConfigurationError
from scheduler.client.http.tls import client_context
from scheduler.client.kubeconfig_loaders import Loaders

SERVICE_ACCOUNT_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

NOTHING_CONFIGURED: Final = (
    "invalid configuration: no configuration has been provided: not in a cluster (no "
    "KUBERNETES_SERVICE_HOST), KUBECONFIG is not set and {default} does not exist; "
    "give --kubeconfig or --master, or set KUBECONFIG"
)

PROVIDER_CHECK_SECONDS: Final = 60.0
"""How often an identity provider's token is looked at; the loader renews it when its expiry is
near."""


@dataclass(frozen=True, slots=True)
class ClientConfiguration:
    """Everything needed to open connections. `server` has no trailing slash."""

    server: str
    ssl_context: ssl.SSLContext | None = None
    credentials: Credentials = field(default_factory=StaticCredentials)
    server_hostname: str | None = None
    proxy: str | None = None
    source: str = ""

    async def authorization(self) -> str | None:
        """The `Authorization` header for the next request."""
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

    In this order: `kubeconfig`, the files in KUBECONFIG, the service account of the pod we run in,
    `~/.kube/config`, `master` alone. `master` overrides the server of whatever is found.

    Raises:
        ConfigurationError: nothing was found, or what was found cannot be used.
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
        tls = client_context() if server.startswith("https") else None
        return ClientConfiguration(server, tls, source="--master")
    raise ConfigurationError(NOTHING_CONFIGURED.format(default=default))


def _default_kubeconfig(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"


def _existing(paths: str) -> list[str]:
    return [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().is_file()]


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
        ssl_context=_ssl_context(target),
        credentials=TokenFileCredentials(service_account / "token", clock),
        source="in-cluster",
    )


class _Loaded:
    """What the loaders write their findings into; they set attributes by name."""

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}
        self.host = ""
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.verify_ssl = True
        self.tls_server_name: str | None = None
        self.proxy: str | None = None


async def _from_kubeconfig(
    paths: str, context: str | None, master: str, clock: Clock
) -> ClientConfiguration:
    loaders = kubeconfig_loaders.load()
    found = _existing(paths)
    if not found:
        msg = f"kubeconfig {paths}: no such file"
        raise ConfigurationError(msg)
    try:
        return await _load_kubeconfig(loaders, os.pathsep.join(found), context, master, clock)
    except (ConfigurationError, loaders.config_exception) as error:
        msg = f"kubeconfig {paths}: {error}"
        raise ConfigurationError(msg) from error
    # The boundary to a third-party parser: on odd input it raises whatever the line it dies in
    # raises.
    except Exception as error:
        msg = f"kubeconfig {paths}: not a usable kubeconfig file ({type(error).__name__}: {error})"
        raise ConfigurationError(msg) from error


async def _load_kubeconfig(
    loaders: Loaders, paths: str, context: str | None, master: str, clock: Clock
) -> ClientConfiguration:
    merged = loaders.kube_config_merger(paths).config
    if merged is None or not merged.value:
        msg = "the file is empty"
        raise ConfigurationError(msg)
    chosen = context or merged.value.get("current-context")
    if not chosen:
        msg = "no current-context is set and no context was given"
        raise ConfigurationError(msg)
    selected = _named(merged.value, "contexts", chosen)[0].get("context", {})
    cluster = _named(merged.value, "clusters", selected.get("cluster"))[0].get("cluster", {})
    user, base = _user(merged.value, selected.get("user"))
    if master:
        # Before loading, so that the scheme decides about certificates.
        cluster["server"] = master
    loader = loaders.kube_config_loader(
        config_dict=merged, active_context=chosen, config_base_path=None
    )
    target = _Loaded()
    await loader.load_and_set(target)
    if not target.host:
        msg = f"the cluster of context {chosen!r} has no server"
        raise ConfigurationError(msg)
    context_tls = _ssl_context(target)
    return ClientConfiguration(
        server=target.host,
        ssl_context=context_tls,
        credentials=_credentials(loader, target, user, base, context_tls, clock),
        server_hostname=target.tls_server_name,
        proxy=target.proxy,
        source=f"kubeconfig {paths}, context {chosen}",
    )


def _named(config: Mapping[str, Any], section: str, name: str | None) -> tuple[dict[str, Any], str]:
    """An entry of a merged kubeconfig and the folder of the file it came from."""
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


def _credentials(
    loader: Any,
    target: _Loaded,
    user: Mapping[str, Any],
    base: str,
    context: ssl.SSLContext | None,
    clock: Clock,
) -> Credentials:
    if user.get("tokenFile"):
        return TokenFileCredentials(Path(base) / str(user["tokenFile"]), clock)
    if "exec" not in user and "auth-provider" not in user:
        return StaticCredentials(target.api_key.get("BearerToken"))

    # The files of the certificate in use; others that the loader names are still to be loaded.
    loaded = target.cert_file, target.key_file

    def issued() -> Issued:
        header = target.api_key.get("BearerToken")
        if "exec" not in user:
            # Looked at again soon; the loader itself knows when the provider's token ends.
            return Issued(header, due_at=clock.now() + PROVIDER_CHECK_SECONDS)
        expiry: datetime | None = getattr(loader, "exec_plugin_expiry", None)
        return Issued(header, None if expiry is None else expiry.timestamp())

    async def issue() -> Issued:
        nonlocal loaded
        # Without this the loader hands out the same exec credential until five minutes before its
        # expiry.
        vars(loader).pop("exec_plugin_expiry", None)
        try:
            await loader.load_and_set(target)
        # The boundary to a third-party loader, as in _from_kubeconfig.
        except Exception as error:
            msg = f"credential provider: {str(error) or type(error).__name__}"
            raise ConfigurationError(msg) from error
        pair = target.cert_file, target.key_file
        if context is not None and target.cert_file and pair != loaded:
            try:
                context.load_cert_chain(target.cert_file, target.key_file)
            except (ssl.SSLError, OSError) as error:
                msg = f"credential provider: client certificate: {error}"
                raise ConfigurationError(msg) from error
            loaded = pair
        return issued()

    return IssuedCredentials(issue, issued(), clock)


def _ssl_context(target: _Loaded) -> ssl.SSLContext | None:
    if not target.host.startswith("https"):
        return None
    try:
        context = client_context(target.ssl_ca_cert)
        if not target.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if target.cert_file:
            context.load_cert_chain(target.cert_file, target.key_file)
    except (ssl.SSLError, OSError) as error:
        msg = f"certificates for {target.host}: {error}"
        raise ConfigurationError(msg) from error
    return context
