"""WaitingGroups: groups that certainly do not fit, until a change after which they may.

If all nodes together have too little room for a group, it does not wait for events of plugins.
Instead, the bound of its templates is compared with its need after events (`TemplateCapacities`).
As long as the bound is too low, no hint is evaluated, no member is moved, and no cycle runs. An
event costs one operation on the changed nodes, and one comparison of all bounds with the lowest
needs, however many groups wait. Only if that succeeds are groups looked at, equal ones once.

One member represents the group among the unschedulable pods. Invariant: a group is kept here only
while that member waits there; if anything else moves the member, the group is tried anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from scheduler.engine.template_capacity import GroupBound, Template, TemplateCapacities
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.queue import QueueState, SchedulingQueue

CAPACITY_CHANGE: Final = "GroupCapacityChange"
"""Label of the event that requeues a group, in metrics and outputs."""

FIRST_LOOK_THROUGH: Final = 64
"""Number of waiting groups at which deleted ones are pruned for the first time; then at twice the
number that was left."""

CHECK_SECONDS: Final = 0.2
"""Minimum seconds between two checks, so that their cost does not grow with the rate of events. The
first event after a pause of that length is followed by a check at once."""

MAX_CHECK_SECONDS: Final = 1.0
"""What this grows to while events never pause and no check wakes a group. Most events of a busy
cluster give no waiting group room; one that does is noticed at most this much later."""

CHECKS_PER_LOOK_THROUGH: Final = 256
"""Number of checks after which deleted groups are pruned, too."""

LOOK_AGAIN_SECONDS: Final = 1.0
"""Seconds after which a group that waits for the cycle of a woken group is checked again, in case
the latter was deleted before its cycle."""


@dataclass(slots=True, eq=False)
class _Waiting:
    info: QueuedPodInfo
    #: The plugin that groups its members.
    plugin: str
    bound: GroupBound
    #: Place in the order of first failures.
    number: int

    @property
    def templates(self) -> list[Template]:
        """The templates of its members."""
        return [template for _, template, _ in self.bound.parts]


@dataclass(slots=True, eq=False)
class _Kind:
    """Waiting groups whose bounds are equal, by UID of the member that represents the group."""

    bound: GroupBound
    groups: dict[str, _Waiting] = field(default_factory=dict)


class WaitingGroups:
    """Implements `framework.TimedWork`."""

    def __init__(
        self,
        queue: SchedulingQueue,
        clock: Clock,
        wake: Callable[[], None],
        on_look: Callable[[], None],
    ) -> None:
        """`on_look` is called after events while groups wait, before any group is woken."""
        self._wake_loop, self._on_look = wake, on_look
        self._queue = queue
        self._clock = clock
        #: Waiting groups by UID of the member that represents the group.
        self._waiting: dict[str, _Waiting] = {}
        #: The same by kind, and the kinds by template.
        self._kinds: dict[Hashable, _Kind] = {}
        self._of_template: dict[Template, dict[Hashable, _Kind]] = {}
        self._numbers = count()
        #: Number of groups at which deleted ones are pruned.
        self._look_through_at = FIRST_LOOK_THROUGH
        #: The capacities that the groups use, with the number of uses.
        self._capacities: Counter[TemplateCapacities] = Counter()
        #: Groups that were woken and not tried yet, to which room is promised.
        self._awake: dict[str, _Waiting] = {}
        self._changed = False
        self._not_before = 0.0
        #: Seconds from the last check to the next.
        self._spacing = CHECK_SECONDS
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
        if info.uid in self._waiting:
            self._drop(info.uid)
        waiting = _Waiting(info, plugin, bound, next(self._numbers))
        self._waiting[info.uid] = waiting
        self._hold(waiting)
        if not self._changed:
            self._queue.signals.on_room.subscribe(self._note_event)

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
        # Further events before the check tell nothing new.
        self._queue.signals.on_room.unsubscribe(self._note_event)
        if not self._changed:
            self._changed = True
            self._wake_loop()

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when to check; a time in the past means now."""
        return self._not_before if self._changed else self._look_again

    def run_due(self) -> None:
        """Wake the groups that may fit since the last events.

        Groups of different templates are woken one at a time, since the first may take all room.
        """
        now = self._clock.monotonic()
        if self._changed and now < self._not_before:
            return
        self._changed, self._look_again = False, None
        paused = now > self._not_before + CHECK_SECONDS
        self._spacing = CHECK_SECONDS if paused else min(2 * self._spacing, MAX_CHECK_SECONDS)
        self._not_before = now + self._spacing
        if self.checks % CHECKS_PER_LOOK_THROUGH == 0:
            self._forget_gone()
        if not self._waiting:
            self._queue.signals.on_room.unsubscribe(self._note_event)
            return
        self._queue.signals.on_room.subscribe(self._note_event)
        self.checks += 1
        self._on_look()
        self.kept += len(self._waiting)
        kinds = self._kinds_with_room()
        if kinds:
            self._wake_those_that_fit(kinds)

    def _kinds_with_room(self) -> dict[Hashable, _Kind]:
        """Return the kinds of groups of which one may fit."""
        kinds: dict[Hashable, _Kind] = {}
        for capacities in list(self._capacities):
            capacities.refresh()
        for capacities in self._capacities:
            for template in map(capacities.at, capacities.enough()):
                kinds.update(self._of_template.get(template, {}))
        return {name: kind for name, kind in kinds.items() if not kind.bound.too_low()}

    def _wake_those_that_fit(self, kinds: dict[Hashable, _Kind]) -> None:
        """Wake groups in the order of their priorities, then of the times of first failures."""
        promised, state = self._promised(), self._queue.state
        full: set[Hashable] = set()
        groups = [
            (-each.info.pod.priority, each.number, uid, name)
            for name, kind in kinds.items()
            for uid, each in kind.groups.items()
        ]
        for _, _, uid, name in sorted(groups):
            waiting = self._waiting[uid]
            if name in full:
                continue
            if state(uid) is not QueueState.UNSCHEDULABLE:
                self._drop(uid)
            elif waiting.bound.too_low(promised):
                # Room is only promised to further groups from here on.
                full.add(name)
                continue
            elif self._goes_after_awake(waiting):
                self._look_again = self._clock.monotonic() + LOOK_AGAIN_SECONDS
            else:
                self._drop(uid)
                self._wake(waiting, promised)
            self.kept -= 1

    def _goes_after_awake(self, waiting: _Waiting) -> bool:
        templates, priority = waiting.templates, waiting.info.pod.priority
        return any(
            each.templates != templates and each.info.pod.priority >= priority
            for each in self._awake.values()
        )

    def _wake(self, waiting: _Waiting, promised: dict[Template, int]) -> None:
        uid = waiting.info.uid
        self._spacing = CHECK_SECONDS
        self._not_before = self._clock.monotonic() + CHECK_SECONDS
        self.woken += self._queue.wake((uid,), waiting.plugin, CAPACITY_CHANGE)
        if self._queue.state(uid) is QueueState.ACTIVE:
            self._awake[uid] = waiting
            _promise(waiting.bound, promised)

    def _hold(self, waiting: _Waiting) -> None:
        """Count a group by its templates and its kind."""
        for capacities, template, _ in waiting.bound.parts:
            template.groups += 1
            self._capacities[capacities] += 1
        name = waiting.bound.kind
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind(waiting.bound)
            for capacities, template, _ in kind.bound.parts:
                self._of_template.setdefault(template, {})[name] = kind
                self._set_lowest(capacities, template)
        kind.groups[waiting.info.uid] = waiting

    def _drop(self, uid: str) -> None:
        waiting = self._waiting.pop(uid)
        name = waiting.bound.kind
        kind = self._kinds[name]
        del kind.groups[uid]
        for capacities, template, _ in waiting.bound.parts:
            if not kind.groups and self._of_template[template].pop(name, None) is not None:
                self._set_lowest(capacities, template)
            template.groups -= 1
            if not template.groups:
                del self._of_template[template]
            self._capacities[capacities] -= 1
            if not self._capacities[capacities]:
                del self._capacities[capacities]
        if not kind.groups:
            del self._kinds[name]

    def _set_lowest(self, capacities: TemplateCapacities, template: Template) -> None:
        kinds = self._of_template[template]
        capacities.set_lowest(template, min((k.bound.lowest for k in kinds.values()), default=None))

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
