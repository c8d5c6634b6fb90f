"""Users who are known by a client certificate, and certificates that are refused."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from scheduler.service.options import AccessOptions, ServingOptions
from scheduler.service.serving.access import Authorizer
from scheduler.service.serving.certificates import ServingTls
from tests.integration.serving.client_certificates import (
    CLIENT,
    DAY,
    SERVER,
    chain,
    issue,
    with_certificate,
)
from tests.integration.serving.conftest import Open, Site

MASTERS = ("system:masters",)


def trusting(authority: Path) -> ServingTls:
    tls = ServingTls(ServingOptions())
    tls.trust_clients(authority.read_text())
    return tls


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return issue(tmp_path, "authority")


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("root", MASTERS, (200, "")),
        ("developer", ("dev",), (403, "developer")),
        ("", (), (403, "system:anonymous")),
    ],
)
async def test_client_certificates_name_users(
    opened: Open,
    site: Site,
    tmp_path: Path,
    authority: Path,
    name: str,
    groups: Sequence[str],
    expected: tuple[int, str],
    newest: ssl.TLSVersion,
) -> None:
    given = issue(tmp_path, name, "authority", groups, usages=(CLIENT,)) if name else None
    async with opened(
        site,
        authorizer=Authorizer(None, AccessOptions()),
        tls=trusting(authority),
        client_tls=with_certificate(given, newest),
    ) as endpoints:
        response = await endpoints.request("/metrics")
    assert response.status == expected[0]
    assert expected[1] in response.text


def stranger(folder: Path) -> Path:
    issue(folder, "stranger")
    return issue(folder, "root", "stranger", MASTERS)


def namesake(folder: Path) -> Path:
    """Return a certificate of an authority that has the name of the right one, and another key."""
    other = folder / "other"
    other.mkdir()
    issue(other, "authority")
    return issue(other, "root", "authority", MASTERS)


def own_authority(folder: Path) -> Path:
    """Return a certificate whose issuer is no authority, only a client with a certificate."""
    issue(folder, "developer", "authority")
    path = issue(folder, "root", "developer", MASTERS)
    path.write_text(path.read_text() + (folder / "developer.crt").read_text())
    return path


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "of an unknown issuer": stranger,
    "of another issuer of that name": namesake,
    "issued by a client": own_authority,
    "expired": lambda folder: issue(
        folder, "root", "authority", MASTERS, ends=timedelta(seconds=-1)
    ),
    "of tomorrow": lambda folder: issue(
        folder, "root", "authority", MASTERS, starts=DAY / 2, ends=DAY
    ),
    "for servers only": lambda folder: issue(
        folder, "root", "authority", MASTERS, usages=(SERVER,)
    ),
    "below a huge chain": lambda folder: chain(folder, 300, "authority"),
}


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
@pytest.mark.parametrize("kind", HOSTILE)
async def test_other_certificates_fail_the_handshake_and_hurt_nobody_else(
    opened: Open, site: Site, tmp_path: Path, authority: Path, kind: str, newest: ssl.TLSVersion
) -> None:
    tls = with_certificate(HOSTILE[kind](tmp_path), newest)
    async with opened(
        site,
        authorizer=Authorizer(None, AccessOptions()),
        tls=trusting(authority),
        client_tls=tls,
    ) as endpoints:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await endpoints.request("/metrics")
        await _health_is_served(endpoints.server.port)


async def _health_is_served(port: int) -> None:
    connector = aiohttp.TCPConnector(ssl=with_certificate(None))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"https://127.0.0.1:{port}/readyz") as response,
    ):
        assert response.status == 200


async def test_an_authority_is_trusted_and_withdrawn_while_serving(
    opened: Open, site: Site, tmp_path: Path, authority: Path
) -> None:
    tls, trusted = ServingTls(ServingOptions()), authority.read_text()  # noqa: ASYNC240
    certificate = issue(tmp_path, "developer", "authority")
    async with opened(
        site,
        authorizer=Authorizer(None, AccessOptions()),
        tls=tls,
        client_tls=with_certificate(certificate),
    ) as endpoints:

        async def user() -> str:
            text = (await endpoints.request("/metrics")).text
            return "developer" if "developer" in text else "system:anonymous"

        assert await user() == "system:anonymous"
        tls.trust_clients(trusted)
        assert await user() == "developer"
        with pytest.raises(ssl.SSLError):
            tls.trust_clients("no certificate")
        assert await user() == "developer"
        tls.trust_clients("")
        assert await user() == "system:anonymous"


def test_another_authority_leaves_the_serving_certificate_as_it_is(authority: Path) -> None:
    hashes: list[str] = []
    tls = ServingTls(ServingOptions(), loaded=hashes.append)
    tls.trust_clients(authority.read_text())
    assert hashes == [hashes[0]] * 2
