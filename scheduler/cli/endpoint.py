"""Requests of a command to a running scheduler: server, credentials and trust.

Shared by all commands that ask one; no request changes anything. Two rules protect the user's
credentials: they are sent over TLS only, and if the certificate is not verified, those of the
kubeconfig are sent to this machine only (a port-forward, or the pod itself).
"""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import click

from scheduler.cli import exit_codes
from scheduler.cli.exit_codes import CommandError

DEFAULT_SERVER: Final = "https://localhost:10259"
REQUEST_TIMEOUT: Final = 30.0
"""Seconds for one response. To explain a pod, every plugin is run on every node."""

NO_QUERY: Final[Mapping[str, str]] = {}

CHUNK_BYTES: Final = 64 * 1024

TUNNEL: Final = "kubectl -n kubestow-system port-forward deployment/kubestow 10259"

UNREACHABLE: Final = (
    "cannot reach the scheduler at {server}: {text}\n"
    "If it runs in the cluster, open a tunnel to it first and keep it open:\n"
    f"  {TUNNEL}"
)
UNTRUSTED: Final = (
    "the certificate of {server} is not trusted: {text}\n"
    "Unless it is given a certificate, the scheduler signs one itself.\n"
    "  --insecure-skip-tls-verify   if the server is this machine or a tunnel you opened\n"
    "  --ca-file FILE               the certificate, or the authority that signed it\n"
    "  --tls-server-name NAME       if it is made out to another name"
)
UNAUTHENTICATED: Final = (
    "{server} does not accept these credentials ({credentials}).\n"
    "It takes bearer tokens that the cluster knows:\n"
    '  --token "$(kubectl -n kubestow-system create token SERVICEACCOUNT)"'
)
FORBIDDEN: Final = (
    "{server} refused: {text} ({credentials}).\n"
    "The user needs permission to get the path:\n"
    "  kubectl create clusterrole kubestow-reader --verb=get --non-resource-url='/debug/*'\n"
    "and a clusterrolebinding to it; a token is given with --token or --token-file"
)
NOT_SENT: Final = (
    "none were sent: those of the kubeconfig are kept from a server that is not this machine "
    "and need not prove who it is; give --ca-file, or --token"
)
NOT_FOUND: Final = "{server} has no {path}: it is no kubestow scheduler, or an older one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The scheduler to query, and its credentials, as given on the command line."""

    server: str
    #: Empty: the credentials of the kubeconfig are used.
    token: str
    kubeconfig: str
    context: str
    ca_file: str
    tls_server_name: str
    insecure_skip_tls_verify: bool

    def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """Get the JSON at a path.

        Raises:
            CommandError: no response came, or a refusal; the message gives reason and remedy.
        """
        return b"".join(self.stream(path, query))

    def post(
        self, path: str, body: bytes, query: Mapping[str, str] = NO_QUERY, *, timeout: float = 0.0
    ) -> bytes:
        """Send JSON to a path and return the JSON of the response; errors as of `get`.

        `timeout`: seconds for the response, 0 for `REQUEST_TIMEOUT`.
        """
        with self._response("POST", path, query, body, timeout) as response:
            return b"".join(_chunks(self.server, response))

    def stream(
        self, path: str, query: Mapping[str, str], *, timeout: float = 0.0
    ) -> Iterator[bytes]:
        """Get the body at a path in pieces, as they arrive; errors as of `get`.

        `timeout`: seconds without a byte, 0 for `REQUEST_TIMEOUT`.
        """
        with self._response("GET", path, query, None, timeout) as response:
            yield from _chunks(self.server, response)

    @contextmanager
    def _response(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Iterator[HTTPResponse]:
        """Open a response with status 200."""
        access = _access(self)
        target = f"{path}?{urlencode(query)}" if query else path
        with exchange(access, self.server, target, method, body, timeout) as response:
            if response.status != 200:
                text = b"".join(_chunks(self.server, response))
                raise _refusal(self.server, path, response.status, text, access.credentials)
            yield response


def endpoint_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as `endpoint`."""

    @functools.wraps(command)
    def with_endpoint(**values: Any) -> None:
        endpoint = Endpoint(
            server=_server(values.pop("server")),
            token=_token(values.pop("token"), values.pop("token_file")),
            kubeconfig=values.pop("kubeconfig") or "",
            context=values.pop("context") or "",
            ca_file=values.pop("ca_file") or "",
            tls_server_name=values.pop("tls_server_name") or "",
            insecure_skip_tls_verify=values.pop("insecure_skip_tls_verify"),
        )
        command(endpoint=endpoint, **values)

    decorated: Callable[..., None] = with_endpoint
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: Final = (
    click.option(
        "--server",
        "-s",
        default=DEFAULT_SERVER,
        show_default=True,
        metavar="URL",
        help="The scheduler's HTTPS endpoint.",
    ),
    click.option("--token", metavar="TOKEN", help="Bearer token for the request."),
    click.option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="File with the bearer token; it does not appear in process lists.",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Kubeconfig with the credentials, unless a token is given. Default: as kubectl; in a "
        "pod its service account.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="PEM file with the scheduler's certificate or its authority.",
    ),
    click.option(
        "--tls-server-name",
        metavar="NAME",
        help="Name the certificate must be made out to, if it is not the server's.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Accept any certificate. For this machine and tunnels you opened yourself.",
    ),
)


def _server(text: str) -> str:
    """Check an address and return it without trailing slash; `https://` is optional.

    >>> _server("localhost:10259/")
    'https://localhost:10259'
    """
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


def _token(token: str | None, file: str | None) -> str:
    """Return the token; a usage error if it is given twice or cannot be sent."""
    if token and file:
        raise click.UsageError("give --token or --token-file, not both")
    if file:
        try:
            token = Path(file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(str(error), param_hint="'--token-file'") from error
        if not token:
            raise click.BadParameter(f"{file} is empty", param_hint="'--token-file'")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise click.UsageError("the token has characters that no token has; is it the right one?")
    return token or ""


def is_this_machine(server: str) -> bool:
    """Whether the address cannot be another machine's.

    >>> is_this_machine("https://[::1]:1"), is_this_machine("https://localhost.example.com")
    (True, False)
    """
    host = urlsplit(server).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class _Connection(HTTPSConnection):
    """A connection that may verify the certificate against another name than the host's."""

    def __init__(self, access: Access, host: str, port: int | None, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout or REQUEST_TIMEOUT, context=access.tls)
        self._tls = access.tls
        self._name = access.server_name or host

    def connect(self) -> None:
        """Connect and perform the TLS handshake."""
        raw = socket.create_connection((self.host, self.port), self.timeout)
        try:
            self.sock = self._tls.wrap_socket(raw, server_hostname=self._name)
        except BaseException:
            raw.close()
            raise


def request(access: Access, server: str, target: str) -> tuple[int, bytes]:
    """Send one GET and return status and body; errors as of `exchange`."""
    with exchange(access, server, target) as response:
        return response.status, b"".join(_chunks(server, response))


@contextmanager
def exchange(
    access: Access,
    server: str,
    target: str,
    method: str = "GET",
    body: bytes | None = None,
    timeout: float = 0.0,
) -> Iterator[HTTPResponse]:
    """Send one request and open its response. One request needs no session and no event loop.

    Raises:
        CommandError: no response came; the message gives the reason and the remedy.
    """
    parts = urlsplit(server)
    headers = {"User-Agent": "kubestow/cli", "Accept": "application/json"}
    if access.authorization:
        headers["Authorization"] = access.authorization
    if body is not None:
        headers["Content-Type"] = "application/json"
    with closing(_Connection(access, parts.hostname or "", parts.port, timeout)) as connection:
        with _reported(server):
            connection.request(method, parts.path + target, body, headers)
            response = connection.getresponse()
        with closing(response):
            yield response


def _chunks(server: str, response: HTTPResponse) -> Iterator[bytes]:
    """Read the body in pieces, as they arrive."""
    while True:
        with _reported(server):
            piece = response.read1(CHUNK_BYTES)
        if not piece:
            if response.length:
                raise CommandError(
                    f"{server} closed the connection within its answer", exit_codes.UNREACHABLE
                )
            return
        yield piece


@contextmanager
def _reported(server: str) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException) as error:
        raise CommandError(_no_response(server, error), exit_codes.UNREACHABLE) from error


