"""Attendance: which plugins take part in an attempt.

A profile has plugins for what few pods ask for, and even to skip a pod takes each of them several
calls. Plugins that can tell by a pod's signature that it does not concern them (`SelectivePlugin`)
are asked once for a signature, and are absent from all attempts at its pods: their PreFilter counts
as Skip, and neither Score nor Reserve call them. The other extension points call them as usual.

The lists without them are kept for each set of absent plugins, of which there are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.engine.plugin_calls import CONCERNS, call
from scheduler.engine.pre_filter import PreFilterSlot, pre_filter_slots
from scheduler.engine.result_cache import CachedResult
from scheduler.framework import CycleState

NOBODY: Final[frozenset[str]] = frozenset()


class Attendance:
    """The plugins of one profile that the signature of a pod selects."""

    def __init__(
        self, plugins: Iterable[Any], pre_filter: Sequence[Any], reserve: tuple[Any, ...]
    ) -> None:
        slots = pre_filter_slots(pre_filter)
        self._selective = tuple(p for p in plugins if callable(getattr(p, "concerns", None)))
        #: PreFilter plugins by the set of absent ones.
        self.pre_filter: dict[frozenset[str], tuple[PreFilterSlot, ...]] = {NOBODY: slots}
        #: The same of Reserve plugins.
        self.reserve: dict[frozenset[str], tuple[Any, ...]] = {NOBODY: reserve}
        #: PreFilter plugins that are not async.
        self.synchronous = tuple(slot for slot in slots if not slot.awaited)
        #: Names of those that are.
        self.asynchronous = frozenset(slot.name for slot in slots if slot.awaited)

    def find_absent(self, entry: CachedResult, pod: Pod, revision: int) -> None:
        """Keep the names of the plugins that the pod's signature does not concern in `entry`.

        They hold until the `revision` of the node table changes. Raises AttemptError when a plugin
        fails.
        """
        absent = frozenset(p.name for p in self._selective if not call(CONCERNS, p, pod))
        if absent not in self.pre_filter:
            slots, reserve = self.pre_filter[NOBODY], self.reserve[NOBODY]
            self.pre_filter[absent] = tuple(s for s in slots if s.name not in absent)
            self.reserve[absent] = tuple(p for p in reserve if p.name not in absent)
        entry.absent, entry.absent_revision = absent, revision
        entry.pre_filter.left = None

    def skip_before(self, last: str, state: CycleState) -> None:
        """Skip only those plugins that came before the one that ended PreFilter.

        They are the absent ones, and those that skipped the pod. Async ones stay as they are: they
        may have run before (`again`).
        """
        names = [slot.name for slot in self.pre_filter[NOBODY]]
        before = names[: names.index(last)]
        state.skip_filter.intersection_update((*before, *self.asynchronous))
        state.skip_filter |= state.absent.intersection(before)
