"""Finding the cluster and staying authenticated: kubeconfig files, service accounts, plugins."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import ssl
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.client.configuration import (
    ClientConfiguration,
    load_configuration,
    selected_namespace,
)
from scheduler.client.credentials import (
    RENEWAL_RETRY_DELAY,
    Issued,
    IssuedCredentials,
    TokenFileCredentials,
)
from scheduler.client.errors import ConfigurationError
from scheduler.client.http import tls as client_tls
from tests.unit.client.virtual_clock import EPOCH, ManualClock


@pytest.fixture(scope="module")
def pem() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key."""
    return make_pem()


def make_pem() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def kubeconfig(
    directory: Path,
    user: dict[str, Any] | None = None,
    name: str = "config",
    **cluster: Any,
) -> str:
    """Write a kubeconfig with the contexts `one` (current) and `two`."""
    cluster.setdefault("server", "https://one:6443/")
    content = {
        "current-context": "one",
        "clusters": [
            {"name": "c1", "cluster": cluster},
            {"name": "c2", "cluster": {"server": "http://two:8080"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c1", "user": "u"}},
            {"name": "two", "context": {"cluster": "c2"}},
        ],
    }
    path = directory / name
    path.write_text(yaml.safe_dump(content))
    return str(path)


async def load(path: str | None = None, **arguments: Any) -> ClientConfiguration:
    arguments.setdefault("environ", {})
    return await load_configuration(kubeconfig=path, **arguments)


class TestKubeconfig:
    async def test_server_and_token(self, tmp_path: Path) -> None:
        found = await load(kubeconfig(tmp_path, {"token": "secret"}))
        assert found.server == "https://one:6443"
        assert await found.authorization() == "Bearer secret"
        assert found.tls is not None
        assert found.tls.context.verify_mode is ssl.CERT_REQUIRED

    async def test_context(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path)
        found = await load(path, context="two")
        assert found.server == "http://two:8080"
        assert found.kubectl == f"kubectl --kubeconfig={path} --context=two"
        assert found.tls is None
        assert await found.authorization() is None

    async def test_master_overrides_the_server(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path, {"token": "t"})
        found = await load(path, master="http://other:1/")
        assert found.server == "http://other:1"
        assert found.source == f"kubeconfig {path}, context one, server of --master"
        assert found.kubectl == (
            f"kubectl --kubeconfig={path} --context=one --server=http://other:1"
        )
        assert await found.authorization() == "Bearer t"

    async def test_authority_and_client_certificate_as_data_are_not_written_to_a_disk(
        self, tmp_path: Path, pem: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("mkstemp", "mkdtemp", "NamedTemporaryFile"):
            monkeypatch.setattr(tempfile, name, None)
        certificate, key = (base64.b64encode(part).decode() for part in pem)
        user = {"client-certificate-data": certificate, "client-key-data": key}
        path = kubeconfig(tmp_path, user, **{"certificate-authority-data": certificate})
        found = await load(path)
        assert found.tls is not None
        assert len(found.tls.context.get_ca_certs()) == 1

    async def test_files_are_relative_to_the_kubeconfig(
        self, tmp_path: Path, pem: tuple[bytes, bytes]
    ) -> None:
        (tmp_path / "ca.crt").write_bytes(pem[0])
        (tmp_path / "tok").write_text("from-file\n")
        path = kubeconfig(tmp_path, {"tokenFile": "tok"}, **{"certificate-authority": "ca.crt"})
        found = await load(path)
        assert await found.authorization() == "Bearer from-file"
        assert found.tls is not None
        assert len(found.tls.context.get_ca_certs()) == 1

    async def test_insecure_server_name_and_proxy(self, tmp_path: Path) -> None:
        more: dict[str, Any] = {
            "insecure-skip-tls-verify": True,
            "tls-server-name": "kubernetes",
            "proxy-url": "http://proxy:3128",
        }
        found = await load(kubeconfig(tmp_path, **more))
        assert found.tls is not None
        assert found.tls.context.verify_mode is ssl.CERT_NONE
        assert (found.server_hostname, found.proxy) == ("kubernetes", "http://proxy:3128")

    async def test_basic_authentication(self, tmp_path: Path) -> None:
        found = await load(kubeconfig(tmp_path, {"username": "jane", "password": "pw"}))
        assert await found.authorization() == "Basic " + base64.b64encode(b"jane:pw").decode()

    async def test_the_variable_names_several_files(self, tmp_path: Path) -> None:
        first = kubeconfig(tmp_path, {"token": "first"})
        missing = str(tmp_path / "missing")
        found = await load(environ={"KUBECONFIG": f"{missing}:{first}"})
        assert await found.authorization() == "Bearer first"

    async def test_the_default_file(self, tmp_path: Path) -> None:
        (tmp_path / ".kube").mkdir()
        kubeconfig(tmp_path / ".kube", {"token": "home"})
        found = await load(environ={"HOME": str(tmp_path)})
        assert await found.authorization() == "Bearer home"

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ("", "the file is empty"),
            ("{not yaml", "line 2: not a usable kubeconfig file"),
            ("[]", "not a usable kubeconfig file"),
            ("clusters: []", "no current-context"),
            ("current-context: x\ncontexts: []\nclusters: []\nusers: []", "named 'x'"),
        ],
    )
    async def test_an_invalid_file_is_named(
        self, tmp_path: Path, content: str, problem: str
    ) -> None:
        path = tmp_path / "config"
        path.write_text(content)
        with pytest.raises(ConfigurationError, match=r"kubeconfig .*config: ") as caught:
            await load(str(path))
        assert problem in str(caught.value)

    @pytest.mark.parametrize(
        ("cluster", "context", "problem"),
        [
            ({}, "three", r"named 'three' \(there are: one, two\)"),
            ({"certificate-authority": "nowhere.crt"}, None, "nowhere.crt"),
            ({"certificate-authority-data": "AAAA"}, None, "certificates for https://one:6443"),
            ({"certificate-authority-data": "A"}, None, "certificate-authority-data: no base64"),
        ],
    )
    async def test_errors_name_the_cause(
        self, tmp_path: Path, cluster: dict[str, Any], context: str | None, problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            await load(kubeconfig(tmp_path, **cluster), context=context)

    async def test_a_missing_file(self) -> None:
        for path, problem in (("/nowhere", "no such file"), ("/dev/zero", "a pipe or a device")):
            with pytest.raises(ConfigurationError, match=f"kubeconfig {path}: {problem}"):
                await load(path)


class TestExecPlugin:
    """A plugin that counts its calls, and whose tokens expire."""

    def plugin(self, directory: Path, expires: str | None) -> dict[str, Any]:
        script = directory / "plugin.py"
        status = {"token": "TOKEN"} | ({"expirationTimestamp": expires} if expires else {})
        version = "client.authentication.k8s.io/v1"
        response = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        counter = directory / "calls"
        script.write_text(
            f"from pathlib import Path\n"
            f"path = Path({str(counter)!r})\n"
            f"calls = len(path.read_text()) + 1 if path.exists() else 1\n"
            f"path.write_text('x' * calls)\n"
            f"print({json.dumps(response)!r}.replace('TOKEN', f'token-{{calls}}'))\n"
        )
        return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}

    async def test_runs_once_and_again_when_refused(self, tmp_path: Path) -> None:
        found = await load(kubeconfig(tmp_path, self.plugin(tmp_path, None)))
        assert await found.authorization() == "Bearer token-1"
        assert await found.authorization() == "Bearer token-1"
        await found.credentials.renew()
        assert await found.authorization() == "Bearer token-2"

    async def test_runs_again_before_the_expiry(self, tmp_path: Path) -> None:
        clock = ManualClock()
        expires = datetime.fromtimestamp(EPOCH + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = kubeconfig(tmp_path, self.plugin(tmp_path, expires))
        found = await load(path, clock=clock)
        clock.jump(3600 - 61)
        assert await found.authorization() == "Bearer token-1"
        clock.jump(1)
        # Not worth a wait while the old one is valid.
        assert await found.authorization() == "Bearer token-1"
        await found.credentials.renew()
        assert await found.authorization() == "Bearer token-2"

    async def test_a_certificate_that_cannot_be_used_is_an_error_until_another_comes(
        self, tmp_path: Path, pem: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        response = tmp_path / "response.json"
        version = "client.authentication.k8s.io/v1"

        def gives(certificate: bytes, key: bytes) -> None:
            status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
            credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
            response.write_text(json.dumps(credential))

        def too_many_files(*_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        gives(*pem)
        clock = ManualClock()
        user = {"exec": {"apiVersion": version, "command": "cat", "args": [str(response)]}}
        found = await load(kubeconfig(tmp_path, user), clock=clock)
        assert found.tls is not None
        first = found.tls.context
        certificate, key = make_pem()
        gives(certificate, pem[1])
        with pytest.raises(ConfigurationError, match="credential provider: client certificate: "):
            await found.credentials.renew()
        assert found.tls.context is first
        gives(certificate, key)
        clock.jump(RENEWAL_RETRY_DELAY)
        with monkeypatch.context() as patch:
            patch.setattr(client_tls.ResumingContext, "load_cert_chain", too_many_files)
            with pytest.raises(ConfigurationError, match="Too many open files"):
                await found.credentials.renew()
        clock.jump(RENEWAL_RETRY_DELAY)
        await found.credentials.renew()
        second = found.tls.context
        assert second is not first
        # The same once more is nothing new, nor are files that are read again.
        await found.credentials.renew()
        found.tls.reload()
        assert found.tls.context is second

    async def test_it_gets_the_cluster_if_configured(self, tmp_path: Path) -> None:
        (tmp_path / "ca.crt").write_bytes(make_pem()[0])
        user = self.plugin(tmp_path, None)
        (tmp_path / "recorder.py").write_text(
            "import os, pathlib\n"
            f"received = pathlib.Path({str(tmp_path / 'received')!r})\n"
            "received.write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
            f"exec(pathlib.Path({str(tmp_path / 'plugin.py')!r}).read_text())\n"
        )
        user["exec"] |= {"args": [str(tmp_path / "recorder.py")], "provideClusterInfo": True}
        cluster: dict[str, Any] = {
            "certificate-authority": "ca.crt",
            "tls-server-name": "name",
            "extensions": [
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
                {"name": "other", "extension": {}},
            ],
        }
        path = kubeconfig(tmp_path, user, **cluster)
        assert await (await load(path)).authorization() == "Bearer token-1"
        received = json.loads((tmp_path / "received").read_text())["spec"]["cluster"]
        authority = base64.b64decode(received.pop("certificate-authority-data"))
        assert authority == (tmp_path / "ca.crt").read_bytes()
        assert received == {
            "server": "https://one:6443/",
            "tls-server-name": "name",
            "config": {"audience": "a"},
        }

    async def test_a_failing_plugin_is_named(self, tmp_path: Path) -> None:
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/x"}}
        with pytest.raises(ConfigurationError, match="/nowhere/x"):
            await load(kubeconfig(tmp_path, user))


class TestIdentityProvider:
    @pytest.mark.parametrize("name", ["gcp", "azure"])
    async def test_those_that_client_go_does_not_have_are_refused(
        self, tmp_path: Path, name: str
    ) -> None:
        config = {"cmd-path": "/bin/false", "cmd-args": ""}
        user = {"auth-provider": {"name": name, "config": config}}
        with pytest.raises(ConfigurationError, match=f"no auth provider found for name '{name}'"):
            await load(kubeconfig(tmp_path, user))


class TestInCluster:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    def account(self, directory: Path, pem: tuple[bytes, bytes]) -> Path:
        (directory / "ca.crt").write_bytes(pem[0])
        (directory / "token").write_text("sa-1\n")
        return directory

    async def test_follows_the_rotated_token(
        self, tmp_path: Path, pem: tuple[bytes, bytes]
    ) -> None:
        clock = ManualClock()
        account = self.account(tmp_path, pem)
        found = await load(environ=self.environ, service_account=account, clock=clock)
        assert found.server == "https://[fd00::1]:443"
        (account / "token").write_text("sa-2\n")
        assert await found.authorization() == "Bearer sa-1"
        clock.jump(60)
        assert await found.authorization() == "Bearer sa-2"

    async def test_a_missing_account_is_explained(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="in-cluster configuration"):
            await load(environ=self.environ, service_account=tmp_path)

    async def test_it_has_no_contexts(self, tmp_path: Path) -> None:
        environ = {**self.environ, "HOME": str(tmp_path)}
        with pytest.raises(ConfigurationError, match="context two: there is no kubeconfig"):
            await load(environ=environ, context="two")
        (tmp_path / ".kube").mkdir()
        kubeconfig(tmp_path / ".kube")
        found = await load(environ=environ, context="two")
        assert found.server == "http://two:8080"


async def test_master_alone() -> None:
    found = await load(master="http://127.0.0.1:8080/", environ={"HOME": "/nowhere"})
    assert found.server == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("environ", "default"),
    [
        ({"HOME": "/nowhere"}, "/nowhere/.kube/config"),
        pytest.param({}, "/.kube/config", id="a user without home"),
    ],
)
async def test_nothing_configured(environ: dict[str, str], default: str) -> None:
    with pytest.raises(
        ConfigurationError, match="invalid configuration: no configuration has been provided"
    ) as caught:
        await load(environ=environ)
    assert f" {default} does not exist" in str(caught.value)


class TestTokenFiles:
    async def test_an_unreadable_rotation_keeps_the_old_token(self, tmp_path: Path) -> None:
        clock = ManualClock()
        path = tmp_path / "token"
        path.write_text("old")
        credentials = TokenFileCredentials(path, clock)
        path.write_text("")
        clock.jump(61)
        assert await credentials.authorization() == "Bearer old"
        with pytest.raises(ConfigurationError, match="is empty"):
            await credentials.renew()


class TestIssuedCredentials:
    async def test_a_failed_renewal_matters_only_after_the_expiry(self) -> None:
        clock = ManualClock()

        async def fails() -> Issued:
            msg = "provider is down"
            raise ConfigurationError(msg)

        credentials = IssuedCredentials(fails, Issued("Bearer 1", clock.now() + 100), clock)
        clock.jump(95)
        assert await credentials.authorization() == "Bearer 1"
        clock.jump(5)
        with pytest.raises(ConfigurationError, match="provider is down"):
            await credentials.authorization()

    async def test_no_request_waits_for_a_provider_while_the_old_credential_is_valid(self) -> None:
        clock, provider = ManualClock(), Provider()
        first = Issued("Bearer 0", clock.now() + 100)
        credentials = IssuedCredentials(provider.issue, first, clock)
        clock.jump(95)
        async with asyncio.timeout(60):
            for _ in range(3):
                assert await credentials.authorization() == "Bearer 0"
                await clock.settle()
        provider.let.set()
        # Joins the renewal under way.
        await credentials.renew()
        assert await credentials.authorization() == "Bearer 1"
        assert provider.calls == 1

    async def test_a_failure_is_shared_and_not_repeated_at_once(self) -> None:
        clock, provider = ManualClock(), Provider(fails=True)
        first = Issued("Bearer 0", clock.now() + 100)
        credentials = IssuedCredentials(provider.issue, first, clock)
        clock.jump(100)
        waiting = [asyncio.create_task(credentials.authorization()) for _ in range(3)]
        await clock.settle()
        provider.let.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(result) for result in results] == ["provider is down"] * 3
        with pytest.raises(ConfigurationError, match="provider is down"):
            await credentials.authorization()
        assert provider.calls == 1
        clock.jump(RENEWAL_RETRY_DELAY)
        provider.fails = False
        assert await credentials.authorization() == "Bearer 2"

    async def test_without_a_known_expiry_the_server_decides(self) -> None:
        clock, provider = ManualClock(), Provider(fails=True)
        provider.let.set()
        first = Issued("Bearer 0", due_at=clock.now())
        credentials = IssuedCredentials(provider.issue, first, clock)
        for calls in (1, 2):
            assert await credentials.authorization() == "Bearer 0"
            await clock.settle()
            assert provider.calls == calls
            clock.jump(RENEWAL_RETRY_DELAY)

    async def test_a_provider_of_expired_credentials_is_not_called_again_at_once(self) -> None:
        clock, calls = ManualClock(), []

        async def stale() -> Issued:
            calls.append(1)
            return Issued("Bearer stale", clock.now() - 1)

        credentials = IssuedCredentials(stale, Issued("Bearer 0", clock.now()), clock)
        for _ in range(5):
            assert await credentials.authorization() == "Bearer stale"
        assert len(calls) == 1
        clock.jump(RENEWAL_RETRY_DELAY)
        await credentials.authorization()
        assert len(calls) == 2

    async def test_a_waiter_that_is_cancelled_does_not_end_the_renewal(self) -> None:
        clock, provider = ManualClock(), Provider()
        credentials = IssuedCredentials(provider.issue, Issued("Bearer 0"), clock)
        first, second = (asyncio.create_task(credentials.renew()) for _ in range(2))
        await clock.settle()
        first.cancel()
        await clock.settle()
        provider.let.set()
        await second
        assert await credentials.authorization() == "Bearer 1"

    async def test_closing_cancels_it_and_fails_those_that_wait(self) -> None:
        clock, provider = ManualClock(), Provider()
        credentials = IssuedCredentials(provider.issue, Issued("Bearer 0"), clock)
        waiting = asyncio.create_task(credentials.renew())
        await clock.settle()
        for _ in range(2):
            await credentials.close()
        with pytest.raises(ConfigurationError, match="closed"):
            await waiting
        assert asyncio.all_tasks() == {asyncio.current_task()}


class Provider:
    """Issues numbered tokens, or fails, once it is let."""

    def __init__(self, *, fails: bool = False) -> None:
        self.calls = 0
        self.fails = fails
        self.let = asyncio.Event()

    async def issue(self) -> Issued:
        self.calls += 1
        number = self.calls
        await self.let.wait()
        if self.fails:
            msg = "provider is down"
            raise ConfigurationError(msg)
        return Issued(f"Bearer {number}")


def test_the_namespace_of_a_context_is_that_of_questions(tmp_path: Path) -> None:
    file = tmp_path / "config"
    contexts = [
        {"name": "one", "context": {"cluster": "c", "namespace": "shop"}},
        {"name": "two", "context": {"cluster": "c"}},
    ]
    clusters = [{"name": "c", "cluster": {"server": "https://host"}}]
    file.write_text(
        json.dumps({"current-context": "one", "contexts": contexts, "clusters": clusters})
    )
    environ = {"KUBECONFIG": f"{tmp_path / 'none'}:{file}"}
    assert selected_namespace(environ=environ) == "shop"
    assert selected_namespace(str(file), environ={}) == "shop"
    assert selected_namespace(context="two", environ=environ) == ""
    assert selected_namespace(context="three", environ=environ) == ""
    assert selected_namespace(environ={"HOME": str(tmp_path)}) == ""
