"""TLS towards one server: session resumption, and new contexts when certificate files change.

A burst of binds opens tens of connections at once. A full handshake costs either side about a
millisecond of CPU for signatures; a resumed one (RFC 8446, section 2.2) sends a ticket from an
earlier handshake instead, and costs kube-apiserver a quarter of that. A ticket that the server no
longer accepts leads to a full handshake.

Authorities and client certificates are replaced while the process runs. `ClientTls` then makes a
new context, and connections opened with an older one are not reused: the server may reject their
client certificate. Exchanges in progress on them are finished.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from scheduler.client.clock import Clock, SystemClock
from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.http.memory_file import memory_file
from scheduler.files import read_file

_log = structlog.get_logger(__name__)

CIPHERS_TLS12: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Authenticated encryption (AEAD) with forward secrecy, as Go's servers prefer. TLS 1.3 has no
other ciphers."""

RELOAD_SECONDS: Final = 60.0
"""Seconds between two reads of the files. client-go reloads client certificates every five minutes;
reading three small files takes less than a millisecond."""


class ResumingContext(ssl.SSLContext):
    """A client context for one server that offers the session of an earlier handshake."""

    _session: ssl.SSLSession | None = None

    def remember(self, handshake: ssl.SSLObject) -> None:
        """Keep the session of a full handshake; call it after a response was read.

        In TLS 1.3 the tickets arrive after the handshake, with the first response.
        """
        if not handshake.session_reused:
            self._session = handshake.session

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Add the session: event loops call this method and have no parameter for one."""
        return super().wrap_bio(*args, **{"session": self._session, **options})


Pem = Path | bytes
"""Certificates or a key in PEM: a file that is read again when due, or the content itself."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Trusted authorities, and the client certificate."""

    #: None for the system's authorities, which are read once.
    authority: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    #: Whether the server's certificate is verified at all.
    verify: bool = True


@dataclass(frozen=True, slots=True)
class _Material:
    """The content of the settings' files at one moment."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None = None


class ClientTls:
    """The context for new connections to one server. Belongs to one thread."""

    def __init__(self, settings: TlsSettings | None = None, clock: Clock | None = None) -> None:
        """Read the files and make the first context.

        Raises:
            ConfigurationError: a file cannot be read, or is not a certificate or key.
        """
        self._settings = settings or TlsSettings()
        self._clock = clock or SystemClock()
        self._issued: tuple[bytes, bytes] | None = None
        # The last failure, so that it is logged once: the files' content, or the error of reading.
        self._failed: _Material | str | None = None
        self._material = self._read()
        self._context = _build(self._material, verify=self._settings.verify)
        self._due = self._clock.monotonic() + RELOAD_SECONDS

    @property
    def context(self) -> ResumingContext:
        """The context in use; a renewed one is another object."""
        return self._context

    def current(self) -> ResumingContext:
        """Return the context for a new connection; files are read again when due."""
        if self._clock.monotonic() >= self._due:
            self.reload()
        return self._context

    def reload(self) -> None:
        """Read the files now. Unusable content is logged once, and the old context stays."""
        self._due = self._clock.monotonic() + RELOAD_SECONDS
        try:
            material = self._read()
        except ConfigurationError as error:
            self._fail(str(error), error)
            return
        if material in (self._material, self._failed):
            return
        try:
            self._renew(material)
        except ConfigurationError as error:
            # Perhaps half written: the pair matches when the other file has been replaced.
            self._fail(material, error)

    def use_certificate(self, certificate: bytes, key: bytes) -> None:
        """Use a client certificate that a credential plugin issued.

        Raises:
            ConfigurationError: it cannot be used; the previous one stays.
        """
        material = _Material(self._material.authority, certificate, key)
        if material != self._material:
            self._renew(material)
        self._issued = certificate, key

    @property
    def has_certificate(self) -> bool:
        """Whether there is a client certificate."""
        return self._material.certificate is not None

    def trusting(self, certificate: bytes) -> ssl.SSLContext:
        """Return a context with our client certificate for one server, of any name.

        It trusts `certificate` (DER) and no other; an authority is not needed.
        """
        pem = ssl.DER_cert_to_PEM_cert(certificate).encode()
        material = _Material(pem, self._material.certificate, self._material.key)
        context = _build(material, verify=True)
        context.check_hostname = False
        return context

    def _renew(self, material: _Material) -> None:
        self._context = _build(material, verify=self._settings.verify)
        self._material = material
        self._failed = None
        _log.info("certificates for the connections to a server were renewed")

    def _fail(self, what: _Material | str, error: ConfigurationError) -> None:
        if what != self._failed:
            self._failed = what
            _log.warning("certificates cannot be renewed yet, using the old ones", error=str(error))

    def _read(self) -> _Material:
        settings = self._settings
        certificate, key = self._issued or (_content(settings.certificate), _content(settings.key))
        return _Material(_content(settings.authority), certificate, key)


def _content(pem: Pem | None) -> bytes | None:
    if not isinstance(pem, Path):
        return pem
    try:
        # Small files on a local disk: reading here is shorter than handing it to a thread.
        return read_file(pem)
    except OSError as error:
        raise ConfigurationError(f"{pem}: {error.strerror or error}") from error


def _build(material: _Material, *, verify: bool) -> ResumingContext:
    """Make a context, with checks as lax as Go's.

    ssl.create_default_context of Python 3.13 is stricter: cluster authorities often lack the
    extensions that its strict mode demands, and any certificate in the file is a trust anchor, not
    just a self-signed one.
    """
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS_TLS12)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if material.authority is not None:
            # Comments between certificates may be in any language; ssl wants ASCII.
            context.load_verify_locations(cadata=material.authority.decode("ascii", "ignore"))
        elif verify:
            # Some 40 ms, as a hundred and more certificates are parsed.
            context.load_default_certs()
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"certificate authority: {error}") from error
    try:
        if material.certificate is not None:
            _load_client_certificate(context, material.certificate, material.key)
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(f"client certificate: {error}") from error
    if log := os.environ.get("SSLKEYLOGFILE"):
        context.keylog_filename = log
    return context


def _load_client_certificate(
    context: ssl.SSLContext, certificate: bytes, key: bytes | None
) -> None:
    with memory_file(b"\n".join((certificate, key or b""))) as path:
        # With no password OpenSSL would prompt on the terminal for that of an encrypted key.
        context.load_cert_chain(path, password="")
