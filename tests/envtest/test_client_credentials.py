"""Credentials against a real kube-apiserver: tokens, client certificates, plugins, rotation."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devtools.control_plane.api_server import ApiServerOptions
from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.credentials import ADMIN_GROUP, ADMIN_USER
from scheduler.client.configuration import ClientConfiguration, load_configuration
from scheduler.client.errors import ApiError, ConnectionFailed
from scheduler.client.resources import NODES
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from tests.envtest.fixtures import ControlPlaneFactory
from tests.unit.client.virtual_clock import ManualClock

pytestmark = pytest.mark.envtest

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
V1 = "client.authentication.k8s.io/v1"


class Authority:
    """Signs certificates for clients and servers."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.certificate = self._signed(builder)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Issue a certificate for client `name`, an administrator."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ADMIN_GROUP),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = self._builder(subject, key).add_extension(usage, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self._signed(builder), private


class Cluster:
    """A control plane that trusts one certificate authority at a time."""

    def __init__(self, make_control_plane: ControlPlaneFactory, folder: Path) -> None:
        self.folder = folder
        self.clients = folder / "clients.crt"
        self.authority = Authority("first")
        self.clients.write_bytes(self.authority.certificate)
        options = ApiServerOptions(extra_arguments=(f"--client-ca-file={self.clients}",))
        self.control_plane: ControlPlane = make_control_plane(options)

    def kubeconfig(self, user: dict[str, Any]) -> str:
        document = json.loads(self.control_plane.kubeconfig.read_text())
        document["users"][0]["user"] = user
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return str(path)

    def token(self) -> str:
        document = json.loads(self.control_plane.kubeconfig.read_text())
        return str(document["users"][0]["user"]["token"])

    async def load(
        self, user: dict[str, Any], clock: ManualClock | None = None
    ) -> ClientConfiguration:
        return await load_configuration(kubeconfig=self.kubeconfig(user), environ={}, clock=clock)


@pytest.fixture
def cluster(make_control_plane: ControlPlaneFactory, tmp_path: Path) -> Cluster:
    return Cluster(make_control_plane, tmp_path)


async def who_am_i(client: ApiClient) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    response = await client.request("POST", SELF, body=body)
    return str(json.loads(response.body)["status"]["userInfo"]["username"])


def plugin(folder: Path, **status: str) -> dict[str, Any]:
    """Return a user whose plugin, a shell script, prints the content of a file."""
    credential = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    (folder / "credential").write_text(json.dumps(credential))
    script = folder / "plugin.sh"
    script.write_text(f"#!/bin/sh\necho noise >&2\ncat '{folder}/credential'\n")
    script.chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": "./plugin.sh", "interactiveMode": "Never"}}


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
async def test_every_kind_of_credential(cluster: Cluster, newest: ssl.TLSVersion) -> None:
    certificate, key = cluster.authority.issue("jane")
    data = [base64.b64encode(each).decode() for each in (certificate, key)]
    pair = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
    (cluster.folder / "token").write_text(cluster.token())
    users: list[tuple[Callable[[], dict[str, Any]], str]] = [
        (lambda: {"token": cluster.token()}, ADMIN_USER),
        (lambda: {"tokenFile": "token"}, ADMIN_USER),
        (lambda: {"client-certificate-data": data[0], "client-key-data": data[1]}, "jane"),
        (lambda: plugin(cluster.folder, token=cluster.token()), ADMIN_USER),
        (lambda: plugin(cluster.folder, **pair), "jane"),
    ]
    for user, name in users:
        found = await cluster.load(user())
        assert found.tls is not None
        found.tls.context.maximum_version = newest
        async with Transport(found) as transport:
            assert await who_am_i(ApiClient(transport)) == name


async def test_a_user_acts_as_another_one(cluster: Cluster) -> None:
    """The API server sees the other user in requests and watches, with the rights of that one."""
    extra = {"example.com/scope%": ["view", "dev"]}
    acting = {"as": "jörg", "as-uid": "7", "as-groups": ["one", "two"], "as-user-extra": extra}
    found = await cluster.load({"token": cluster.token(), **acting})
    async with Transport(found) as transport:
        client = ApiClient(transport)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        response = await client.request("POST", SELF, body=body)
        user = json.loads(response.body)["status"]["userInfo"]
        assert user == {
            "username": "jörg",
            "uid": "7",
            "groups": ["one", "two", "system:authenticated"],
            "extra": extra,
        }
        with pytest.raises(ApiError) as refused:
            await client.request("GET", "/api/v1/nodes")
        assert refused.value.status == 403
        assert "jörg" in str(refused.value)
        with pytest.raises(ApiError) as refused:
            async with client.open_watch(NODES, "", {}, idle_timeout=5):
                pass
        assert refused.value.status == 403


async def test_a_client_certificate_is_rotated_with_its_authority(cluster: Cluster) -> None:
    """kube-apiserver reads its files again by itself; the old authority is removed."""
    paths = cluster.folder / "client.crt", cluster.folder / "client.key"

    def show(pair: tuple[bytes, bytes]) -> None:
        for path, content in zip(paths, pair, strict=True):
            path.write_bytes(content)

    clock = ManualClock()
    show(cluster.authority.issue("before"))
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    found = await cluster.load(user, clock)
    async with Transport(found) as transport:
        client = ApiClient(transport)
        assert await who_am_i(client) == "before"
        second = Authority("second")
        cluster.clients.write_bytes(second.certificate)
        async with asyncio.timeout(120):
            # After a 401 the client reads the files again; they still hold the old certificate.
            while await accepted(client):  # noqa: ASYNC110  (another process changes its mind)
                await asyncio.sleep(0.2)
        show(second.issue("after"))
        clock.jump(300)
        assert await who_am_i(client) == "after"


async def accepted(client: ApiClient) -> bool:
    try:
        await who_am_i(client)
    except (ApiError, ConnectionFailed):
        return False
    return True
