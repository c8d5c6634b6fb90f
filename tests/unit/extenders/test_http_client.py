"""TLS settings and addresses of extenders; what goes over the wire is in tests/integration."""

from __future__ import annotations

import base64
import ssl

import pytest

from config import ExtenderTLSConfig
from scheduler.client.errors import ConfigurationError
from scheduler.extenders.http_client import ExtenderHttp, client_tls


def verified(context: ssl.SSLContext) -> bool:
    return context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


@pytest.mark.parametrize(
    ("tls", "lenient", "expected"),
    [
        (ExtenderTLSConfig(), False, True),
        (ExtenderTLSConfig(insecure=True), False, False),
        # enableHTTPS without an authority: nothing is verified, as upstream.
        (ExtenderTLSConfig(), True, False),
    ],
)
def test_what_is_verified(tls: ExtenderTLSConfig, lenient: bool, expected: bool) -> None:
    assert verified(client_tls(tls, lenient=lenient).context) is expected


def test_any_configured_certificate_is_an_authority() -> None:
    """Also an intermediate one, as in Go; OpenSSL wants the whole chain otherwise."""
    assert client_tls(ExtenderTLSConfig()).context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        (
            ExtenderTLSConfig(ca_data=base64.b64encode(b"no certificate").decode()),
            "cannot use the TLS",
        ),
        (ExtenderTLSConfig(ca_file="/nowhere/ca.crt"), "cannot use the TLS"),
        (ExtenderTLSConfig(cert_file="/a", key_data="YQ=="), "cannot use the TLS"),
        (ExtenderTLSConfig(cert_data="YQ==", key_data="YQ=="), "cannot use the TLS"),
        (ExtenderTLSConfig(key_file="/a"), "needs both a certificate and a key"),
        (ExtenderTLSConfig(insecure=True, ca_data="YQ=="), "insecure flag"),
    ],
)
def test_settings_that_cannot_work(tls: ExtenderTLSConfig, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        client_tls(tls)


@pytest.mark.parametrize("prefix", ["", "host:80/path", "ftp://h", "http://", "/scheduler"])
def test_an_address_must_be_an_http_url(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="urlPrefix"):
        ExtenderHttp(prefix, timeout=1)


@pytest.mark.parametrize(
    ("prefix", "shown"),
    [
        ("http://h/", "http://h/filter"),
        ("http://h:1/a//", "http://h:1/a/filter"),
        ("https://user:secret@h/a", "https://h/a/filter"),
    ],
)
def test_addresses_are_shown_without_passwords(prefix: str, shown: str) -> None:
    assert ExtenderHttp(prefix, timeout=1).url("filter") == shown
