"""The embedded server's quota admission returns the codes and messages of the real one.

The embedded server gets the requests first. The real server then gets each request as a dry run
until its code is the same, as its admission reads quotas from a cache that lags; then for real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane
from simulator import EmbeddedCluster
from tests.envtest.quota_requests import CASES, CPU, Case, Request, pod
from tests.envtest.workload import until
from tests.integration.simulator.client import Client
from tests.integration.simulator.client import until as until_async

pytestmark = pytest.mark.envtest("kube-controller-manager")

Response = tuple[int, str]
"""Code and message; the message is empty for a success."""

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


class Results(NamedTuple):
    """The responses of a server to the requests of a case, and their effect."""

    responses: list[Response]
    used: dict[str, dict[str, str]]
    """The usage of each quota in the end."""


def _namespace(name: str) -> dict[str, Any]:
    labels = {"resource.kubernetes.io/admin-access": "true"}
    return {"metadata": {"name": name, "labels": labels}}


def _counted(quota: dict[str, Any]) -> bool:
    hard, status = quota["spec"]["hard"], quota.get("status") or {}
    return set(status.get("hard") or {}) == set(hard) and bool(status.get("used") is not None)


def _manifest(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


async def _embedded(case: Case) -> Results:
    responses: list[Response] = []
    base = f"/api/v1/namespaces/{case.name}"
    async with EmbeddedCluster(seed=1) as cluster, aiohttp.ClientSession(cluster.url) as session:
        client = Client(session)
        await client.post("/api/v1/namespaces", _namespace(case.name))
        for name, spec in case.classes.items():
            await client.post(CLASSES, _manifest(name, spec))
        for name, spec in case.quotas.items():
            code, _ = await client.post(f"{base}/resourcequotas", _manifest(name, spec))
            assert code == 201
        await until_async(
            lambda: all(
                _counted(cluster.get("v1", "ResourceQuota", name, case.name))
                for name in case.quotas
            )
        )
        for request in case.requests:
            path = f"{request.api}/namespaces/{case.name}/{request.path}"
            if request.method == "PATCH":
                code, body = await client.patch(path, request.body, _patch_type(request))
            else:
                code, body = await client.post(path, request.body)
            responses.append((code, body["message"] if code >= 400 else ""))
        used = {
            name: cluster.get("v1", "ResourceQuota", name, case.name)["status"]["used"]
            for name in case.quotas
        }
    return Results(responses, used)


def _patch_type(request: Request) -> str:
    return "merge-patch+json" if "resourcequotas" in request.path else "strategic-merge-patch+json"


class _Real:
    def __init__(self, control_plane: ControlPlane, case: Case) -> None:
        self._admin = control_plane.admin
        self._case = case
        self._base = f"/api/v1/namespaces/{case.name}"

    def responses(self, expected: list[Response]) -> list[Response]:
        self._admin.ensure("/api/v1/namespaces", _namespace(self._case.name))
        for name, spec in self._case.classes.items():
            self._admin.ensure(CLASSES, _manifest(name, spec))
        for name, spec in self._case.quotas.items():
            self._admin.ensure(f"{self._base}/resourcequotas", _manifest(name, spec))
            until(partial(self._counted, name), f"quota {name} counted")
        found = []
        for request, (code, _) in zip(self._case.requests, expected, strict=True):
            until(partial(self._would_respond, request, code), f"{code} for {request.body}")
            found.append(self._send(request))
        return found

    def _counted(self, name: str) -> bool:
        return _counted(self._quota(name))

    def used(self) -> dict[str, dict[str, str]]:
        """Return the usage of each quota."""
        return {name: self._quota(name)["status"]["used"] for name in self._case.quotas}

    def _quota(self, name: str) -> Any:
        return self._admin.request("GET", f"{self._base}/resourcequotas/{name}")

    def _would_respond(self, request: Request, code: int) -> bool:
        return self._send(request, dry=True)[0] == code

    def _send(self, request: Request, *, dry: bool = False) -> Response:
        path = f"{request.api}/namespaces/{self._case.name}/{request.path}"
        path += "?dryRun=All" if dry else ""
        kind = _patch_type(request) if request.method == "PATCH" else "json"
        code, text = self._admin.exchange(request.method, path, request.body, f"application/{kind}")
        return code, json.loads(text)["message"] if code >= 400 else ""


@pytest.fixture(scope="module")
def counted_plane(
    tmp_path_factory: pytest.TempPathFactory, envtest_binaries: Any
) -> Iterator[ControlPlane]:
    """Run a control plane with the quota controller."""
    directory = tmp_path_factory.mktemp("quota-parity")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as plane:
        plane.start_controller_manager(controllers=["resourcequota-controller"])
        _wait_for_first_count(plane)
        yield plane


def _wait_for_first_count(plane: ControlPlane) -> None:
    """Wait until the controller has counted all quotas that exist when it starts.

    It counts those once more at its start. If that hits a test, it writes a usage without the pods
    that it has not seen yet, and a request that should be rejected is accepted.
    """
    quotas = "/api/v1/namespaces/default/resourcequotas"
    plane.admin.ensure("/api/v1/namespaces", _namespace("default"))
    plane.admin.ensure(quotas, _manifest("first", {"hard": {"pods": "1k"}}))
    until(lambda: _counted(plane.admin.request("GET", f"{quotas}/first")), "a first quota counted")
    plane.admin.request("DELETE", f"{quotas}/first")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_both_servers_respond_alike(case: Case, counted_plane: ControlPlane) -> None:
    embedded = await _embedded(case)
    real = _Real(counted_plane, case)
    responses = await asyncio.to_thread(real.responses, embedded.responses)
    names = [str(request.body.get("metadata") or request.path) for request in case.requests]
    assert list(zip(names, embedded.responses, strict=True)) == list(
        zip(names, responses, strict=True)
    )
    await asyncio.to_thread(until, lambda: real.used() == embedded.used, f"used: {embedded.used}")


PRINTED = {
    "limits.cpu": "4",
    "requests.cpu": "2",
    "pods": "5",
    "deferred.kubestow.io/requests.memory": "64Gi",
    "deferred.kubestow.io/limits.memory": "64Gi",
}


async def test_both_servers_print_a_quota_alike(
    counted_plane: ControlPlane, tmp_path: Path
) -> None:
    """`kubectl get` by the server's columns, `kubectl describe` from the object."""
    manifest = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "printed", "namespace": "default"},
            "spec": {"hard": PRINTED, "scopes": ["NotTerminating"]},
        }
    )
    async with EmbeddedCluster(seed=1) as cluster:
        kubeconfig = cluster.write_kubeconfig(tmp_path / "embedded")
        embedded = await asyncio.to_thread(_printed, counted_plane, manifest, kubeconfig)
    assert embedded == await asyncio.to_thread(_printed, counted_plane, manifest, None)


