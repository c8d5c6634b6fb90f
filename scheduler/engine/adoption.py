"""Adoption of a placement that was decided elsewhere, for replays.

A method of the engine but for the length of its file.
"""

from __future__ import annotations

from contextlib import suppress

from scheduler.engine.attempt import Attempt
from scheduler.engine.engine import Engine
from scheduler.engine.errors import AttemptError
from scheduler.engine.recheck import filter_assumed
from scheduler.engine.schedule_one import ScheduleResult
from scheduler.framework import QueuedPodInfo


def adopt(engine: Engine, info: QueuedPodInfo, node_name: str) -> Attempt:
    """Assume and reserve a pod on a node that was chosen elsewhere; return its attempt.

    No extension point is asked whether the pod fits; PreFilter and Filter run only for what Reserve
    reads of their results. A plugin that fails here reserves nothing.

    Raises:
        CacheError: the pod is placed already.
        LookupError: no profile is for the pod.
    """
    attempt = engine._begin(info)  # noqa: SLF001
    table = engine.cache.table
    row = table.row_of(node_name)
    attempt.pod = engine.cache.assume_pod(info.pod, node_name)
    attempt.result = ScheduleResult(node_name, -1 if row is None else row, 0, 0)
    engine._nominator.delete_nominated_pod_if_exists(attempt.pod)  # noqa: SLF001
    # As in a trial, so that no plugin takes the check for an attempt.
    attempt.state.info = None
    with suppress(AttemptError):
        filter_assumed(attempt.framework, table, info.pod, attempt.pod, attempt.state, keep=True)
        attempt.state.info = info
        engine._reserve(attempt)  # noqa: SLF001
    attempt.state.info = info
    return attempt
