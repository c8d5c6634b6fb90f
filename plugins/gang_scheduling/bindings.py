"""Bindings: the results of decisions about groups, as Events on the PodGroups once they are known.

Between the decision and the binds a member may fail in PreBind, be deleted, or lose its room, which
undoes all members; and the API server may refuse a bind. So it is only certain that a group is
scheduled when its members are bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plugins.gang_scheduling.messages import (
    ARE_BOUND,
    FAILED_SCHEDULING,
    GANG_PARTIAL,
    GANG_SCHEDULED,
    IS_BOUND,
    NONE_BOUND,
    NOT_BOUND,
)
from scheduler.framework.grouping import GroupOutcome
from scheduler.groups import Group, GroupKey, MemberState


@dataclass(slots=True)
class _Binding:
    """The members that are bound after one decision about a group."""

    #: Number of these members, and where they are, for people; empty without a topology.
    members: int
    place: str
    #: Number of members that had a node before.
    before: int
    #: Whether the first failure of a bind was reported.
    failed: bool = False


class Bindings:
    """The last decision about each group that is not bound yet."""

    def __init__(self, record: Callable[[Group, str, str, str], None]) -> None:
        """`record` records an Event on the object of a group: type, reason and text."""
        self._record = record
        self._under_way: dict[GroupKey, _Binding] = {}
        self._failures: dict[GroupKey, str] = {}

    def decided(self, group: Group, outcome: GroupOutcome) -> None:
        """Handle a decision."""
        if outcome.scheduled:
            before = group.count(MemberState.BOUND)
            self._under_way[group.key] = _Binding(outcome.fit, outcome.place, before)
        else:
            self.forget(group.key)

    def forget(self, key: GroupKey) -> None:
        """Drop a group that was deleted."""
        self._under_way.pop(key, None)
        self._failures.pop(key, None)

    def failure(self, key: GroupKey) -> str:
        """Return why members were not bound after the last decisions; empty if none failed."""
        return self._failures.get(key, "")

    def look(self, group: Group) -> None:
        """Record an Event once the members that were scheduled together are bound."""
        binding = self._under_way.get(group.key)
        if binding is None or not group.satisfied:
            return
        bound, reserved = group.count(MemberState.BOUND), group.count(MemberState.RESERVED)
        if not reserved or bound >= binding.before + binding.members:
            self.forget(group.key)
            note = IS_BOUND if binding.members == 1 else ARE_BOUND.format(count=binding.members)
            place = f", {binding.place}" if binding.place else ""
            self._record(group, "Normal", GANG_SCHEDULED, f"{note}{place}")

    def failed(self, group: Group, pod: str, why: str, *, undone: bool) -> None:
        """Record an Event for the first failure after a decision, unless it repeats the last.

        With `undone` no member is bound.
        """
        key = group.key
        binding = self._under_way.get(key)
        if binding is None or binding.failed:
            return
        binding.failed = True
        if undone:
            del self._under_way[key]
        text = (NONE_BOUND if undone else NOT_BOUND).format(pod=pod, why=why.removesuffix("."))
        if self._failures.get(key) != text:
            self._failures[key] = text
            self._record(group, "Warning", FAILED_SCHEDULING if undone else GANG_PARTIAL, text)
