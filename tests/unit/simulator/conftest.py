"""An API without HTTP, in time that stands still."""

from __future__ import annotations

import random

import pytest

from simulator.api import Api
from simulator.clock import SimClock
from simulator.store import Store
from simulator.strategies import Surroundings
from tests.unit.simulator.objects import START, namespace


@pytest.fixture
def clock() -> SimClock:
    return SimClock(start=START, rate=0, source=lambda: 0.0)


@pytest.fixture
def api(clock: SimClock) -> Api:
    made = Api(
        store := Store(),
        Surroundings(store, clock, "stock", {}),
        random_source=random.Random(1),
    )
    made.create(made.resources.of_kind("v1", "Namespace"), "", namespace("default"))
    return made