def _printed(plane: ControlPlane, manifest: str, kubeconfig: Path | None) -> list[str]:
    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        return plane.kubectl(*arguments, stdin=stdin, kubeconfig=kubeconfig)

    kubectl("create", "--validate=false", "-f", "-", stdin=manifest)
    quota = ("quota", "-n", "default", "printed")
    path = "jsonpath={.status.used}"
    until(lambda: "pods" in kubectl("get", *quota, "-o", path), "the quota counted")
    table = [line.split()[:-1] for line in kubectl("get", *quota).splitlines()]
    return [*map(str, table), kubectl("describe", *quota)]


async def test_both_servers_ignore_a_quota_that_was_never_counted(
    control_plane: ControlPlane,
) -> None:
    """No controller runs: `status.hard` stays empty, and admission goes by it."""
    request = pod("free", {"cpu": "5"})
    namespace = {"metadata": {"name": "uncounted"}}
    control_plane.admin.ensure("/api/v1/namespaces", namespace)
    base = "/api/v1/namespaces/uncounted"
    control_plane.admin.request("POST", f"{base}/resourcequotas", _manifest("q", CPU))
    assert control_plane.admin.exchange("POST", f"{base}/pods", request.body)[0] == 201
    async with (
        EmbeddedCluster(controllers=[]) as cluster,
        aiohttp.ClientSession(cluster.url) as session,
    ):
        client = Client(session)
        await client.post("/api/v1/namespaces", namespace)
        await client.post(f"{base}/resourcequotas", _manifest("q", CPU))
        assert (await client.post(f"{base}/pods", request.body))[0] == 201
