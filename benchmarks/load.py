"""The load generator: a process of its own, so that its CPU is neither scheduler's.

    python -m benchmarks.load PLAN.json

Carries out the operations of a plan over parallel connections with bodies encoded beforehand, and
writes what it saw to a file. It speaks with the harness in words on standard input and JSON lines
on standard output, at the moments where the harness starts the scheduler or reads CPU times.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import uvloop

from benchmarks import operations as ops
from benchmarks.observer import Observer
from benchmarks.templates import Object, render
from benchmarks.volume_templates import csi_node, volume
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.http.response import Response
from scheduler.client.http.tls import ClientTls, TlsSettings
from scheduler.client.transport import Transport

WORKERS: Final = 30
"""Parallel writers, as upstream's createPods."""

PLURALS: Final = {
    "Node": ("/api/v1", "nodes", False),
    "Namespace": ("/api/v1", "namespaces", False),
    "Pod": ("/api/v1", "pods", True),
    "Service": ("/api/v1", "services", True),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses", False),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices", False),
    "PodGroup": ("/apis/scheduling.k8s.io/v1beta1", "podgroups", True),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes", False),
}
_T = TypeVar("_T")

_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_PATIENCE_SECONDS: Final = 60.0
_ZONE: Final = "topology.kubernetes.io/zone"
_PHASE: Final = b'{"status":{"phase":"Bound"}}'
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404


