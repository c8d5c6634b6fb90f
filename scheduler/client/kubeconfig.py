"""Kubeconfig files, read and merged as kubectl does.

Of several files the first one that has a name, or that sets the current context, counts. Paths in a
file are relative to the folder in which it was named, not to that of a link's target. Null means
absent. Keys that kubectl does not know are ignored, except for those that look like a slip: they
would silently change rights or routes.

Upstream: client-go, tools/clientcmd (loader.go, client_config.go, validation.go).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.structs import complete
from scheduler.files import read_file, reason
from scheduler.sanitizing.encodings import as_utf8
from scheduler.sanitizing.yaml_limits import Loader, check_limits, located

_SLIP: Final = 0.8
"""Likeness to a known key from which an unknown one counts as a slip."""
_IN_HEADER: Final = "!#$&'*+-.^_`|~"
"""Characters, besides letters and digits, that the name of a header may have, without %."""
_PROXIES: Final = ("http", "https", "socks5")


def _kebab(name: str) -> str:
    return {"token_file": "tokenFile"}.get(name, name.rstrip("_").replace("_", "-"))


class Extension(msgspec.Struct):
    """An entry of `extensions`."""

    name: str = ""
    extension: Any = None


class KubeconfigCluster(msgspec.Struct, rename=_kebab):
    """`clusters[].cluster`."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    """Without effect: responses are never asked for in a compressed form."""
    extensions: list[Extension] = []


class User(msgspec.Struct, rename=_kebab):
    """`users[].user`."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = ""
    as_: str = ""
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec_: dict[str, Any] | None = None
    extensions: list[Extension] = []

    def impersonation(self) -> Headers:
        """Return the headers with which the API server lets this user act as another one.

        Raises:
            ConfigurationError: `as` is missing, or has a character that no header may have.
        """
        found = [("Impersonate-User", self.as_)] if self.as_ else []
        if self.as_uid:
            found.append(("Impersonate-Uid", self.as_uid))
        found += (("Impersonate-Group", each) for each in self.as_groups)
        found += (
            (f"Impersonate-Extra-{quote(key, safe=_IN_HEADER)}", each)
            for key, values in self.as_user_extra.items()
            for each in values
        )
        if found and not self.as_:
            raise ConfigurationError(
                "as-uid, as-groups and as-user-extra need a user to act as: add as, or remove them"
            )
        for name, value in found:
            if not value.isprintable():
                raise ConfigurationError(f"as: {name}: {value!r:.60} cannot be in a header")
        return tuple(found)


class Context(msgspec.Struct):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""
    """For questions about pods that name none; a scheduler works in all namespaces."""
    extensions: list[Extension] = []


Headers = tuple[tuple[str, str], ...]
"""Names and values; names may be repeated."""


class _NamedCluster(msgspec.Struct):
    name: str = ""
    cluster: dict[str, Any] = {}


class _NamedUser(msgspec.Struct):
    name: str = ""
    user: dict[str, Any] = {}


class _NamedContext(msgspec.Struct):
    name: str = ""
    context: dict[str, Any] = {}


class _File(msgspec.Struct, rename=_kebab):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


complete(_File, KubeconfigCluster, User, Context)


T = TypeVar("T", KubeconfigCluster, User, Context)


@dataclass(frozen=True, slots=True)
class KubeconfigEntry(Generic[T]):
    """The value of a name, and the folder to which its paths are relative."""

    value: T
    folder: Path


@dataclass(frozen=True, slots=True)
class Selected:
    """The parts of files that a context selects."""

    context: str
    namespace: str
    cluster: KubeconfigEntry[KubeconfigCluster]
    user: KubeconfigEntry[User]


@dataclass(slots=True)
class _Merged:
    """The entries of all files by name, not yet converted."""

    current_context: str = ""
    clusters: dict[str, tuple[dict[str, Any], Path]] = field(default_factory=dict)
    users: dict[str, tuple[dict[str, Any], Path]] = field(default_factory=dict)
    contexts: dict[str, tuple[dict[str, Any], Path]] = field(default_factory=dict)


def select(paths: Sequence[Path], context: str | None) -> Selected:
    """Return what a context of files selects; None: the current context.

    Raises:
        ConfigurationError: a file cannot be read, or the selection makes no sense.
    """
    merged = _Merged()
    for path in paths:
        _merge(merged, _read(path), path)
    chosen = context or merged.current_context
    if not chosen:
        raise ConfigurationError("no current-context is set and no context was given")
    selected = _entry(merged.contexts, "contexts", chosen, Context).value
    cluster = _entry(merged.clusters, "clusters", selected.cluster, KubeconfigCluster)
    user = KubeconfigEntry(User(), Path())
    if selected.user:
        user = _entry(merged.users, "users", selected.user, User)
    _check(chosen, cluster.value, user.value)
    return Selected(chosen, selected.namespace, cluster, user)


