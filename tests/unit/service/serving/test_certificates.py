"""The serving certificate: where it comes from, when it is renewed, what is refused."""

from __future__ import annotations

import os
import ssl
import stat
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import (
    RENEW_AFTER_SECONDS,
    VALID_FOR,
    ServingError,
    ServingTls,
    cipher_string,
    minimum_version,
)
from scheduler.service.serving.self_signed import make_pair
from tests.unit.client.virtual_clock import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def served(tls: ServingTls) -> x509.Certificate:
    """The certificate a client gets: a whole handshake in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = tls.context.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up)
    for _ in range(4):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = theirs.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


def write(folder: Path, now: datetime = NOW) -> tuple[Path, Path]:
    certificate, key = make_pair(now, VALID_FOR)
    paths = folder / "tls.crt", folder / "tls.key"
    for path, content in zip(paths, (certificate, key), strict=True):
        # As a mounted Secret is renewed: a new file takes the name.
        new = path.with_suffix(".new")
        new.write_bytes(content)
        new.rename(path)
    return paths


def files(folder: Path) -> ServingOptions:
    certificate, key = write(folder)
    return ServingOptions(tls_cert_file=str(certificate), tls_private_key_file=str(key))


def serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def test_without_files_a_certificate_for_localhost_is_made_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    certificate = served(ServingTls(ServingOptions(), clock=ManualClock()))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_made_in_memory_is_renewed_at_half_its_life() -> None:
    clock = ManualClock()
    tls = ServingTls(ServingOptions(), clock=clock)
    first = served(tls)
    clock.jump(RENEW_AFTER_SECONDS - 1)
    tls.refresh()
    assert served(tls) == first
    clock.jump(20)
    tls.refresh()
    second = served(tls)
    assert second != first
    assert second.not_valid_after_utc - first.not_valid_after_utc > timedelta(days=180)


def test_a_given_pair_is_served_and_its_successor_soon_after(tmp_path: Path) -> None:
    clock = ManualClock()
    options = files(tmp_path)
    tls = ServingTls(options, clock=clock)
    first = serial(tmp_path / "tls.crt")
    assert served(tls).serial_number == first
    write(tmp_path, NOW + timedelta(days=1))
    tls.refresh()
    assert served(tls).serial_number == first
    clock.jump(10.1)
    tls.refresh()
    assert served(tls).serial_number == serial(tmp_path / "tls.crt") != first


def test_the_hash_of_the_served_certificate_is_reported_at_each_renewal(tmp_path: Path) -> None:
    clock, hashes = ManualClock(), list[str]()
    options = files(tmp_path)
    # A chain: the authority's certificate follows that of the server.
    chain = tmp_path / "tls.crt"
    chain.write_bytes(b"comment\n" + chain.read_bytes() + make_pair(NOW, VALID_FOR)[0])
    tls = ServingTls(options, clock=clock, loaded=hashes.append)
    write(tmp_path, NOW + timedelta(days=1))
    expected = [served(tls).fingerprint(SHA256()).hex()]
    clock.jump(10.1)
    tls.refresh()
    expected.append(served(tls).fingerprint(SHA256()).hex())
    assert hashes == expected
    made = list[str]()
    own = ServingTls(ServingOptions(), clock=clock, loaded=made.append)
    clock.jump(RENEW_AFTER_SECONDS)
    own.refresh()
    assert made[1:] == [served(own).fingerprint(SHA256()).hex()]
    assert made[0] != made[1]


def test_a_pair_that_cannot_be_used_changes_nothing_until_it_can(tmp_path: Path) -> None:
    clock = ManualClock()
    tls = ServingTls(files(tmp_path), clock=clock)
    first = serial(tmp_path / "tls.crt")
    # Only half of the new pair is there.
    certificate, key = make_pair(NOW, VALID_FOR)
    (tmp_path / "tls.crt").write_bytes(certificate)
    clock.jump(10.1)
    tls.refresh()
    assert served(tls).serial_number == first
    (tmp_path / "tls.key").unlink()
    clock.jump(10.1)
    tls.refresh()
    assert served(tls).serial_number == first
    (tmp_path / "tls.key").write_bytes(key)
    clock.jump(10.1)
    tls.refresh()
    assert served(tls).serial_number == serial(tmp_path / "tls.crt")


def test_a_certificate_folder_is_filled_once_and_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "certs"
    options = ServingOptions(cert_dir=str(folder))
    first = served(ServingTls(options))
    assert sorted(path.name for path in folder.iterdir()) == [
        "kube-scheduler.crt",
        "kube-scheduler.key",
    ]
    assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600
    assert served(ServingTls(options)) == first


@pytest.fixture
def cryptography_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process look as if nothing had imported `cryptography`."""
    monkeypatch.delitem(sys.modules, "cryptography")


