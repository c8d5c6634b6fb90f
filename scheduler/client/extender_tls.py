"""How to speak TLS to an HTTP extender, and what can go wrong with it; see `extender_http`.

TLS is upstream's (framework-cycle-config.md 7.6): the URL's scheme decides whether there is any.
Apart from `extender_http`, so that aiohttp is only loaded where there are extenders.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scheduler.client.errors import ConfigurationError, RequestError


class ExtenderStatusError(RequestError):
    """The extender answered with a status that is not 200."""


class ExtenderAnswerTooLarge(RequestError):  # noqa: N818  (says what happened)
    """The answer went past every sensible size and was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderTLS:
    """How to speak TLS. Data is base64 and beats files; empty means not given."""

    #: `enableHTTPS`: without an authority the extender's certificate is not verified.
    lenient: bool = False
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


def ssl_context(tls: ExtenderTLS) -> ssl.SSLContext:
    """The context behind the settings.

    Raises:
        ConfigurationError: they contradict each other, or a file or key cannot be used.
    """
    authority = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (tls.lenient and not authority)
    if tls.insecure and authority:
        raise ConfigurationError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    has_cert, has_key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if has_cert != has_key:
        raise ConfigurationError("a client certificate needs both a certificate and a key")
    try:
        if tls.ca_data:
            context = ssl.create_default_context(cadata=base64.b64decode(tls.ca_data).decode())
        else:
            context = ssl.create_default_context(cafile=tls.ca_file or None)
        # As Go: chains that RFC 5280 would have otherwise are common with private authorities.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if has_cert:
            _load_client_certificate(context, tls)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigurationError(f"cannot use the TLS files or data: {error}") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLS) -> None:
    # The ssl module reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="kubestow-") as folder:
        paths = []
        for name, data, path in (
            ("tls.crt", tls.cert_data, tls.cert_file),
            ("tls.key", tls.key_data, tls.key_file),
        ):
            if data:
                target = Path(folder) / name
                target.touch(mode=0o600)
                target.write_bytes(base64.b64decode(data))
                paths.append(str(target))
            else:
                paths.append(path)
        context.load_cert_chain(*paths)
