"""WaitingGroups: groups that certainly do not fit, until a change after which they may.

If all nodes together have too little room for a group, it does not wait for events of plugins.
Instead, the bound of its templates is compared with its need after events (`TemplateCapacities`).
As long as the bound is too low, no hint is evaluated, no member is moved, and no cycle runs. For
any number of waiting groups an event costs one operation on the changed nodes.

One member represents the group among the unschedulable pods. Invariant: a group is kept here only
while that member waits there; if anything else moves the member, the group is tried anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.engine.template_capacity import GroupBound, Template, TemplateCapacities
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.queue import QueueState, SchedulingQueue

CAPACITY_CHANGE: Final = "GroupCapacityChange"
"""Label of the event that requeues a group, in metrics and outputs."""

FIRST_LOOK_THROUGH: Final = 64
"""Number of waiting groups at which deleted ones are pruned for the first time; then at twice the
number that was left."""

LOOK_AGAIN_SECONDS: Final = 1.0
"""Seconds after which a group that waits for the cycle of a woken group is checked again, in case
the latter was deleted before its cycle."""


@dataclass(slots=True, eq=False)
class _Waiting:
    info: QueuedPodInfo
    #: The plugin that groups its members.
    plugin: str
    bound: GroupBound

    @property
    def templates(self) -> list[Template]:
        """The templates of its members."""
        return [template for _, template, _ in self.bound.parts]


class WaitingGroups:
    """Implements `framework.TimedWork`."""

    def __init__(self, queue: SchedulingQueue, clock: Clock) -> None:
        self.on_timer: Callable[[], None] = lambda: None
        #: Called after events while groups wait, before any group is woken.
        self.on_look: Callable[[], None] = lambda: None
        self._queue = queue
        self._clock = clock
        #: Waiting groups by UID of the member that represents the group.
        self._waiting: dict[str, _Waiting] = {}
        #: The same in order; None if it must be sorted again.
        self._ordered: list[tuple[str, _Waiting]] | None = None
        #: Number of groups at which deleted ones are pruned.
        self._look_through_at = FIRST_LOOK_THROUGH
        #: The capacities that the groups use, with the number of uses.
        self._capacities: Counter[TemplateCapacities] = Counter()
        #: Groups that were woken and not tried yet, to which room is promised.
        self._awake: dict[str, _Waiting] = {}
        self._changed = False
        #: Time of a check without an event; None: no group waits for a woken one.
        self._look_again: float | None = None
        #: Since the start: checks of all bounds, groups woken, and groups kept waiting by a check.
        self.checks = self.woken = self.kept = 0

    def __len__(self) -> int:
        return len(self._waiting)

    # -- groups ----------------------------------------------------------------------------------

    def wait(self, info: QueuedPodInfo, plugin: str, bound: GroupBound) -> None:
        """Keep a group waiting until its bound is high enough; `info` represents it."""
        if len(self._waiting) >= self._look_through_at:
            self._forget_gone()
        self._waiting[info.uid] = waiting = _Waiting(info, plugin, bound)
        self._hold(waiting, 1)
        self._queue.signals.on_event = self._note_event

    def _forget_gone(self) -> None:
        """Drop groups that disappeared without an event, because all their pods were deleted."""
        state = self._queue.state
        for uid in [uid for uid in self._waiting if state(uid) is not QueueState.UNSCHEDULABLE]:
            self._drop(uid)
        self._look_through_at = max(FIRST_LOOK_THROUGH, 2 * len(self._waiting))

    def tried(self, uids: Iterable[str]) -> None:
        """Drop the group of these members, because its cycle begins."""
        if not self._waiting and not self._awake:
            return
        for uid in uids:
            if uid in self._waiting:
                self._drop(uid)
            elif self._awake.pop(uid, None) is not None:
                # Room that it does not take can be promised to other groups.
                self._note_event()

    def bound_of(self, uids: Iterable[str]) -> GroupBound | None:
        """Return the bound for which the group of these members waits, or None."""
        found = next((self._waiting[uid] for uid in uids if uid in self._waiting), None)
        return None if found is None else found.bound

    def _note_event(self) -> None:
        if not self._changed:
            self._changed = True
            self.on_timer()

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return a time in the past if there was an event since the last check."""
        return self._clock.monotonic() if self._changed else self._look_again

    def run_due(self) -> None:
        """Wake the groups that may fit since the last events.

        Groups of different templates are woken one at a time, since the first may take all room.
        """
        self._changed, self._look_again = False, None
        if not self._waiting:
            self._queue.signals.on_event = None
            return
        self.checks += 1
        self.on_look()
        for capacities in list(self._capacities):
            capacities.refresh()
        promised, state = self._promised(), self._queue.state
        for uid, waiting in self._in_order():
            if state(uid) is not QueueState.UNSCHEDULABLE:
                self._drop(uid)
            elif waiting.bound.too_low(promised):
                self.kept += 1
            elif self._goes_after_awake(waiting):
                self._look_again = self._clock.monotonic() + LOOK_AGAIN_SECONDS
            else:
                self._drop(uid)
                self._wake(waiting, promised)

    def _goes_after_awake(self, waiting: _Waiting) -> bool:
        templates, priority = waiting.templates, waiting.info.pod.priority
        return any(
            each.templates != templates and each.info.pod.priority >= priority
            for each in self._awake.values()
        )

    def _in_order(self) -> list[tuple[str, _Waiting]]:
        """Return the groups by priority, then by the time of their first failure."""
        if self._ordered is None:
            waiting = self._waiting.items()
            self._ordered = sorted(waiting, key=lambda item: -item[1].info.pod.priority)
        return self._ordered

    def _wake(self, waiting: _Waiting, promised: dict[Template, int]) -> None:
        uid = waiting.info.uid
        self.woken += self._queue.wake((uid,), waiting.plugin, CAPACITY_CHANGE)
        if self._queue.state(uid) is QueueState.ACTIVE:
            self._awake[uid] = waiting
            _promise(waiting.bound, promised)

    def _drop(self, uid: str) -> None:
        self._hold(self._waiting.pop(uid), -1)

    def _hold(self, waiting: _Waiting, count: int) -> None:
        """Count one more (or with -1 one less) group that uses these templates."""
        self._ordered = None
        for capacities, template, _ in waiting.bound.parts:
            template.groups += count
            self._capacities[capacities] += count
            if not self._capacities[capacities]:
                del self._capacities[capacities]

    def _promised(self) -> dict[Template, int]:
        """Return the room promised to woken groups, by template."""
        promised: dict[Template, int] = {}
        for uid, waiting in list(self._awake.items()):
            if self._queue.state(uid) is QueueState.ACTIVE:
                _promise(waiting.bound, promised)
            else:
                del self._awake[uid]
        return promised


def _promise(bound: GroupBound, promised: dict[Template, int]) -> None:
    """Add the room of a group with one template; with several, their parts are unknown."""
    if len(bound.parts) == 1:
        _, template, _ = bound.parts[0]
        promised[template] = promised.get(template, 0) + bound.need
