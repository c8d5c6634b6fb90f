"""Cycles of groups are recorded, and decided again in the same way."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devtools.embedded_service import (
    PROFILE,
    bound_to,
    condition,
    find,
    pod,
    scheduling,
    settled,
    until,
)
from plugins import GangScheduling
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.cli.bundle import redacted
from scheduler.framework.grouping import GroupReservation
from scheduler.groups.terms import TOPOLOGY_REQUIRED
from scheduler.offline.replay import Replay
from scheduler.recording.format import ATTEMPT
from scheduler.recording.reading import open_bundle
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.admission import WriteOptions
from simulator.demos.gang.objects import POD_GROUPS
from simulator.errors import ApiError
from simulator.objects import priority_class
from tests.integration.recording.busy import ZONE, Recording, zone_node

NODES = 6
GANGS = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}


@asynccontextmanager
async def gangs(
    seed: int, *, suspended: bool = False
) -> AsyncIterator[tuple[Wiring, EmbeddedCluster]]:
    """Run a scheduler; `suspended`: each cycle of a large group pauses after every step."""
    async with EmbeddedCluster(controllers=(), seed=seed) as cluster:
        cluster.resources.add(POD_GROUPS)
        for number in range(NODES):
            cluster.create(zone_node(f"node-{number}", f"zone-{number % 3}"))
        cluster.create(priority_class("high", 1000))
        async with scheduling(
            cluster,
            points=GANGS,
            podInitialBackoffSeconds=1,
            podMaxBackoffSeconds=1,
            kubestow={"schedulingTimeSlice": "1us" if suspended else "5ms"},
        ) as wiring:
            yield wiring, cluster


class Workload:
    """Gangs and single pods that come and go."""

    def __init__(self, cluster: EmbeddedCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._live: list[str] = []
        self._nodes = NODES

    async def work(self, steps: int) -> None:
        for _ in range(steps):
            chance, name = (
                self._random.random(),
                f"{len(self._live)}-{self._random.getrandbits(32)}",
            )
            if chance < 0.3:
                self._add_gang(f"gang-{name}")
            elif chance < 0.5:
                self._create(pod(f"single-{name}", self._random.choice(("1", "2"))))
            elif chance < 0.52:
                self._cluster.create(zone_node(f"late-{name}", "zone-1"))
                self._nodes += 1
            elif self._live:
                self._end(self._live.pop(self._random.randrange(len(self._live))))
            await asyncio.sleep(0)

    async def finish(self) -> None:
        """Let all pods end, place a gang, and let another one that needs all nodes preempt it."""
        for name in self._live:
            self._end(name)
        self._add_group("gang-low", 2, {})
        for number in range(2):
            self._add_member("gang-low", pod(f"gang-low-{number}"))
        low = ("gang-low-0", "gang-low-1")
        await until(lambda: all(bound_to(self._cluster, each) for each in low), "a gang")
        self._add_group("gang-high", self._nodes, {})
        for number in range(self._nodes):
            made = pod(f"gang-high-{number}", "4", priorityClassName="high")
            self._add_member("gang-high", made)
        await until(lambda: not any(map(self._runs, low)), "preemption")

    def _runs(self, name: str) -> bool:
        found = find(self._cluster, name)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    def _add_gang(self, name: str) -> None:
        """Create a gang: of one template or two, perhaps with members beyond the minimum."""
        annotations = {TOPOLOGY_REQUIRED: ZONE} if self._random.random() < 0.3 else {}
        minimum = self._random.randint(2, 6)
        self._add_group(name, minimum, annotations)
        spec: dict[str, Any] = {"priorityClassName": "high"} if self._random.random() < 0.3 else {}
        for number in range(minimum + self._random.choice((0, 0, 1, 2))):
            made = pod(f"{name}-{number}", self._random.choice(("1", "1", "2")), **spec)
            self._add_member(name, made)

    def _add_group(self, name: str, minimum: int, annotations: dict[str, str]) -> None:
        self._cluster.create(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"minMember": minimum},
            }
        )

    def _add_member(self, group: str, made: dict[str, Any]) -> None:
        made["metadata"]["labels"] = {POD_GROUP_LABEL: group}
        self._create(made)

    def _create(self, made: dict[str, Any]) -> None:
        self._cluster.create(made)
        self._live.append(made["metadata"]["name"])

    def _end(self, name: str) -> None:
        pods = self._cluster.resources.of_kind("v1", "Pod")
        grace = {"gracePeriodSeconds": 0}
        try:
            self._cluster.api.delete(pods, "default", name, grace, WriteOptions())
        except ApiError:
            # It was a victim of preemption.
            return


async def test_a_reservation_that_changes_without_a_nomination_is_recorded(tmp_path: Path) -> None:
    """The cycle of a group that is placed has withdrawn its nominations before."""
    async with gangs(1) as (wiring, cluster):
        workload = Workload(cluster, 1)
        workload._add_group("held", 1, {})
        workload._add_member("held", pod("held", "99"))
        await until(lambda: condition(cluster, "held"), "an attempt")
        queue, grouping = wiring.scheduling.queue, wiring.scheduling.engine.grouping[PROFILE]
        held = queue.queued((find(cluster, "held") or {})["metadata"]["uid"])
        assert held is not None
        assert isinstance(grouping, GangScheduling)
        recording = Recording(wiring, tmp_path / "gangs.recording")
        await recording.begin()
        for name, kept in [("a", GroupReservation(("node-0",), 1, 0, 2e9)), ("b", None)]:
            grouping.group_reserved(held.pod, kept)
            cluster.create(pod(name, "99"))
            await until(partial(condition, cluster, name), "an attempt")
        await recording.end()
    with Replay.of(recording.path) as replay:
        attempts = [line for line in replay.content.stream() if line.section == ATTEMPT]
    reserved = [msgspec.json.decode(line.data).get("reserved") for line in attempts]
    assert [[len(state) for _, state in each] for each in reserved if each] == [[1], [0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "redact"), [(1, False), (2, False), (3, False), (4, False), (2, True), (4, True)]
)
async def test_cycles_of_groups_are_reproduced(tmp_path: Path, seed: int, redact: bool) -> None:
    # Of odd seeds, as large groups are: between time slices.
    async with gangs(seed, suspended=bool(seed % 2)) as (wiring, cluster):
        # Some have failed, and the scheduler has learnt about their templates, before it begins.
        workload = Workload(cluster, seed)
        await workload.work(60)
        await settled(wiring)
        recording = Recording(wiring, tmp_path / "gangs.recording")
        await recording.begin()
        await workload.work(160)
        await workload.finish()
        await settled(wiring)
        await recording.end()
    assert open_bundle(recording.path).manifest.end == "time-limit"
    if redact:
        with recording.path.open("r+b") as file:
            redacted(open_bundle(recording.path), file)
    with Replay.of(recording.path) as replay:
        found = list(replay.run())
    differing = [each for each in found if each.result != "reproduced"]
    if redact:
        # Domains and members that are alike are tried in the order of their names.
        assert len(differing) < len(found) / 4
        text = gzip.decompress(recording.path.read_bytes()).decode()
        assert re.findall(r"\b(?:node|gang|single)-\d|zone-\d", text) == []
        differing = []
    assert differing == []
    assert [each.seq for each in found] == list(range(1, len(found) + 1))
    kinds = Counter(
        kind
        for each in found
        for kind, applies in {
            "placed": each.recorded.node and (redact or each.pod.startswith("default/gang")),
            "refused": "pod group" in each.recorded.message,
            "preempted": each.recorded.victims,
        }.items()
        if applies
    )
    assert min(kinds[each] for each in ("placed", "refused", "preempted")) > 0, kinds
