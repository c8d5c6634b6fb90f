"""The load generator and observer: a process of its own, so that its CPU is neither scheduler's.

    python -m benchmarks.load PLAN.json

Creates what the plan says with pre-encoded bodies over parallel connections, watches pods on one
connection opened before anything is created, and prints one JSON document with the times it saw.
The watch is not decoded: a line is searched for the few bytes that say which pod got a node.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from benchmarks.workloads import INIT_NAMESPACE, MEASURED_NAMESPACE, node_body, pod_body

WORKERS: Final = 30
"""Parallel writers, as upstream's createPods."""

TIMEOUT_SECONDS: Final = 600.0


class Observer:
    """Follows all pods; knows when each of a namespace got a node."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.nodes: dict[str, str] = {}
        self._wanted = 0
        self._prefix = ""
        self._reached = asyncio.Event()
        self._version = "0"

    def expect(self, namespace: str, count: int) -> None:
        """Begin to count pods of `namespace`."""
        self._prefix = f"{namespace}/"
        self._wanted = count
        self._reached.clear()

    async def reached(self) -> None:
        """Wait until as many pods are bound as expected."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._reached.wait()
        except TimeoutError:
            msg = f"{self._wanted} pods of {self._prefix} still unbound after {TIMEOUT_SECONDS} s"
            raise RuntimeError(msg) from None

    async def run(self, session: aiohttp.ClientSession, url: str) -> None:
        """Watch until cancelled.

        The API server drops a watcher that falls behind: go on where it was.
        """
        while True:
            query = f"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
            async with session.get(url + query) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    now = time.monotonic()
                    lines = (rest + chunk).split(b"\n")
                    rest = lines.pop()
                    for line in lines:
                        self._line(line, now)

    def _line(self, line: bytes, now: float) -> None:
        self._version = _text_after(line, b'"resourceVersion":"') or self._version
        node = _text_after(line, b'"nodeName":"')
        if node is None or line.startswith(b'{"type":"DELETED"'):
            return
        name = _text_after(line, b'"metadata":{"name":"')
        namespace = _text_after(line, b'"namespace":"')
        key = f"{namespace}/{name}"
        if key in self.bound or not key.startswith(self._prefix):
            return
        self.bound[key] = now
        self.nodes[key] = node
        self._wanted -= 1
        if self._wanted <= 0:
            self._reached.set()


def _text_after(line: bytes, marker: bytes) -> str | None:
    start = line.find(marker)
    if start < 0:
        return None
    start += len(marker)
    return line[start : line.index(b'"', start)].decode()


class Generator:
    """Sends creations over parallel connections."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def create_all(
        self,
        path: str,
        bodies: Sequence[bytes],
        sent: Callable[[int, float], None] | None = None,
    ) -> None:
        """POST every body to `path`, `WORKERS` at a time; `sent(index, time)` before each."""
        pending = iter(enumerate(bodies))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(WORKERS, len(bodies))):
                tasks.create_task(self._worker(path, pending, sent))

    async def _worker(
        self,
        path: str,
        pending: Iterable[tuple[int, bytes]],
        sent: Callable[[int, float], None] | None,
    ) -> None:
        headers = {"Content-Type": "application/json"}
        for index, body in pending:
            if sent is not None:
                sent(index, time.monotonic())
            async with self._session.post(self._url + path, data=body, headers=headers) as answer:
                text = await answer.read()
                if answer.status not in (200, 201):
                    msg = f"POST {path}: {answer.status} {text[:300]!r}"
                    raise RuntimeError(msg)


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Carry out a plan; returns times of creation and binding by pod."""
    context = ssl.create_default_context(cafile=plan["ca"])
    headers = {"Authorization": f"Bearer {plan['token']}", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(ssl=context, limit=WORKERS + 2)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=timeout, auto_decompress=False
    ) as session:
        return await _phases(plan, session)


async def _phases(plan: dict[str, Any], session: aiohttp.ClientSession) -> dict[str, Any]:
    observer, generator = Observer(), Generator(session, plan["url"])
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(observer.run(session, plan["url"]), name="pod watch")
        result = await _steps(plan, observer, generator)
        watching.cancel()
    return result


async def _steps(plan: dict[str, Any], observer: Observer, generator: Generator) -> dict[str, Any]:
    """Nodes, init pods, measured pods, with the harness's word between them."""
    for namespace in (INIT_NAMESPACE, MEASURED_NAMESPACE):
        body = json.dumps({"metadata": {"name": namespace}}).encode()
        await generator.create_all("/api/v1/namespaces", [body])
    await generator.create_all("/api/v1/nodes", [node_body(i) for i in range(plan["nodes"])])
    _say("nodes")
    await _barrier("start")
    if plan["init_pods"]:
        observer.expect(INIT_NAMESPACE, plan["init_pods"])
        await generator.create_all(
            f"/api/v1/namespaces/{INIT_NAMESPACE}/pods",
            [pod_body(i, INIT_NAMESPACE, plan["scheduler"]) for i in range(plan["init_pods"])],
        )
        await observer.reached()
    _say("init")
    await _barrier("measure")
    return await _measure(plan, observer, generator)


async def _measure(
    plan: dict[str, Any], observer: Observer, generator: Generator
) -> dict[str, Any]:
    count = plan["measured_pods"]
    bodies = [pod_body(i, MEASURED_NAMESPACE, plan["scheduler"]) for i in range(count)]
    created = [0.0] * count

    def note(index: int, now: float) -> None:
        created[index] = now

    observer.expect(MEASURED_NAMESPACE, count)
    cpu, started = time.process_time(), time.monotonic()
    await generator.create_all(f"/api/v1/namespaces/{MEASURED_NAMESPACE}/pods", bodies, note)
    created_all = time.monotonic()
    _say("created")
    await observer.reached()
    bound = [observer.bound[f"{MEASURED_NAMESPACE}/pod-{i:06d}"] for i in range(count)]
    return {
        "started": started,
        "created_all": created_all,
        "created": created,
        "bound": bound,
        "nodes": list(observer.nodes.values()),
        "generator_cpu": time.process_time() - cpu,
    }


def _say(phase: str) -> None:
    print(json.dumps({"phase": phase}), flush=True)


async def _barrier(word: str) -> None:
    """Wait until the harness says go on."""
    line = await asyncio.to_thread(sys.stdin.readline)
    if line.strip() != word:
        msg = f"expected {word!r} on standard input, got {line!r}"
        raise RuntimeError(msg)


def main() -> None:
    """Entry point."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    result = uvloop.run(run(plan))
    # A file, because a line of this size does not survive every pipe.
    Path(plan["result"]).write_text(json.dumps(result))
    _say("result")


if __name__ == "__main__":
    main()
