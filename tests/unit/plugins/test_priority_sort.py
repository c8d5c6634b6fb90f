"""PrioritySort: upstream's `priority_sort.go`."""

from __future__ import annotations

import pytest

from plugins import PrioritySort
from scheduler.framework import QueuedPodInfo
from tests.unit.plugins.clusters import Cluster, pod


@pytest.mark.parametrize(
    ("one", "other", "before"),
    [
        pytest.param((2, 9.0), (1, 1.0), True, id="higher priority first regardless of age"),
        pytest.param((1, 1.0), (1, 2.0), True, id="equal priority, older first"),
        pytest.param((1, 1.0), (1, 1.0), False, id="equal in both, neither is first"),
        pytest.param((1, 2.0), (2, 3.0), False, id="lower priority, older, later"),
        pytest.param((None, 1.0), (0, 1.0), False, id="no priority is priority 0"),
        pytest.param((0, 1.0), (-5, 0.0), True, id="negative priorities are below none"),
    ],
)
def test_order(
    one: tuple[int | None, float], other: tuple[int | None, float], before: bool
) -> None:
    plugin = PrioritySort(None, Cluster().handle())

    def key(priority: int | None, timestamp: float) -> tuple[int, float]:
        spec = {} if priority is None else {"priority": priority}
        return plugin.sort_key(QueuedPodInfo(pod(spec), timestamp))

    assert (key(*one) < key(*other)) is before
