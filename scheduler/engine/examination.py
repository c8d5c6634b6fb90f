"""Examination: what every node says to one pod, on demand (`kubestow explain`).

Asks the same plugins in the same order as a cycle, but about every node: it does not stop when
enough nodes are found, and it scores all that fit. Nothing a cycle uses is touched: it has a search
of its own, without reuse, without a rotation index, without random choice; nothing is assumed, and
PostFilter, Reserve and Permit are not run.

What it costs is paid by whoever asks: one pass over all nodes without reuse, on the owner's loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import Diagnosis, FitError, status_reasons
from scheduler.engine.runtime import AttemptError, Framework
from scheduler.engine.scoring import Scoring
from scheduler.engine.search import NodeStatuses, PreFilterNodes, Search
from scheduler.framework import CycleState, Int64Column, Nominator, Rows, Status, unresolvable


@dataclass(frozen=True, slots=True)
class Rejection:
    """Nodes that one plugin rejected for the same reasons."""

    plugin: str
    #: `Unschedulable`, `UnschedulableAndUnresolvable` (preemption cannot help) or `Pending`.
    status: str
    reasons: tuple[str, ...]
    #: How many nodes.
    nodes: int
    #: Names of a few of them.
    examples: tuple[str, ...]
    #: They would fit, were it not for pods that are nominated to them.
    only_nominated: bool = False


@dataclass(frozen=True, slots=True)
class PluginScore:
    """What one plugin thinks of one node; `weighted` is what counts in the total."""

    plugin: str
    raw: int
    normalized: int
    weighted: int


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A feasible node; `scores` in the order of the profile, without plugins that were skipped."""

    node: str
    total: int
    scores: tuple[PluginScore, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """The verdicts of all nodes: each is feasible or counted in exactly one of `rejections`."""

    nodes: int
    feasible: int
    #: The largest group first.
    rejections: tuple[Rejection, ...] = ()
    #: The best feasible nodes, best first, by name among equals.
    best: tuple[NodeScore, ...] = ()
    #: How many nodes share the highest total: one of them would be picked at random.
    tied: int = 0
    #: The weight of each Score plugin that was asked.
    weights: dict[str, int] = field(default_factory=dict)
    #: Filter and Score plugins that had nothing to say about this pod.
    skipped_filters: tuple[str, ...] = ()
    skipped_scores: tuple[str, ...] = ()
    #: A plugin failed: an attempt would end with this error. What came before it is still here.
    error: str = ""
    error_plugin: str = ""
    #: What a cycle would do differently from what is shown.
    notes: tuple[str, ...] = ()
    #: What plugins say about the pod besides (`ExplainingPlugin`), by plugin.
    explanations: dict[str, tuple[str, ...]] = field(default_factory=dict)


NO_NODES = "the cluster has no nodes"
ONE_NODE = "one node fits: a cycle takes it without scoring"
NOT_SCORED = "the profile scores nothing: a cycle picks one of the nodes that fit at random"


def examine(
    framework: Framework,
    table: NodeTable,
    nominator: Nominator,
    pod: Pod,
    *,
    now: float,
    top: int,
    examples: int,
    nodes_to_find: int | None = None,
) -> Examination:
    """Ask every plugin of the profile about every node.

    `now` is the wall clock, as `CycleState.now` of an attempt. `top` feasible nodes are listed with
    their scores, and `examples` nodes are named for each group of rejections. `nodes_to_find` is
    how many feasible nodes end a real search; None when it looks at all.
    """
    explanations = framework.explain(pod)
    if not table.node_count:
        return Examination(0, 0, notes=(NO_NODES,), explanations=explanations)
    state = CycleState(now)
    search = _EverySearch(framework, table, nominator)
    try:
        found = search.examine(state, pod, examples)
        if not len(found.feasible) and framework.relax(state, pod):
            state.skip_filter.clear()
            found = search.examine(state, pod, examples)
    except AttemptError as problem:
        return Examination(
            table.node_count,
            0,
            skipped_filters=tuple(sorted(state.skip_filter)),
            error=str(problem),
            error_plugin=problem.status.plugin,
            explanations=explanations,
        )
    notes = list(_notes(found, nodes_to_find, scores=bool(framework.score)))
    best, tied, weights, error = _Ranking(framework, table).rank(state, pod, found.feasible, top)
    if error is not None and len(found.feasible) == 1:
        notes.append("scoring failed, but does not matter while one node fits")
    return Examination(
        nodes=table.node_count,
        feasible=len(found.feasible),
        rejections=found.rejections,
        best=best,
        tied=tied,
        weights=weights,
        skipped_filters=tuple(sorted(state.skip_filter)),
        skipped_scores=tuple(sorted(state.skip_score)),
        error="" if error is None else str(error),
        error_plugin="" if error is None else error.status.plugin,
        notes=tuple(notes),
        explanations=explanations,
    )


@dataclass(frozen=True, slots=True)
class _Answers:
    """All verdicts."""

    feasible: Rows
    rejections: tuple[Rejection, ...]
    #: The node that a cycle takes because the pod is nominated to it.
    nominated: str = ""


def _notes(found: _Answers, nodes_to_find: int | None, *, scores: bool) -> Iterator[str]:
    feasible = len(found.feasible)
    if found.nominated:
        yield f"the pod is nominated to {found.nominated}, which fits: a cycle takes it"
    elif feasible == 1:
        yield ONE_NODE
    elif feasible and not scores:
        yield NOT_SCORED
    elif nodes_to_find is not None and feasible > nodes_to_find:
        yield (
            f"a cycle stops when it has found {nodes_to_find} nodes that fit, and normalises "
            f"scores over those; here all {feasible} are scored"
        )


class _EverySearch(Search):
    """A search that stops nowhere and remembers nothing."""

    def __init__(self, framework: Framework, table: NodeTable, nominator: Nominator) -> None:
        super().__init__(framework, table, nominator, percentage=None, reuse=False)

    def examine(self, state: CycleState, pod: Pod, examples: int) -> _Answers:
        """The verdicts of all nodes; AttemptError when a plugin fails."""
        table = self._table
        groups = _Groups(examples)
        try:
            narrowing = self._pre_filter(state, pod, None, Diagnosis(node_count=table.node_count))
        except FitError as unfit:
            rejected = unfit.diagnosis.statuses.absent
            plugins = unfit.diagnosis.unschedulable_plugins
            groups.add(_attributed(rejected, plugins), [table.names[row] for row in table.rows])
            return _Answers(np.zeros(0, dtype=np.intp), groups.sorted())
        rows = table.rows if narrowing.names is None else self._rows_of(narrowing.names)
        if narrowing.names is not None:
            groups.add(*self._left_out(narrowing, rows))
        verdicts = self._evaluate(state, pod, rows)
        crowded = self._ask_the_rest(state, pod, verdicts)
        self._group(state, pod, verdicts, crowded, groups)
        feasible = np.flatnonzero(verdicts.verdict == 0)
        return _Answers(feasible, groups.sorted(), self._nominated_node(state, pod))

    def _left_out(self, narrowing: PreFilterNodes, rows: Rows) -> tuple[Status, list[str]]:
        names = self._table.names
        others = np.setdiff1d(self._table.rows, rows)
        plugins = sorted(set(narrowing.plugins))
        status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]")
        return _attributed(status, plugins), [names[row] for row in others]

    def _ask_the_rest(self, state: CycleState, pod: Pod, verdicts: NodeStatuses) -> frozenset[int]:
        """Scalar plugins, then nominated pods; the rows that fit but for nominated pods."""
        verdict, explicit = verdicts.verdict, verdicts.explicit
        if self.filtering.scalar:
            for row in verdicts.rows.tolist():
                known, status = self.filtering.ask_scalar(state, pod, row, int(verdict[row]))
                if status is not None:
                    verdict[row], explicit[row] = known, status
        crowded = set()
        for row in self._nominated_rows(pod).tolist():
            known = int(verdict[row])
            if known == 0 or known > self.filtering.first_pod_dependent:
                self._recheck_with_nominated(state, pod, row, verdicts)
                if known == 0 and verdict[row]:
                    crowded.add(row)
        return frozenset(crowded)

    def _group(
        self,
        state: CycleState,
        pod: Pod,
        verdicts: NodeStatuses,
        crowded: frozenset[int],
        groups: _Groups,
    ) -> None:
        names, verdict, explicit = self._table.names, verdicts.verdict, verdicts.explicit
        for row, status in explicit.items():
            groups.add(status, [names[row]], only_nominated=row in crowded)
        rejected = np.array(
            [row for row in verdicts.rows[verdict[verdicts.rows] != 0] if row not in explicit],
            dtype=np.intp,
        )
        for plugin in np.unique(verdict[rejected]).tolist():
            index = plugin - 1
            mine = rejected[verdict[rejected] == plugin]
            codes = verdicts.codes[index][mine]
            for code in np.unique(codes).tolist():
                status = self.filtering.status_of(state, pod, index, code)
                groups.add(status, [names[row] for row in mine[codes == code]])

    def _nominated_node(self, state: CycleState, pod: Pod) -> str:
        name = pod.status.nominated_node_name
        row = self._table.row_of(name) if name else None
        return name if row is not None and self._nominated_fits(state, pod, row) else ""


