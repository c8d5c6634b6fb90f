"""Requests of a command to a running scheduler: the options, and one request with its errors.

Shared by all commands that ask one; no request changes anything. `leader` and `direct` are the two
ways to it. A request whose connection breaks is repeated once if another replica leads by then.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import click
from click.core import ParameterSource

from scheduler.cli import exit_codes
from scheduler.cli.direct import DirectRoute
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.hints import (
    ADMINISTRATORS_KUBECTL,
    given_cluster,
    given_options,
    given_scheduler,
    kubectl,
)
from scheduler.cli.leader import DEFAULT_LEASE, LeaderRoute, own_at
from scheduler.cli.leader_errors import status_message, subject_of
from scheduler.cli.routes import NotConnectedError, Route, VerifiedConnection
from scheduler.cli.streams import exchange
from scheduler.files import read_file, reason

LOCAL_SERVER: Final = "https://localhost:10259"
"""The server if there are options about its certificate and no address."""

REQUEST_TIMEOUT: Final = 30.0
"""Seconds for one response. To explain a pod, every plugin is run on every node."""

NO_QUERY: Final[Mapping[str, str]] = {}

CHUNK_BYTES: Final = 64 * 1024

UNAUTHENTICATED: Final = (
    "{server} does not accept these credentials ({credentials}).\n"
    "It takes certificates and bearer tokens that the cluster knows, such as\n"
    '  --token "$({kubectl} -n kubestow-system create token SERVICEACCOUNT)"'
)
FORBIDDEN: Final = (
    "{server} refused: {text} ({credentials}).\n"
    "{unknown}"
    "Who may get pods of a namespace may ask about them: explain, and queue --namespace.\n"
    "For the rest, an administrator grants a role, with\n"
    "  {kubectl} create clusterrolebinding {role}-{name} \\\n"
    "      --clusterrole={role} {subject}\n"
    "If there is no such role:  kubestow config rbac --explainer{local} | {kubectl} apply -f -"
)
UNKNOWN_USER: Final = (
    "A scheduler that does not know the authority of client certificates (its log says so) knows\n"
    "users by tokens only; one of a service account is given by\n"
    '  --token "$({kubectl} -n kubestow-system create token SERVICEACCOUNT)"\n'
)
ANONYMOUS: Final = 'User "system:anonymous"'
MAY_NOT_REVIEW: Final = (
    "{server} cannot find out who asks and what they may do: {text}.\n"
    "Your credentials may well be right: its own permissions are missing, or its token has "
    "expired.\n"
    "An administrator sees which, and the rules to add, with\n"
    "  kubestow check --service-account NAMESPACE/NAME{options}\n"
    "As installed, that is kubestow-system/kubestow."
)
NOT_FOUND: Final = "{server} has no {path}: it is no kubestow scheduler, or an older one"
CHANGED: Final = (
    "another replica took over during the question, twice; is the scheduler in good health?\n{text}"
)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The scheduler to query, and its credentials, as given on the command line."""

    #: Empty: the leader, found by its Lease.
    server: str
    #: Empty: the credentials of the kubeconfig are used.
    token: str = field(repr=False)
    kubeconfig: str
    context: str
    #: Empty: that of `DEFAULT_LEASE`, or a scheduler of the user that leads without one.
    lease: str = ""
    ca_file: str
    tls_server_name: str
    insecure_skip_tls_verify: bool

    def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """Get the JSON at a path.

        Raises:
            CommandError: no response came, or a refusal; the message gives reason and remedy.
        """
        try:
            return _asked(_route(self), lambda route: _body(route, "GET", path, query))
        except CommandError as error:
            if f'cannot get path "{path}"' not in error.message:
                raise
            before = _about_namespaces(self, path, query)
            raise CommandError(f"{before}{error.message}", error.exit_code) from error

    def post(
        self, path: str, body: bytes, query: Mapping[str, str] = NO_QUERY, *, timeout: float = 0.0
    ) -> bytes:
        """Send JSON to a path and return the JSON of the response; errors as of `get`.

        `timeout`: seconds for the response, 0 for `REQUEST_TIMEOUT`.
        """
        return _asked(_route(self), lambda route: _body(route, "POST", path, query, body, timeout))

    def read_cluster(self, target: str, accept: str) -> tuple[int, bytes]:
        """Get an object of the cluster whose leader is asked; return status and body.

        Raises:
            CommandError: the leader was not found by its Lease: the cluster may be another one.
            OSError, HTTPException: there was no response.
        """
        route = _route(self)
        if not isinstance(route, LeaderRoute):
            raise CommandError("the cluster of the scheduler is not known")
        return route.read_cluster(target, accept)

    def cluster_object(self, target: str, accept: str = "application/json") -> tuple[int, Any]:
        """Return status and object as of `read_cluster`; 0 and nothing without an answer."""
        try:
            status, body = self.read_cluster(target, accept)
            found = json.loads(body)
        except (CommandError, OSError, HTTPException, ValueError, RecursionError):
            return 0, {}
        return (status, found) if isinstance(found, dict) else (0, {})

    def stream(
        self, path: str, query: Mapping[str, str], *, timeout: float = 0.0
    ) -> Iterator[bytes]:
        """Get the body at a path in pieces, as they arrive; errors as of `get`.

        `timeout`: seconds without a byte, 0 for `REQUEST_TIMEOUT`.
        """
        with ExitStack() as stack:
            yield from _asked(
                _route(self),
                lambda route: stack.enter_context(
                    _response(route, "GET", path, query, None, timeout)
                ),
            )


