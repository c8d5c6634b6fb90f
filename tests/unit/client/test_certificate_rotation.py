"""Certificates and keys that are replaced from outside: when they are read, and their effect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from scheduler.client.credentials import TOKEN_FILE_SECONDS, TokenFileCredentials
from scheduler.client.errors import ConfigurationError
from scheduler.client.http.tls import RELOAD_SECONDS, ClientTls, TlsSettings
from scheduler.files import SMALL_BYTES
from scheduler.service.serving.self_signed import make_pair
from tests.unit.client.virtual_clock import ManualClock

FIVE_MINUTES = 300.0


def pair() -> tuple[bytes, bytes]:
    return make_pair(datetime.now(UTC), timedelta(days=1))


class Files:
    """Authority, certificate and key, and the contexts made of them."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.authority = folder / "ca.crt"
        self.certificate = folder / "tls.crt"
        self.key = folder / "tls.key"
        self.authority.write_bytes(pair()[0])
        self.rotate()
        settings = TlsSettings(self.authority, self.certificate, self.key)
        self.tls = ClientTls(settings, self.clock)

    def rotate(self) -> None:
        certificate, key = pair()
        self.certificate.write_bytes(certificate)
        self.key.write_bytes(key)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_nothing_changes_while_the_files_do_not(files: Files) -> None:
    first = files.tls.current()
    for _ in range(10):
        files.clock.jump(RELOAD_SECONDS)
        assert files.tls.current() is first


def test_a_change_is_taken_over_when_due_and_not_before(files: Files) -> None:
    assert RELOAD_SECONDS <= FIVE_MINUTES
    first = files.tls.current()
    files.rotate()
    files.clock.jump(RELOAD_SECONDS - 1)
    assert files.tls.current() is first
    files.clock.jump(1)
    second = files.tls.current()
    assert second is not first
    assert files.tls.current() is second


def test_a_removed_authority_is_not_trusted_any_more(files: Files) -> None:
    old = files.tls.current().get_ca_certs(binary_form=True)
    files.authority.write_bytes(pair()[0])
    files.clock.jump(RELOAD_SECONDS)
    new = files.tls.current().get_ca_certs(binary_form=True)
    assert len(new) == 1
    assert new != old


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(lambda files: files.certificate.write_bytes(pair()[0]), id="only one of two"),
        pytest.param(lambda files: files.certificate.write_bytes(b""), id="empty"),
        pytest.param(lambda files: files.key.unlink(), id="gone"),
        pytest.param(lambda files: files.key.write_bytes(b"x" * (SMALL_BYTES + 1)), id="huge"),
        pytest.param(lambda files: files.authority.write_bytes(b""), id="no authority"),
        pytest.param(
            lambda files: files.authority.write_bytes(
                files.authority.read_bytes() + pair()[0][:300]
            ),
            id="half an authority",
        ),
    ],
)
def test_half_written_files_keep_the_old_and_is_logged_once(files: Files, corrupt: object) -> None:
    assert callable(corrupt)
    first = files.tls.current()
    corrupt(files)
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            files.clock.jump(RELOAD_SECONDS)
            assert files.tls.current() is first
    assert [log["event"] for log in logs] == [
        "certificates cannot be renewed yet, using the old ones"
    ]
    files.rotate()
    files.authority.write_bytes(pair()[0])
    files.clock.jump(RELOAD_SECONDS)
    with structlog.testing.capture_logs() as logs:
        assert files.tls.current() is not first
    assert [log["log_level"] for log in logs] == ["info"]


def test_the_log_holds_nothing_of_a_key(files: Files) -> None:
    files.key.write_bytes(pair()[1][:-60])
    with structlog.testing.capture_logs() as logs:
        files.tls.reload()
    assert logs
    assert not any(line in str(logs) for line in files.key.read_text().splitlines())


def test_comments_in_any_language_do_not_matter(files: Files) -> None:
    files.authority.write_bytes("# Größe\n".encode() + pair()[0] + "# 鍵\n".encode() + pair()[0])
    files.tls.reload()
    assert len(files.tls.context.get_ca_certs()) == 2


def test_an_issued_certificate_stays_when_the_authority_changes(files: Files) -> None:
    files.tls.use_certificate(*pair())
    second = files.tls.context
    files.rotate()
    files.tls.reload()
    assert files.tls.context is second
    files.authority.write_bytes(pair()[0])
    files.tls.reload()
    assert files.tls.context is not second


def test_an_encrypted_key_is_an_error_without_a_prompt(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    certificate, key = pair()
    locked = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    with pytest.raises(ConfigurationError, match="client certificate"):
        ClientTls(TlsSettings(certificate=certificate, key=locked))


async def test_a_token_file_that_stays_unreadable_is_logged_once(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "token"
    path.write_text("old")
    credentials = TokenFileCredentials(path, clock)
    path.write_text("")
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            clock.jump(TOKEN_FILE_SECONDS)
            assert await credentials.authorization() == "Bearer old"
    assert len(logs) == 1
    path.write_text("new")
    clock.jump(TOKEN_FILE_SECONDS)
    assert await credentials.authorization() == "Bearer new"
    path.unlink()
    with structlog.testing.capture_logs() as logs:
        clock.jump(TOKEN_FILE_SECONDS)
        assert await credentials.authorization() == "Bearer new"
    assert len(logs) == 1


@pytest.mark.parametrize("content", [b"x" * (1 << 20) + b"x", b"\xff\xfe", b"a\nb"])
def test_an_invalid_token_is_an_error_that_does_not_show_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="token file") as caught:
        TokenFileCredentials(path, ManualClock())
    assert "xxx" not in str(caught.value)
