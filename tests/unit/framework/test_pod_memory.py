"""The memory of a plugin about a pod lasts over attempts; a trial leaves no trace in it."""

from __future__ import annotations

from scheduler.api import ObjectMeta, Pod
from scheduler.framework import CycleState, QueuedPodInfo


def queued() -> QueuedPodInfo:
    return QueuedPodInfo(Pod(metadata=ObjectMeta(name="p")), timestamp=0.0)


def test_it_survives_attempts() -> None:
    info = queued()
    CycleState(info=info).pod_memory("P", list[int]).append(1)
    assert CycleState(info=info).pod_memory("P", list[int]) == [1]


def test_plugins_do_not_share_it() -> None:
    state = CycleState(info=queued())
    state.pod_memory("P", list[int]).append(1)
    assert state.pod_memory("Q", list[int]) == []


def test_each_pod_has_its_own() -> None:
    CycleState(info=queued()).pod_memory("P", list[int]).append(1)
    assert CycleState(info=queued()).pod_memory("P", list[int]) == []


def test_a_trial_has_one_for_itself() -> None:
    state = CycleState()
    state.pod_memory("P", list[int]).append(1)
    assert state.pod_memory("P", list[int]) == [1]
    assert CycleState().pod_memory("P", list[int]) == []
