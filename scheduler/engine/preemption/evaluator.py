"""Preemption: on which node the pod would fit if pods of lower priority were gone.

Follows framework-cycle-config.md 5.3 to 5.7. Pure: everything happens on overlays and on clones of
the cycle state. Three steps, each on what the one before left over:

1. numbers for all nodes at once: nodes without possible victims, and nodes where the pod would not
   fit even without them, as far as columnar filters can tell;
2. a dry run per node in scalar form, with the filters that removals can affect;
3. the choice among candidates.

A search without a candidate is remembered per signature until the node table changes; a dry run
that depends on its node and on disruption budgets alone, until one of these does in a way that
matters.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import numpy as np

from scheduler.api.label_sets import labels_key
from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.diagnosis import TableStatuses, fit_message, status_reasons
from scheduler.engine.errors import AttemptError
from scheduler.engine.filtering import FilterSlot, filter_slots, named_versions
from scheduler.engine.nominated_pods_fit import NominatedRows
from scheduler.engine.preemption.candidates import importance, least_harm, ranked
from scheduler.engine.preemption.disruption_budgets import NO_CLAIMS, Claims, DisruptionBudgets
from scheduler.engine.preemption.dry_run_cache import DryRunCache, Outcomes
from scheduler.engine.preemption.without_victims import WithoutPotentialVictims
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import RandomSource
from scheduler.extenders.extender import ExtenderError
from scheduler.framework import (
    BoolColumn,
    Code,
    Codes,
    Columns,
    CycleState,
    Int64Column,
    Listers,
    NodeToStatus,
    Nominator,
    PotentialVictims,
    Rows,
    Status,
    unresolvable,
)
from scheduler.framework.preemption import Candidate, PreemptionFinding, PreemptionRules

NO_NODES: Final = "no nodes available"
NO_CANDIDATE: Final = "no candidate node for preemption"
NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

_OF_PODS: Final = Columns.USAGE | Columns.PORTS | Columns.VOLUMES | Columns.NOMINATIONS
_UNKNOWABLE: Final = _OF_PODS & ~Columns.USAGE
_MAX_REMEMBERED: Final = 512

_SURVIVES, _EXACT, _VICTIMLESS = 0, -1, -2


CandidateReview = Callable[[Pod, Sequence[Candidate]], Coroutine[Any, Any, list[Candidate]] | None]
"""What others leave of the candidates; None when nobody has to be asked."""


class DryRun(Protocol):
    """What became of every node looked at."""

    candidates: list[Candidate]
    rejected: dict[str, Status]


def _unmeasured(victims: int) -> None:
    """Measure nothing."""


def _unlimited() -> None:
    """Let a search take as long as it takes."""


def _unreviewed(
    pod: Pod,
    candidates: Sequence[Candidate],
) -> None:
    """No extender has a say about victims."""


@dataclass(slots=True)
class _Outcome:
    """Implements `DryRun`."""

    candidates: list[Candidate] = field(default_factory=list)
    #: By node name; only where the dry run got as far as a node of its own.
    rejected: dict[str, Status] = field(default_factory=dict)
    errors: dict[str, None] = field(default_factory=dict)
    #: Reason to number of nodes, for nodes ruled out by numbers.
    counts: dict[str, int] = field(default_factory=dict)
    #: Plugins that turned down nodes without the victims.
    refusers: set[str] = field(default_factory=set)

    def refuse(self, node_name: str, status: Status) -> None:
        """Removing the victims of this node would not help."""
        self.rejected[node_name] = status
        self.refusers.add(status.plugin)
        for reason in status_reasons(status):
            self.counts[reason] = self.counts.get(reason, 0) + 1


@dataclass(slots=True)
class _Screen:
    """What the numbers say, per entry of `rows`."""

    rows: Rows
    #: `_SURVIVES`, `_EXACT` (all filters must be asked), `_VICTIMLESS`, or filter index + 1.
    verdict: np.ndarray
    #: The rejecting filter's code.
    codes: Codes
    #: Whether plugins that follow removals would see nothing in those of this row.
    alone: BoolColumn


@dataclass(slots=True)
class _Trial:
    """One search."""

    state: CycleState
    pod: Pod
    rules: PreemptionRules
    #: Filters that are not skipped.
    slots: tuple[FilterSlot, ...]
    #: Those among them whose answer removals can change.
    dynamic: tuple[FilterSlot, ...]
    #: Whether some plugin keeps state that AddPod and RemovePod change.
    extends: bool
    removable: Callable[[Pod], bool]
    budgets: DisruptionBudgets
    #: Rows with nominated pods that count.
    nominated: Rows
    #: The row that the pod itself is nominated to; what holds there holds for no other pod.
    own_row: int | None


class Evaluator:
    """Implements `framework.PreemptionSearch` for one profile."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        listers: Listers,
        *,
        random: RandomSource,
        own_schedulers: Sequence[str],
        observe: Callable[[int], None] = _unmeasured,
        review: CandidateReview = _unreviewed,
        check: Callable[[], None] = _unlimited,
    ) -> None:
        """`observe` is told the number of victims of every attempt.

        `check` is called often, and raises CycleBudgetError when the search has taken too long.

        `review` lets extenders have a say; its coroutine raises ExtenderError when one fails.
        """
        self._review = review
        self._check = check
        self._framework = framework
        self._table = table
        self._nominated = NominatedRows(table, nominator)
        self._listers = listers
        self._random = random
        self._own = frozenset(own_schedulers)
        self._observe = observe
        self._slots = filter_slots(framework)
        self._told = tuple(filter(_told_by_table, self._slots))
        self._extending = frozenset(p.name for p in framework.pre_filter if _extends(p))
        #: (signature, pin, rules, variant) to (stamp, finding) of searches that found nothing.
        self._negative_cache: dict[Any, tuple[tuple[object, ...], PreemptionFinding]] = {}
        self._budgets = DisruptionBudgets()
        self._dry_runs = DryRunCache(table)

    def observe(self, victims: int) -> None:
        """Count one attempt."""
        self._observe(victims)

    def own(self, pod: Pod) -> bool:
        """Whether a pod's scheduler is one of this process's profiles."""
        return pod.spec.scheduler_name in self._own

    def find(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
    ) -> PreemptionFinding:
        """Dry-run preemption where it may help, and choose a node."""
        if not self._table.node_count:
            return PreemptionFinding(error=NO_NODES)
        key, stamp = self._memory(state, pod, rules)
        if key is not None:
            remembered = self._negative_cache.get(key)
            if remembered is not None and remembered[0] == stamp:
                return remembered[1]
        rows = self._potential(statuses)
        outcome = _Outcome()
        if len(rows):
            wanted = max(
                len(rows) * rules.min_candidate_nodes_percentage // 100,
                rules.min_candidate_nodes_absolute,
            )
            offset = self._random.randrange(len(rows))
            order = np.concatenate((rows[offset:], rows[:offset]))
            self._examine(self._trial(state, pod, rules), order, wanted, outcome)
        if outcome.candidates:
            reviewed = self._review(pod, outcome.candidates)
            if reviewed is not None:
                return PreemptionFinding(pending=self._reviewed(reviewed))
            return PreemptionFinding(chosen=least_harm(outcome.candidates, self._random))
        if outcome.errors:
            return PreemptionFinding(error=_aggregate(list(outcome.errors)))
        message = self._message(outcome, len(rows))
        finding = PreemptionFinding(message=message, refusers=frozenset(outcome.refusers))
        if key is not None:
            if len(self._negative_cache) >= _MAX_REMEMBERED:
                self._negative_cache.clear()
            self._negative_cache[key] = stamp, finding
        return finding

    async def _reviewed(self, reviewed: Coroutine[Any, Any, list[Candidate]]) -> PreemptionFinding:
        """The choice among what extenders left of the candidates."""
        try:
            candidates = await reviewed
        except ExtenderError as error:
            return PreemptionFinding(error=str(error))
        if not candidates:
            return PreemptionFinding(error=NO_CANDIDATE)
        ranked = [
            replace(each, victims=tuple(sorted(each.victims, key=importance)))
            for each in candidates
        ]
        return PreemptionFinding(chosen=least_harm(ranked, self._random))

    def dry_run(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
    ) -> DryRun:
        """All candidates and, node by node, why the others are none; for inspection."""
        rows, outcome = self._potential(statuses), _Outcome()
        trial = self._trial(state, pod, rules)
        screen = _Screen(
            rows,
            np.full(len(rows), _EXACT, dtype=np.int32),
            np.zeros(len(rows), dtype=np.int32),
            np.zeros(len(rows), dtype=np.bool_),
        )
        self._run(trial, screen, len(rows) + 1, outcome, remember=False)
        return outcome

    # -- preparation -----------------------------------------------------------------------------

    def _potential(self, statuses: NodeToStatus) -> Rows:
        """Rows where preemption may help: those with the status Unschedulable."""
        if isinstance(statuses, TableStatuses):
            return statuses.rows_for_code(Code.UNSCHEDULABLE)
        table = self._table
        names = [table.names[row] for row in table.rows.tolist()]
        found = statuses.nodes_for_code(names, Code.UNSCHEDULABLE)
        return np.array([table.row_of(name) for name in found], dtype=np.intp)

    def _trial(self, state: CycleState, pod: Pod, rules: PreemptionRules) -> _Trial:
        slots = tuple(slot for slot in self._slots if slot.name not in state.skip_filter)
        own, priority = self._own, pod.priority
        self._budgets = self._budgets.renewed(self._listers["poddisruptionbudgets"].list())

        def removable(other: Pod) -> bool:
            return other.priority < priority and (
                not rules.own_victims_only or other.spec.scheduler_name in own
            )

        return _Trial(
            state,
            pod,
            rules,
            slots,
            tuple(slot for slot in slots if self._affected(slot)),
            bool(self._extending - state.skip_filter),
            removable,
            self._budgets,
            self._nominated.at_least(priority, pod.metadata.uid),
            self._nominated.own_row(pod.metadata.uid),
        )

    def _affected(self, slot: FilterSlot) -> bool:
        """Whether pods on a node can matter to a filter."""
        return not slot.reusable or bool(slot.columns & _OF_PODS) or slot.name in self._extending

    def _tells_by_columns(self, slot: FilterSlot) -> bool:
        """Whether a filter can be asked about many emptied nodes at once."""
        return slot.reusable and not slot.columns & _UNKNOWABLE and slot.name not in self._extending

    # -- step 1: numbers -------------------------------------------------------------------------

    def _examine(self, trial: _Trial, rows: Rows, wanted: int, outcome: _Outcome) -> None:
        screen = self._screen(trial, rows)
        for verdict, code, count in _groups(screen):
            status = NO_VICTIMS
            if verdict != _VICTIMLESS:
                slot = self._slots[verdict - 1]
                status = slot.plugin.filter_status(trial.state, trial.pod, code)
                outcome.refusers.add(slot.name)
            for reason in status_reasons(status):
                outcome.counts[reason] = outcome.counts.get(reason, 0) + count
        self._run(trial, screen, wanted, outcome)

    def _reduced(self, trial: _Trial) -> _Trial:
        """The same search without the plugins that follow removals."""
        if not trial.extends:
            return trial
        ignored = self._extending
        return replace(
            trial,
            slots=tuple([slot for slot in trial.slots if slot.name not in ignored]),
            dynamic=tuple([slot for slot in trial.dynamic if slot.name not in ignored]),
            extends=False,
        )

    def _known(self, trial: _Trial) -> Outcomes:
        """What earlier dry runs say, if they depended on nothing but signature and node."""
        state, pod = trial.state, trial.pod
        if (
            trial.extends
            or pod.signature.volumes  # Ephemeral claims are named after their pod.
            or not all(slot.reusable for slot in trial.slots)
        ):
            return Outcomes(self._table.capacity)
        asked = tuple([slot.index for slot in trial.slots])
        pins = pod.pin, pod.spec.node_name
        versions = named_versions(trial.slots, self._table)
        kind = (pod.signature.id, *pins, trial.rules, state.variant, asked)
        return self._dry_runs.recall(kind, trial.budgets, versions)

    def _screen(self, trial: _Trial, rows: Rows) -> _Screen:
        table, pod = self._table, trial.pod
        own = self._own if trial.rules.own_victims_only else None
        amounts, pods = table.priorities.below(pod.priority, own)
        verdict = np.zeros(len(rows), dtype=np.int32)
        codes = np.zeros(len(rows), dtype=np.int32)
        verdict[pods[rows] == 0] = _VICTIMLESS
        verdict[table.priorities.unbanded[rows] != 0] = _EXACT
        if len(trial.nominated):
            nominated = np.zeros(table.capacity, dtype=np.bool_)
            nominated[trial.nominated] = True
            verdict[nominated[rows] & (verdict == _SURVIVES)] = _EXACT
        emptied: Any = WithoutPotentialVictims(
            table,
            table.requested - amounts,
            table.pod_count - pods,
            trial.removable,
            PotentialVictims(pod.priority, own),
        )
        unknown = False
        for slot in trial.slots:
            left = np.flatnonzero(verdict == _SURVIVES)
            if not len(left):
                break
            answers = self._ask(slot, trial, emptied, rows[left])
            if answers is None:
                unknown = True
                continue
            refused = answers != 0
            # A filter that was not asked might have refused first, for a reason of its own.
            verdict[left[refused]] = _EXACT if unknown else slot.index + 1
            codes[left[refused]] = answers[refused]
        return _Screen(rows, verdict, codes, self._alone(trial, emptied, rows, verdict))

    def _alone(self, trial: _Trial, emptied: Any, rows: Rows, verdict: np.ndarray) -> BoolColumn:
        """Surviving rows on which the plugins that follow removals have nothing to follow.

        What they said of the emptied node then holds whoever goes or stays.
        """
        alone: BoolColumn = verdict == _SURVIVES
        following = self._extending - trial.state.skip_filter
        for plugin in self._framework.pre_filter:
            if plugin.name not in following or not alone.any():
                continue
            ask = getattr(plugin, "removal_sensitive_rows", None)
            left = np.flatnonzero(alone)
            try:
                if ask is None:
                    return np.zeros(len(rows), dtype=np.bool_)
                codes = plugin.filter_without_victims(trial.state, trial.pod, emptied, rows[left])
                matter = ask(trial.state, trial.pod, emptied, rows[left])
                alone[left] = (codes == 0) & ~matter
            except Exception:  # noqa: BLE001 - plugin boundary: a true fault shows again in scalar form
                return np.zeros(len(rows), dtype=np.bool_)
        return alone

    def _ask(self, slot: FilterSlot, trial: _Trial, emptied: Any, rows: Rows) -> Codes | None:
        ask = getattr(slot.plugin, "filter_without_victims", None)
        if ask is None:
            if not self._tells_by_columns(slot):
                return None
            ask = slot.plugin.filter_rows
        try:
            codes: Codes = ask(trial.state, trial.pod, emptied, rows)
        except Exception:  # noqa: BLE001 - plugin boundary: a true fault shows again in scalar form
            return None
        return codes if len(codes) == len(rows) else None

    # -- step 2: dry runs ------------------------------------------------------------------------

    def _run(
        self,
        whole: _Trial,
        screen: _Screen,
        wanted: int,
        outcome: _Outcome,
        *,
        remember: bool = True,
    ) -> None:
        """Dry-run what the numbers left, until there are enough candidates."""
        reduced = self._reduced(whole)
        known = self._known(reduced) if remember else Outcomes(self._table.capacity)
        keep = remember and not whole.extends
        left = np.flatnonzero((screen.verdict == _SURVIVES) | (screen.verdict == _EXACT))
        rows, alone = screen.rows[left], screen.alone[left]
        lasting = alone | keep
        if whole.own_row is not None:
            lasting &= rows != whole.own_row
        refused = lasting & known.refused[rows]
        clean: list[Candidate] = []
        violating: list[Candidate] = []
        exact = screen.verdict[left] == _EXACT
        look = np.flatnonzero(~refused)
        for row, all_filters, by_itself, lasts in zip(
            rows[look].tolist(),
            exact[look].tolist(),
            alone[look].tolist(),
            lasting[look].tolist(),
            strict=True,
        ):
            trial = reduced if by_itself else whole
            slots = trial.slots if all_filters else trial.dynamic
            plugins = [slot.plugin for slot in slots]
            answer = known.get(row) if lasts else None
            if answer is None:
                self._check()
                if len(violating) >= wanted and self._must_violate(trial, row):
                    continue  # Only a node without violations would still be of use.
                answer = self._try_node(trial, row, plugins, known if lasts else None, outcome)
                if answer is None:
                    continue
            if isinstance(answer, Status):
                outcome.refuse(self._table.names[row], answer)
                continue
            if not answer.victims:
                text = f'expected at least one victim pod on node "{self._table.names[row]}"'
                outcome.errors[text] = None
                continue
            same = violating if answer.pdb_violations else clean
            if len(same) < wanted:
                same.append(answer)
            if clean and len(clean) + len(violating) >= wanted:
                break
        outcome.candidates = clean + violating
        if not outcome.candidates:
            for row in rows[refused].tolist():
                status = known.get(row)
                assert isinstance(status, Status)
                outcome.refuse(self._table.names[row], status)

    def _try_node(
        self,
        trial: _Trial,
        row: int,
        plugins: Sequence[Any],
        known: Outcomes | None,
        outcome: _Outcome,
    ) -> Candidate | Status | None:
        """Dry-run one node, and remember what came of it in `known`; None after an error."""
        try:
            answer, claims = self._without_victims(trial, row, plugins)
        except AttemptError as error:
            outcome.errors[error.status.message] = None
            return None
        if known is not None:
            known.note(row, answer, claims)
        return answer

    def _must_violate(self, trial: _Trial, row: int) -> bool:
        """Whether any victim on a node would overdraw a disruption budget."""
        pods = self._table.pods_on(row)
        return trial.budgets.forbid_all(pod for pod in pods.values() if trial.removable(pod))

    def _without_victims(
        self, trial: _Trial, row: int, plugins: Sequence[Any]
    ) -> tuple[Candidate | Status, Claims]:
        """The least set of victims on one node, or why removing them all does not help.

        And what all that could go claim of disruption budgets, where those matter.
        """
        node = NodeOverlay(self._table, row)
        lower = [pod for pod in node.pods if trial.removable(pod)]
        if not lower:
            return NO_VICTIMS, NO_CLAIMS
        state = trial.state.clone() if trial.extends else trial.state
        for pod in lower:
            self._remove(trial, state, pod, node)
        status = self._fits(trial, state, node, plugins)
        if status is not None:
            return status, NO_CLAIMS
        lower.sort(key=importance)
        violating, others, claims = trial.budgets.split(lower)
        victims: list[Pod] = []
        violations = 0
        for pod in violating:
            if not self._reprieved(trial, state, pod, node, plugins):
                victims.append(pod)
                violations += 1
        victims += [pod for pod in others if not self._reprieved(trial, state, pod, node, plugins)]
        if violating and others:
            victims.sort(key=importance)
        found = Candidate(node.name, tuple(victims), violations)
        # Ranked once, compared in every search that remembers it.
        return (ranked(found) if victims else found), claims

    def _reprieved(
        self,
        trial: _Trial,
        state: CycleState,
        pod: Pod,
        node: NodeOverlay,
        plugins: Sequence[Any],
    ) -> bool:
        """Put a pod back if the incoming one still fits then."""
        self._check()
        node.add_pod(pod)
        if trial.extends:
            self._framework.add_pod(state, trial.pod, pod, node)
        if self._fits(trial, state, node, plugins) is None:
            return True
        self._remove(trial, state, pod, node)
        return False

    def _remove(self, trial: _Trial, state: CycleState, pod: Pod, node: NodeOverlay) -> None:
        node.remove_pod(pod)
        if trial.extends:
            self._framework.remove_pod(state, trial.pod, pod, node)

    def _fits(
        self, trial: _Trial, state: CycleState, node: NodeOverlay, plugins: Sequence[Any]
    ) -> Status | None:
        return self._framework.run_filters_with_nominated_pods(
            state, trial.pod, node, self._table, plugins
        )

    # -- no candidate ----------------------------------------------------------------------------

    def _message(self, outcome: _Outcome, examined: int) -> str:
        counts, nodes = dict(outcome.counts), self._table.node_count
        if examined < nodes:
            counts[NOT_HELPFUL] = counts.get(NOT_HELPFUL, 0) + nodes - examined
        return fit_message(nodes, counts)

    def _memory(
        self, state: CycleState, pod: Pod, rules: PreemptionRules
    ) -> tuple[Any, tuple[object, ...]]:
        """Under which key, and until when, a fruitless search is remembered; no key: not at all.

        Only where pod and node table say all: every filter declares so.
        """
        table = self._table
        stamp = table.sequence, table.revision, named_versions(self._told, table)
        if (
            # Ephemeral claims are named after their pod.
            pod.signature.volumes
            # A pod does not count against itself.
            or self._nominated.own_row(pod.metadata.uid) is not None
            or not all(
                _told_by_table(slot) or slot.name in state.skip_filter for slot in self._slots
            )
        ):
            return None, stamp
        metadata = pod.metadata
        own = metadata.namespace, labels_key(metadata.labels), pod.pin, pod.spec.node_name
        return (pod.signature.id, own, rules, state.variant), stamp


def _told_by_table(slot: FilterSlot) -> bool:
    """Whether a filter's answers change only with the node table and its named versions."""
    return slot.reusable or bool(getattr(slot.plugin, "filter_depends_only_on_table", False))


def _groups(screen: _Screen) -> Iterator[tuple[int, int, int]]:
    """(verdict, code, number of rows) of what the numbers ruled out."""
    out = (screen.verdict > 0) | (screen.verdict == _VICTIMLESS)
    if not out.any():
        return
    pairs: Int64Column = (screen.verdict[out].astype(np.int64) << 32) | screen.codes[out].astype(
        np.int64
    )
    values, counts = np.unique(pairs, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        yield value >> 32, value & 0xFFFFFFFF, count


def _aggregate(texts: Sequence[str]) -> str:
    """Distinct errors as Kubernetes joins them."""
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _extends(plugin: Any) -> bool:
    return callable(getattr(plugin, "add_pod", None)) or callable(
        getattr(plugin, "remove_pod", None)
    )
