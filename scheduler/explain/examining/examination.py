"""Examination: the result of every node for one pod, on demand (`kubestow explain`).

It runs the same plugins in the same order as a cycle, but on every node: it does not stop once
enough nodes are found, and it scores all nodes that fit. It has no side effects on later cycles,
since it uses a search of its own without caches, rotation index and random choice. The pod is not
assumed, and PostFilter, Reserve and Permit do not run.

It costs one uncached pass over all nodes, on the owner's event loop; two if no node fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import Diagnosis, status_reasons
from scheduler.engine.errors import AttemptError
from scheduler.engine.node_statuses import NodeStatuses
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.pre_filter import rejected_by_pre_filter
from scheduler.engine.rejection_details import RejectionDetails
from scheduler.engine.runtime import Framework
from scheduler.engine.scoring import Scoring
from scheduler.engine.search import Search
from scheduler.explain.records import Examination, NodeScore, PluginScore, Rejection
from scheduler.framework import Code, CycleState, Int64Column, Nominator, Rows, Status

NO_NODES = "the cluster has no nodes"
ONE_NODE = "one node fits: a cycle takes it without scoring"
NOT_SCORED = (
    "the profile scores nothing: a cycle picks one of the nodes that fit, as it breaks ties"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Score and rank of one node among those that fit."""

    score: NodeScore | None = None
    #: 1 for the highest total; 0 if the node does not fit.
    rank: int = 0


def new_state(now: float, check_time: Callable[[], None] | None) -> CycleState:
    """Return the cycle state of an examination, whose time `check_time` limits if given."""
    state = CycleState(now)
    if check_time is not None:
        state.check_time = check_time
    return state


