"""Adoption of a placement that was decided elsewhere, for replays.

It uses private methods of `Engine`; it is a function only to keep `engine.py` short.
"""

from __future__ import annotations

from contextlib import suppress

from scheduler.engine.engine import Engine
from scheduler.engine.errors import AttemptError
from scheduler.engine.recheck import filter_assumed
from scheduler.engine.schedule_one import Attempt, ScheduleResult
from scheduler.framework import QueuedPodInfo


def adopt(engine: Engine, info: QueuedPodInfo, node_name: str) -> Attempt:
    """Assume a pod on a node that was chosen elsewhere, and run Reserve; return its attempt.

    The pod need not fit: PreFilter and Filter run only because Reserve may read their results. An
    error of a plugin is ignored: Reserve then does not run, or ends early.

    Raises:
        CacheError: the pod already has a node.
        LookupError: the pod's schedulerName is no profile.
    """
    attempt = engine._begin(info)  # noqa: SLF001
    table = engine.cache.table
    row = table.row_of(node_name)
    attempt.pod = engine.cache.assume_pod(info.pod, node_name)
    attempt.result = ScheduleResult(node_name, -1 if row is None else row, 0, 0)
    engine._nominator.delete_nominated_pod_if_exists(attempt.pod)  # noqa: SLF001
    # As in a trial, so that plugins do not take this check for an attempt at the pod.
    attempt.state.info = None
    with suppress(AttemptError):
        filter_assumed(attempt.framework, table, info.pod, attempt.pod, attempt.state, keep=True)
        attempt.state.info = info
        engine._reserve(attempt)  # noqa: SLF001
    attempt.state.info = info
    return attempt
