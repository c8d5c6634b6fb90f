"""HostileWorld: the whole scheduler in this process over a `MemoryApi`.

async with hostile_world() as world:
    world.api.create(case.object())
    await world.settle()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from config import FeatureGates
from devtools.embedded_service import running, sample, until, wire
from devtools.hostile.case import JsonObject
from devtools.hostile.memory_api import MemoryApi
from devtools.hostile.templates import namespace, node, pod
from devtools.hostile.work import WorkCount
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring

NODES: Final = 20
ORDINARY: Final = "tenant"
"""The namespace of ordinary pods."""


class HostileWorld:
    """A scheduler and what it sees, with as much as tests ask of both."""

    def __init__(self, api: MemoryApi, wiring: Wiring) -> None:
        self.api = api
        self.wiring = wiring
        self.work = WorkCount()
        self._serial = count()

    async def settle(self) -> None:
        """Wait until every change has been read and handled, and nothing is being written."""
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0)
            with self.work.paused():
                quiet = quiet + 1 if self._quiet() else 0

    def _quiet(self) -> bool:
        wiring = self.wiring
        writes = wiring.connections.dispatcher.statistics()
        lanes = (writes.bind, writes.status, writes.event)
        events = wiring.connections.recorder.statistics()
        return (
            self.api.delivered
            and not wiring.scheduling.queue.statistics().active
            and not wiring.scheduling.queue.statistics().in_flight
            and not wiring.state.slots.taken
            and not writes.settling
            and not any(lane.waiting or lane.in_flight for lane in lanes)
            and not events.waiting
        )

    async def bind_an_ordinary_pod(self) -> str:
        """Create a pod that fits anywhere, wait for its node, and delete it."""
        made = pod(f"ordinary-{next(self._serial)}")
        made["metadata"]["namespace"] = ORDINARY
        key = self.api.create(made)
        await until(lambda: self.api.node_of(key), "the ordinary pod is bound")
        self.api.delete(made)
        await self.settle()
        return key

    def known(self, plural: str) -> set[str]:
        """Names of what the store of a kind holds."""
        return {each.metadata.name for each in self.wiring.state.listers[plural].list()}

    def watches(self, plural: str) -> bool:
        """Whether this scheduler follows a kind."""
        return any(each.resource.plural == plural for each in self.wiring.reflectors)

    def malformed(self) -> float:
        """Return the number of skipped objects."""
        return sample(self.wiring, "kubestow_malformed_objects_total")

    def faults(self) -> float:
        """Return the number of handlers and hints that raised."""
        return sample(self.wiring, "kubestow_handler_errors_total") + sample(
            self.wiring, "kubestow_queueing_hint_errors_total"
        )


@asynccontextmanager
async def hostile_world(
    *present: JsonObject, nodes: int = NODES, gates: Mapping[str, bool] | None = None
) -> AsyncIterator[HostileWorld]:
    """Run a scheduler that finds nodes, two namespaces, and what is `present` already."""
    api = MemoryApi()
    found: Iterable[JsonObject] = (
        namespace("hostile"),
        namespace(ORDINARY),
        *(node(f"node-{number}") for number in range(nodes)),
        *present,
    )
    for obj in found:
        api.create(obj)
    options = RunOptions(feature_gates=FeatureGates(gates or {}))
    async with running(wire(api, options=options)) as wiring:
        world = HostileWorld(api, wiring)
        plurals = [each.resource.plural for each in wiring.reflectors]
        await until(lambda: all(map(api.watched, plurals)), "all watches are open")
        await world.settle()
        yield world
