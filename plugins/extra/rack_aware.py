"""RackAware: no zone, rack or host holds more than its share of an app's pods.

Topology spread constraints compare domains with each other; they cannot say that the failure of a
rack may take at most a third of the replicas, nor that `rack-1` in one zone is another rack than
`rack-1` in the next. Here the levels of the topology form a hierarchy, so that a domain is the path
to it, and each level may limit the share of one domain.

The pods of a namespace with the same value of a label are one app. All its pods count, those that
still wait included: with ten replicas of which none is placed, 34 percent are already four.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import msgspec
import numpy as np

from scheduler.api import LabelSelector, Pod, compile_label_selector, is_qualified_name
from scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    Handle,
    HintKeys,
    Int64Column,
    NodeInfo,
    NodeTableView,
    PodTerm,
    QueueingHint,
    Rows,
    Status,
    unresolvable,
    unschedulable,
)

FULL: Final = "node(s) whose {key} had its share of the app's pods"
MISSING: Final = "node(s) without label {key}"
MAX_LEVELS: Final = 5

App = tuple[str, str]
"""Namespace and value of the label."""


class Level(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """One level of the topology."""

    #: Key of the node label that names the domain.
    key: str
    #: The share of an app's pods that one domain may have, rounded up to whole pods.
    max_percent: int = 100


class RackAwareArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of RackAware."""

    #: Key of the pod label that names the app.
    label: str = "app.kubernetes.io/name"
    #: The levels, the widest first.
    levels: tuple[Level, ...] = (
        Level(key="topology.kubernetes.io/zone"),
        Level(key="topology.kubernetes.io/rack", max_percent=34),
        Level(key="kubernetes.io/hostname"),
    )
    #: Whether domains with few or with many of the app's pods are better, the widest level first.
    prefer: Literal["Spread", "Pack"] = "Spread"


@dataclass(slots=True)
class Shares:
    """The pods of one app in each domain, for one attempt."""

    #: By level: the domain of each row, -1 for none.
    domains: tuple[Int64Column, ...]
    #: By level: pods in each domain; the last entry, which -1 selects, is 0.
    counts: tuple[Int64Column, ...]
    #: By level: pods that a domain may have.
    limits: tuple[int, ...]
    #: Level and domain to pods more, or less, in a what-if.
    changes: dict[tuple[int, int], int] = field(default_factory=dict)

    def clone(self) -> Shares:
        """Return a copy with changes of its own."""
        return Shares(self.domains, self.counts, self.limits, dict(self.changes))

    def change(self, row: int, pods: int) -> None:
        """Add pods to the domains of a row; a negative number removes them."""
        for level, domains in enumerate(self.domains):
            key = level, int(domains[row])
            self.changes[key] = self.changes.get(key, 0) + pods

    def code(self, row: int) -> int:
        """Return 0 if the row may have one pod more; see `codes`."""
        for level, limit in enumerate(self.limits):
            domain = int(self.domains[level][row])
            if domain < 0:
                return -level - 1
            if int(self.counts[level][domain]) + self.changes.get((level, domain), 0) >= limit:
                return level + 1
        return 0

    def codes(self, rows: Rows) -> Codes:
        """Return the level, from 1, whose domain is full, negative if the node is in none."""
        found: Codes = np.zeros(len(rows), dtype=np.int32)
        # The widest level comes last, so that it is the one that is named.
        for level in reversed(range(len(self.limits))):
            counts = self.counts[level].copy()
            for (changed, domain), pods in self.changes.items():
                if changed == level and domain >= 0:
                    counts[domain] += pods
            domains = self.domains[level][rows]
            found[counts[domains] >= self.limits[level]] = level + 1
            found[domains < 0] = -level - 1
        return found

    def order(self, rows: Rows) -> Int64Column:
        """Return the position of each row from the emptiest domain on, equal ones together."""
        keys = [counts[each[rows]] for counts, each in zip(self.counts, self.domains, strict=True)]
        sorted_rows = np.lexsort(keys[::-1])
        differs = np.zeros(len(rows), dtype=bool)
        for key in keys:
            differs[1:] |= np.diff(key[sorted_rows]) != 0
        found = np.empty(len(rows), dtype=np.int64)
        found[sorted_rows] = np.cumsum(differs)
        return found