class Api:
    """The requests of a load generator; counts the objects that it was first to create."""

    def __init__(self, transport: Transport, token: str) -> None:
        self._transport = transport
        common = {"Authorization": f"Bearer {token}", "Accept": _JSON}
        self.headers = HeaderBlock(common)
        self._headers = {
            kind: HeaderBlock({**common, "Content-Type": kind}) for kind in (_JSON, _MERGE)
        }
        self.created: Counter[str] = Counter()

    async def create(self, kind: str, namespace: str, body: bytes, *, fresh: bool = True) -> bool:
        """Create; False where it exists already, which is an error unless `fresh` is False."""
        path = _path(kind, namespace)
        response = await self._send("POST", path, body, _JSON)
        if response.status == _CONFLICT and not fresh:
            return False
        _expect(response, "POST", path)
        if fresh:
            self.created[kind] += 1
        return True

    async def patch(
        self, kind: str, namespace: str, name: str, body: bytes, subresource: str = ""
    ) -> None:
        """Send a merge patch."""
        path = f"{_path(kind, namespace)}/{name}" + (f"/{subresource}" if subresource else "")
        _expect(await self._send("PATCH", path, body, _MERGE), "PATCH", path)

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object that may have been deleted already."""
        path = f"{_path(kind, namespace)}/{name}"
        response = await self._send("DELETE", path, None, "")
        if response.status != _NOT_FOUND:
            _expect(response, "DELETE", path)

    async def _send(self, verb: str, path: str, body: bytes | None, kind: str) -> Response:
        headers = self._headers.get(kind, self.headers)
        request = Request(verb, path, headers, body)
        return await self._transport.exchange(request, _PATIENCE_SECONDS)


def _path(kind: str, namespace: str) -> str:
    root, plural, namespaced = PLURALS[kind]
    return f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"


def _expect(response: Response, method: str, path: str) -> None:
    if response.status not in (200, 201, 202):
        msg = f"{method} {path}: {response.status} {response.body[:300]!r}"
        raise RuntimeError(msg)


class Generator:
    """Carries out one plan."""

    def __init__(self, plan: ops.Plan, transport: Transport) -> None:
        self._plan = plan
        self._api = Api(transport, plan.token)
        self._observer = Observer()
        self._transport = transport
        self._background: list[asyncio.Task[None]] = []
        #: Pods created without waiting and not seen bound by a barrier yet.
        self._owed: list[str] = []
        self._measured: list[str] = []
        self._created: dict[str, float] = {}
        self._created_all = 0.0
        self._scheduler_runs = False

    async def run(self) -> ops.Observed:
        """All operations in order; background work ends with the last."""
        observed: ops.Observed | None = None
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._observer.run(self._transport, self._api.headers))
            opened = cpu = 0.0
            for operation in self._plan.operations:
                if isinstance(operation, ops.OpenWindow):
                    opened, cpu = await self._open()
                elif isinstance(operation, ops.CloseWindow):
                    observed = await self._close(opened, cpu)
                else:
                    await self._perform(operation, tasks)
            for task in [watching, *self._background]:
                task.cancel()
        assert observed is not None, "a workload without a window"
        return observed

    # -- the window ------------------------------------------------------------------------------

    async def _open(self) -> tuple[float, float]:
        await self._start_scheduler()
        _say("open")
        await _barrier("measure")
        return time.monotonic(), time.process_time()

    async def _close(self, opened: float, cpu: float) -> ops.Observed:
        if self._plan.backlog:
            _say("created")
            await _barrier("resume")
        await self._observer.wait(self._measured, "Scheduled")
        closed, spent = time.monotonic(), time.process_time() - cpu
        bound = self._observer.bound
        _say("close")
        await _barrier("end")
        return ops.Observed(
            opened=opened,
            closed=closed,
            created_all=self._created_all,
            created=tuple(self._created[key] for key in self._measured),
            bound=tuple(bound[key] for key in self._measured),
            nodes=tuple(self._observer.nodes[key] for key in self._measured),
            bound_twice=tuple(sorted(self._observer.bound_twice)),
            objects=dict(self._api.created),
            generator_cpu=spent,
        )

    async def _start_scheduler(self) -> None:
        """Before the first pod: the harness starts the scheduler once the nodes are there."""
        if not self._scheduler_runs:
            self._scheduler_runs = True
            _say("start")
            await _barrier("started")

    # -- operations ------------------------------------------------------------------------------

    async def _perform(self, operation: ops.Operation, tasks: asyncio.TaskGroup) -> None:
        match operation:
            case ops.CreateNodes():
                await self._create_nodes(operation)
            case ops.CreateNamespaces():
                names = [f"{operation.prefix}-{i}" for i in range(operation.count)]
                for name in names:
                    await self._ensure_namespace(name, operation.labels)
            case ops.CreatePods():
                await self._create_pods(operation)
            case ops.DeletePods():
                self._spawn(tasks, self._delete_pods(operation))
            case ops.Churn():
                await self._ensure_namespace(operation.namespace)
                self._spawn(tasks, self._churn(operation))
            case ops.Barrier():
                await self._observer.wait(self._owed, operation.stage)
                if operation.stage == "Scheduled":
                    self._owed.clear()
            case ops.CreateAny():
                await self._create_any(operation)
            case ops.UpdateAny():
                await self._update_any(operation)
            case ops.Settle():
                await self._start_scheduler()
                await asyncio.sleep(operation.seconds)

    def _spawn(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        self._background.append(tasks.create_task(work))

    async def _ensure_namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        body = _encode({"metadata": {"name": name, "labels": labels or {}}})
        if not await self._api.create("Namespace", "", body, fresh=False) and labels:
            await self._api.patch("Namespace", "", name, _encode({"metadata": {"labels": labels}}))

    async def _create_nodes(self, operation: ops.CreateNodes) -> None:
        nodes = [render(operation.template, i, operation.count) for i in range(operation.count)]
        for index, node in enumerate(nodes):
            if operation.zones:
                zone = operation.zones[index % len(operation.zones)]
                node["metadata"]["labels"][_ZONE] = zone

        async def create(index: int) -> None:
            node = nodes[index]
            await self._api.create("Node", "", _encode(node))
            if operation.csi_limits:
                record = csi_node(node["metadata"]["name"], operation.csi_limits)
                await self._api.create("CSINode", "", _encode(record))

        await _in_parallel(len(nodes), create)

    async def _create_pods(self, operation: ops.CreatePods) -> None:
        await self._ensure_namespace(operation.namespace)
        await self._start_scheduler()
        for number in range(operation.rounds):
            keys, send = self._prepared(operation, number * operation.count)
            if operation.measured:
                self._measured += keys
            await _in_parallel(len(keys), send)
            if operation.measured:
                self._created_all = time.monotonic()
            if operation.wait and not (operation.measured and self._plan.backlog):
                await self._observer.wait(keys, "Scheduled")
            else:
                self._owed += keys
            if number + 1 < operation.rounds:
                for key in keys:
                    await self._api.delete("Pod", *key.split("/"))

    def _prepared(
        self, operation: ops.CreatePods, first: int
    ) -> tuple[list[str], Callable[[int], Coroutine[Any, Any, None]]]:
        """Keys of the pods, and what creates each of them; every body is ready."""
        keys: list[str] = []
        bodies: list[bytes] = []
        volumes: list[tuple[Object, Object, str]] = []
        for index in range(first, first + operation.count):
            pod = render(operation.template, index, operation.count)
            pod["spec"]["schedulerName"] = self._plan.scheduler
            if operation.volume:
                volumes.append(volume(operation.volume, operation.namespace, index))
                pod["spec"]["volumes"] = [
                    {"name": "data", "persistentVolumeClaim": {"claimName": volumes[-1][2]}}
                ]
            keys.append(f"{operation.namespace}/{pod['metadata']['name']}")
            bodies.append(_encode(pod))

        async def send(index: int) -> None:
            if volumes:
                await self._create_volume(operation.namespace, *volumes[index][:2])
            self._created[keys[index]] = time.monotonic()
            await self._api.create("Pod", operation.namespace, bodies[index])

        return keys, send

    async def _create_volume(self, namespace: str, claim: Object, persistent: Object) -> None:
        for kind, where, record in (
            ("PersistentVolumeClaim", namespace, claim),
            ("PersistentVolume", "", persistent),
        ):
            await self._api.create(kind, where, _encode(record))
            await self._api.patch(kind, where, record["metadata"]["name"], _PHASE, "status")

    async def _delete_pods(self, operation: ops.DeletePods) -> None:
        prefix = f"{operation.namespace}/"
        wanted = render(operation.template, 0, 1)["metadata"]["name"].rstrip("0123456789")
        names = [key.removeprefix(prefix) for key in self._created if key.startswith(prefix)]
        async for name in _paced(
            [name for name in names if name.startswith(wanted)], operation.per_second
        ):
            await self._api.delete("Pod", operation.namespace, name)

    async def _churn(self, operation: ops.Churn) -> None:
        tick = 0
        while True:
            await asyncio.sleep(operation.interval_seconds)
            slot = tick % operation.number if operation.mode == "recreate" else tick
            remove = operation.mode == "recreate" and tick // operation.number % 2 == 1
            for template in operation.templates:
                record = render(template, slot, 1)
                await self._churn_one(operation.namespace, record, remove=remove)
            tick += 1
            if operation.mode == "create" and operation.number and tick >= operation.number:
                return

    async def _churn_one(self, namespace: str, record: Object, *, remove: bool) -> None:
        kind, name = record["kind"], record["metadata"]["name"]
        if remove:
            await self._api.delete(kind, namespace, name)
            return
        if kind == "Pod":
            record["spec"]["schedulerName"] = self._plan.scheduler
        await self._api.create(kind, namespace, _encode(record), fresh=False)

    async def _create_any(self, operation: ops.CreateAny) -> None:
        if operation.namespace:
            await self._ensure_namespace(operation.namespace)
        for index in range(operation.count):
            record = render(operation.template, index, operation.count)
            await self._api.create(record["kind"], operation.namespace, _encode(record))

    async def _update_any(self, operation: ops.UpdateAny) -> None:
        changes = []
        for index in range(operation.count):
            old = render(operation.template, index, operation.count)
            new = render(operation.to, index, operation.count)
            name = old["metadata"]["name"]
            changes.append((old["kind"], name, _encode(merge_patch(old, new))))
        async for kind, name, body in _paced(changes, operation.per_second):
            await self._api.patch(kind, operation.namespace, name, body, operation.subresource)


def merge_patch(old: Object, new: Object) -> Object:
    """The JSON merge patch (RFC 7386) that makes `new` of `old`.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 4}})
    {'b': {'c': 4, 'd': None}}
    """
    patch: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := merge_patch(before, value):
                patch[key] = inner
        elif value != before:
            patch[key] = value
    return patch


async def _in_parallel(count: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Run `work(0)` to `work(count - 1)`, `WORKERS` at a time."""
    pending = iter(range(count))

    async def worker() -> None:
        for index in pending:
            await work(index)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(WORKERS, count)):
            tasks.create_task(worker())


