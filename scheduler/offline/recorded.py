"""The changes in a recording, made in a world at their times.

A recording has the changes that its scheduler saw: those that others made, which happen here in the
same way, and those that followed from its own decisions, which may be others here. So a pod of one
of the world's profiles keeps the node, the conditions and the binding's annotations that it has in
the world, the victims of the recorded preemptions are not deleted, and volumes and claims, which
controllers answer to decisions with, come and go but do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from weakref import proxy

import msgspec

from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.cache.cache import with_node
from scheduler.client.deltas import DeltaType
from scheduler.client.resources import PODS
from scheduler.offline.assembly import Assembly
from scheduler.offline.bundles import MALFORMED, Content, decoded_line, decoded_object, resource_in
from scheduler.offline.editing import FINISHED, Editing
from scheduler.offline.tables import bound
from scheduler.offline.virtual_time import Agenda
from scheduler.recording.format import ATTEMPT, DELTA, GROUP, BundleError, Line

ANSWERS: Final = frozenset(("persistentvolumeclaims", "persistentvolumes", "resourceclaims"))
"""Resources whose changes answer to decisions."""


class Times(msgspec.Struct):
    """The time at which a line of the stream was written."""

    time: float
    """Wall clock, seconds since the epoch."""
    monotonic: float


class RecordedChange(Times):
    """A change of an object."""

    plural: str
    type: DeltaType
    object: msgspec.Raw


class _Victims(msgspec.Struct):
    victims: tuple[str, ...] = ()


class _Attempt(msgspec.Struct):
    outcome: _Victims


class _Group(msgspec.Struct):
    outcomes: tuple[_Attempt, ...] = ()


class RecordedChanges:
    """The stream of one file, read as the time of the world passes."""

    def __init__(
        self, content: Content, world: Editing, assembly: Assembly, unknown: dict[str, int]
    ) -> None:
        """`world` is what changes; kinds that this version does not know count in `unknown`."""
        self._content, self._assembly, self._unknown = content, assembly, unknown
        # Weak, so that a world that nobody uses any more is closed at once.
        self._world: Editing = proxy(world)
        #: The victims of preemptions in the recording, `namespace/name`.
        self._victims: set[str] = set()
        #: The UIDs of those that were deleted there.
        self._spared: set[str] = set()
        self._changes = self._read()

    def begin(self, agenda: Agenda) -> float:
        """Let the first change happen at its time, and the next one be read then.

        Returns the seconds from the start to the last line. Raises BundleError.
        """
        waiting = next(self._changes, None)

        def advance() -> None:
            nonlocal waiting
            while waiting is not None and self._second(waiting) <= agenda.now:
                change, waiting = waiting, None
                self._make(change)
                waiting = next(self._changes, None)
            if waiting is not None:
                agenda.at(self._second(waiting), advance)

        if waiting is not None:
            agenda.at(self._second(waiting), advance)
        lines = (self._decoded(line, Times) for line in self._content.stream())
        return max(map(self._second, lines), default=0.0)

    def _second(self, times: Times) -> float:
        return times.monotonic - self._content.state.monotonic

    def _read(self) -> Iterator[RecordedChange]:
        for line in self._content.stream():
            if line.section == ATTEMPT:
                self._victims.update(self._decoded(line, _Attempt).outcome.victims)
            elif line.section == GROUP:
                for each in self._decoded(line, _Group).outcomes:
                    self._victims.update(each.outcome.victims)
            elif line.section == DELTA:
                yield self._decoded(line, RecordedChange)

    def _decoded(self, line: Line, kind: Any) -> Any:
        return decoded_line(self._content.bundle.path, line, kind)

    def _make(self, change: RecordedChange) -> None:
        try:
            self._apply(change)
        except (*MALFORMED, QuantityError) as error:
            path = self._content.bundle.path
            raise BundleError(f"{path}: malformed {DELTA}: {error}") from error

    def _apply(self, change: RecordedChange) -> None:
        tables = self._assembly.tables
        resource = resource_in(tables, change.object, self._unknown)
        if resource is None:
            return
        item = decoded_object(resource, change.object, self._world._complete)
        known = tables.stores[resource.plural].by_key(resource.key(item))
        if resource is PODS:
            self._pod(change.type, item, known)
        elif change.type is DeltaType.DELETED:
            if known is not None:
                self._world._take_item(resource, known)
        elif known is None:
            # A change alone does not bring back what was removed from the world.
            if change.type is DeltaType.ADDED:
                self._world._put_item(resource, item)
        elif resource.plural not in ANSWERS:
            self._world._put_item(resource, item)

    # -- pods ------------------------------------------------------------------------------------

    def _pod(self, kind: DeltaType, item: Pod, known: Pod | None) -> None:
        if known is None or known.uid != item.uid:
            # A controller made it in place of one that still exists here, or it ended here.
            if kind is DeltaType.ADDED and (known is None or known.uid not in self._spared):
                self._world._put_item(PODS, item)
        elif kind is DeltaType.DELETED or item.status.phase in FINISHED:
            if not self._evicted(item):
                self._world._take_item(PODS, known)
        elif item.spec.scheduler_name not in self._assembly.profiles.frameworks:
            self._world._put_item(PODS, item)
        elif not known.terminating and not (item.terminating and self._evicted(item)):
            if item.terminating and not bound(known):
                # What does not run has no grace period.
                self._world._take_item(PODS, known)
            else:
                self._world._put_item(PODS, _as_here(item, known))

    def _evicted(self, pod: Pod) -> bool:
        """Whether the recorded scheduler deleted a pod."""
        if pod.key in self._victims:
            self._victims.discard(pod.key)
            self._spared.add(pod.uid)
        return pod.uid in self._spared


def _as_here(item: Pod, known: Pod) -> Pod:
    """Return a recorded version of a pod with what the world has decided about it."""
    found = with_node(item, known.spec.node_name)
    found.interned = None
    found.status = known.status
    if bound(known):
        annotations = {**item.metadata.annotations, **known.metadata.annotations}
        found.metadata = msgspec.structs.replace(item.metadata, annotations=annotations)
    return found
