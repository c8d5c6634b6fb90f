"""Attendance: which plugins of a profile take part in the attempts at a pod signature.

Many plugins handle features that few pods use, and even skipping a pod costs several calls each. A
`SelectivePlugin` decides by the signature whether it concerns the pod. It is called once per
signature, and if not concerned it is *absent* from all attempts at such pods: its PreFilter counts
as Skip, and Score and Reserve do not call it. Other extension points call it as usual.

The lists of plugins are kept for each set of absent plugins; there are few such sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.engine.plugin_calls import CONCERNS, call
from scheduler.engine.plugin_slots import PreFilterSlot, pre_filter_slots
from scheduler.engine.result_cache import CachedResult
from scheduler.framework import CycleState

NOBODY: Final[frozenset[str]] = frozenset()


class Attendance:
    """The plugins of one profile that run for pods, by set of absent plugins."""

    def __init__(
        self, plugins: Iterable[Any], pre_filter: Sequence[Any], reserve: tuple[Any, ...]
    ) -> None:
        slots = pre_filter_slots(pre_filter)
        self._selective = tuple(p for p in plugins if callable(getattr(p, "concerns", None)))
        #: PreFilter plugins to run, by set of absent plugins.
        self.pre_filter: dict[frozenset[str], tuple[PreFilterSlot, ...]] = {NOBODY: slots}
        #: Reserve plugins to run, by set of absent plugins.
        self.reserve: dict[frozenset[str], tuple[Any, ...]] = {NOBODY: reserve}
        #: The synchronous PreFilter plugins.
        self.synchronous = tuple(slot for slot in slots if not slot.awaited)
        #: Names of the async PreFilter plugins.
        self.asynchronous = frozenset(slot.name for slot in slots if slot.awaited)

    def find_absent(self, entry: CachedResult, pod: Pod, revision: int) -> None:
        """Store in `entry` which plugins are absent for the pod's signature.

        This stays valid until the `revision` of the node table changes. Raises AttemptError if a
        plugin fails.
        """
        absent = frozenset(p.name for p in self._selective if not call(CONCERNS, p, pod))
        if absent not in self.pre_filter:
            slots, reserve = self.pre_filter[NOBODY], self.reserve[NOBODY]
            self.pre_filter[absent] = tuple(s for s in slots if s.name not in absent)
            self.reserve[absent] = tuple(p for p in reserve if p.name not in absent)
        entry.absent, entry.absent_revision = absent, revision
        entry.pre_filter.left = None

    def skip_before(self, last: str, state: CycleState) -> None:
        """Limit `state.skip_filter` to plugins before `last`, the plugin that ended PreFilter.

        These are the absent plugins and those that returned Skip. Async plugins are left as they
        are, because they may have run in an earlier PreFilter (`again`).
        """
        names = [slot.name for slot in self.pre_filter[NOBODY]]
        before = names[: names.index(last)]
        state.skip_filter.intersection_update((*before, *self.asynchronous))
        state.skip_filter |= state.absent.intersection(before)
