"""A leader that ended between the binds of a gang leaves the rest to the next one."""

from __future__ import annotations

import pytest

from devtools.embedded_service import add_gang, bind, bound_to, node, scheduling, until
from simulator import EmbeddedCluster
from simulator.demos.gang.objects import POD_GROUPS

GANGS = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}


@pytest.mark.parametrize("bound", range(1, 6))
async def test_the_rest_is_placed_before_another_gang(bound: int) -> None:
    async with EmbeddedCluster(controllers=()) as cluster:
        cluster.resources.add(POD_GROUPS)
        for number in range(3):
            cluster.create(node(f"n{number}"))
        # It comes first in lists, and would fit into the room that is left.
        rival = add_gang(cluster, "a-rival", 6 - bound)
        half = add_gang(cluster, "half", 6)
        for number in range(bound):
            bind(cluster, half[number], f"n{number % 3}")
        async with scheduling(cluster, points=GANGS):
            await until(lambda: all(bound_to(cluster, each) for each in half), "the gang is whole")
        assert not any(bound_to(cluster, each) for each in rival)
