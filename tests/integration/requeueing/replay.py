"""Replays a row against the real service on an embedded cluster, everything over HTTP.

The scheduling loop runs until every pending pod was rejected and its condition is written, and is
then stopped: pods that the trigger moves stay where the queue put them, and can be counted. When
the loop runs again, it must try exactly those pods.

Invariant: only an event moves a pod. The periodic flush is off, and a stopped loop ends no backoff.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

import aiohttp

from config import FeatureGates
from devtools.embedded_service import PROFILE, settled, until, wire
from devtools.loop_time import LoopClock
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.transport import Transport
from scheduler.queue import PodView, QueueState
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from tests.integration.requeueing.rows import Action, Create, Request, Row, request

NAMESPACE: Final = "default"
HINTS_OFF: Final = {"SchedulerQueueingHints": False}
WOKEN: Final = (QueueState.ACTIVE, QueueState.BACKOFF)
_CONTENT_TYPES: Final = {"PATCH": "application/merge-patch+json"}


def profile_plugins(row: Row) -> dict[str, Any]:
    """Return `plugins` of a profile: those that the row names, and those every profile needs."""
    if not row.plugins:
        return {}
    names = ("PrioritySort", *row.plugins, "DefaultBinder")
    enabled = [{"name": name} for name in names]
    return {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}


class Replay:
    """The replay of one row with a cluster and a scheduler of its own."""

    def __init__(
        self, row: Row, cluster: EmbeddedCluster, wiring: Wiring, session: aiohttp.ClientSession
    ) -> None:
        self.row = row
        self.wiring = wiring
        self._cluster = cluster
        self._session = session

    async def send(self, what: Request) -> None:
        """Send one request; anything but success is an error of the row."""
        method, path, body = what
        headers = {"Content-Type": _CONTENT_TYPES.get(method, "application/json")}
        url = f"{self._cluster.url}{path}"
        async with self._session.request(method, url, json=body, headers=headers) as response:
            assert response.status < 300, f"row {self.row.number}: {what}: {await response.text()}"

    async def perform(self, actions: Iterable[Action]) -> None:
        """Do actions one after the other, each after the scheduler has seen the one before."""
        for action in actions:
            await self.send(request(action, NAMESPACE, PROFILE))
            await self.caught_up()

    async def caught_up(self) -> None:
        """Wait until the scheduler has handled every version of every object it watches."""
        await until(self._is_current, f"row {self.row.number}: all changes handled")

    def _is_current(self) -> bool:
        for reflector in self.wiring.reflectors:
            resource = reflector.resource
            served = self._cluster.resources.find(resource.group, resource.version, resource.plural)
            assert served is not None
            stored = {str(version.rv) for version in self._cluster.store.items(served.table)}
            known = {item.metadata.resource_version for item in reflector.store.list()}
            if stored != known:
                return False
        return True

    @asynccontextmanager
    async def scheduling(self) -> AsyncIterator[None]:
        """Run the scheduling loop inside the context only."""
        loop = asyncio.create_task(self.wiring.scheduling.loop.run(), name="scheduling loop")
        try:
            yield
        finally:
            loop.cancel()
            with suppress(asyncio.CancelledError):
                await loop

    async def reject_all(self) -> None:
        """Create the initial objects and the pending pods; each is tried once and rejected."""
        await self.perform(Create(each) for each in self.row.initial)
        async with self.scheduling():
            await self.perform(Create(each) for each in self.row.pending)
            await until(self._all_unschedulable, f"row {self.row.number}: all pods rejected")
            await settled(self.wiring)
        # The conditions that were written come back as updates of the pods.
        await self.caught_up()
        assert {view.attempts for view in self.views().values()} == {1}
        assert self._all_unschedulable(), "an update of the pod's own status woke it"

    def _all_unschedulable(self) -> bool:
        places = {name: view.place for name, view in self.views().items()}
        return places == dict.fromkeys(self.row.pod_names, QueueState.UNSCHEDULABLE)

    def views(self) -> Mapping[str, PodView]:
        """Return the queue's record of each pod that is not bound."""
        return {view.name: view for view in self.wiring.scheduling.queue.views()}

    def woken(self) -> frozenset[str]:
        """Return the pods that are no longer unschedulable and wait for another attempt."""
        return frozenset(name for name, view in self.views().items() if view.place in WOKEN)

    async def try_woken(self, woken: Iterable[str]) -> None:
        """Schedule again: each moved pod gets another attempt or is bound, and none is lost."""
        async with self.scheduling():
            await until(lambda: not self._untried(woken), f"row {self.row.number}: retried")
            await settled(self.wiring)
            await self.caught_up()
            lost = set(self.row.pod_names) - self._placed() - set(self.views())
            assert not lost, f"row {self.row.number}: the queue has lost {lost}"

    def _placed(self) -> set[str]:
        """Return pods with a node, or with one chosen where a volume must be provisioned first."""
        return {
            version.name
            for version in self._cluster.store.items("pods")
            if version.obj["spec"].get("nodeName")
            or self.wiring.state.cache.is_assumed(version.obj["metadata"]["uid"])
        }

    def _untried(self, woken: Iterable[str]) -> list[str]:
        views = self.views()
        return [name for name in woken if name in views and views[name].attempts == 1]


@asynccontextmanager
async def replaying(row: Row, feature_gates: Mapping[str, bool]) -> AsyncIterator[Replay]:
    """Start a cluster and a synced scheduler whose loop does not run yet."""
    options = RunOptions(
        pod_max_in_unschedulable_pods=timedelta(0),
        feature_gates=FeatureGates({**row.feature_gates, **feature_gates}),
    )
    document = {
        "points": profile_plugins(row),
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
    }
    async with (
        EmbeddedCluster(controllers=(), seed=1) as cluster,
        aiohttp.ClientSession() as session,
        Transport(ClientConfiguration(server=cluster.url)) as transport,
    ):
        wiring = wire(transport, (), document, options=options, clock=LoopClock(cluster))
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(each.run()) for each in wiring.reflectors
        ]
        tasks += [
            asyncio.create_task(part.run())
            for part in (wiring.connections.recorder, wiring.connections.dispatcher)
        ]
        try:
            for reflector in wiring.reflectors:
                await reflector.synced.wait()
            wiring.state.subscriptions.publish_synced()
            yield Replay(row, cluster, wiring, session)
            wiring.state.cache.validate()
            wiring.scheduling.queue.validate()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def check_rejections(replay: Replay) -> None:
    row = replay.row
    for name, view in replay.views().items():
        rejectors = frozenset(view.unschedulable_plugins) | frozenset(view.pending_plugins)
        expected = row.rejected_by.get(name)
        if expected is None:
            assert rejectors, f"row {row.number}: no plugin rejected {name}"
            assert rejectors <= set(row.plugins), f"row {row.number}: {name}"
        else:
            assert rejectors == expected, f"row {row.number}: {name}"


async def woken_by(row: Row, feature_gates: Mapping[str, bool]) -> frozenset[str]:
    """Replay a row to its end; return the pods that its trigger moved."""
    async with replaying(row, feature_gates) as replay:
        await replay.reject_all()
        check_rejections(replay)
        await replay.perform(row.trigger)
        woken = replay.woken()
        replay.wiring.scheduling.queue.validate()
        assert replay.wiring.scheduling.queue.statistics().in_flight_events == 0
        await replay.try_woken(woken)
    return woken
