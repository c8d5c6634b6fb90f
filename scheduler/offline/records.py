"""The answers of a world: where pods went, which wait and why, which were evicted.

Records of the past: they hold no part of the world, and are equal for equal input, seed and
version. Times are virtual seconds since the start of the world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

import msgspec

from scheduler.explain.records import Decision
from scheduler.explain.records.shown import Shown, ShownTuple
from scheduler.explain.records.story import compared
from scheduler.explain.records.wording import counted
from scheduler.history.remembered import Remembered

MAX_RUNNERS_UP: Final = 2
MAX_REJECTIONS: Final = 5


@dataclass(frozen=True, slots=True, repr=False)
class Placement(Shown):
    """A pod that was bound."""

    pod: str
    """`namespace/name`."""
    node: str
    time: float
    """When it was bound."""
    waited: float
    """Seconds since it was added."""
    attempts: int
    """Scheduling attempts, the last one included."""
    feasible: int
    """Nodes that the last attempt found to fit."""
    evaluated: int
    """Nodes that it looked at."""
    _remembered: Remembered | None = field(default=None, repr=False, compare=False)

    @property
    def decision(self) -> Decision | None:
        """The record of the last attempt, with the scores of the best nodes by plugin.

        None where `kubestow.decisionHistory` remembers nothing. Its times are wall clock seconds.
        """
        return None if self._remembered is None else self._remembered.decision(self.pod)

    def _lines(self) -> Sequence[str]:
        return self.explain().splitlines()

    def explain(self) -> str:
        """Return who was chosen in one line, and in a line each how the next best compare."""
        among = "the only node" if self.feasible == 1 else f"one of {self.feasible} nodes"
        decision = self.decision
        total = "" if decision is None or decision.score is None else f" (total {decision.score})"
        first = (
            f"{self.pod} is on {self.node}{total}, {among} found to fit, after "
            f"{counted(self.attempts, 'attempt')} and {self.waited:g} s"
        )
        lines = [first]
        best = () if decision is None else decision.best
        others = [each for each in best if each.node != self.node]
        for chosen in best:
            if chosen.node == self.node:
                lines += [
                    f"  next {each.node} (total {each.total}): {compared(chosen, each)}"
                    for each in others[:MAX_RUNNERS_UP]
                ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class Waiting(Shown):
    """A pod that waits."""

    pod: str
    """`namespace/name`."""
    state: str
    """Its place: `active`, `backoff`, `unschedulable`, `gated`, or `binding`."""
    reason: str
    """Why the last attempt failed, or why the pod is gated; empty before the first attempt."""
    plugins: tuple[str, ...]
    """The plugins that rejected or gate it."""
    attempts: int
    waited: float
    """Seconds since it was added."""
    nominated: str = ""
    """The node on which victims make room for it."""
    _remembered: Remembered | None = field(default=None, repr=False, compare=False)

    @property
    def decision(self) -> Decision | None:
        """The record of the last attempt, with its rejections; see `Placement.decision`."""
        return None if self._remembered is None else self._remembered.decision(self.pod)

    def _lines(self) -> Sequence[str]:
        _, *details = self.explain().splitlines()
        tried = f"{counted(self.attempts, 'attempt')} and {self.waited:g} s"
        why = self.reason.split(". ")[0] or "it was not tried yet"
        return [f"{self.pod} waits, {self.state}, after {tried}: {why}", *details]

    def explain(self) -> str:
        """Return why it waits in one line, and in a line each the numbers behind the reasons."""
        why = self.reason or "it was not tried yet"
        by = f" (by {', '.join(self.plugins)})" if self.plugins else ""
        decision = self.decision
        details = [
            f"  {counted(each.nodes, 'node')}: {each.reason}: {each.detail}"
            for each in (() if decision is None else decision.rejections)
            if each.detail
        ]
        first = f"{self.pod} waits, {self.state}: {why}{by}"
        return "\n".join([first, *details[:MAX_REJECTIONS]])


@dataclass(frozen=True, slots=True, repr=False)
class Eviction(Shown):
    """A pod that was deleted to make room."""

    pod: str
    """`namespace/name`."""
    node: str
    time: float
    """When it was deleted; it ends after its grace period."""

    def _lines(self) -> Sequence[str]:
        return [f"{self.pod} was evicted from {self.node} at {self.time:g} s"]


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """The events from `began` to `ended`, and who waits then. `result["default/web-0"]`.

    In a notebook it shows itself; `table` is for a data frame, `figures` and `plot` for a report.
    """

    began: float
    ended: float
    placed: tuple[Placement, ...]
    """In the order of their binding."""
    waiting: tuple[Waiting, ...]
    """By name."""
    evicted: tuple[Eviction, ...] = ()
    finished: int = 0
    """Pods that ended because their duration was over."""
    _samples: tuple[Mapping[str, float], ...] = field(default=(), compare=False)
    _figures: Mapping[str, float] = field(default_factory=dict, compare=False)
    _by_pod: dict[str, Placement | Waiting] = field(init=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("placed", "waiting", "evicted"):
            object.__setattr__(self, name, ShownTuple(getattr(self, name)))
        self._by_pod.update((each.pod, each) for each in self.placed)
        self._by_pod.update((each.pod, each) for each in self.waiting)

    def __getitem__(self, pod: str) -> Placement | Waiting:
        """Return the record of a pod, `namespace/name`. Raises KeyError for any other pod."""
        try:
            return self._by_pod[pod]
        except KeyError:
            raise KeyError(
                f"{pod}: was neither placed from {self.began:g} s to {self.ended:g} s, nor waits "
                "at the end"
            ) from None

    def __contains__(self, pod: object) -> bool:
        return pod in self._by_pod

    def __iter__(self) -> Iterator[Placement | Waiting]:
        return iter(self._by_pod.values())

    def __len__(self) -> int:
        return len(self._by_pod)

    def _lines(self) -> Sequence[str]:
        headline = (
            f"{self.began:g} s to {self.ended:g} s: {len(self.placed)} placed, "
            f"{len(self.waiting)} waiting, {len(self.evicted)} evicted, {self.finished} finished"
        )
        return [headline]

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Return why pods wait, the commonest reason first."""
        whys = [(each.reason.split(". ")[0] or "not tried yet", each.pod) for each in self.waiting]
        reasons, first = Counter(reason for reason, _ in whys), dict(reversed(whys))
        rows = [(str(count), first[reason], reason) for reason, count in reasons.most_common()]
        return ("waiting", "such as", "reason"), rows

    @property
    def samples(self) -> tuple[Mapping[str, float], ...]:
        """The measures at each sample, by name; empty unless the run was asked for some.

        `time` and `waiting`, and by resource `cpu_allocation` and `cpu_fragmentation`, in per cent.
        """
        return self._samples

    def table(self) -> list[dict[str, Any]]:
        """Return a record for each pod, first those that were placed, for a data frame.

        `pandas.DataFrame(result.table())` and `polars.DataFrame(result.table())` take it as it is.

        >>> from kubestow import offline
        >>> with offline.World() as world:
        ...     _ = world.add_pods(offline.pod("web"))
        ...     world.schedule().table()[0]["pod"]
        'default/web'
        """
        placed = [
            {
                "pod": each.pod,
                "state": "placed",
                "node": each.node,
                "time": each.time,
                "waited": each.waited,
                "attempts": each.attempts,
                "reason": "",
            }
            for each in self.placed
        ]
        return placed + [
            {
                "pod": each.pod,
                "state": each.state,
                "node": "",
                "time": None,
                "waited": each.waited,
                "attempts": each.attempts,
                "reason": each.reason,
            }
            for each in self.waiting
        ]

    def figures(self) -> dict[str, float]:
        """Return the figures of `kubestow simulate`, by name.

        Of a run without samples only those that its records have: who was placed, and the waits.
        """
        from scheduler.offline.figures import of_records  # noqa: PLC0415 - it imports this module

        return dict(self._figures) or of_records(self)

    def plot(self) -> Any:
        """Return a matplotlib figure: what is used, and who waits, over the time.

        Raises:
            ValueError: the run took no samples.
            ImportError: matplotlib is not installed.
        """
        from scheduler.offline.shown import plot  # noqa: PLC0415 - it imports matplotlib

        return plot(self._samples)

    def to_json(self) -> bytes:
        """Return everything as JSON: byte-equal for equal input, seed and version."""
        return to_json(self)


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Shown):
    """The outcome of one attempt in a trial: a node, or the reason why there is none."""

    pod: str
    """`namespace/name`."""
    node: str
    """Empty: none fits."""
    reason: str = ""
    """See `Waiting.reason`."""
    plugins: tuple[str, ...] = ()
    """The plugins that rejected it."""
    feasible: int = 0
    """Nodes that were found to fit."""
    preemption_node: str = ""
    """The node on which preemption would make room."""
    victims: tuple[str, ...] = ()
    """The pods that it would evict there."""

    def __bool__(self) -> bool:
        return bool(self.node)

    def _lines(self) -> Sequence[str]:
        if self.node:
            others = f", chosen among {self.feasible}" if self.feasible > 1 else ""
            return [f"{self.pod} fits on {self.node}{others}"]
        lines = [f"{self.pod} fits on no node: {self.reason.split('. ')[0]}"]
        if self.preemption_node:
            victims = ", ".join(self.victims[:MAX_REJECTIONS])
            lines.append(f"preemption would make room on {self.preemption_node}: {victims}")
        return lines


