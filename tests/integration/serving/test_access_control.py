"""Access control over TLS, with reviews of a real (embedded) API server."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.credentials import StaticCredentials
from scheduler.client.rest import ApiClient
from scheduler.client.reviews import review_access, review_token
from scheduler.client.transport import Transport
from scheduler.service.options import AccessOptions, ServingOptions
from scheduler.service.serving.access import Authenticator, Authorizer
from scheduler.service.serving.certificates import ServingTls
from simulator import EmbeddedCluster
from simulator.subresources import Reviewer
from tests.integration.serving.conftest import Open, Site

USERS: dict[str, dict[str, Any]] = {
    "prometheus": {"username": "system:serviceaccount:monitoring:prometheus", "uid": "7"},
    "unprivileged": {"username": "system:serviceaccount:default:unprivileged"},
    "admin": {"username": "admin", "groups": ["system:masters"]},
}


def may(spec: dict[str, Any]) -> bool:
    """Decide as RBAC would: Prometheus may read metrics."""
    attributes = spec["nonResourceAttributes"]
    groups = spec.get("groups") or []
    known = "system:authenticated" in groups or "system:unauthenticated" in groups
    return bool(
        known
        and spec["user"] == USERS["prometheus"]["username"]
        and attributes == {"path": "/metrics", "verb": "get"}
    )


@pytest.fixture
async def client() -> AsyncIterator[ApiClient]:
    reviewer = Reviewer(authenticate=USERS.get, allow=may)
    async with EmbeddedCluster(reviewer=reviewer, controllers=()) as cluster:
        configuration = ClientConfiguration(cluster.url, credentials=StaticCredentials("own"))
        async with Transport(configuration) as transport:
            yield ApiClient(transport)


def forbidden(user: str, verb: str, path: str) -> str:
    return (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":'
        f'"forbidden: User \\"{user}\\" cannot {verb} path \\"{path}\\"",'
        '"reason":"Forbidden","details":{},"code":403}\n'
    )


UNAUTHORIZED = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    '"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
)
ANONYMOUS = "system:anonymous"
UNPRIVILEGED = "system:serviceaccount:default:unprivileged"


@pytest.mark.parametrize(
    ("token", "method", "path", "status", "body"),
    [
        ("", "GET", "/healthz", 200, "ok"),
        ("", "GET", "/livez", 200, "ok"),
        ("", "GET", "/readyz", 200, "ok"),
        ("", "GET", "/readyz/shutdown", 403, forbidden(ANONYMOUS, "get", "/readyz/shutdown")),
        ("", "GET", "/healthz/", 403, forbidden(ANONYMOUS, "get", "/healthz/")),
        ("", "GET", "/metrics", 403, forbidden(ANONYMOUS, "get", "/metrics")),
        ("", "GET", "/metrics/slis", 403, forbidden(ANONYMOUS, "get", "/metrics/slis")),
        ("", "GET", "/metrics/resources", 403, None),
        ("", "GET", "/configz", 403, None),
        ("", "GET", "/version", 403, None),
        ("", "GET", "/debug", 403, None),
        ("", "GET", "/debug/queue", 403, None),
        ("", "PUT", "/debug/flags/v", 403, forbidden(ANONYMOUS, "put", "/debug/flags/v")),
        # The response does not reveal which paths exist.
        ("", "GET", "/nope", 403, forbidden(ANONYMOUS, "get", "/nope")),
        ("", "POST", "/metrics", 403, forbidden(ANONYMOUS, "post", "/metrics")),
        ("made-up", "GET", "/metrics", 401, UNAUTHORIZED),
        ("made-up", "GET", "/healthz", 401, UNAUTHORIZED),
        ("unprivileged", "GET", "/metrics", 403, forbidden(UNPRIVILEGED, "get", "/metrics")),
        ("unprivileged", "GET", "/healthz", 200, "ok"),
        ("prometheus", "GET", "/metrics", 200, None),
        ("prometheus", "DELETE", "/metrics", 403, None),
        ("prometheus", "GET", "/configz", 403, None),
        ("admin", "GET", "/configz", 200, None),
        ("admin", "DELETE", "/metrics", 200, "metrics reset\n"),
        ("admin", "GET", "/nope", 404, "404 page not found\n"),
    ],
)
async def test_the_api_server_authorizes(
    opened: Open,
    site: Site,
    client: ApiClient,
    token: str,
    method: str,
    path: str,
    status: int,
    body: str | None,
) -> None:
    options = AccessOptions()
    async with opened(
        site,
        authenticator=Authenticator(partial(review_token, client), options),
        authorizer=Authorizer(partial(review_access, client), options),
    ) as endpoints:
        response = await endpoints.request(path, method, token)
    assert response.status == status
    if body is not None:
        assert response.text == body


@pytest.mark.parametrize("token", ["", "admin"])
@pytest.mark.parametrize(("path", "status"), [("/readyz", 200), ("/metrics", 403), ("/x", 403)])
async def test_without_a_cluster_all_but_health_is_forbidden(
    opened: Open, site: Site, token: str, path: str, status: int
) -> None:
    options = AccessOptions()
    async with opened(
        site,
        authenticator=Authenticator(None, options),
        authorizer=Authorizer(None, options),
    ) as endpoints:
        response = await endpoints.request(path, token=token)
    assert response.status == status
    if status == 403:
        assert json.loads(response.text)["message"] == (
            f'forbidden: User "system:anonymous" cannot get path "{path}"'
        )


async def test_without_the_api_server_health_is_served_and_the_rest_rejected(
    opened: Open, site: Site
) -> None:
    # The discard port of the loopback interface has no listener.
    async with Transport(ClientConfiguration("http://127.0.0.1:9")) as transport:
        client = ApiClient(transport)
        async with opened(
            site,
            authenticator=Authenticator(partial(review_token, client), AccessOptions()),
            authorizer=Authorizer(partial(review_access, client), AccessOptions()),
        ) as endpoints:
            assert (await endpoints.request("/readyz")).status == 200
            assert (await endpoints.request("/metrics", token="prometheus")).status == 401
            anonymous = await endpoints.request("/metrics")
    assert (anonymous.status, anonymous.text) == (
        500,
        'Internal Server Error: "/metrics": access could not be reviewed\n',
    )


async def test_options_reach_the_reviews(opened: Open, site: Site, client: ApiClient) -> None:
    options = AccessOptions(always_allow_paths=("/metrics",))
    async with opened(
        site,
        authenticator=Authenticator(partial(review_token, client), options),
        authorizer=Authorizer(partial(review_access, client), options),
    ) as endpoints:
        assert (await endpoints.request("/metrics")).status == 200
        assert (await endpoints.request("/healthz")).status == 403


def issue(folder: Path, name: str, issuer: str = "", groups: tuple[str, ...] = ()) -> Path:
    """Write `<name>.crt` and `<name>.key`; without an issuer, those of an authority."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    subject = x509.Name(attributes)
    signer, signed_by = key, subject
    if issuer:
        loaded = serialization.load_pem_private_key((folder / f"{issuer}.key").read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer, signed_by = loaded, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not issuer, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    path = folder / f"{name}.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def with_certificate(path: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if path is not None:
        context.load_cert_chain(path, path.with_suffix(".key"))
    return context


@pytest.mark.parametrize(
    ("name", "groups", "status", "user"),
    [
        ("root", ("system:masters",), 200, ""),
        ("developer", ("dev",), 403, "developer"),
        ("", (), 403, "system:anonymous"),
    ],
)
async def test_client_certificates_name_users(
    opened: Open,
    site: Site,
    tmp_path: Path,
    name: str,
    groups: tuple[str, ...],
    status: int,
    user: str,
) -> None:
    authority = issue(tmp_path, "authority")
    certificate = issue(tmp_path, name, "authority", groups) if name else None
    async with opened(
        site,
        authenticator=Authenticator(None, AccessOptions()),
        authorizer=Authorizer(None, AccessOptions()),
        tls=ServingTls(ServingOptions(), str(authority)),
        client_tls=with_certificate(certificate),
    ) as endpoints:
        response = await endpoints.request("/metrics")
    assert response.status == status
    assert user in response.text


async def test_certificates_of_unknown_issuers_fail_the_handshake(
    opened: Open, site: Site, tmp_path: Path
) -> None:
    import aiohttp

    authority = issue(tmp_path, "authority")
    issue(tmp_path, "stranger")
    forged = issue(tmp_path, "root", "stranger", ("system:masters",))
    async with opened(
        site,
        authorizer=Authorizer(None, AccessOptions()),
        tls=ServingTls(ServingOptions(), str(authority)),
        client_tls=with_certificate(forged),
    ) as endpoints:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await endpoints.request("/metrics")
