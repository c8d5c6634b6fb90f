"""TLS towards the API server, resumed where the server allows it.

A burst of binds opens tens of connections at once. A full handshake costs either side about a
millisecond of CPU for signatures; a resumed one (RFC 8446, 2.2) shows a ticket from an earlier
handshake instead, and costs kube-apiserver a quarter of that. A ticket the server no longer knows
just means a full handshake again.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any, Final

CIPHERS_TLS12: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Authenticated encryption with forward secrecy, which Go's servers prefer anyway. TLS 1.3 has no
other."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import StrOrBytesPath


class ResumingContext(ssl.SSLContext):
    """A client's context for one server, which offers the session of an earlier handshake.

    Whoever keeps a connection keeps the `generation` it was begun with: one of an earlier
    generation goes on as somebody whom the server may not believe any more.
    """

    #: How many client certificates were loaded.
    generation: int = 0
    _session: ssl.SSLSession | None = None

    def remember(self, handshake: ssl.SSLObject, generation: int) -> None:
        """Keep the session of a full handshake, once an answer was read.

        TLS 1.3 sends its tickets after the handshake, so that one without an answer has none.
        """
        if generation == self.generation and not handshake.session_reused:
            self._session = handshake.session

    def load_cert_chain(
        self,
        certfile: StrOrBytesPath,
        keyfile: StrOrBytesPath | None = None,
        password: Callable[[], str | bytes | bytearray] | str | bytes | bytearray | None = None,
    ) -> None:
        """As ssl.SSLContext; a session that was agreed upon as somebody else is forgotten.

        A pair that cannot be used changes nothing.
        """
        # OpenSSL takes the certificate before it looks at the key, and would be left with neither.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certfile, keyfile, password)
        super().load_cert_chain(certfile, keyfile, password)
        self._session = None
        self.generation += 1

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """As ssl.SSLContext. Event loops call this one, and have no parameter for a session."""
        return super().wrap_bio(*args, **{"session": self._session, **options})


def generation_of(context: ssl.SSLContext | None) -> int:
    """How many client certificates a connection's context has had."""
    return context.generation if isinstance(context, ResumingContext) else 0


def restrict(context: ssl.SSLContext) -> None:
    """Allow TLS 1.2 and 1.3 with AEAD cipher suites only."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS_TLS12)


def client_context(authority: str | None = None) -> ResumingContext:
    """What a client needs, with resumption.

    Laxer than ssl.create_default_context of Python 3.13, as Go is: cluster authorities often lack
    the extensions its strict mode demands, and any certificate in the file is believed, not just
    one that signed itself.

    Args:
        authority: file with the certificates to believe; None for the system's.

    Raises:
        OSError, ssl.SSLError: the file cannot be read, or is none.
    """
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    restrict(context)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if authority is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(authority)
    if log := os.environ.get("SSLKEYLOGFILE"):
        context.keylog_filename = log
    return context
