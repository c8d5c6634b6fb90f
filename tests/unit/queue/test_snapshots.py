"""A pod of a snapshot comes back with its record, in the sub-queue it was in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.queue import QueueState
from scheduler.queue.snapshots import kept_fields
from tests.unit.queue.doubles import FilterDouble, World, make_pod


def records(world: World) -> dict[str, tuple[QueueState, dict[str, Any]]]:
    return {
        info.pod.metadata.name: (state, kept_fields(info)) for info, state in world.queue.records()
    }


def test_a_queue_is_restored_from_the_records_of_another() -> None:
    before = World(FilterDouble("P"))
    before.rejected(make_pod("rejected"), "P")
    before.add(make_pod("failed"))
    before.fail(before.pop())
    before.add(make_pod("running"))
    before.pop()
    before.add(make_pod("active"))
    after = World(FilterDouble("P"))
    for info, state in before.queue.records():
        after.queue.restore(info.pod, state, kept_fields(info))
    assert records(after) == records(before)
    assert {state for state, _ in records(after).values()} == {
        QueueState.ACTIVE, QueueState.BACKOFF, QueueState.IN_FLIGHT, QueueState.UNSCHEDULABLE,
    }  # fmt: skip
    assert records(after)["rejected"][1]["unschedulable_plugins"] == ["P"]


def test_a_record_with_a_value_of_a_wrong_type_is_refused() -> None:
    world = World()
    with pytest.raises(msgspec.ValidationError, match="attempts"):
        world.queue.restore(make_pod("p"), QueueState.ACTIVE, {"attempts": "many"})
