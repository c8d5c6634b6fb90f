"""Reflectors work in slices: whatever arrives at once, other tasks get their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby

import pytest

from scheduler.api.node import Node
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions
from scheduler.client.reflector import Reflector
from scheduler.client.resources import NODES
from scheduler.client.rest import ApiClient
from tests.integration.client.faulty_server import FaultyServer, bookmark, line, node, until
from tests.unit.client.virtual_clock import InstantClock

NODES_PATH = "/api/v1/nodes"

ONE_BY_ONE = ReflectorOptions(batch_bytes=1, slice_seconds=0.005)


class Handling:
    """A handler that takes its time, beside a task that counts its turns."""

    def __init__(self, clock: InstantClock, seconds_each: float) -> None:
        self._clock = clock
        self._each = seconds_each
        self._turns = 0
        #: Names of the objects in each batch, and how many turns the other task had had by then.
        self.batches: list[tuple[int, list[str]]] = []
        self.relisting: list[bool] = []
        #: The state of `relisting` in each of the other task's turns.
        self.seen: set[bool] = set()
        self.deleted = 0

    def __call__(self, batch: Sequence[Delta[Node]]) -> None:
        self.batches.append((self._turns, [delta.object.name for delta in batch]))
        self.deleted += sum(delta.type is DeltaType.DELETED for delta in batch)
        self._clock.jump(self._each * len(batch))

    async def take_turns(self) -> None:
        while True:
            self._turns += 1
            if self.batches and len(self.names) < 6:
                self.seen.add(self.relisting[-1])
            await asyncio.sleep(0)

    @property
    def names(self) -> list[str]:
        return [name for _, batch in self.batches for name in batch]

    @property
    def slices(self) -> list[list[str]]:
        """Objects that were handled before another task ran."""
        return [
            [name for _, batch in batches for name in batch]
            for _, batches in groupby(self.batches, key=lambda each: each[0])
        ]


@pytest.fixture
async def handling(clock: InstantClock) -> AsyncIterator[Handling]:
    """Each object costs 3 ms."""
    made = Handling(clock, 0.003)
    task = asyncio.create_task(made.take_turns())
    yield made
    task.cancel()


async def follow(
    client: ApiClient, handling: Handling, options: ReflectorOptions, count: int
) -> Reflector[Node]:
    reflector = Reflector(
        client, NODES, handling, options=options, on_relist=handling.relisting.append
    )
    task = asyncio.create_task(reflector.run())
    await until(lambda: len(handling.names) == count and reflector.synced.is_set())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return reflector


SIX = [node(f"n{number}", str(number + 5)) for number in range(6)]
IN_TWOS = [["n0", "n1"], ["n2", "n3"], ["n4", "n5"]]


async def test_a_list(server: FaultyServer, client: ApiClient, handling: Handling) -> None:
    server.on("GET", NODES_PATH, server.page(SIX, version="20"))
    server.on("WATCH", NODES_PATH, server.watch())
    await follow(client, handling, ONE_BY_ONE, 6)
    assert handling.slices == IN_TWOS
    assert handling.seen == {True}, "nothing is scheduled between the slices of a list"


async def test_a_chunk_of_a_watch(
    server: FaultyServer, client: ApiClient, handling: Handling
) -> None:
    server.on("GET", NODES_PATH, server.page([], version="5"))
    chunk = b"".join(line("ADDED", each) for each in SIX) + bookmark("30")
    server.on("WATCH", NODES_PATH, server.watch([chunk]))
    reflector = await follow(client, handling, ONE_BY_ONE, 6)
    assert handling.slices == IN_TWOS
    assert handling.seen == {False}
    assert [each.name for each in reflector.store.list()] == handling.names


async def test_objects_deleted_between_two_watches(
    server: FaultyServer, client: ApiClient, handling: Handling
) -> None:
    many = [node(f"n{number}") for number in range(50)]
    gone = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    server.on("GET", NODES_PATH, server.page(many), server.page([node("n0")], version="9"))
    server.on("WATCH", NODES_PATH, server.watch([gone]), server.watch())
    await follow(client, handling, ReflectorOptions(), 99)
    assert handling.deleted == 49
    assert [len(each) for each in handling.slices[-3:]] == [20, 20, 9]


async def test_a_cut_between_two_slices_resumes_after_the_first(
    server: FaultyServer, client: ApiClient, handling: Handling
) -> None:
    server.on("GET", NODES_PATH, server.page([], version="4"))
    chunk = b"".join(line("ADDED", each) for each in SIX[:3]) + b"garbage\n"
    rest = b"".join(line("ADDED", each) for each in SIX[3:])
    server.on("WATCH", NODES_PATH, server.watch([chunk]), server.watch([rest]))
    await follow(client, handling, ONE_BY_ONE, 6)
    assert [each.query["resourceVersion"] for each in server.requests("WATCH")] == ["4", "7"]


async def test_ordinary_objects_are_one_batch_and_one_slice(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    handling = Handling(clock, 0.0)
    other = asyncio.create_task(handling.take_turns())
    server.on("GET", NODES_PATH, server.page([], version="4"))
    chunk = b"".join(line("ADDED", each) for each in SIX)
    server.on("WATCH", NODES_PATH, server.watch([chunk]))
    await follow(client, handling, ReflectorOptions(), 6)
    other.cancel()
    assert [len(batch) for _, batch in handling.batches] == [6]


async def test_a_batch_ends_with_many_objects_or_large_ones(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    handling = Handling(clock, 0.0)
    large = [node(f"large{number}", text="x" * 60_000) for number in range(5)]
    small = [node(f"small{number}") for number in range(25)]
    server.on("GET", NODES_PATH, server.page([*large, *small]))
    server.on("WATCH", NODES_PATH, server.watch())
    await follow(client, handling, ReflectorOptions(batch_size=10), 30)
    assert [len(batch) for _, batch in handling.batches] == [3, 10, 10, 7]