def examine(  # noqa: PLR0913 - what is examined, and how much of it
    framework: Framework,
    table: NodeTable,
    nominator: Nominator,
    pod: Pod,
    *,
    now: float,
    top: int,
    examples: int,
    nodes_to_find: int | None = None,
    node: str = "",
    check_time: Callable[[], None] | None = None,
) -> tuple[Examination, Place]:
    """Run every plugin of the profile on every node; return what it found, and the place of `node`.

    `now` is the wall clock time, like `CycleState.now` of an attempt. The best `top` feasible nodes
    are listed with their scores, and `examples` nodes are named for each group of rejections.
    `nodes_to_find` is the number of feasible nodes that ends a real search; None: it looks at all.
    """
    explanations = framework.explain(pod)
    if not table.node_count:
        return Examination(0, 0, notes=(NO_NODES,), explanations=explanations), Place()
    state = new_state(now, check_time)
    found, ranking, error = _Outcome(), _Ranking(), None
    try:
        found = _CompleteSearch(framework, table, nominator).examine(state, pod, examples)
        if len(found.feasible):
            ranking = _rank(framework, table, state, pod, found.feasible, top, node)
    except AttemptError as raised:
        error = raised
    notes = list(_notes(found, nodes_to_find, scores=bool(framework.score)))
    if error is not None and len(found.feasible) == 1:
        notes.append("scoring failed, but does not matter while one node fits")
    examination = Examination(
        nodes=table.node_count,
        feasible=len(found.feasible),
        rejections=found.rejections,
        otherwise=found.otherwise,
        best=ranking.best,
        tied=ranking.tied,
        weights=dict(ranking.weights),
        skipped_filters=tuple(sorted(state.skip_filter)),
        skipped_scores=tuple(sorted(state.skip_score)),
        error="" if error is None else str(error),
        error_plugin="" if error is None else error.status.plugin,
        notes=tuple(notes),
        explanations=explanations,
        evictable=found.evictable,
    )
    return examination, ranking.place


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The results of Filter for all nodes."""

    feasible: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    rejections: tuple[Rejection, ...] = ()
    otherwise: tuple[Rejection, ...] = ()
    #: The node that a cycle would choose because the pod is nominated to it; empty: none.
    nominated: str = ""
    evictable: int = 0


class _Ranking(NamedTuple):
    """The results of Score for the feasible nodes; see `Examination`."""

    best: tuple[NodeScore, ...] = ()
    tied: int = 0
    weights: Mapping[str, int] = {}
    place: Place = Place()


def _notes(found: _Outcome, nodes_to_find: int | None, *, scores: bool) -> Iterator[str]:
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


class _CompleteSearch(Search):
    """A search that looks at every node and keeps no results."""

    def __init__(self, framework: Framework, table: NodeTable, nominator: Nominator) -> None:
        super().__init__(framework, table, nominator, percentage=None, reuse=False)
        self._details = RejectionDetails(framework, table)

    def examine(self, state: CycleState, pod: Pod, examples: int) -> _Outcome:
        """Return the results of all nodes. Raises AttemptError if a plugin fails."""
        found = self._examine(state, pod, examples)
        if not len(found.feasible) and self._framework.relax(state, pod):
            state.skip_filter.clear()
            found = self._examine(state, pod, examples)
        return found

    def _examine(self, state: CycleState, pod: Pod, examples: int) -> _Outcome:
        table = self._table
        names = table.names
        groups = _Groups(examples)
        left = run_synchronously(self._framework.run_pre_filter(state, pod, table))
        if left.rejections:
            diagnosis = rejected_by_pre_filter(left, Diagnosis(table.node_count)).diagnosis
            status = _attributed(diagnosis.statuses.absent, diagnosis.unschedulable_plugins)
            detail = self._details.of(state, pod, diagnosis.statuses.absent, table.rows)
            groups.add(status, [names[row] for row in table.rows], detail=detail)
            return _Outcome(rejections=groups.sorted())
        rows = table.rows
        if left.names is not None:
            rows = self._rows_of(left.names, None)
            others = [names[row] for row in np.setdiff1d(table.rows, rows)]
            status = _attributed(left.left_out(), set(left.plugins))
            detail = self._details.of(state, pod, status, np.setdiff1d(table.rows, rows))
            groups.add(status, others, detail=detail)
        statuses = self.filtering.evaluate(state, pod, rows)
        only_nominated = self._filter_the_rest(state, pod, statuses)
        feasible = np.flatnonzero(statuses.rejected_by == 0)
        evictable = self._group(groups, state, pod, statuses, only_nominated)
        row = self._fitting_nominated_row(state, pod)
        nominated = "" if row is None else names[row]
        otherwise: tuple[Rejection, ...] = ()
        if not len(feasible) and left.names is None:
            # Last, since the time may end in it, which must not cost the answer.
            otherwise = self._otherwise(state, pod, groups)
        return _Outcome(feasible, groups.sorted(), otherwise, nominated, evictable)

    def _otherwise(self, state: CycleState, pod: Pod, found: _Groups) -> tuple[Rejection, ...]:
        """Return what rejects all nodes without the plugins that did.

        Nothing if a node fits, or if the rest cannot be examined: a plugin fails, or time ends.
        """
        skipped = set(state.skip_filter)
        state.skip_filter.update(each.plugin for each in found.sorted())
        try:
            statuses = self.filtering.evaluate(state, pod, self._table.rows)
            beside = self._filter_the_rest(state, pod, statuses)
            if (statuses.rejected_by == 0).any():
                return ()
            groups = _Groups(0)
            self._group(groups, state, pod, statuses, beside)
            return groups.sorted()
        except AttemptError:
            return ()
        finally:
            state.skip_filter.clear()
            state.skip_filter.update(skipped)

    def _group(
        self,
        groups: _Groups,
        state: CycleState,
        pod: Pod,
        statuses: NodeStatuses,
        only_nominated: list[int],
    ) -> int:
        """Group rejections; return the number of nodes where evictions might help."""
        table, names = self._table, self._table.names
        evictable, lower = 0, table.priorities.below(pod.priority)
        for status, rejected in self.rejected(state, pod, statuses).by_reasons():
            if status.code is Code.UNSCHEDULABLE:
                evictable += int(np.count_nonzero(lower[rejected]))
            beside = np.isin(rejected, only_nominated)
            detail = self._details.of(state, pod, status, rejected)
            groups.add(status, [names[row] for row in rejected[~beside]], detail=detail)
            groups.add(status, [names[row] for row in rejected[beside]], only_nominated=True)
        return evictable

    def _filter_the_rest(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> list[int]:
        """Run the scalar filters, then all filters with the nominated pods added.

        Returns the rows that would fit without the pods nominated to them.
        """
        rejected_by = statuses.rejected_by
        if self.filtering.scalar:
            for row in statuses.rows.tolist():
                index, status = self.filtering.filter_scalar(state, pod, row, int(rejected_by[row]))
                if status is not None:
                    statuses.reject(row, index, status)
        only_nominated = []
        for row in self._nominated_rows(pod).tolist():
            before = int(rejected_by[row])
            if before == 0 or before > self.filtering.first_pod_dependent:
                self._reject_beside_nominated(state, pod, row, statuses)
                if before == 0 and rejected_by[row]:
                    only_nominated.append(row)
        return only_nominated


def _attributed(status: Status, plugins: set[str] | list[str]) -> Status:
    return status.by(", ".join(sorted(plugins)))


class _Groups:
    """Collects rejections by plugin and reasons."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._groups: dict[tuple[str, str, tuple[str, ...], bool], list[str]] = {}
        self._details: dict[tuple[str, str, tuple[str, ...], bool], str] = {}

    def add(
        self, status: Status, nodes: list[str], *, only_nominated: bool = False, detail: str = ""
    ) -> None:
        """Add nodes that have this status."""
        if nodes:
            key = (status.plugin, status.code.label, status_reasons(status), only_nominated)
            self._groups.setdefault(key, []).extend(nodes)
            self._details.setdefault(key, detail)

    def sorted(self) -> tuple[Rejection, ...]:
        """Return all groups, the largest first."""
        order = sorted(self._groups.items(), key=lambda group: (-len(group[1]), group[0]))
        return tuple(
            Rejection(
                plugin=plugin,
                status=label,
                reasons=reasons,
                nodes=len(nodes),
                examples=tuple(sorted(nodes)[: self._examples]),
                only_nominated=only_nominated,
                detail=self._details[plugin, label, reasons, only_nominated],
            )
            for (plugin, label, reasons, only_nominated), nodes in order
        )