def _about_namespaces(endpoint: Endpoint, path: str, query: Mapping[str, str]) -> str:
    """Return for what namespace a page was refused, and which one the user may have meant."""
    from scheduler.client.configuration import selected_namespace
    from scheduler.explain.records.page_table import PAGES

    entry = PAGES.get(path)
    asked = "" if entry is None or entry.namespace is None else entry.namespace(query)
    usual = selected_namespace(endpoint.kubeconfig, endpoint.context)
    if asked:
        yours = f"; your context has {usual}" if usual not in ("", asked) else ""
        return f'you may not get pods in namespace "{asked}"{yours}\n'
    command = f"kubestow queue -n {usual or 'NAMESPACE'}{given_scheduler()}"
    return f"about one namespace, if you may get its pods:  {command}\n"


@functools.lru_cache(maxsize=8)
def _route(endpoint: Endpoint) -> Route:
    """Return the way to the scheduler; kept, since a kubeconfig takes long to load."""
    given = (endpoint.ca_file, endpoint.tls_server_name, endpoint.insecure_skip_tls_verify)
    if not endpoint.server and not any(given):
        return LeaderRoute(
            kubeconfig=endpoint.kubeconfig,
            context=endpoint.context,
            lease=endpoint.lease,
            token=endpoint.token,
        )
    own = None if any(given) else own_at(endpoint.server)
    if own is not None:
        # Its file has the hash of its certificate.
        return LeaderRoute(
            kubeconfig=endpoint.kubeconfig,
            context=endpoint.context,
            token=endpoint.token,
            own=own,
        )
    return DirectRoute(
        server=endpoint.server or LOCAL_SERVER,
        token=endpoint.token,
        kubeconfig=endpoint.kubeconfig,
        context=endpoint.context,
        ca_file=endpoint.ca_file,
        tls_server_name=endpoint.tls_server_name,
        insecure_skip_tls_verify=endpoint.insecure_skip_tls_verify,
    )


def _asked(route: Route, question: Callable[[Route], R]) -> R:
    """Ask; once more if the connection broke and another replica leads now."""
    try:
        return question(route)
    except NotConnectedError as error:
        if not error.holder or not route.moved(error.holder):
            raise
    try:
        return question(route)
    except NotConnectedError as error:
        if not error.holder or not route.moved(error.holder):
            raise
        text = CHANGED.format(text=error.message)
        raise CommandError(text, exit_codes.LEADER_CHANGED) from error


def _body(
    route: Route,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: bytes | None = None,
    timeout: float = 0.0,
) -> bytes:
    with _response(route, method, path, query, body, timeout) as pieces:
        return b"".join(pieces)


@contextmanager
def _response(
    route: Route,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: bytes | None,
    timeout: float,
) -> Iterator[Iterator[bytes]]:
    """Send a request and yield the pieces of the response with status 200."""
    connection = route.connect(timeout or REQUEST_TIMEOUT)
    headers = {"User-Agent": "kubestow/cli", "Accept": "application/json"}
    if connection.authorization:
        headers["Authorization"] = connection.authorization
    if body is not None:
        headers["Content-Type"] = "application/json"
    target = connection.prefix + (f"{path}?{urlencode(query)}" if query else path)
    with ExitStack() as stack:
        stack.callback(connection.stream.close)
        with _reported(route, connection):
            response = stack.enter_context(
                exchange(connection.stream, connection.host, method, target, headers, body)
            )
        pieces = _pieces(route, connection, response)
        if response.status != 200:
            raise _refusal(connection, path, response.status, b"".join(pieces))
        yield pieces


def _pieces(
    route: Route, connection: VerifiedConnection, response: HTTPResponse
) -> Iterator[bytes]:
    """Read the body in pieces, as they arrive."""
    while True:
        with _reported(route, connection):
            piece = response.read1(CHUNK_BYTES)
        if not piece:
            break
        yield piece
    if response.length:
        raise route.broken(connection, OSError("the connection ended within the answer"))


@contextmanager
def _reported(route: Route, connection: VerifiedConnection) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException) as error:
        raise route.broken(connection, error) from error


