"""TLS towards one server: resumed where the server allows it, and renewed when its files change.

A burst of binds opens tens of connections at once. A full handshake costs either side about a
millisecond of CPU for signatures; a resumed one (RFC 8446, 2.2) shows a ticket from an earlier
handshake instead, and costs kube-apiserver a quarter of that. A ticket the server no longer knows
just means a full handshake again.

Authorities and client certificates are replaced while the process runs. Then `ClientTls` makes a
new context, and connections begun with an older one are not used again: the server may not accept
their client certificate any more. What is under way on them ends in its own time.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from scheduler.client.clock import Clock, SystemClock
from scheduler.client.errors import ConfigurationError

_log = structlog.get_logger(__name__)

CIPHERS_TLS12: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Authenticated encryption with forward secrecy, which Go's servers prefer anyway. TLS 1.3 has no
other."""

RELOAD_SECONDS: Final = 60.0
"""How long the content of the files is trusted. client-go looks at client certificates every five
minutes; reading three small files takes less than a millisecond."""

MAX_PEM_BYTES: Final = 4 * 1024 * 1024
"""A bundle of all public authorities has a quarter of a megabyte."""


class ResumingContext(ssl.SSLContext):
    """A client's context for one server, which offers the session of an earlier handshake."""

    _session: ssl.SSLSession | None = None

    def remember(self, handshake: ssl.SSLObject) -> None:
        """Keep the session of a full handshake, once an answer was read.

        TLS 1.3 sends its tickets after the handshake, so that one without an answer has none.
        """
        if not handshake.session_reused:
            self._session = handshake.session

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """As ssl.SSLContext. Event loops call this one, and have no parameter for a session."""
        return super().wrap_bio(*args, **{"session": self._session, **options})


Pem = Path | bytes
"""Certificates or a key in PEM: the file that is read again, or the content itself."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Whom to believe, and what to show."""

    #: None for the authorities of the system, which are read once.
    authority: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    #: Whether the server's certificate is verified at all.
    verify: bool = True


@dataclass(frozen=True, slots=True)
class _Material:
    """The content of the settings at one moment."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None = None


class ClientTls:
    """The context for new connections to one server. Belongs to one thread."""

    def __init__(self, settings: TlsSettings | None = None, clock: Clock | None = None) -> None:
        """Read the files and make the first context.

        Raises:
            ConfigurationError: one of them cannot be read, or is not what it should be.
        """
        self._settings = settings or TlsSettings()
        self._clock = clock or SystemClock()
        self._issued: tuple[bytes, bytes] | None = None
        #: What failed last, told once: the content of the files, or the error of reading them.
        self._failed: _Material | str | None = None
        self._material = self._read()
        self._context = _build(self._material, verify=self._settings.verify)
        self._due = self._clock.monotonic() + RELOAD_SECONDS

    @property
    def context(self) -> ResumingContext:
        """The context in use. A new one is another object."""
        return self._context

    def current(self) -> ResumingContext:
        """The context for a connection that is begun now; files are read again when due."""
        if self._clock.monotonic() >= self._due:
            self.reload()
        return self._context

    def reload(self) -> None:
        """Read the files now. What cannot be used is logged once, and changes nothing."""
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
            # Half written, perhaps: the pair fits again when the other file has been replaced.
            self._fail(material, error)

    def use_certificate(self, certificate: bytes, key: bytes) -> None:
        """Show this client certificate from now on, which a credential plugin issued.

        Raises:
            ConfigurationError: it cannot be used; the one before stays.
        """
        material = _Material(self._material.authority, certificate, key)
        if material != self._material:
            self._renew(material)
        self._issued = certificate, key

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
        with pem.open("rb") as file:
            content = file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{pem}: {error.strerror or error}") from error
    if len(content) > MAX_PEM_BYTES:
        raise ConfigurationError(f"{pem}: more than {MAX_PEM_BYTES} bytes, which is no certificate")
    return content


def _build(material: _Material, *, verify: bool) -> ResumingContext:
    """Make a context.

    Laxer than ssl.create_default_context of Python 3.13, as Go is: cluster authorities often lack
    the extensions its strict mode demands, and any certificate in the file is believed, not just
    one that signed itself.
    """
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS_TLS12)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if material.authority is None:
            context.load_default_certs()
        else:
            # Comments between certificates may be in any language; ssl wants ASCII.
            context.load_verify_locations(cadata=material.authority.decode("ascii", "ignore"))
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
    # The ssl module reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="kubestow-") as folder:
        path = Path(folder) / "tls.pem"
        path.touch(mode=0o600)
        path.write_bytes(b"\n".join((certificate, key or b"")))
        # An encrypted key must not make OpenSSL ask the terminal for its password.
        context.load_cert_chain(path, password="")
