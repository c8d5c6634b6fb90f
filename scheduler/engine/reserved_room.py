"""ReservedRoom: the reservations of groups that keep a pod from nodes with room for it.

The filters reject such a node with the reasons of any full node, since the room is taken by the
pods that are nominated there. People need to know for whom it is kept, and until when.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.api.meta import second_time
from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import RejectedRows
from scheduler.engine.runtime import Framework
from scheduler.explain.records.wording import counted
from scheduler.framework.grouping import GroupReservation

RESERVED: Final = "room on {nodes} is kept for {group} until {until} at the latest"


@dataclass(frozen=True, slots=True)
class ReservedRoom:
    """Nodes that a pod may not use because of the reservation of one group."""

    #: The group's name in messages.
    group: str
    nodes: tuple[str, ...]
    #: End of the reservation at the latest, in seconds since the epoch.
    until: float

    def __str__(self) -> str:
        """Return a text for messages. It has no names of nodes, which change with each plan."""
        nodes, until = counted(len(self.nodes), "node"), second_time(self.until)
        return RESERVED.format(nodes=nodes, group=self.group, until=until)


def reserved_room(
    framework: Framework, table: NodeTable, pod: Pod, rejected: RejectedRows | None
) -> Iterator[ReservedRoom]:
    """Yield the reservations because of which nodes with room rejected a pod."""
    if rejected is not None and len(rejected.beside_nominated):
        names = {table.names[row] for row in rejected.beside_nominated.tolist()}
        yield from reserved_among(framework, pod, names)


def reservations(framework: Framework, pod: Pod) -> Iterable[tuple[str, GroupReservation]]:
    """Return the reservations of other groups than the pod's that it must respect, by group."""
    found = getattr(framework.grouping, "reservations", None)
    return () if found is None else found(pod)


def reserved_among(
    framework: Framework, pod: Pod, names: Collection[str]
) -> Iterator[ReservedRoom]:
    """Yield the reservations of other groups on some nodes."""
    for group, kept in reservations(framework, pod):
        nodes = tuple(each for each in kept.nodes if each in names)
        if nodes:
            yield ReservedRoom(group, nodes, kept.until)
