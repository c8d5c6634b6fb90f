"""An API server that only reads the Lease and forwards ports, in a thread, and who asks by it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from click.testing import CliRunner

from devtools.control_plane.fake_kubelet import forward
from devtools.control_plane.ports import LOOPBACK, free_port
from scheduler.cli.main import program
from scheduler.client.leader_record import LeaderAddress
from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import ServingTls

NAMESPACE: Final = "kubestow-system"
PODS: Final = {"a": 1001, "b": 1002}
QUEUE: Final = b'{"kind": "x"}'

Answer = Callable[[], web.StreamResponse]


@dataclass
class CommandResult:
    code: int
    out: str
    err: str


class Clock:
    """Time of the command, which passes while it sleeps and when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Cluster:
    """An API server, and two replicas whose ports are forwarded."""

    def __init__(self, *, tls: bool = True) -> None:
        self.clock = Clock()
        self.port = free_port()
        self.tls = tls
        self.holder = "a"
        #: Ports of the replicas, by the port in their records; closed ones refuse connections.
        self.listening: dict[int, int] = {}
        self.hashes: dict[str, str] = {}
        self.authorizations: list[str] = []
        #: Called when a port is forwarded.
        self.forwarded: Callable[[int], None] = lambda _: None
        #: Answers instead of the Lease, of a WebSocket, and of the queue.
        self.lease: Answer | None = None
        self.upgrade: Answer | None = None
        self.refusal: Answer | None = None
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def address(self) -> dict[str, Any]:
        """Return the entry of a kubeconfig."""
        if not self.tls:
            return {"server": f"http://{LOOPBACK}:{self.port}"}
        return {"server": f"https://{LOOPBACK}:{self.port}", "insecure-skip-tls-verify": True}

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        self._thread.start()
        self._started.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_get("/apis/{rest:.*}", self._lease)
        application.router.add_get("/api/{rest:.*}", self._port_forward)
        runner = web.AppRunner(application)
        await runner.setup()
        context = ServingTls(ServingOptions()).context if self.tls else None
        await web.TCPSite(runner, LOOPBACK, self.port, ssl_context=context).start()
        replicas = [await self._replica(pod, port) for pod, port in PODS.items()]
        self._started.set()
        await self._stopped.wait()
        for each in (runner, *replicas):
            await each.cleanup()

    async def _replica(self, pod: str, port: int) -> web.AppRunner:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.authorizations.append(request.headers.get("Authorization", ""))
            return web.Response(body=QUEUE) if self.refusal is None else self.refusal()

        def loaded(sha256: str) -> None:
            self.hashes[pod] = sha256

        application = web.Application()
        application.router.add_get("/debug/queue", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        self.listening[port] = free_port()
        context = ServingTls(ServingOptions(), loaded=loaded).context
        await web.TCPSite(runner, LOOPBACK, self.listening[port], ssl_context=context).start()
        return runner

    async def _lease(self, _: web.Request) -> web.StreamResponse:
        if self.lease is not None:
            return self.lease()
        address = LeaderAddress(f"{NAMESPACE}/{self.holder}")
        address.port, address.certificate_sha256 = PODS[self.holder], self.hashes[self.holder]
        return web.json_response(address.annotated({"spec": {"holderIdentity": self.holder}}))

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        port = int(request.query["ports"])
        self.forwarded(port)
        if self.upgrade is not None:
            return self.upgrade()
        return await forward(request, port, self.listening.get(port, 1))


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Return a running cluster; the parameter says whether its API server speaks TLS."""
    with Cluster(tls=getattr(request, "param", True)).running() as found:
        yield found


Ask = Callable[..., CommandResult]


@pytest.fixture
def ask(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that asks for the queue with a kubeconfig for the cluster."""
    monkeypatch.setattr("scheduler.cli.leader.time", cluster.clock)
    kubeconfig = tmp_path / "config"
    document = {
        "clusters": [{"name": "c", "cluster": cluster.address}],
        "users": [{"name": "u", "user": {"token": "of-the-kubeconfig"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(document))

    def run(*arguments: str) -> CommandResult:
        line = ["queue", "-o", "json", "--kubeconfig", str(kubeconfig), *arguments]
        result = CliRunner().invoke(program, line)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return CommandResult(result.exit_code, result.stdout, result.stderr)

    return run


def status(code: int, message: str) -> Answer:
    body: dict[str, Any] = {"kind": "Status", "message": message, "code": code}
    return lambda: web.json_response(body, status=code)


def outside(cluster: Cluster, port: int, host: str = LOOPBACK) -> Answer:
    """Return the Lease of a leader that runs outside of the cluster."""
    address = LeaderAddress(host=host)
    address.port, address.certificate_sha256 = port, cluster.hashes["a"]
    lease = address.annotated({"spec": {"holderIdentity": "laptop"}})
    return lambda: web.json_response(lease)
