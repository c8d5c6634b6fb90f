"""Names of schedulers that are nearly ours: a slip leaves a pod pending, and nobody says why."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import SequenceMatcher
from typing import Final

import structlog

from scheduler.api.pod import Pod
from scheduler.metrics import SchedulerMetrics

_log = structlog.get_logger(__name__)

MAX_NAMES: Final = 1000
"""Names that are remembered; whoever may create pods can write any number of them."""
SIMILAR: Final = 0.8
"""Ratio of `difflib` from which on a name is taken for a slip: about one letter in five."""

_OTHERS: Final = re.compile(r"[^a-z0-9]+")


class MisspeltNames:
    """Counts pods that name almost one of our profiles, and logs each such name once."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        #: The name of ours that each name seems to mean; empty: none.
        self._meant: dict[str, str] = {}

    def look(self, pod: Pod, ours: Collection[str]) -> None:
        """Look at the name that a pending pod of another scheduler has."""
        name = pod.spec.scheduler_name
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


def nearest(name: str, ours: Collection[str]) -> str:
    """Return the name of ours that another one seems to mean, or nothing.

    A name that continues one of ours, or is its beginning, is likely another instance.

    >>> [nearest(each, ["kubestow"]) for each in ("kube-stow", "Kubestow", "kubstow")]
    ['kubestow', 'kubestow', 'kubestow']
    >>> [nearest(each, ["kubestow"]) for each in ("kubestow-canary", "default-scheduler", "kube")]
    ['', '', '']
    """
    plain = _OTHERS.sub("", name.lower())
    for each in sorted(ours):
        own = _OTHERS.sub("", each.lower())
        if plain == own:
            return each
        continues = plain.startswith(own) or own.startswith(plain)
        if not continues and SequenceMatcher(None, plain, own).ratio() >= SIMILAR:
            return each
    return ""
