"""Reservations: the nodes that are reserved for groups, for messages and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.api.meta import second_time
from scheduler.api.pod import Pod
from scheduler.framework.grouping import GroupReservation
from scheduler.groups import Group, GroupKey, Source

KEPT: Final = "room for {members} of its pods is kept on {nodes} until {until} at the latest"
KEPT_AWAY: Final = (
    "room for {members} pods is kept on {nodes} for pod group {group}, until {until} at the "
    "latest: pods of priority {priority} or lower may use there only what that leaves"
)
MAX_NODES: Final = 5
"""Maximum number of node names in a message."""


class KeptReservation(msgspec.Struct, frozen=True):
    """The reservation for one group, in a bundle."""

    namespace: str
    group: str
    #: Whether it is a group of the built-in API.
    native: bool
    kept: GroupReservation


class Reservations:
    """The reservations of all groups."""

    def __init__(self) -> None:
        #: Each reservation, with the time up to which its duration has been counted.
        self._kept: dict[GroupKey, tuple[GroupReservation, float]] = {}

    def set(
        self, key: GroupKey | None, reservation: GroupReservation | None, now: float
    ) -> tuple[bool, float]:
        """Set or (None) end a reservation.

        Returns whether it began, and by how many seconds its duration has grown.
        """
        if key is None:
            return False, 0.0
        before = self._kept.pop(key, None)
        if reservation is not None:
            self._kept[key] = reservation, now
        return before is None, 0.0 if before is None else now - before[1]

    def forget(self, key: GroupKey) -> None:
        """Drop a deleted group."""
        self._kept.pop(key, None)

    def of(self, key: GroupKey) -> GroupReservation | None:
        """Return the reservation for a group, or None."""
        known = self._kept.get(key)
        return None if known is None else known[0]

    def state(self) -> Iterator[KeptReservation]:
        """Yield all reservations, for bundles."""
        for key, (kept, _) in self._kept.items():
            yield KeptReservation(key.namespace, key.name, key.source is Source.NATIVE, kept)

    def restore(self, states: Iterable[KeptReservation], now: float) -> None:
        """Let these be the reservations."""
        self._kept = {
            GroupKey(each.namespace, each.group, Source.NATIVE if each.native else Source.CRD): (
                each.kept,
                now,
            )
            for each in states
        }

    def note(self, key: GroupKey) -> str:
        """Describe the reservation for a group; empty if there is none."""
        kept = self.of(key)
        return "" if kept is None else note_of(kept)

    def others(self, pod: Pod, group: Group | None) -> Iterator[tuple[GroupKey, GroupReservation]]:
        """Yield the reservations of groups other than the pod's own that restrict a pod."""
        own = None if group is None else group.key
        for key, (kept, _) in self._kept.items():
            if key != own and pod.priority <= kept.priority:
                yield key, kept

    def lines(self, pod: Pod, group: Group | None) -> Sequence[str]:
        """Describe the reservations of groups other than the pod's own that restrict a pod."""
        return [
            KEPT_AWAY.format(
                members=kept.members,
                nodes=_named(kept),
                group=key,
                until=second_time(kept.until),
                priority=kept.priority,
            )
            for key, kept in self.others(pod, group)
        ]


def note_of(reservation: GroupReservation) -> str:
    """Describe a reservation."""
    return KEPT.format(
        members=reservation.members,
        nodes=_named(reservation),
        until=second_time(reservation.until),
    )


def _named(reservation: GroupReservation) -> str:
    nodes = reservation.nodes
    shown = ", ".join(nodes[:MAX_NODES])
    more = len(nodes) - MAX_NODES
    return f"{shown} and {more} more" if more > 0 else shown
