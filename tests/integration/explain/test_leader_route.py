"""The way to the leader: an API server that only reads the Lease and forwards ports, in a thread.

The real API server is in tests/envtest/test_leader_access.py; here are the failures that it does
not have on demand.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from click.testing import CliRunner

from scheduler.cli.leader import PUBLISHED_WITHIN
from scheduler.cli.main import program
from scheduler.client.leader_record import ANNOTATION, LeaderAddress
from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import ServingTls
from testing.control_plane.fake_kubelet import forward
from testing.control_plane.ports import LOOPBACK, free_port
from tests.integration.explain.conftest import CommandResult

NAMESPACE: Final = "kubestow-system"
PODS: Final = {"a": 1001, "b": 1002}
QUEUE: Final = b'{"kind": "x"}'

Answer = Callable[[], web.StreamResponse]


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
        #: Answers instead of the Lease, and instead of a WebSocket.
        self.lease: Answer | None = None
        self.upgrade: Answer | None = None
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
        async def answer(request: web.Request) -> web.Response:
            self.authorizations.append(request.headers.get("Authorization", ""))
            return web.Response(body=QUEUE)

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


plain_http = pytest.mark.parametrize("cluster", [False], indirect=True, ids=["plain HTTP"])


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


def test_the_answer_of_the_leader_arrives_and_the_token_goes_to_it_alone(
    cluster: Cluster, ask: Ask
) -> None:
    assert (ask().out, ask("--token", "given").out) == (QUEUE.decode(),) * 2
    assert cluster.authorizations == ["Bearer of-the-kubeconfig", "Bearer given"]


def test_a_new_leader_is_asked_when_the_former_one_is_gone(cluster: Cluster, ask: Ask) -> None:
    def take_over(_: int) -> None:
        cluster.holder = "b"

    del cluster.listening[PODS["a"]]
    cluster.forwarded = take_over
    found = ask()
    assert (found.code, found.out, found.err) == (0, QUEUE.decode(), "")


def test_when_leaders_change_again_and_again_the_code_is_7(cluster: Cluster, ask: Ask) -> None:
    def take_over(_: int) -> None:
        cluster.holder = "b" if cluster.holder == "a" else "a"

    cluster.listening.clear()
    cluster.forwarded = take_over
    found = ask()
    assert (found.code, found.out) == (7, "")
    assert "another replica took over during the question, twice" in found.err


def test_a_leader_that_is_gone_and_still_holds_the_lease_is_not_reachable(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.listening.clear()
    found = ask()
    assert (found.code, found.out) == (5, "")
    assert (
        "the leader, pod kubestow-system/a, cannot be reached: error forwarding port 1001"
        in found.err
    )


def test_a_certificate_that_was_renewed_is_accepted_when_its_hash_is_published(
    cluster: Cluster, ask: Ask
) -> None:
    right, cluster.hashes["a"] = cluster.hashes["a"], "00" * 32

    def publish(_: int) -> None:
        # The way through the API server takes longer than the leader.
        cluster.clock.sleep(PUBLISHED_WITHIN + 1.0)
        cluster.hashes["a"] = right

    cluster.forwarded = publish
    assert ask().code == 0


def test_another_certificate_gets_no_token(cluster: Cluster, ask: Ask) -> None:
    cluster.hashes["a"] = "00" * 32
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "is not the one that it published on its Lease" in found.err


@pytest.mark.parametrize(
    ("answer", "code", "texts"),
    [
        (status(401, "Unauthorized"), 6, ("kubectl auth whoami",)),
        (
            status(403, 'User "u" cannot get leases'),
            6,
            ('User "u" cannot get leases', "--role=kubestow-explainer"),
        ),
        (status(404, "not found"), 5, ("there is no Lease kubestow-system/kubestow", "--lease")),
        (status(500, "etcd is gone"), 1, ("responded with 500: etcd is gone",)),
        (lambda: web.json_response({"spec": {}}), 5, ("nobody holds the Lease",)),
        (
            lambda: web.json_response({"spec": {"holderIdentity": "old_1"}}),
            5,
            ("old_1, which holds the Lease", "--server"),
        ),
        (lambda: web.Response(text="<html>"), 1, ("something else than a Lease",)),
    ],
)
def test_a_lease_that_leads_nowhere_is_explained(
    cluster: Cluster, ask: Ask, answer: Answer, code: int, texts: tuple[str, ...]
) -> None:
    cluster.lease = answer
    found = ask()
    assert (found.code, found.out) == (code, "")
    for text in texts:
        assert text in found.err


def outside(cluster: Cluster, port: int, host: str = LOOPBACK) -> Answer:
    """Return the Lease of a leader that runs outside of the cluster."""
    address = LeaderAddress(host=host)
    address.port, address.certificate_sha256 = port, cluster.hashes["a"]
    lease = address.annotated({"spec": {"holderIdentity": "laptop"}})
    return lambda: web.json_response(lease)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        (LOOPBACK, f"{LOOPBACK}:1002"),
        ("laptop.example", "laptop.example:1002"),
        ("::1", "[::1]:1002"),
    ],
)
def test_a_host_on_the_lease_gets_nothing_and_the_user_is_told_how_to_reach_it(
    cluster: Cluster, ask: Ask, host: str, address: str
) -> None:
    cluster.lease = outside(cluster, 1002, host)
    found = ask()
    assert (found.code, found.out, cluster.authorizations) == (5, "", [])
    assert "laptop, which holds the Lease kubestow-system/kubestow, runs outside" in found.err
    assert f"--server https://{address} --ca-file FILE" in found.err


def test_not_even_a_host_with_the_right_certificate_gets_the_token(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]])
    assert (ask().code, cluster.authorizations) == (5, [])


@plain_http
@pytest.mark.parametrize("host", [LOOPBACK, "localhost", socket.gethostname()])
def test_the_leader_of_an_experiment_on_this_machine_is_asked(
    cluster: Cluster, ask: Ask, host: str
) -> None:
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]], host)
    found = ask()
    assert (found.code, found.out) == (0, QUEUE.decode())
    assert cluster.authorizations == ["Bearer of-the-kubeconfig"]


@plain_http
@pytest.mark.parametrize(
    ("host", "arguments"),
    [("laptop.example", ()), ("192.0.2.1", ()), (LOOPBACK, ("--token", "given"))],
)
def test_the_leader_of_an_experiment_is_on_no_other_machine_and_gets_no_other_token(
    cluster: Cluster, ask: Ask, host: str, arguments: tuple[str, ...]
) -> None:
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]], host)
    found = ask(*arguments)
    assert (found.code, found.out, cluster.authorizations) == (5, "", [])
    assert "runs outside" in found.err


@plain_http
def test_the_leader_of_an_experiment_is_known_by_its_certificate(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.hashes["a"] = "00" * 32
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]])
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "is not the one that it published on its Lease" in found.err


@plain_http
def test_the_leader_of_an_experiment_that_ended_is_not_reachable(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.lease = outside(cluster, free_port())
    found = ask()
    assert (found.code, found.out) == (5, "")
    assert f"the leader at {LOOPBACK}:" in found.err
    assert "cannot be reached" in found.err


@pytest.mark.parametrize(
    "host", ["a..b", "x" * 300, "h/exec?x=", "a b", "\x9b31m", "fe80::1%eth0\n"]
)
def test_a_host_that_cannot_be_one_is_not_repeated_as_an_address(
    cluster: Cluster, ask: Ask, host: str
) -> None:
    cluster.lease = outside(cluster, 1002, host)
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "is neither a name nor an address" in found.err
    assert all(each.isprintable() for each in found.err.replace("\n", ""))
    assert len(found.err) < 1500


@pytest.mark.parametrize(
    ("forged", "text"),
    [
        ({"pod": "kubestow-system/a/exec?command=sh&x="}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/../../../nodes/n/proxy/run"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/a?ports=1#"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/a%2fexec"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/a\r\nHost: evil.example"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/\x9b31m\u202e"}, "no NAMESPACE/NAME"),
        ({"pod": "//evil.example/a"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow.system/a"}, "no NAMESPACE/NAME"),
        ({"pod": "a" * 100_000}, "no NAMESPACE/NAME"),
        ({"pod": "tenant/a"}, "'tenant/a' is not in namespace kubestow-system"),
        ({"port": -1}, "the port -1 is none from 1 to 65535"),
        ({"port": 65536}, "the port 65536 is none from 1 to 65535"),
        ({"certificateSHA256": "AB" * 32}, "no SHA-256"),
        ({"certificateSHA256": "ab" * 31}, "no SHA-256"),
        ({"certificateSHA256": "\u0661" * 64}, "no SHA-256"),
    ],
)
def test_an_address_that_no_leader_publishes_opens_no_connection(
    cluster: Cluster, ask: Ask, forged: dict[str, Any], text: str
) -> None:
    right = {
        "holder": "a",
        "pod": f"{NAMESPACE}/a",
        "port": PODS["a"],
        "certificateSHA256": cluster.hashes["a"],
    }
    requests: list[int] = []
    cluster.forwarded = requests.append
    cluster.lease = lambda: web.json_response(
        {
            "metadata": {"annotations": {ANNOTATION: json.dumps(right | forged)}},
            "spec": {"holderIdentity": "a"},
        }
    )
    found = ask()
    assert (found.code, found.out, requests, cluster.authorizations) == (5, "", [], [])
    assert text in found.err
    assert "Nothing was sent" in found.err
    assert all(each.isprintable() for each in found.err.replace("\n", ""))
    assert len(found.err) < 1500


@pytest.mark.parametrize(
    ("answer", "code", "texts"),
    [
        (
            status(403, 'User "u" cannot create pods/portforward'),
            6,
            ("cannot create pods/portforward", "--role=kubestow-explainer --user"),
        ),
        (status(404, 'pods "a" not found'), 5, ('pods "a" not found', "another replica takes")),
        (status(500, "error dialing backend"), 5, ("error dialing backend",)),
        (
            status(400, "Upgrade request required"),
            9,
            ("speaks no WebSocket", "kubectl -n kubestow-system port-forward pod/a 1001"),
        ),
        (
            lambda: web.Response(status=403, text="<html>blocked by a proxy"),
            9,
            ("HTTP 403: <html>blocked by a proxy", "speaks no WebSocket"),
        ),
        (lambda: web.Response(text="hello"), 9, ("HTTP 200: hello", "speaks no WebSocket")),
        (lambda: web.Response(status=502, text="bad gateway"), 5, ("HTTP 502: bad gateway",)),
    ],
)
def test_a_tunnel_that_is_refused_is_explained(
    cluster: Cluster, ask: Ask, answer: Answer, code: int, texts: tuple[str, ...]
) -> None:
    cluster.upgrade = answer
    found = ask()
    assert (found.code, found.out, cluster.authorizations) == (code, "", [])
    for text in texts:
        assert text in found.err


def test_without_a_kubeconfig_the_message_says_what_is_missing(ask: Ask, tmp_path: Path) -> None:
    found = ask("--kubeconfig", str(tmp_path / "absent"))
    assert (found.code, found.out) == (5, "")
    assert "absent: no such file" in found.err


@pytest.mark.parametrize("lease", ["kubestow", "a/b/c", "/b", "a/", "a/B", "../b", "a.b/c", "a/.."])
def test_a_lease_is_a_namespace_and_a_name(ask: Ask, lease: str) -> None:
    found = ask("--lease", lease)
    assert (found.code, "write NAMESPACE/NAME" in found.err) == (2, True)
