"""Crowds of objects are read completely, and ordinary pods of other namespaces are bound."""

from __future__ import annotations

import pytest

from devtools.hostile.crowds import CROWDS
from devtools.hostile.world import NODES, hostile_world

MEMBERS = 5


@pytest.mark.slow
@pytest.mark.parametrize("name", CROWDS)
async def test_a_crowd_is_read_and_a_pod_of_another_namespace_is_bound(name: str) -> None:
    crowd = CROWDS[name]
    members = [obj for serial in range(MEMBERS) for obj in crowd.make(serial)]
    async with hostile_world(gates=crowd.gates) as world:
        for each in (*crowd.beside(NODES), *members):
            world.api.create(each)
        await world.settle()
        assert (world.malformed(), world.faults()) == (0, 0)
        for each in members:
            assert each["metadata"]["name"] in world.known(plural_of(each["kind"]))
        if "neighbour" in crowd.pods:
            await world.bind_an_ordinary_pod()
        for kind, make in crowd.pods.items():
            world.api.create(make(kind))
            await world.settle()
        assert (world.malformed(), world.faults()) == (0, 0)


def plural_of(kind: str) -> str:
    """Return the plural of a kind of the crowds."""
    return "storageclasses" if kind == "StorageClass" else f"{kind.lower()}s"