def endpoint_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as `endpoint`."""

    @functools.wraps(command)
    def with_endpoint(**values: Any) -> None:
        source = click.get_current_context().get_parameter_source
        if values["token"] and source("token_file") is ParameterSource.ENVIRONMENT:
            values["token_file"] = None
        lease = _lease(values.pop("lease"))
        endpoint = Endpoint(
            server=_server(values.pop("server")),
            token=_token(values.pop("token"), values.pop("token_file")),
            kubeconfig=values.pop("kubeconfig") or "",
            context=values.pop("context") or "",
            lease="" if source("lease") is ParameterSource.DEFAULT else lease,
            ca_file=values.pop("ca_file") or "",
            tls_server_name=values.pop("tls_server_name") or "",
            insecure_skip_tls_verify=values.pop("insecure_skip_tls_verify"),
        )
        with given_options(click.get_current_context()):
            command(endpoint=endpoint, **values)

    decorated: Callable[..., None] = with_endpoint
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: Final = (
    click.option(
        "--server",
        "-s",
        envvar="KUBESTOW_SERVER",
        show_envvar=True,
        metavar="URL",
        help="The scheduler's HTTPS endpoint. Default: the leader, found by its Lease and reached "
        "through the API server.",
    ),
    click.option(
        "--lease",
        envvar="KUBESTOW_LEASE",
        show_envvar=True,
        metavar="NAMESPACE/NAME",
        default=DEFAULT_LEASE,
        show_default=True,
        help="The Lease of the leader: leaderElection.resourceNamespace and resourceName.",
    ),
    click.option("--token", metavar="TOKEN", help="Bearer token for the request."),
    click.option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False),
        envvar="KUBESTOW_TOKEN_FILE",
        show_envvar=True,
        metavar="FILE",
        help="File with the bearer token; it does not appear in process lists.",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Kubeconfig with the cluster and the credentials. Default: as kubectl; in a pod its "
        "service account.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False),
        envvar="KUBESTOW_CA_FILE",
        show_envvar=True,
        metavar="FILE",
        help="PEM file with the certificate of --server, or its authority.",
    ),
    click.option(
        "--tls-server-name",
        envvar="KUBESTOW_TLS_SERVER_NAME",
        show_envvar=True,
        metavar="NAME",
        help="Name the certificate of --server must be made out to, if it is another.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Accept any certificate of --server. For this machine and tunnels of your own.",
    ),
)


def _server(text: str | None) -> str:
    """Check an address and return it without trailing slash; `https://` is optional.

    >>> _server("localhost:10259/")
    'https://localhost:10259'
    """
    if text is None:
        return ""
    server = text if "://" in text else f"https://{text}"
    parts = urlsplit(server)
    try:
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise click.BadParameter(
            f"{text!r}: write https://HOST:PORT (nothing is served over plain HTTP)",
            param_hint="'--server'",
        )
    return server.rstrip("/")


def _lease(text: str) -> str:
    """Check `NAMESPACE/NAME`."""
    from scheduler.sanitizing.names import is_namespace_name, is_object_name

    namespace, _, name = text.partition("/")
    if not (is_namespace_name(namespace) and is_object_name(name)):
        raise click.BadParameter(f"{text!r}: write NAMESPACE/NAME", param_hint="'--lease'")
    return text


def _token(token: str | None, file: str | None) -> str:
    """Return the token; a usage error if it is given twice or cannot be sent."""
    if token and file:
        raise click.UsageError("give --token, or --token-file, but not both")
    if file:
        try:
            token = read_file(file, pipes=True).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(
                f"{file}: {reason(error)}", param_hint="'--token-file'"
            ) from error
        if not token:
            raise click.BadParameter(f"{file} is empty", param_hint="'--token-file'")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise click.UsageError("the token has characters that no token has; is it the right one?")
    return token or ""


def _refusal(connection: VerifiedConnection, path: str, status: int, body: bytes) -> CommandError:
    text, server = status_message(body), connection.name
    if status in (401, 500):
        from scheduler.client import reviews

        _, begin, resource = text.partition(reviews.MAY_NOT_REVIEW)
        if begin:
            text = MAY_NOT_REVIEW.format(
                server=server, text=f"{begin}{resource}", options=given_cluster()
            )
            return CommandError(text, exit_codes.NOT_PERMITTED)
    match status:
        case 401:
            text = UNAUTHENTICATED.format(
                server=server, credentials=connection.credentials, kubectl=kubectl()
            )
            return CommandError(text, exit_codes.NOT_PERMITTED)
        case 403:
            text = FORBIDDEN.format(
                server=server,
                text=text,
                credentials=connection.credentials,
                kubectl=ADMINISTRATORS_KUBECTL,
                local=" --local" if connection.own else "",
                role=f"kubestow{'-local' if connection.own else ''}-explainer",
                unknown=UNKNOWN_USER.format(kubectl=kubectl()) if ANONYMOUS in text else "",
                **subject_of(text),
            )
            return CommandError(text, exit_codes.NOT_PERMITTED)
        case 404 if text == "404 page not found":
            return CommandError(NOT_FOUND.format(server=server, path=path))
        case 404:
            return CommandError(text, exit_codes.NO_SUCH_POD)
        case 400:
            return CommandError(text, exit_codes.BAD_INPUT)
    return CommandError(f"{server} responded with {status}: {text}")
