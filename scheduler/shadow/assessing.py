"""Assessor: decides about a pod once more, and compares the node that another scheduler chose.

As in a trial there are no side effects: results are cached apart from those of the shadow's own
decisions, no metrics are recorded, and extenders are not asked.
"""

from __future__ import annotations

from typing import Final

from scheduler.api.pod import Pod
from scheduler.engine import Engine, ScheduleResult
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.row_columns import INFEASIBLE
from scheduler.engine.schedule_one import NoNodesError, SchedulingAlgorithm, Unschedulable
from scheduler.framework import Clock, CycleState, Status, unresolvable
from scheduler.history.score_packer import ScorePacker
from scheduler.shadow.judging import Look

LOOK_SECONDS: Final = 0.25
"""CPU time of one look."""
GONE: Final = "the node is not known here"


class Assessor:
    """Looks at pods of all profiles of an engine, between its cycles."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._algorithms: dict[str, tuple[SchedulingAlgorithm, ScorePacker]] = {}

    def look(self, pod: Pod, there: str) -> Look:
        """Decide about `pod` on the node table as it is; `there` is the node of its binding."""
        state = CycleState(self._clock.now())
        state.skip_post_filter = True
        algorithm, packer = self._algorithm(pod.spec.scheduler_name)
        with self._engine.trial_budget(LOOK_SECONDS) as state.check_time:
            try:
                outcome = run_synchronously(algorithm.schedule(state, pod))
                if isinstance(outcome, Unschedulable):
                    return self._rejected(algorithm, pod, there, outcome)
                return self._chosen(algorithm, packer, state, pod, there, outcome)
            except NoNodesError as error:
                return Look(message=str(error))
            except AttemptError as error:
                return Look(plugin=error.status.plugin, error=error.status.message or str(error))

    def _algorithm(self, profile: str) -> tuple[SchedulingAlgorithm, ScorePacker]:
        known = self._algorithms.get(profile)
        if known is None or known[0].framework is not self._engine.frameworks[profile]:
            algorithm = self._engine.trial_algorithm(profile)
            known = self._algorithms[profile] = algorithm, ScorePacker(algorithm.scoring)
        return known

    def _rejected(
        self, algorithm: SchedulingAlgorithm, pod: Pod, there: str, outcome: Unschedulable
    ) -> Look:
        diagnosis = outcome.error.diagnosis
        diagnosis.post_filter_message = ""
        status = self._rejection(algorithm, pod, there)
        plugins = diagnosis.unschedulable_plugins | diagnosis.pending_plugins
        plugin = status.plugin if status is not None else ""
        return Look(plugin=plugin or ", ".join(sorted(plugins)), message=str(outcome.error))

    def _chosen(
        self,
        algorithm: SchedulingAlgorithm,
        packer: ScorePacker,
        state: CycleState,
        pod: Pod,
        there: str,
        outcome: ScheduleResult,
    ) -> Look:
        table, scored = self._engine.cache.table, algorithm.scored
        if outcome.node_name == there:
            return Look(there, agrees=True, fits=True)
        row = table.row_of(there)
        if row is None or scored is None:
            # One node was left, or nothing scores.
            status = self._rejection(algorithm, pod, there)
            if status is None:
                alike = outcome.feasible_nodes > 1
                return Look(outcome.node_name, agrees=alike, fits=True)
            return _unfit(outcome.node_name, status)
        _, totals, where, _ = scored
        at = row if where is None else int(where.searchsorted(row))
        known = at < len(totals) and (where is None or where.item(at) == row)
        total = totals.item(at) if known else INFEASIBLE
        if total == INFEASIBLE and (status := self._rejection(algorithm, pod, there)) is not None:
            return _unfit(outcome.node_name, status)
        if total == INFEASIBLE:
            # Fits, but a search that ends early had not come to it.
            return Look(outcome.node_name, fits=True)
        if total == totals.item(totals.argmax()):
            return Look(outcome.node_name, agrees=True, fits=True)
        best, other = packer.records(scored, [outcome.row, row], table.names, state.skip_score)
        return Look(outcome.node_name, fits=True, best=best, there=other)

    def _rejection(self, algorithm: SchedulingAlgorithm, pod: Pod, node: str) -> Status | None:
        """Return why the pod does not fit on a node. Raises AttemptError."""
        framework, table = algorithm.framework, self._engine.cache.table
        row = table.row_of(node)
        if row is None:
            return unresolvable(GONE)
        state = CycleState(self._clock.now())
        left = run_synchronously(framework.run_pre_filter(state, pod, table))
        if left.rejections:
            return left.rejections[-1]
        if left.names is not None and node not in left.names:
            return left.left_out().by(", ".join(sorted(set(left.plugins))))
        return framework.run_filters_with_nominated_pods(state, pod, table.node_info(row), table)


def _unfit(best: str, status: Status) -> Look:
    return Look(best, plugin=status.plugin, message=status.message)
