"""No pod is forgotten: whatever makes a rejected pod schedulable brings it back from the queue.

The queue of the world decides, with all in-tree plugins, their real hints, keys and gates. After
each change everything that was moved is tried; then no pod that still waits for an event may fit on
a node, or pass the gate that holds it.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import offline
from tests.unit.plugins.forgotten_pods.changes import apply
from tests.unit.plugins.forgotten_pods.forgotten import forgotten
from tests.unit.plugins.forgotten_pods.making import BEGINNING, FOCI, Maker

EXAMPLES = 10 if settings.default is None or settings.default.derandomize else 2_000
"""Worlds: few in the gate, many with `HYPOTHESIS_PROFILE=explore`."""


@pytest.mark.parametrize("focus", FOCI)
@settings(max_examples=EXAMPLES)
@given(numbers=st.lists(st.integers(0, 2**32), min_size=10, max_size=40))
def test_whatever_helps_a_pod_wakes_it(focus: str, numbers: list[int]) -> None:
    makers = [Maker(number) for number in numbers if number]
    with offline.World() as world:
        for change in BEGINNING:
            apply(world, change)
        for maker in makers:
            apply(world, maker.change(focus))
            pause = maker.pause()
            if pause is not None and maker is not makers[-1]:
                world.run(until=world.now + pause)
                continue
            world.schedule()
            assert list(forgotten(world)) == []
