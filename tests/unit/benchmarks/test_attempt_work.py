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
    "plain": 250,
    "unschedulable": 300,
    "hard spread": 385,
    "preferred affinity": 320,
}
"""Calls of each attempt; a few more than there are with Python 3.11. Later versions make fewer."""
MAX_CALLS_IN_A_ROW = 85
"""Of an attempt at a plain pod after an equal one, see `EqualPods`."""


def calls(kind: Kind, *, in_a_row: bool = False) -> float:
    """Python functions called by an attempt at a pod of a known template.

    Before each attempt that is counted, another pod is attempted, unless they come in a row.
    """
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
        for each in pods[ATTEMPTS:]:
            if not in_a_row:
                world.attempt(pod(world, KINDS["plain"], 1))
            sys.setprofile(count)
            try:
                world.attempt(each)
            finally:
                sys.setprofile(before)
    return counted / ATTEMPTS


@pytest.mark.parametrize("name", MAX_CALLS)
def test_an_attempt_calls_no_more_functions_than_before(name: str) -> None:
    made = calls(KINDS[name])
    assert made <= MAX_CALLS[name], f"{made:.0f} calls for each attempt: see the module's docstring"


def test_an_attempt_after_an_equal_pod_calls_a_third_of_them() -> None:
    made = calls(KINDS["plain"], in_a_row=True)
    assert made <= MAX_CALLS_IN_A_ROW, f"{made:.0f} calls: see the module's docstring"