# -- credentials and trust -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Access:
    """The connection settings for one server."""

    tls: ssl.SSLContext
    #: The header; empty for an anonymous request.
    authorization: str
    #: The origin of the header, for error messages.
    credentials: str
    server_name: str


def _access(endpoint: Endpoint) -> Access:
    tls: ssl.SSLContext | None = None
    authorization = ""
    if endpoint.token:
        authorization, credentials = f"Bearer {endpoint.token}", "the given token"
    elif endpoint.insecure_skip_tls_verify and not is_this_machine(endpoint.server):
        credentials = NOT_SENT
    else:
        authorization, credentials, tls = asyncio.run(_of_the_cluster(endpoint))
    return Access(_verifying(endpoint, tls), authorization, credentials, endpoint.tls_server_name)


async def _of_the_cluster(endpoint: Endpoint) -> tuple[str, str, ssl.SSLContext | None]:
    """Return the header, its origin, and a context with client certificate and authority."""
    from scheduler.client.configuration import load_configuration
    from scheduler.client.errors import ConfigurationError

    try:
        found = await load_configuration(
            kubeconfig=endpoint.kubeconfig or None, context=endpoint.context or None
        )
        header = await found.authorization()
        context = None if found.tls is None else found.tls.context
    except ConfigurationError as error:
        if endpoint.kubeconfig or endpoint.context:
            raise click.ClickException(str(error)) from error
        return "", f"none: {error}", None
    if header is None:
        return "", f"no token, but the client certificate, if any, of {found.source}", context
    return header, f"the token of {found.source}", context


