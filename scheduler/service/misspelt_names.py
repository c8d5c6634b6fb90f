"""Names of schedulers that are nearly ours: a slip leaves a pod pending, and nobody says why."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import structlog

from scheduler.api.pod import Pod
from scheduler.api.scheduler_names import MAX_LENGTH, nearest
from scheduler.metrics import SchedulerMetrics

_log = structlog.get_logger(__name__)

MAX_NAMES: Final = 1000
"""Names that are remembered; whoever may create pods can write any number of them."""


class MisspeltNames:
    """Counts pods that name almost one of our profiles, and logs each such name once."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        #: The name of ours that each name seems to mean; empty: none.
        self._meant: dict[str, str] = {}

    def look(self, pod: Pod, ours: Collection[str]) -> None:
        """Look at the name that a pending pod of another scheduler has."""
        name = pod.spec.scheduler_name
        if len(name) > MAX_LENGTH:
            return
        meant = self._meant.get(name)
        first = meant is None
        if meant is None:
            if len(self._meant) >= MAX_NAMES:
                self._meant.clear()
            meant = self._meant[name] = nearest(name, ours)
        if not meant:
            return
        self._metrics.misspelt_scheduler()
        if first:
            _log.warning(
                "a pod names a scheduler that is nearly this one: is that a slip?",
                pod=pod.key, scheduler_name=name, nearest=meant,
            )  # fmt: skip

    def forget(self) -> None:
        """Forget all names, since ours have changed."""
        self._meant.clear()
