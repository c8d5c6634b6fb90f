"""Python function calls of one scheduling attempt: exact, whatever else the machine does.

An attempt at an ordinary pod takes some 90 microseconds, a call of a Python function a tenth of
one, so what is added to each cycle shows here long before it shows on a clock. Where the change is
worth its calls, measure it (`python -m benchmarks.growth --only cycles`) and raise the limit.
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from benchmarks.engine_world import EngineWorld
from benchmarks.growth_workloads import KINDS, Kind, fill, pod
from scheduler.offline.virtual_time import no_collections

NODES = 100
ATTEMPTS = 10
MAX_CALLS = {
    "plain": 350,
    "unschedulable": 270,
    "hard spread": 490,
    "preferred affinity": 430,
}
"""Calls of each attempt; a few more than there are with Python 3.11. Later versions make fewer."""


def calls(kind: Kind) -> float:
    """Python functions called by an attempt at a pod of a known template."""
    world = EngineWorld(NODES)
    fill(world, per_node=2)
    pods = [pod(world, kind) for _ in range(2 * ATTEMPTS)]
    for each in pods[:ATTEMPTS]:
        world.attempt(each)
    counted = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    # Finalizers of what other tests left behind would count as well.
    with no_collections():
        sys.setprofile(count)
        try:
            for each in pods[ATTEMPTS:]:
                world.attempt(each)
        finally:
            sys.setprofile(before)
    return counted / ATTEMPTS


@pytest.mark.parametrize("name", MAX_CALLS)
def test_an_attempt_calls_no_more_functions_than_before(name: str) -> None:
    made = calls(KINDS[name])
    assert made <= MAX_CALLS[name], f"{made:.0f} calls for each attempt: see the module's docstring"