def _verifying(endpoint: Endpoint, context: ssl.SSLContext | None) -> ssl.SSLContext:
    """Return a context that verifies unless the command line forbids it; ignore the kubeconfig."""
    if context is None:
        context = ssl.create_default_context()
        # As for API servers: hand-made certificates lack extensions that Python 3.13 requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if endpoint.ca_file:
        try:
            context.load_verify_locations(endpoint.ca_file)
        except OSError as error:
            problem = f"--ca-file {endpoint.ca_file}: no PEM certificates ({error})"
            raise click.ClickException(problem) from error
    if endpoint.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = True
    return context


# -- errors --------------------------------------------------------------------------------------


def _no_response(server: str, error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return UNTRUSTED.format(server=server, text=error.verify_message)
        case ssl.SSLError():
            text = f"no TLS there ({error.reason or error})"
        case ConnectionRefusedError():
            text = "nothing listens there (connection refused)"
        case socket.gaierror():
            text = "there is no host of that name"
        case TimeoutError():
            text = f"no response within {REQUEST_TIMEOUT:.0f} s"
        case _:
            text = f"{type(error).__name__}: {error}"
    return UNREACHABLE.format(server=server, text=text)


def _refusal(server: str, path: str, status: int, body: bytes, credentials: str) -> CommandError:
    text = _message(body)
    match status:
        case 401:
            text = UNAUTHENTICATED.format(server=server, credentials=credentials)
            return CommandError(text, exit_codes.NOT_PERMITTED)
        case 403:
            text = FORBIDDEN.format(server=server, text=text, credentials=credentials)
            return CommandError(text, exit_codes.NOT_PERMITTED)
        case 404 if text == "404 page not found":
            return CommandError(NOT_FOUND.format(server=server, path=path))
        case 404:
            return CommandError(text, exit_codes.NO_SUCH_POD)
        case 400:
            return CommandError(text, exit_codes.BAD_INPUT)
    return CommandError(f"{server} responded with {status}: {text}")


def _message(body: bytes) -> str:
    """Return the message of a Status, or the body as text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(status.get("message", text)) if isinstance(status, dict) else text