def _rank(
    framework: Framework,
    table: NodeTable,
    state: CycleState,
    pod: Pod,
    feasible: Rows,
    top: int,
    node: str,
) -> _Ranking:
    """Score the feasible nodes without caches. Raises AttemptError if a plugin fails."""
    scoring = Scoring(framework.score_slots, table)
    if scoring.slots:
        framework.run_pre_score(state, pod, table, feasible)
    columns: dict[str, tuple[Int64Column, Int64Column, Int64Column]] = {}
    total = np.zeros(len(feasible), dtype=np.int64)
    for slot in scoring.slots:
        if slot.name not in state.skip_score:
            raw, normalized = scoring.scores_of(slot, state, pod, feasible)
            weighted = slot.weight * normalized
            columns[slot.name] = raw, normalized, weighted
            total += weighted
    weights = {slot.name: slot.weight for slot in scoring.slots if slot.name in columns}
    names, totals = [table.names[row] for row in feasible.tolist()], total.tolist()
    order = sorted(range(len(names)), key=lambda i: (-totals[i], names[i]))

    def score_of(i: int) -> NodeScore:
        scores = (
            PluginScore(name, *(int(column[i]) for column in each))
            for name, each in columns.items()
        )
        return NodeScore(names[i], totals[i], tuple(scores))

    at = names.index(node) if node in names else None
    place = Place() if at is None else Place(score_of(at), order.index(at) + 1)
    best = tuple(map(score_of, order[:top]))
    return _Ranking(best, totals.count(totals[order[0]]), weights, place)