def _attributed(status: Status, plugins: set[str] | list[str]) -> Status:
    return status.by(", ".join(sorted(plugins)))


class _Groups:
    """Collects rejections by plugin and reasons."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._groups: dict[tuple[str, str, tuple[str, ...], bool], list[str]] = {}

    def add(self, status: Status, nodes: list[str], *, only_nominated: bool = False) -> None:
        """Count nodes that have this status."""
        if nodes:
            key = (status.plugin, status.code.label, status_reasons(status), only_nominated)
            self._groups.setdefault(key, []).extend(nodes)

    def sorted(self) -> tuple[Rejection, ...]:
        """All groups, the largest first."""
        order = sorted(self._groups.items(), key=lambda group: (-len(group[1]), group[0]))
        return tuple(
            Rejection(
                plugin=plugin,
                status=label,
                reasons=reasons,
                nodes=len(nodes),
                examples=tuple(sorted(nodes)[: self._examples]),
                only_nominated=only_nominated,
            )
            for (plugin, label, reasons, only_nominated), nodes in order
        )


_Ranked = tuple[tuple[NodeScore, ...], int, dict[str, int], AttemptError | None]


class _Ranking:
    """Scores feasible nodes, without reuse."""

    def __init__(self, framework: Framework, table: NodeTable) -> None:
        self._scoring = Scoring(framework, table)
        self._table = table

    def rank(self, state: CycleState, pod: Pod, feasible: Rows, top: int) -> _Ranked:
        """The best nodes, how many share the highest total, the weights, and what failed."""
        scoring = self._scoring
        if not len(feasible):
            return (), 0, {}, None
        if not scoring.slots:
            names = sorted(self._table.names[row] for row in feasible)[:top]
            return tuple(NodeScore(name, 0, ()) for name in names), len(feasible), {}, None
        columns: dict[str, tuple[Int64Column, Int64Column, Int64Column]] = {}
        total = np.zeros(len(feasible), dtype=np.int64)
        try:
            scoring.pre_score(state, pod, feasible, None)
            for slot in scoring.slots:
                if slot.name in state.skip_score:
                    continue
                raw, normalized = scoring.scores_of(slot, state, pod, feasible)
                weighted = slot.weight * normalized
                columns[slot.name] = raw, normalized, weighted
                total += weighted
        except AttemptError as problem:
            return (), 0, {}, problem
        weights = {slot.name: slot.weight for slot in scoring.slots if slot.name in columns}
        tied = int((total == total.max()).sum())
        return self._best(feasible, total, columns, top), tied, weights, None

    def _best(
        self,
        feasible: Rows,
        total: Int64Column,
        columns: dict[str, tuple[Int64Column, Int64Column, Int64Column]],
        top: int,
    ) -> tuple[NodeScore, ...]:
        names = self._table.names
        rows, totals = feasible.tolist(), total.tolist()
        order = sorted(range(len(rows)), key=lambda i: (-totals[i], names[rows[i]]))
        return tuple(
            NodeScore(
                names[rows[i]],
                totals[i],
                tuple(
                    PluginScore(name, int(raw[i]), int(normalized[i]), int(weighted[i]))
                    for name, (raw, normalized, weighted) in columns.items()
                ),
            )
            for i in order[:top]
        )