@dataclass(frozen=True, slots=True, repr=False)
class Capacity(Shown):
    """The number of copies of a pod that fit, and the reason why the next one does not."""

    total: int
    by_node: dict[str, int]
    """Copies on each node that takes one, by name."""
    reason: str
    """Why no further copy fits; empty where the limit of the question was reached."""

    def _lines(self) -> Sequence[str]:
        end = f"then {self.reason.split('. ')[0]}" if self.reason else "and perhaps more"
        return [f"{self.total} more fit, on {counted(len(self.by_node), 'node')}; {end}"]

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        most = sorted(self.by_node.items(), key=lambda each: -each[1])
        return ("node", "copies"), [(node, str(copies)) for node, copies in most]


def to_json(record: Any) -> bytes:
    """Return a record of this package as JSON: byte-equal for equal records.

    >>> to_json(Capacity(1, {"n1": 1}, ""))
    b'{"total":1,"by_node":{"n1":1},"reason":""}'
    """
    return msgspec.json.encode(_public(record))


def _public(value: Any) -> Any:
    """Return a record as JSON has it: without what begins with an underscore."""
    if is_dataclass(value):
        names = (each.name for each in fields(value))
        return {name: _public(getattr(value, name)) for name in names if name[0] != "_"}
    return [_public(each) for each in value] if isinstance(value, tuple) else value
