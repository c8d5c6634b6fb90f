"""Leader election without an API server: one Lease, candidates, and what may go wrong for them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from scheduler.client.errors import (
    ApiError,
    ConnectionFailed,
    RequestTimeout,
    StatusBody,
    StatusCause,
    StatusDetails,
)
from scheduler.client.leader_election import (
    LeaderElectionOptions,
    LeaderElector,
    LeadershipLostError,
)
from tests.unit.client.virtual_clock import ManualClock


class Pulse:
    """A heartbeat whose age the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def age(self) -> float:
        return self.seconds

    def where(self) -> str:
        return "filter (slow.py:7)"


class LeaseStore:
    """One Lease with optimistic concurrency, as the API server keeps it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def write(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(dict(body))
        self.lease.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


class FakeLock:
    """A candidate's connection to the store, with faults: refuse, hang, or lose the response."""

    def __init__(self, store: LeaseStore, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock
        self.fault = ""
        self.calls = 0

    async def _pass(self, verb: str, within: float) -> None:
        self.calls += 1
        await asyncio.sleep(0)
        if self.fault == "refuse":
            raise ConnectionFailed(verb, "/lease", "connection refused", sent=False, refused=True)
        if self.fault.isdigit():
            raise ApiError(verb, "/lease", status=int(self.fault), body=StatusBody())
        if self.fault == "terminating":
            causes = (StatusCause(reason="NamespaceTerminating"),)
            body = StatusBody(details=StatusDetails(causes=causes))
            raise ApiError(verb, "/lease", status=403, body=body)
        if self.fault == "hang":
            await self._clock.sleep(within)
            raise RequestTimeout(verb, "/lease", "timed out", sent=True)

    async def get(self, within: float) -> dict[str, Any] | None:
        await self._pass("GET", within)
        return copy.deepcopy(self._store.lease)

    async def create(self, spec: Mapping[str, Any], within: float) -> dict[str, Any]:
        await self._pass("POST", within)
        if self._store.lease is not None:
            raise ApiError("POST", "/lease", status=409, body=StatusBody(reason="AlreadyExists"))
        return self._respond("POST", self._store.write({"metadata": {"name": "l"}, "spec": spec}))

    async def replace(self, lease: Mapping[str, Any], within: float) -> dict[str, Any]:
        await self._pass("PUT", within)
        current = self._store.lease
        if current is None:
            raise ApiError("PUT", "/lease", status=404, body=StatusBody(reason="NotFound"))
        if lease["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise ApiError("PUT", "/lease", status=409, body=StatusBody(reason="Conflict"))
        return self._respond("PUT", self._store.write(lease))

    def _respond(self, verb: str, lease: dict[str, Any]) -> dict[str, Any]:
        if self.fault == "lose response":
            raise ConnectionFailed(verb, "/lease", "connection reset", sent=True)
        return lease


class Candidate:
    """An elector with its faults, and what it did."""

    def __init__(self, name: str, store: LeaseStore, clock: ManualClock) -> None:
        self.lock = FakeLock(store, clock)
        self.pulse = Pulse()
        self.elector = LeaderElector(
            self.lock,
            LeaderElectionOptions(identity=name),
            clock,
            self.pulse,
            random=Random(name),
        )
        self.led = False
        self.lost: LeadershipLostError | None = None

    async def run(self) -> None:
        try:
            await self.elector.run(self._lead)
        except LeadershipLostError as error:
            self.lost = error

    async def _lead(self) -> None:
        self.led = True
        await asyncio.Event().wait()

    # Methods, because mypy would remember an attribute across an await.
    def has_led(self) -> bool:
        return self.led

    def may_write(self) -> bool:
        return self.elector.fence.allowed()


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for candidate in candidates:
            # Releasing into a hung connection would wait for time that no longer passes.
            candidate.lock.fault = ""
        for task in tasks:
            task.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
