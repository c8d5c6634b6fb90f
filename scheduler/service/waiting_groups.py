"""WaitingGroups: groups that cannot fit, and are woken by the change after which they may.

A group whose cycle failed although all nodes together have too little room for its members waits
for no event of any plugin. After events the bound of its templates is compared with its need
(`TemplateCapacities`), and nothing else is done for it: no hint is evaluated, no member is moved,
and no cycle runs, as long as the bound is too low. However many groups wait, an event costs one
operation on the changed nodes.

A member stands for its group among the unschedulable pods. Invariant: a group is kept here only
while that member waits there; whatever else moves it brings the group back to a cycle anyway.
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
"""The event that moves a group, in metrics and for people."""

FIRST_LOOK_THROUGH: Final = 64
"""Waiting groups with which those that are gone are looked for the first time; then twice as many
as were left."""

LOOK_AGAIN_SECONDS: Final = 1.0
"""Time after which a group that waits for the cycle of an awake one is looked at again, should that
one be deleted before its cycle."""


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
        #: Called after events while groups wait, before any of them is woken.
        self.on_look: Callable[[], None] = lambda: None
        self._queue = queue
        self._clock = clock
        #: By UID of the member that stands for the group.
        self._waiting: dict[str, _Waiting] = {}
        #: The same in order; None: not known.
        self._ordered: list[tuple[str, _Waiting]] | None = None
        #: Number of groups with which those that are gone are looked for.
        self._look_through_at = FIRST_LOOK_THROUGH
        #: The bounds that they have, and how many.
        self._capacities: Counter[TemplateCapacities] = Counter()
        #: Groups that were woken and not tried since: room is promised to them.
        self._awake: dict[str, _Waiting] = {}
        self._changed = False
        #: When to look again although no event comes; None: nobody waits for an awake group.
        self._look_again: float | None = None
        #: Since the start: looks at all bounds, groups woken, and groups kept waiting by a look.
        self.checks = self.woken = self.kept = 0

    def __len__(self) -> int:
        return len(self._waiting)

    # -- groups ----------------------------------------------------------------------------------

    def wait(self, info: QueuedPodInfo, plugin: str, bound: GroupBound) -> None:
        """Keep a group waiting until its bound is high enough; `info` stands for it."""
        if len(self._waiting) >= self._look_through_at:
            self._forget_gone()
        self._waiting[info.uid] = waiting = _Waiting(info, plugin, bound)
        self._hold(waiting, 1)
        self._queue.signals.on_event = self._note_event

    def _forget_gone(self) -> None:
        """Drop groups that left without an event, as when all of their pods were deleted."""
        state = self._queue.state
        for uid in [uid for uid in self._waiting if state(uid) is not QueueState.UNSCHEDULABLE]:
            self._drop(uid)
        self._look_through_at = max(FIRST_LOOK_THROUGH, 2 * len(self._waiting))

    def tried(self, uids: Iterable[str]) -> None:
        """Forget the group of these members, because its cycle begins."""
        if not self._waiting and not self._awake:
            return
        for uid in uids:
            if uid in self._waiting:
                self._drop(uid)
            elif self._awake.pop(uid, None) is not None:
                # Room that it does not take is promised to others next.
                self._note_event()

    def bound_of(self, uids: Iterable[str]) -> GroupBound | None:
        """Return the bound for which the group of these members waits; None: for none."""
        found = next((self._waiting[uid] for uid in uids if uid in self._waiting), None)
        return None if found is None else found.bound

    def _note_event(self) -> None:
        if not self._changed:
            self._changed = True
            self.on_timer()

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return a time that has passed if there was an event since the last look."""
        return self._clock.monotonic() if self._changed else self._look_again

    def run_due(self) -> None:
        """Wake the groups that may fit since the last events.

        Groups of different templates are woken one after the other, since the first may take the
        room of all.
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
        """Return the groups by priority; of one priority those first that failed first."""
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
        """Note that one more group uses its templates, or (-1) one less."""
        self._ordered = None
        for capacities, template, _ in waiting.bound.parts:
            template.groups += count
            self._capacities[capacities] += count
            if not self._capacities[capacities]:
                del self._capacities[capacities]

    def _promised(self) -> dict[Template, int]:
        """Return the room of the groups that are about to be tried, by template."""
        promised: dict[Template, int] = {}
        for uid, waiting in list(self._awake.items()):
            if self._queue.state(uid) is QueueState.ACTIVE:
                _promise(waiting.bound, promised)
            else:
                del self._awake[uid]
        return promised


def _promise(bound: GroupBound, promised: dict[Template, int]) -> None:
    """Add the room of a group of one template; of several it is not known who gets how much."""
    if len(bound.parts) == 1:
        _, template, _ = bound.parts[0]
        promised[template] = promised.get(template, 0) + bound.need