@pytest.mark.usefixtures("cryptography_absent")
def test_a_pair_is_made_without_loading_cryptography() -> None:
    """The child process ends, and gives back what `cryptography` needs."""
    clock = ManualClock()
    tls = ServingTls(ServingOptions(), clock=clock)
    assert "cryptography" not in sys.modules
    made = served(tls)
    assert (
        made.not_valid_after_utc
        == datetime.fromtimestamp(clock.now(), UTC).replace(microsecond=0) + VALID_FOR
    )


@pytest.mark.usefixtures("cryptography_absent")
@pytest.mark.parametrize("executable", ["/nowhere/python", "false"])
def test_a_pair_is_made_where_no_child_can_make_it(
    monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with structlog.testing.capture_logs() as logs:
        tls = ServingTls(ServingOptions())
    assert served(tls).issuer
    assert [each["event"] for each in logs] == [
        "the key pair is made by this process, not by a child"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ServingOptions(tls_cert_file="a"),
            "--tls-cert-file and --tls-private-key-file must be given together",
        ),
        (
            ServingOptions(tls_cert_file="absent.crt", tls_private_key_file="absent.key"),
            "serving certificate: .*No such file",
        ),
        (ServingOptions(tls_min_version="TLS1.3"), 'unknown tls version "TLS1.3"; there are'),
        (
            ServingOptions(tls_cipher_suites=("TLS_NULL",)),
            "cipher suite TLS_NULL not supported or doesn't exist",
        ),
        (
            ServingOptions(tls_cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)),
            "cipher suite TLS_RSA_WITH_RC4_128_SHA not supported or doesn't exist",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(options: ServingOptions, message: str) -> None:
    with pytest.raises(ServingError, match=message):
        ServingTls(options)


def test_any_certificate_given_is_a_client_authority() -> None:
    """Also an intermediate one, as in Go; OpenSSL wants the whole chain otherwise."""
    certificate, _ = make_pair(datetime.now(UTC), timedelta(days=1))
    tls = ServingTls(ServingOptions())
    tls.trust_clients(certificate.decode())
    assert tls.context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.mark.parametrize("text", ["no certificate", "\ufeff", "\ufffd\ufffd"])
def test_authorities_that_are_no_certificates_change_nothing(text: str) -> None:
    """Also a text without ASCII, with which ssl raises another error than OSError."""
    tls = ServingTls(ServingOptions())
    former = tls.context
    with pytest.raises(ssl.SSLError):
        tls.trust_clients(text)
    assert tls.context is former


def test_an_encrypted_key_is_refused_instead_of_asking_for_its_password(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    options = files(tmp_path)
    key_path = tmp_path / "tls.key"
    key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ServingError, match="serving certificate"):
        ServingTls(options)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS10", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS12", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_tls_versions(name: str, version: ssl.TLSVersion) -> None:
    assert minimum_version(name) is version
    assert ServingTls(ServingOptions(tls_min_version=name)).context.minimum_version is version


def test_cipher_suites_restrict_tls_1_2() -> None:
    suites = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    assert cipher_string(suites) == "ECDHE-ECDSA-AES128-GCM-SHA256"
    context = ServingTls(ServingOptions(tls_cipher_suites=suites)).context
    older = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_broken_cipher_suites_of_go_are_left_out_of_a_list() -> None:
    # As in OpenShift's profile Old.
    suites = ("TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA")
    with structlog.testing.capture_logs() as logged:
        assert cipher_string(suites) == "AES128-SHA"
    assert [each["suites"] for each in logged] == [["TLS_RSA_WITH_3DES_EDE_CBC_SHA"]]
    assert ServingTls(ServingOptions(tls_cipher_suites=suites)).context.get_ciphers()


def test_the_key_file_is_never_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ServingTls(ServingOptions(cert_dir=str(tmp_path)))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "kube-scheduler.key").stat().st_mode) == 0o600