def server_url(server: str) -> str:
    """Return the URL of an API server, which without scheme is plain HTTP.

    Upstream: client-go, rest/url_utils.go: DefaultServerURL.

    >>> server_url("localhost:8080"), server_url("https://one:6443/prefix/?x")
    ('http://localhost:8080', 'https://one:6443/prefix')
    """
    try:
        parts = urlsplit(server)
    except ValueError:
        return server  # connecting reports it
    if not (parts.scheme and parts.netloc):
        return f"http://{server}".rstrip("/")
    return parts._replace(query="", fragment="").geturl().rstrip("/")


def _read(path: Path) -> _File:
    try:
        data = as_utf8(read_file(path))
        check_limits(data, unique_keys=False)
        found = yaml.load(data, Loader=Loader)  # noqa: S506 - safe, with limits
        if found is None:
            raise ConfigurationError("the file is empty")
        return msgspec.convert(_without_nulls(found), _File)
    except OSError as error:
        raise ConfigurationError(reason(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"byte {error.start} is no {error.encoding}") from error
    except ConfigurationError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line, problem = located(error)
        where = f"line {line}: " if line else ""
        raise ConfigurationError(f"{where}not a usable kubeconfig file: {problem}") from error


def _without_nulls(value: Any) -> Any:
    """Return values as JSON has them, without those that are null."""
    if isinstance(value, dict):
        items = ((str(key), _without_nulls(inner)) for key, inner in value.items())
        return {key: inner for key, inner in items if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value if inner is not None]
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def _merge(merged: _Merged, file: _File, path: Path) -> None:
    # Not resolved: paths are relative to the folder of a link, not of its target.
    folder = Path(os.path.abspath(path)).parent  # noqa: PTH100
    merged.current_context = merged.current_context or file.current_context
    for section, entries in (
        ("clusters", [(each.name, each.cluster) for each in file.clusters]),
        ("users", [(each.name, each.user) for each in file.users]),
        ("contexts", [(each.name, each.context) for each in file.contexts]),
    ):
        own = {name: (content, folder) for name, content in entries}
        if len(own) < len(entries):
            twice = Counter(name for name, _ in entries).most_common(1)[0][0]
            raise ConfigurationError(f"{section} has two entries named {twice!r:.80}")
        known = getattr(merged, section)
        setattr(merged, section, {**own, **known})


def _entry(
    entries: Mapping[str, tuple[dict[str, Any], Path]], section: str, name: str, form: type[T]
) -> KubeconfigEntry[T]:
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise ConfigurationError(f"{section} has no entry named {name!r} (there are: {known})")
    content, folder = entries[name]
    where = f"{section.removesuffix('s')} {name!r:.80}"
    _refuse_slips(where, content, (each.encode_name for each in msgspec.structs.fields(form)))
    try:
        return KubeconfigEntry(msgspec.convert(content, form), folder)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _refuse_slips(where: str, content: Mapping[str, Any], known: Iterable[str]) -> None:
    keys = {each.lower(): each for each in known}
    for key in content.keys() - set(keys.values()):
        meant = get_close_matches(key.lower().replace("_", "-"), keys, 1, _SLIP)
        if meant:
            raise ConfigurationError(
                f"{where}: unknown key {key!r:.60}; did you mean {keys[meant[0]]}?"
            )


def _check(context: str, cluster: KubeconfigCluster, user: User) -> None:
    if not cluster.server:
        raise ConfigurationError(f"the cluster of context {context!r} has no server")
    try:
        scheme = urlsplit(cluster.proxy_url).scheme
    except ValueError as error:
        raise ConfigurationError(f"proxy-url: {error}") from error
    if cluster.proxy_url and scheme not in _PROXIES:
        # Not the URL: it may contain a password.
        has = f"{scheme}:// is not supported" if "://" in cluster.proxy_url else "has no scheme"
        raise ConfigurationError(
            f"proxy-url {has}: give the URL of an HTTP proxy, such as http://proxy:3128"
        )
    if user.token and (user.username or user.password):
        raise ConfigurationError("the user has a token and a password; only one is allowed")
    if user.exec_ is not None and user.auth_provider is not None:
        raise ConfigurationError("the user has exec and auth-provider; only one is allowed")
    user.impersonation()