@dataclass(slots=True)
class Members:
    """The pods of one app, by UID."""

    known: set[str] = field(default_factory=set)
    #: Those that a limit keeps waiting.
    rejected: set[str] = field(default_factory=set)


class RackAware(BasePlugin):
    """Limits the share of an app's pods in each domain, and spreads or packs them."""

    name = "kubestow.io/RackAware"
    args_type = RackAwareArgs
    _scores: ClassVar[str] = "kubestow.io/RackAware/scores"

    def __init__(self, args: RackAwareArgs, handle: Handle) -> None:
        self._label = args.label
        self._levels = args.levels
        self._packs = args.prefer == "Pack"
        self._handle = handle
        self._apps: dict[App, Members] = {}
        self._topology = Topology([each.key for each in args.levels])
        self._statuses = {
            **{i + 1: unschedulable(FULL.format(key=x.key)) for i, x in enumerate(args.levels)},
            **{-i - 1: unresolvable(MISSING.format(key=x.key)) for i, x in enumerate(args.levels)},
        }
        handle.subscriptions.on_object("pods", self._pod_changed, in_trials=True)

    @staticmethod
    def validate_args(args: RackAwareArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not is_qualified_name(args.label):
            yield "label", f'"{args.label}" is no label key; write one like app'
        if not 1 <= len(args.levels) <= MAX_LEVELS:
            yield "levels", f"write 1 to {MAX_LEVELS} levels, the widest first"
        for index, level in enumerate(args.levels):
            if not is_qualified_name(level.key):
                yield f"levels[{index}].key", f'"{level.key}" is no label key'
            elif level.key in {each.key for each in args.levels[:index]}:
                yield f"levels[{index}].key", f"{level.key} is the key of a wider level, too"
            if not 1 <= level.max_percent <= 100:
                message = f"{level.max_percent} is no percentage; write a number from 1 to 100"
                yield f"levels[{index}].maxPercent", message

    # -- Filter ----------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Count the pods of the app in each domain."""
        app = self._app(pod)
        if app is None:
            return SKIP
        state.write(self.name, self._shares(app, table))
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Count a pod that a what-if adds."""
        self._change(state, pod, added, node, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Count a pod no more that a what-if removes."""
        self._change(state, pod, removed, node, -1)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node in a domain that has its share."""
        shares: Shares = state.read(self.name)
        return self._statuses.get(shares.code(node.row))

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        shares: Shares = state.read(self.name)
        codes = shares.codes(rows)
        if codes.any():
            self._note_rejection(pod)
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection of a code."""
        return self._statuses[code]

    # -- Score -----------------------------------------------------------------------------------

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Order the feasible nodes by the pods of the app in their zones, racks and hosts."""
        app = self._app(pod)
        if app is None:
            return SKIP
        order = self._shares(app, table).order(feasible)
        if not self._packs:
            order = order.max(initial=0) - order
        scores = np.zeros(table.capacity, dtype=np.int64)
        scores[feasible] = order * MAX_NODE_SCORE // max(int(order.max(initial=0)), 1)
        state.write(self._scores, scores)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 100 for the best place in the order, 0 for the worst."""
        scores: Int64Column = state.read(self._scores)
        return int(scores[node.row])

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        scores: Int64Column = state.read(self._scores)
        found: Int64Column = scores[rows]
        return found

    # -- events ----------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return changes of placed pods of the app, and of the topology.

        That an app grows, which raises its limits, is no event of the queue: `_pod_changed`.
        """
        pods = ClusterEvent(
            EventResource.ASSIGNED_POD, ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        )
        nodes = ClusterEvent(
            EventResource.NODE, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL
        )
        own = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL)
        keys = HintKeys(self._required, self._provided)
        return (
            ClusterEventWithHint(pods, self._after_pod, per_signature=True, keys=keys),
            ClusterEventWithHint(nodes),
            ClusterEventWithHint(own),
        )

    def _after_pod(self, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        left = self._app(old) == self._app(pod) != (None if new is None else self._app(new))
        return QueueingHint.QUEUE if left else QueueingHint.SKIP

    def _required(self, pod: Pod) -> tuple[App, ...]:
        app = self._app(pod)
        return () if app is None else (app,)

    def _provided(self, old: Pod, new: Pod | None) -> tuple[App, ...]:
        return self._required(old)

    # -- the apps --------------------------------------------------------------------------------

    def _app(self, pod: Pod) -> App | None:
        value = pod.metadata.labels.get(self._label)
        return None if value is None else (pod.metadata.namespace, value)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before = None if old is None else self._app(old)
        after = None if new is None else self._app(new)
        if old is not None and before is not None and before != after:
            members = self._apps[before]
            members.known.discard(old.metadata.uid)
            members.rejected.discard(old.metadata.uid)
            if not members.known:
                del self._apps[before]
        if new is not None and after is not None:
            self._join(new, self._apps.setdefault(after, Members()))

    def _join(self, pod: Pod, members: Members) -> None:
        uid = pod.metadata.uid
        if pod.spec.node_name:
            members.rejected.discard(uid)
        if uid in members.known:
            return
        limits = self._limits(len(members.known))
        members.known.add(uid)
        if members.rejected and limits != self._limits(len(members.known)):
            self._handle.wake(members.rejected, self.name)
            members.rejected = set()

    def _note_rejection(self, pod: Pod) -> None:
        app = self._app(pod)
        members = None if app is None else self._apps.get(app)
        if members is not None and pod.metadata.uid in members.known:
            members.rejected.add(pod.metadata.uid)

    def _limits(self, pods: int) -> tuple[int, ...]:
        """Return the pods that a domain of each level may have: rounded up, as budgets are."""
        return tuple(-(-pods * each.max_percent // 100) for each in self._levels)

    def _shares(self, app: App, table: NodeTableView) -> Shares:
        namespace, value = app
        selector = compile_label_selector(LabelSelector(match_labels={self._label: value}))
        term = PodTerm(frozenset((namespace,)), selector)
        # Pods on nodes that were deleted are in no domain.
        placed = table.pod_counts((term,), terminating=True)
        used = np.flatnonzero(placed)
        domains = self._topology.domains(table)
        counts = []
        for each in domains:
            found = np.zeros(int(each.max(initial=-1)) + 2, dtype=np.int64)
            np.add.at(found, each[used], placed[used])
            found[-1] = 0
            counts.append(found)
        members = self._apps.get(app)
        size = max(len(members.known) if members else 0, 1)
        return Shares(domains, tuple(counts), self._limits(size))

    def _change(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, pods: int) -> None:
        if self._app(other) == self._app(pod):
            shares: Shares = state.read(self.name)
            shares.change(node.row, pods)


class Topology:
    """Numbers the domains of each level; again only after labels of nodes changed."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._table: NodeTableView | None = None
        self._sequence = 0
        self._domains: tuple[Int64Column, ...] = ()

    def domains(self, table: NodeTableView) -> tuple[Int64Column, ...]:
        """Return for each level (capacity,): the domain of each row, -1 for none."""
        if not self._is_current(table):
            self._domains = tuple(self._numbered(table))
        self._table, self._sequence = table, table.sequence
        return self._domains

    def _is_current(self, table: NodeTableView) -> bool:
        if table is not self._table or len(self._domains[0]) != table.capacity:
            return False
        changed = table.changed_rows(self._sequence, Columns.LABELS | Columns.EXISTENCE)
        return changed is not None and len(changed) == 0

    def _numbered(self, table: NodeTableView) -> Iterator[Int64Column]:
        path = np.where(table.valid, 0, -1)
        for key in self._keys:
            ids = table.label_column(key).astype(np.int64)
            inside = (path >= 0) & (ids >= 0)
            # Domains of the same name in two wider domains are two.
            paths = path[inside] * (int(ids.max(initial=0)) + 1) + ids[inside]
            path = np.full(table.capacity, -1, dtype=np.int64)
            path[inside] = np.unique(paths, return_inverse=True)[1]
            yield path
