"""A leader that ended between the binds of a gang leaves the rest to the next one."""

from __future__ import annotations

import pytest

from devtools.embedded_service import bind, bound_to, node, pod, scheduling, until
from scheduler.api.pod_groups import POD_GROUP_LABEL
from simulator import EmbeddedCluster
from simulator.demos.gang.objects import POD_GROUPS
from simulator.demos.gang.objects import group as pod_group

GANGS = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}


def add_gang(cluster: EmbeddedCluster, name: str, members: int) -> list[str]:
    """Create a PodGroup that needs all of its members, of 2 CPU each; return their names."""
    cluster.create(pod_group(name, members))
    names = [f"{name}-{number}" for number in range(members)]
    for each in names:
        made = pod(each, "2")
        made["metadata"]["labels"] = {POD_GROUP_LABEL: name}
        cluster.create(made)
    return names


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
