"""A scheduler at an address that the user gave (`--server`): credentials and trust.

Two rules protect the user's credentials: they are sent over TLS only, and if the certificate is not
verified, those of the kubeconfig are sent to this machine only (a tunnel, or the pod itself).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from dataclasses import dataclass, field
from http.client import HTTPException
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from scheduler.cli.exit_codes import NOT_PERMITTED, CommandError
from scheduler.cli.import_without import import_without
from scheduler.cli.leader_errors import ACTS_AS, NO_API_SERVER
from scheduler.cli.routes import NotConnectedError, VerifiedConnection
from scheduler.cli.streams import connect, exchange

UNREACHED: Final = (
    "cannot reach the scheduler at {server}: {text}\n"
    "If it leads in the cluster of your kubeconfig, leave --server out: the command then finds it "
    "itself"
)
UNTRUSTED: Final = (
    "the certificate of {server} is not trusted: {text}\n"
    "Unless it is given a certificate, the scheduler signs one itself.\n"
    "  leave --server out           if it leads in the cluster of your kubeconfig\n"
    "  --ca-file FILE               the certificate, or the authority that signed it\n"
    "  --tls-server-name NAME       if it is made out to another name\n"
    "  --insecure-skip-tls-verify   if the server is this machine or a tunnel you opened"
)
NOT_SENT: Final = (
    "none were sent: those of the kubeconfig are kept from a server that is not this machine "
    "and need not prove who it is; give --ca-file, or --token"
)

_REFUSED: Final = re.compile("ALERT_(.*CERTIFICATE|UNKNOWN_CA)")
"""OpenSSL's reasons for the alerts of a server that has looked at a client certificate (RFC 8446,
section 6.2)."""


@dataclass(frozen=True, slots=True)
class Access:
    """The connection settings for one server."""

    tls: ssl.SSLContext
    #: The header; empty for an anonymous request.
    authorization: str = field(repr=False)
    #: The origin of the header, for error messages.
    credentials: str
    server_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectRoute:
    """The way to an address; see `Route`."""

    server: str
    #: Empty: the credentials of the kubeconfig are used.
    token: str = field(repr=False)
    kubeconfig: str
    context: str
    ca_file: str
    tls_server_name: str
    insecure_skip_tls_verify: bool

    def connect(self, timeout: float) -> VerifiedConnection:
        """See `Route`."""
        access = self._access()
        parts = urlsplit(self.server)
        try:
            stream = connect(self.server, timeout, tls=access.tls, name=access.server_name or None)
        except OSError as error:
            raise NotConnectedError(_no_response(self.server, error)) from error
        return VerifiedConnection(
            stream, parts.netloc, self.server, access.authorization, access.credentials, parts.path
        )

    def broken(self, connection: VerifiedConnection, error: Exception) -> NotConnectedError:
        """See `Route`."""
        return NotConnectedError(_no_response(connection.name, error))

    def moved(self, holder: str) -> bool:
        """Return False: another replica has another address."""
        del holder
        return False

    def _access(self) -> Access:
        tls: ssl.SSLContext | None = None
        authorization = ""
        if self.token:
            authorization, credentials = f"Bearer {self.token}", "the given token"
        elif self.insecure_skip_tls_verify and not is_this_machine(self.server):
            credentials = NOT_SENT
        else:
            authorization, credentials, tls = asyncio.run(self._of_the_cluster())
        return Access(self._verifying(tls), authorization, credentials, self.tls_server_name)

    async def _of_the_cluster(self) -> tuple[str, str, ssl.SSLContext | None]:
        """Return the header, its origin, and a context with client certificate and authority."""
        # With rich, structlog imports what prints tracebacks, a quarter of all imports.
        with import_without("rich"):
            from scheduler.client.configuration import load_configuration
            from scheduler.client.configuration_error import ConfigurationError

        try:
            found = await load_configuration(
                kubeconfig=self.kubeconfig or None, context=self.context or None
            )
            if found.impersonation:
                raise CommandError(ACTS_AS.format(source=found.source), NOT_PERMITTED)
            header = await found.authorization()
            context = None if found.tls is None else found.tls.context
        except ConfigurationError as error:
            if self.kubeconfig or self.context:
                raise CommandError(str(error)) from error
            return "", f"none: {error}", None
        if header is None:
            return "", f"no token, but the client certificate, if any, of {found.source}", context
        return header, f"the token of {found.source}", context

    def _verifying(self, context: ssl.SSLContext | None) -> ssl.SSLContext:
        """Return a context that verifies unless the command line forbids it."""
        if context is None:
            context = ssl.create_default_context()
            # As for API servers: hand-made certificates lack extensions that Python 3.13 requires.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.ca_file:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:
                problem = f"--ca-file {self.ca_file}: no PEM certificates ({error})"
                raise CommandError(problem) from error
        if self.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            # Whatever the kubeconfig says about its own server.
            if context.verify_mode == ssl.CERT_NONE:
                context.load_default_certs()
            context.verify_mode = ssl.CERT_REQUIRED
            context.check_hostname = True
        return context


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


def request(access: Access, server: str, target: str) -> tuple[int, bytes]:
    """Send one GET and return status and body, whatever they are."""
    stream = connect(server, 30.0, tls=access.tls, name=access.server_name or None)
    headers = {"Authorization": access.authorization} if access.authorization else {}
    try:
        with exchange(stream, urlsplit(server).netloc, "GET", target, headers) as response:
            return response.status, response.read()
    finally:
        stream.close()


def _no_response(server: str, error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return UNTRUSTED.format(server=server, text=error.verify_message)
        case ssl.SSLError():
            text = f"no TLS there ({error.reason or error})"
        case _:
            text = failure(error)
    return UNREACHED.format(server=server, text=text)


def api_server_failure(server: str, source: str, error: Exception) -> str:
    """Return why an API server cannot be reached, and what named it, such as a kubeconfig.

    >>> api_server_failure("http://127.0.0.1:9", "in-cluster", ConnectionRefusedError())[-44:]
    ': nothing listens there (connection refused)'
    """
    return NO_API_SERVER.format(server=server, source=source, text=failure(error))


def failure(error: Exception) -> str:
    """Return why a connection failed, in words."""
    match error:
        case ConnectionRefusedError():
            return "nothing listens there (connection refused)"
        case socket.gaierror():
            return "there is no host of that name"
        case TimeoutError():
            return "no response in time"
        case ssl.SSLError(reason=str(reason)) if _REFUSED.search(reason):
            return "it does not accept the client certificate; give --token"
        case OSError() if type(error) is OSError and error.errno is None:
            return str(error)
        case HTTPException():
            return f"no HTTP response ({type(error).__name__}: {error})"
        case _:
            return f"{type(error).__name__}: {error}"
