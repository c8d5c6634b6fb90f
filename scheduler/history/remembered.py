"""Remembered: a decision in the form that is kept, which is small and quick to make."""

from __future__ import annotations

import sys
from struct import Struct
from typing import Final

import msgspec

from scheduler.engine.metrics import POINTS
from scheduler.explain.records import Decision, DecisionResult, RejectionCount
from scheduler.history.scores import BestNodes

NUMBERS: Final = Struct(f"=QdIII{1 + len(POINTS)}f?")
"""Sequence number, time, nodes, evaluated and feasible nodes, seconds queued and at each extension
point (negative: it did not run), whether the pod came from the backoff queue."""
PACKED_NUMBERS: Final = Struct(f"=QdIIIf{4 * len(POINTS)}s?")
"""The same, with the seconds at the extension points as the bytes of `Stopwatch.seconds`."""
BINDING: Final = Struct("<d3f")
"""Time of the binding, seconds at Permit (waiting), PreBind and Bind; negative: did not run."""

BINDING_POINTS: Final = ("Permit", "PreBind", "Bind")
_PHASES: Final = ("queued", *(point.lower() for point in POINTS))

_POINTER: Final = 8
ABOUT_A_UID: Final = 96


class Reason:
    """The reason of failed attempts; one object for all that failed in the same way."""

    __slots__ = ("_key", "message", "nominated", "rejections", "result", "users", "victims")

    def __init__(
        self,
        result: DecisionResult,
        message: str,
        rejections: tuple[RejectionCount, ...] = (),
        victims: tuple[str, ...] = (),
        nominated: str = "",
    ) -> None:
        self.result = result
        self.message = message
        self.rejections = rejections
        self.victims = victims
        self.nominated = nominated
        #: How many remembered decisions have it.
        self.users = 0
        self._key = (result, message, rejections, victims, nominated)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and self._key == other._key

    @property
    def nbytes(self) -> int:
        """Bytes held, without texts that plugins have as constants."""
        size = sys.getsizeof(self) + sys.getsizeof(self._key) + _ENTRY
        size += sys.getsizeof(self.message) + sys.getsizeof(self.nominated)
        size += sys.getsizeof(self.rejections) + sys.getsizeof(self.victims)
        for each in self.rejections:
            size += sys.getsizeof(each) + sys.getsizeof(each.reason) + sys.getsizeof(each.detail)
        return size + sum(map(sys.getsizeof, self.victims))


_ENTRY: Final = 8 * _POINTER
"""Of a dictionary, with its free places."""


class Remembered(msgspec.Struct, gc=False, eq=False):
    """One decision. Immutable values are held as they are; the record is made when asked for."""

    uid: str
    profile: str
    attempt: int
    event: str
    hint: str
    node: str
    numbers: bytes
    best: BestNodes | None
    chosen: bytes
    """The scores of the chosen node; see `BestNodes.records`."""
    reason: Reason | None
    binding: bytes = b""
    """Outcome of the binding cycle, if it has ended."""
    previous: Remembered | None = None
    """The decision about the pod before this one."""

    @property
    def seq(self) -> int:
        """`Decision.seq`."""
        number: int = NUMBERS.unpack(self.numbers)[0]
        return number

    @property
    def total(self) -> int | None:
        """The total of the chosen node; None if nothing was scored."""
        return None if self.best is None else self.best.total(self.node, self.chosen)

    def decision(self, pod: str) -> Decision:
        """Return the record; `pod` is `namespace/name`."""
        seq, time, nodes, evaluated, feasible, *seconds, early = NUMBERS.unpack(self.numbers)
        phases = {
            phase: round(value, 7)
            for phase, value in zip(_PHASES, seconds, strict=True)
            if value >= 0
        }
        bound = 0.0
        if self.binding:
            bound, *seconds = BINDING.unpack(self.binding)
            for point, value in zip(BINDING_POINTS, seconds, strict=True):
                if value >= 0:
                    phases[point.lower()] = round(phases.get(point.lower(), 0.0) + value, 7)
        reason = self.reason
        result = DecisionResult.PLACED if reason is None else reason.result
        queue = "" if result is DecisionResult.GATED else "backoff" if early else "active"
        return Decision(
            seq=seq,
            pod=pod,
            uid=self.uid,
            profile=self.profile,
            attempt=self.attempt,
            time=time,
            queue=queue,
            event=self.event,
            hint_plugin=self.hint,
            result=result,
            node=self.node,
            message="" if reason is None else reason.message,
            nodes=nodes,
            evaluated=evaluated,
            feasible=feasible,
            rejections=() if reason is None else reason.rejections,
            best=() if self.best is None else self.best.records(self.node, self.chosen),
            victims=() if reason is None else reason.victims,
            nominated_node="" if reason is None else reason.nominated,
            phases=phases,
            bound=bound,
        )


REMEMBERED_BYTES: Final = sys.getsizeof(
    Remembered("", "", 0, "", "", "", b"", None, b"", None)
) + sys.getsizeof(bytes(NUMBERS.size))
"""Bytes held by a decision, without `best` and `reason`, which it shares."""
PLACED_BYTES: Final = sys.getsizeof(bytes(BINDING.size)) + sys.getsizeof(b"")
"""Those of an outcome, which may be yet to come, and of `chosen` beside its contents."""
