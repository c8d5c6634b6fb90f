"""Search: PreFilter, Filter and the set of feasible rows for one pod.

Follows framework-cycle-config.md 2.4 to 2.9.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.diagnosis import Diagnosis, FitError, RowVerdicts, TableStatuses
from scheduler.engine.filtering import Filtering
from scheduler.engine.metrics import Stopwatch, no_stopwatch
from scheduler.engine.nominated_pods_fit import (
    NominatedFilterCache,
    NominatedPodsFit,
    NominatedRows,
)
from scheduler.engine.result_cache import (
    NOT_A_NODE,
    CachedResult,
    NarrowCodes,
    Recorded,
    ResultCache,
)
from scheduler.engine.runtime import AttemptError, Framework, failed, pre_filter_result
from scheduler.framework import (
    SKIP,
    Code,
    Codes,
    CycleState,
    NodeToStatus,
    Nominator,
    PreFilterResult,
    Rows,
    Status,
    unresolvable,
)

_MIN_FEASIBLE = 100
_MIN_PERCENTAGE = 5
_EVERY_NODE = 100
MUST_BE_AWAITED = "it is async and cannot be asked outside of a scheduling cycle"


@dataclass(slots=True)
class FeasibleNodes:
    """The outcome of a search that found at least one node."""

    #: Feasible rows.
    rows: Rows
    #: The signature's results, when `rows` are its feasible rows or its raw scores may be reused.
    entry: CachedResult | None
    #: Whether `rows` is the signature's own feasible set.
    shared: bool
    #: Nodes that got an explicit status, for `EvaluatedNodes`.
    rejected: int
    #: The nominated node passed: it is taken without scoring.
    nominated: bool = False
    #: What is known about the nodes looked at; None when `entry` says it all.
    verdicts: NodeStatuses | None = None


@dataclass(slots=True)
class NodeStatuses:
    """What is known about candidate rows within one search; changed as more plugins are asked."""

    #: The candidates, ascending.
    rows: Rows
    #: As `CachedResult.verdict`; NOT_A_NODE for rows that are no candidates.
    verdict: np.ndarray
    #: Per filter index its codes, per row of the table; a plugin without rejections may be absent.
    codes: dict[int, NarrowCodes]
    #: Statuses that no code expresses, by row; they win.
    explicit: dict[int, Status] = field(default_factory=dict)
    #: Codes of rows that only nominated pods make unfit, 0 elsewhere; they win over `codes`.
    crowded: Codes | None = None
    #: What codes from `OWN_CODES` on stand for.
    statuses: Sequence[Status] = ()


@dataclass(slots=True)
class PreFilterNodes:
    """The nodes that PreFilter leaves, None for all, and the plugins that said so."""

    names: frozenset[str] | None = None
    plugins: list[str] = field(default_factory=list)
    #: By plugins that let the others be asked as well.
    rejections: list[Status] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PreFilterSlot:
    """How one PreFilter plugin of a profile is asked."""

    plugin: Any
    name: str
    #: Whether its answer serves for other pods of the signature.
    reusable: bool
    #: It answers later, and only within a cycle that may be suspended.
    awaited: bool


class Search:
    """Finds feasible rows for pods of one profile. Owns its rotation index and result cache."""

    def __init__(
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        *,
        percentage: int | None,
        reuse: bool = True,
        all_columnar_scores: bool = True,
        scores_anything: bool = True,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._framework = framework
        self._table = table
        self._stopwatch = stopwatch or no_stopwatch()
        self.filtering = Filtering(framework, table, self._stopwatch)
        self.results = ResultCache()
        self._nominated = NominatedRows(table, nominator)
        self._crowding = NominatedFilterCache(table)
        self._reuse = reuse
        self._percentage = percentage or 0
        self._scores_anything = scores_anything
        #: Every node is looked at: nothing scalar in the profile and no explicit percentage.
        self._complete = (
            not self.filtering.scalar
            and all_columnar_scores
            and (not self._percentage or self._percentage >= _EVERY_NODE)
        )
        self._next_start = 0
        self.pre_filters = tuple(
            PreFilterSlot(
                each,
                each.name,
                bool(getattr(each, "pre_filter_reusable", False)),
                each.name in framework.awaited_pre_filters,
            )
            for each in framework.pre_filter
        )

    @property
    def nodes_to_find(self) -> int | None:
        """How many feasible nodes end a search of all nodes; None when every node is looked at."""
        return None if self._complete else self._feasible_to_find(self._table.node_count)

    # -- entry point -----------------------------------------------------------------------------

    def find(self, state: CycleState, pod: Pod) -> FeasibleNodes:
        """The feasible rows; raises FitError with the diagnosis, or AttemptError."""
        entry = self._entry(pod)
        diagnosis = Diagnosis(node_count=self._table.node_count)
        narrowing = self._prepare(state, pod, entry, diagnosis)
        stopwatch = self._stopwatch
        started, outcome = stopwatch.start(), Code.SUCCESS
        try:
            return self._filter(state, pod, entry, narrowing, diagnosis)
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            self.filtering.report_scalar(state)
            stopwatch.point("Filter", outcome.label, started)

    def _prepare(
        self, state: CycleState, pod: Pod, entry: CachedResult | None, diagnosis: Diagnosis
    ) -> PreFilterNodes:
        """PreFilter, measured."""
        started, outcome = self._stopwatch.monotonic(), Code.SUCCESS
        try:
            narrowing = self._pre_filter(state, pod, entry, diagnosis)
        except FitError:
            outcome = diagnosis.statuses.absent.code
            raise
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            self._stopwatch.point("PreFilter", outcome.label, started)
        diagnosis.unschedulable_plugins.update(narrowing.plugins)
        return narrowing

    def _filter(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        narrowing: PreFilterNodes,
        diagnosis: Diagnosis,
    ) -> FeasibleNodes:
        table = self._table
        if pod.status.nominated_node_name:
            row = table.row_of(pod.status.nominated_node_name)
            if row is not None and self._nominated_fits(state, pod, row):
                return FeasibleNodes(np.array([row], dtype=np.intp), None, False, 0, nominated=True)
        return self._filter_unnominated(state, pod, entry, narrowing, diagnosis)

    def _filter_unnominated(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        narrowing: PreFilterNodes,
        diagnosis: Diagnosis,
    ) -> FeasibleNodes:
        """Filter all nodes that PreFilter left."""
        if narrowing.names is not None:
            return self._search_rows(
                state, pod, self._rows_of(narrowing.names), narrowing, diagnosis
            )
        if entry is None:
            return self._search_rows(state, pod, self._table.rows, narrowing, diagnosis)
        return self._search_all(state, pod, entry, diagnosis)

    def _entry(self, pod: Pod) -> CachedResult | None:
        if not self._reusable(pod):
            return None
        key = self._key(pod)
        entry = self.results.get(key, pod.uid)
        if entry is None or entry.capacity != self._table.capacity:
            entry = CachedResult(
                self._table.capacity,
                len(self.filtering.slots),
                len(self._framework.score),
                recorded_bytes=pod.signature.nbytes,
            )
            self.results.discard(key)
            self.results.put(key, entry, pod.uid)
        return entry

    def _key(self, pod: Pod) -> Hashable:
        return pod.signature.id

    def settle(self, pod: Pod) -> None:
        """Account for the memory the pod's signature now holds; call once per attempt."""
        if self._reusable(pod):
            self.results.settle(self._key(pod))

    def forget(self, pod: Pod) -> None:
        """Drop what is known about the pod's signature."""
        if self._reusable(pod):
            self.results.discard(self._key(pod))

    def _reusable(self, pod: Pod) -> bool:
        """Whether results of the signature hold for this pod: not with a pin or a node name."""
        return self._reuse and not pod.pin and not pod.spec.node_name

    # -- PreFilter -------------------------------------------------------------------------------

    def _pre_filter(
        self, state: CycleState, pod: Pod, entry: CachedResult | None, diagnosis: Diagnosis
    ) -> PreFilterNodes:
        """Run PreFilter; raises FitError when the pod is rejected."""
        narrowing = PreFilterNodes()
        worked = False
        for slot in self.pre_filters:
            if worked:
                # Not behind the last one: what was found out should not be lost.
                self._stopwatch.cycle.check()
                worked = False
            answer = self._call_pre_filter(slot, state, pod, entry)
            if answer is SKIP:
                # The usual answer, and a quick one; a call less for each.
                state.skip_filter.add(slot.name)
                continue
            worked = True
            if answer is not None:
                self.merge_pre_filter_result(slot.plugin, answer, state, narrowing, diagnosis)
        return self._narrowed(narrowing, diagnosis)

    def merge_pre_filter_result(
        self,
        plugin: Any,
        answer: PreFilterResult | Status,
        state: CycleState,
        narrowing: PreFilterNodes,
        diagnosis: Diagnosis,
    ) -> None:
        """Take one plugin's answer into account; raises FitError when nothing can follow it."""
        if isinstance(answer, PreFilterResult):
            narrowing.plugins.append(plugin.name)
            known, named = narrowing.names, frozenset(answer.node_names)
            narrowing.names = named if known is None else known & named
            if not narrowing.names:
                raise self._no_common_node(narrowing, diagnosis)
            return
        if answer.success:
            return
        if answer.skip:
            state.skip_filter.add(plugin.name)
            return
        if not answer.rejected or answer.code.label == "Pending":
            raise failed(
                f'running PreFilter plugin "{plugin.name}": {answer.message}', None, plugin.name
            )
        narrowing.rejections.append(answer.by(plugin.name))
        if answer.code.label == "UnschedulableAndUnresolvable":
            raise self._rejected_by_pre_filter(narrowing.rejections, PreFilterNodes(), diagnosis)

    def _narrowed(self, narrowing: PreFilterNodes, diagnosis: Diagnosis) -> PreFilterNodes:
        """After all plugins were asked; raises FitError when one rejected the pod."""
        if narrowing.rejections:
            raise self._rejected_by_pre_filter(narrowing.rejections, narrowing, diagnosis)
        return narrowing

    def _call_pre_filter(
        self, slot: PreFilterSlot, state: CycleState, pod: Pod, entry: CachedResult | None
    ) -> PreFilterResult | Status | None:
        if entry is not None and (known := entry.pre_filter.get(slot.name)) is not None:
            if known.writes:
                state.data.update(known.writes)
            recorded: PreFilterResult | Status | None = known.answer
            return recorded
        plugin = slot.plugin
        if slot.awaited:
            # Whoever looks without scheduling (`explain`, a what-if) cannot wait.
            raise failed(
                f'running PreFilter plugin "{plugin.name}": {MUST_BE_AWAITED}', None, plugin.name
            )
        reusable = entry is not None and slot.reusable
        state.recorder = [] if reusable else None
        try:
            answer: PreFilterResult | Status | None = plugin.pre_filter(state, pod, self._table)
            if answer is not SKIP:
                answer = pre_filter_result(answer)
        except AttemptError:
            raise
        except Exception as error:
            raise pre_filter_failed(plugin, error) from error
        if reusable and entry is not None and state.recorder is not None:
            entry.pre_filter[plugin.name] = Recorded(
                answer, tuple((key, state.data[key]) for key in state.recorder)
            )
        state.recorder = None
        return answer

    def _rejected_by_pre_filter(
        self, rejections: Sequence[Status], narrowing: PreFilterNodes, diagnosis: Diagnosis
    ) -> FitError:
        """The last rejection is the one reported, as upstream; the wishes of all of them count."""
        status = rejections[-1]
        diagnosis.pre_filter_message = status.message
        diagnosis.statuses = NodeToStatus(absent=status)
        diagnosis.unschedulable_plugins.update(narrowing.plugins)
        diagnosis.add(status)
        diagnosis.add_rejectors(rejections)
        return FitError(diagnosis)

    def _no_common_node(self, narrowing: PreFilterNodes, diagnosis: Diagnosis) -> FitError:
        names = sorted(set(narrowing.plugins))
        reason = (
            f"node(s) didn't satisfy plugin {names[0]}"
            if len(names) == 1
            else f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
        )
        return self._rejected_by_pre_filter([unresolvable(reason)], narrowing, diagnosis)

    # -- Filter over everything, with reuse ------------------------------------------------------

    def _search_all(
        self, state: CycleState, pod: Pod, entry: CachedResult, diagnosis: Diagnosis
    ) -> FeasibleNodes:
        filtering = self.filtering
        filtering.refresh(entry, state, pod)
        nominated = self._nominated_rows(pod)
        if filtering.reuse_only(state) and self._complete and not len(nominated):
            rows = entry.feasible_rows()
            if len(rows):
                return FeasibleNodes(rows, entry, True, self._table.node_count - len(rows))
            verdicts = NodeStatuses(self._table.rows, entry.verdict, entry_codes(entry))
            raise self._unfit(state, pod, verdicts, diagnosis)
        verdicts = NodeStatuses(self._table.rows, entry.verdict.copy(), entry_codes(entry))
        filtering.filter_uncacheable(state, pod, verdicts.verdict, verdicts.codes)
        return self._choose(state, pod, verdicts, entry, nominated, diagnosis)

    def _choose(
        self,
        state: CycleState,
        pod: Pod,
        verdicts: NodeStatuses,
        entry: CachedResult | None,
        nominated: Rows,
        diagnosis: Diagnosis,
    ) -> FeasibleNodes:
        """From columnar verdicts: nominated pods, scalar plugins, sampling."""
        verdict = verdicts.verdict
        tempting = verdict[nominated] == 0
        self._recheck_all(state, pod, nominated[tempting], verdicts)
        visited = verdicts.rows
        if self._complete:
            rows = np.flatnonzero(verdict == 0)
        else:
            rows, visited = self._sample(state, pod, verdicts)
        if len(rows):
            known = replace(verdicts, rows=visited)
            return FeasibleNodes(rows, entry, False, len(visited) - len(rows), verdicts=known)
        # Upstream's first pass counts the nominated pods, so its reason is the one to report.
        others = nominated[~tempting]
        reported = others[verdict[others] > self.filtering.first_pod_dependent]
        self._recheck_all(state, pod, reported, verdicts)
        raise self._unfit(state, pod, verdicts, diagnosis)

    def _order(self, rows: Rows) -> Rows:
        start = self._next_start % len(rows) if len(rows) else 0
        return np.concatenate((rows[start:], rows[:start]))

    def _sample(self, state: CycleState, pod: Pod, verdicts: NodeStatuses) -> tuple[Rows, Rows]:
        """The first feasible rows in rotating order, and the rows looked at."""
        order = self._order(verdicts.rows)
        wanted = self._feasible_to_find(len(order))
        verdict, explicit = verdicts.verdict, verdicts.explicit
        found: list[int] = []
        visited = 0
        scalar = self.filtering.scalar
        for row in order.tolist():
            visited += 1
            known = int(verdict[row])
            if scalar and row not in explicit:
                known, status = self.filtering.ask_scalar(state, pod, row, known)
                if status is not None:
                    explicit[row] = status
                    verdict[row] = known
            if known == 0:
                found.append(row)
                if len(found) >= wanted:
                    break
        count = max(self._table.node_count, 1)
        self._next_start = (self._next_start + visited) % count
        return np.array(sorted(found), dtype=np.intp), order[:visited]

    def _feasible_to_find(self, nodes: int) -> int:
        if not self._scores_anything:
            return 1
        if nodes < _MIN_FEASIBLE:
            return nodes
        percentage = self._percentage or max(50 - nodes // 125, _MIN_PERCENTAGE)
        return max(nodes * percentage // 100, _MIN_FEASIBLE)

    # -- Filter over given rows, without reuse ---------------------------------------------------

    def _rows_of(self, names: frozenset[str]) -> Rows:
        rows = (self._table.row_of(name) for name in names)
        return np.array(sorted(row for row in rows if row is not None), dtype=np.intp)

    def _search_rows(
        self,
        state: CycleState,
        pod: Pod,
        rows: Rows,
        narrowing: PreFilterNodes,
        diagnosis: Diagnosis,
    ) -> FeasibleNodes:
        if narrowing.names is not None:
            plugins = " ".join(sorted(set(narrowing.plugins)))
            absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
            diagnosis.statuses = NodeToStatus(absent=absent)
        verdicts = self._evaluate(state, pod, rows)
        verdict = verdicts.verdict
        nominated = self._nominated_rows(pod)
        nominated = nominated[verdict[nominated] != NOT_A_NODE]
        return self._choose(state, pod, verdicts, None, nominated, diagnosis)

    def _evaluate(self, state: CycleState, pod: Pod, rows: Rows) -> NodeStatuses:
        """What the columnar plugins say."""
        answers, codes = self.filtering.evaluate(state, pod, rows)
        verdict = np.full(self._table.capacity, NOT_A_NODE, dtype=np.int16)
        verdict[rows] = answers
        column = np.zeros(self._table.capacity, dtype=np.int32)
        column[rows] = codes
        # A row has the code of the one plugin that rejected it, so one column does for all plugins.
        return NodeStatuses(rows, verdict, dict.fromkeys(range(len(self.filtering.slots)), column))

    # -- nominations -----------------------------------------------------------------------------

    def _nominated_rows(self, pod: Pod) -> Rows:
        return self._nominated.at_least(pod.priority, pod.metadata.uid)

    def _with_nominated(self, state: CycleState, pod: Pod, row: int) -> Status | None:
        """The first of upstream's two passes: filters with the nominated pods of the node added."""
        nominees = self._nominated.pods(row, pod.priority, pod.metadata.uid)
        if not nominees:
            return None
        self._stopwatch.cycle.check()
        node = NodeOverlay(self._table, row)
        copy = state.clone()
        for other in nominees:
            node.add_pod(other)
            self._framework.add_pod(copy, pod, other, node)
        return self._framework.run_filters(copy, pod, node)

    def _recheck_all(self, state: CycleState, pod: Pod, rows: Rows, verdicts: NodeStatuses) -> None:
        """Filter rows again with their nominated pods; what is known of others like it is used."""
        if not len(rows):
            return
        crowding = self._crowding_of(state, pod)
        if crowding is None:
            for row in rows.tolist():
                self._recheck_with_nominated(state, pod, row, verdicts)
            return
        own = self._nominated.own_row(pod.metadata.uid)
        if own is not None and own in rows:
            # The pod itself does not count there, as it would for all others.
            self._recheck_with_nominated(state, pod, own, verdicts)
            rows = rows[rows != own]
        for row in crowding.unknown(rows):
            status = self._with_nominated(state, pod, row)
            index = -1 if status is None else self._index_of(status) - 1
            crowding.note(row, index, status)
        answers, codes = crowding.answers(rows)
        refused = answers > 0
        if not refused.any():
            return
        verdicts.verdict[rows[refused]] = answers[refused]
        if verdicts.crowded is None:
            verdicts.crowded = np.zeros(self._table.capacity, dtype=np.int32)
            verdicts.statuses = crowding.statuses
        verdicts.crowded[rows[refused]] = codes[refused]

    def _crowding_of(self, state: CycleState, pod: Pod) -> NominatedPodsFit | None:
        """What is remembered; None where the answer is not a matter of signature and node alone."""
        skipped = state.skip_filter
        if (
            not self._reusable(pod)
            or pod.signature.volumes  # Ephemeral claims are named after their pod.
            or not self.filtering.told_by_rows(skipped)
            or self._framework.follows_pods(skipped)
        ):
            return None
        kind = (pod.signature.id, state.variant, frozenset(skipped))
        return self._crowding.recall(kind, self.filtering.versions())

    def _recheck_with_nominated(
        self, state: CycleState, pod: Pod, row: int, verdicts: NodeStatuses
    ) -> None:
        status = self._with_nominated(state, pod, row)
        if status is not None:
            verdicts.verdict[row] = self._index_of(status)
            verdicts.explicit[row] = status

    def _nominated_fits(self, state: CycleState, pod: Pod, row: int) -> bool:
        try:
            if self._with_nominated(state, pod, row) is not None:
                return False
            return self._framework.run_filters(state, pod, self._table.node_info(row)) is None
        except AttemptError:
            # Upstream only logs an error here and goes on with all nodes; a real one comes back.
            return False

    def _index_of(self, status: Status) -> int:
        for slot in self.filtering.slots:
            if slot.name == status.plugin:
                return slot.index + 1
        return len(self.filtering.slots)

    # -- diagnosis -------------------------------------------------------------------------------

    def _unfit(
        self, state: CycleState, pod: Pod, verdicts: NodeStatuses, diagnosis: Diagnosis
    ) -> FitError:
        rows = verdicts.rows
        mine = verdicts.verdict[rows]
        chosen = np.zeros(len(rows), dtype=np.int32)
        for index, column in verdicts.codes.items():
            here = mine == index + 1
            if here.any():
                chosen[here] = column[rows[here]]
        if verdicts.crowded is not None:
            crowded = verdicts.crowded[rows]
            chosen = np.where(crowded == 0, chosen, crowded)
        rejected = self.filtering.rejected(
            state, pod, rows, mine, chosen, verdicts.explicit, verdicts.statuses
        )
        return self._diagnosed(rejected, diagnosis, diagnosis.statuses.absent)

    def _diagnosed(self, rejected: RowVerdicts, diagnosis: Diagnosis, absent: Status) -> FitError:
        groups = rejected.groups()
        for status, _ in groups:
            diagnosis.add(status)
        diagnosis.add_rejectors([status for status, _ in groups])
        if len(rejected.rows) < diagnosis.node_count:
            # PreFilter left some nodes out; nobody has a reason of its own for these.
            diagnosis.condition_reason = ""
        diagnosis.verdicts = rejected
        diagnosis.statuses = TableStatuses(rejected, self._table, absent)
        return FitError(diagnosis)


def pre_filter_failed(plugin: Any, problem: Exception) -> AttemptError:
    """A PreFilter plugin raised."""
    return failed(f'running PreFilter plugin "{plugin.name}": {problem}', problem, plugin.name)


def entry_codes(entry: CachedResult) -> dict[int, NarrowCodes]:
    """Codes by filter index, for filters that rejected something."""
    return {index: column for index, column in enumerate(entry.codes) if column is not None}