async def _paced(items: Sequence[_T], per_second: float) -> AsyncIterator[_T]:
    """The items, no faster than so many a second."""
    started = time.monotonic()
    for index, item in enumerate(items):
        ahead = index / per_second - (time.monotonic() - started)
        if ahead > 0:
            await asyncio.sleep(ahead)
        yield item


def _encode(value: Object) -> bytes:
    return msgspec.json.encode(value)


def _say(phase: str) -> None:
    print(json.dumps({"phase": phase}), flush=True)


async def _barrier(word: str) -> None:
    """Wait until the harness sends the next command."""
    line = await asyncio.to_thread(sys.stdin.readline)
    if line.strip() != word:
        msg = f"expected {word!r} on standard input, got {line!r}"
        raise RuntimeError(msg)


async def carry_out(plan: ops.Plan) -> ops.Observed:
    """Carry out a plan."""
    tls = ClientTls(TlsSettings(Path(plan.ca) if plan.ca else None))
    # The writers, the watch, and what runs in the background.
    async with Transport(ClientConfiguration(plan.url, tls)) as transport:
        return await Generator(plan, transport).run()


def main() -> None:
    """Entry point."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=ops.Plan)
    observed = uvloop.run(carry_out(plan))
    # A file, because a line of this size does not survive every pipe.
    Path(plan.result).write_bytes(msgspec.json.encode(observed))
    _say("result")


if __name__ == "__main__":
    main()
