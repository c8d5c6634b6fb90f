"""The embedded server's quota admission says what the real one says, request for request.

The embedded server answers first. The real server is then sent each request as a dry run until its
code is the same, because the real admission reads quotas from a cache that lags; then in earnest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import aiohttp
import pytest

from simulator import EmbeddedCluster
from tests.envtest.control_plane import ApiServerOptions, ControlPlane
from tests.envtest.quota_requests import CASES, Ask, Case
from tests.envtest.workload import until
from tests.integration.simulator.client import Client
from tests.integration.simulator.client import until as until_async

pytestmark = pytest.mark.envtest("kube-controller-manager")

Answer = tuple[int, str]
"""Code and message; the message is empty for a success."""


def _counted(quota: dict[str, Any]) -> bool:
    hard, status = quota["spec"]["hard"], quota.get("status") or {}
    return set(status.get("hard") or {}) == set(hard) and bool(status.get("used") is not None)


def _manifest(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


async def _embedded(case: Case) -> list[Answer]:
    answers: list[Answer] = []
    base = f"/api/v1/namespaces/{case.name}"
    async with EmbeddedCluster(seed=1) as cluster, aiohttp.ClientSession(cluster.url) as session:
        client = Client(session)
        await client.post("/api/v1/namespaces", {"metadata": {"name": case.name}})
        for name, spec in case.quotas.items():
            code, _ = await client.post(f"{base}/resourcequotas", _manifest(name, spec))
            assert code == 201
        await until_async(
            lambda: all(
                _counted(cluster.get("v1", "ResourceQuota", name, case.name))
                for name in case.quotas
            )
        )
        for ask in case.asks:
            if ask.method == "PATCH":
                code, body = await client.patch(f"{base}/{ask.path}", ask.body, _patch_type(ask))
            else:
                code, body = await client.post(f"{base}/{ask.path}", ask.body)
            answers.append((code, body["message"] if code >= 400 else ""))
    return answers


def _patch_type(ask: Ask) -> str:
    return "merge-patch+json" if "resourcequotas" in ask.path else "strategic-merge-patch+json"


class _Real:
    def __init__(self, control_plane: ControlPlane, case: Case) -> None:
        self._admin = control_plane.admin
        self._case = case
        self._base = f"/api/v1/namespaces/{case.name}"

    def answers(self, expected: list[Answer]) -> list[Answer]:
        self._admin.ensure("/api/v1/namespaces", {"metadata": {"name": self._case.name}})
        for name, spec in self._case.quotas.items():
            self._admin.ensure(f"{self._base}/resourcequotas", _manifest(name, spec))
            until(partial(self._counted, name), f"quota {name} counted")
        found = []
        for ask, (code, _) in zip(self._case.asks, expected, strict=True):
            until(partial(self._would_answer, ask, code), f"{code} for {ask.body}")
            found.append(self._send(ask))
        return found

    def _counted(self, name: str) -> bool:
        return _counted(self._admin.request("GET", f"{self._base}/resourcequotas/{name}"))

    def _would_answer(self, ask: Ask, code: int) -> bool:
        return self._send(ask, dry=True)[0] == code

    def _send(self, ask: Ask, *, dry: bool = False) -> Answer:
        path = f"{self._base}/{ask.path}" + ("?dryRun=All" if dry else "")
        kind = _patch_type(ask) if ask.method == "PATCH" else "json"
        code, text = self._admin.exchange(ask.method, path, ask.body, f"application/{kind}")
        return code, json.loads(text)["message"] if code >= 400 else ""


@pytest.fixture(scope="module")
def counted_plane(
    tmp_path_factory: pytest.TempPathFactory, envtest_binaries: Any
) -> Iterator[ControlPlane]:
    """A control plane with the quota controller."""
    directory = tmp_path_factory.mktemp("quota-parity")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as plane:
        plane.start_controller_manager(controllers=["resourcequota-controller"])
        yield plane


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_both_servers_answer_alike(case: Case, counted_plane: ControlPlane) -> None:
    embedded = await _embedded(case)
    real = await asyncio.to_thread(_Real(counted_plane, case).answers, embedded)
    names = [str(ask.body.get("metadata") or ask.path) for ask in case.asks]
    assert list(zip(names, embedded, strict=True)) == list(zip(names, real, strict=True))
