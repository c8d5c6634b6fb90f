"""Decisions in trials: the scheduling algorithm without the side effects of a real attempt.

A trial uses the engine's plugins, node table and preemption search. It has its own result caches,
records no metrics and never suspends, so extenders are not called. Plugins see no queue record
(`CycleState.info` is None), so that they change only the cycle state. PostFilter is a dry run:
`DryRunPostFilterPlugin.find_victims` returns the victims, and no pod is evicted.

The caller restores the random source and whatever it changed (`scheduler.service.trial`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import Diagnosis, status_reasons
from scheduler.engine.engine import Engine
from scheduler.engine.errors import AttemptError, CycleBudgetError, failed
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.rejection_details import RejectionDetails
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import (
    NoNodesError,
    ScheduleResult,
    SchedulingAlgorithm,
    Unschedulable,
)
from scheduler.explain.records.decision import RejectionCount
from scheduler.explain.records.story import why_not
from scheduler.framework import CycleState, Status

CUT: Final = "the search took longer than a slice of a question may; there is no answer"
"""The error of a decision that exceeded its time budget."""


@dataclass(frozen=True, slots=True)
class TrialDecision:
    """The outcome of one decision: a node, or why there is none."""

    node: str = ""
    """The chosen node; empty if none fits."""
    feasible: int = 0
    """Number of nodes found feasible."""
    message: str = ""
    """Why no node fits: the text of the Event FailedScheduling without the part of PostFilter."""
    plugins: tuple[str, ...] = ()
    """The plugins that rejected the pod, by name."""
    preemption_node: str = ""
    """The node on which evictions would make room; empty if there is none."""
    victims: tuple[str, ...] = ()
    """The pods that would be evicted there, as `namespace/name`."""
    why: str = ""
    """Why no node fits in the words of `explain`; empty unless `details` was asked for."""
    error: str = ""
    """The error of a plugin that ended the decision, or `CUT`."""
    raised: bool = False
    """Whether `error` is an exception of a plugin or of the scheduler."""
    diagnosis: Diagnosis | None = field(default=None, repr=False, compare=False)
    """The statuses of all nodes, valid until the next step of the trial; None if a node fits."""

    def __bool__(self) -> bool:
        return bool(self.node)

    @property
    def cut(self) -> bool:
        """Whether the decision exceeded its time budget."""
        return self.error == CUT

    def status_of(self, node: str) -> Status | None:
        """Return the status with which `node` was rejected; None if it was not rejected."""
        if self.diagnosis is None:
            return None
        status = self.diagnosis.statuses.get(node)
        return None if status.success else status


class TrialDecisions:
    """Makes trial decisions for pods of all profiles of an engine; use a new one per question."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._algorithms: dict[str, SchedulingAlgorithm] = {}

    def decide(
        self,
        pod: Pod,
        now: float,
        *,
        seconds: float = float("inf"),
        preempt: bool = True,
        details: bool = False,
        granted: frozenset[str] = frozenset(),
    ) -> TrialDecision:
        """Decide about a pod on the current node table.

        Args:
            pod: an interned pod of one of the profiles.
            now: wall clock time of the decision.
            seconds: limit of the CPU time.
            preempt: whether to search for victims if no node fits.
            details: whether to ask the plugins for the numbers behind rejections.
            granted: plugins whose demands count as met.
        """
        state = CycleState(now, granted=granted)
        # PostFilter would evict pods; `_victims` calls `find_victims` instead.
        state.skip_post_filter = True
        with self._engine.trial_budget(seconds) as state.check_time:
            try:
                algorithm = self._algorithm(pod.spec.scheduler_name)
                outcome = run_synchronously(algorithm.schedule(state, pod))
            except NoNodesError as error:
                text = f"0/0 nodes are available: {error}."
                return TrialDecision(message=text, diagnosis=Diagnosis(node_count=0))
            except AttemptError as error:
                return _failed(error)
            except Exception as error:  # noqa: BLE001 - cycle boundary, as in `Engine.attempt`
                return TrialDecision(message=repr(error), error=repr(error), raised=True)
            if isinstance(outcome, ScheduleResult):
                return TrialDecision(outcome.node_name, outcome.feasible_nodes)
            found = self._rejected(algorithm.framework, state, pod, outcome, preempt=preempt)
            if details and found.diagnosis is not None:
                table = self._engine.cache.table
                why = _why(algorithm.framework, table, state, pod, found.diagnosis)
                found = replace(found, why=why)
            return found

    def _algorithm(self, profile: str) -> SchedulingAlgorithm:
        algorithm = self._algorithms.get(profile)
        if algorithm is None or algorithm.framework is not self._engine.frameworks[profile]:
            algorithm = self._algorithms[profile] = self._engine.trial_algorithm(profile)
        algorithm.search.rotation = self._engine.algorithms[profile].search.rotation
        return algorithm

    def _rejected(
        self,
        framework: Framework,
        state: CycleState,
        pod: Pod,
        outcome: Unschedulable,
        *,
        preempt: bool,
    ) -> TrialDecision:
        diagnosis = outcome.error.diagnosis
        diagnosis.post_filter_message = ""
        node, failure = "", TrialDecision()
        victims: tuple[str, ...] = ()
        if preempt and not diagnosis.skip_post_filter:
            try:
                node, victims = _victims(framework, state, pod, diagnosis)
            except AttemptError as raised:
                failure = _failed(raised)
        return TrialDecision(
            message=str(outcome.error),
            plugins=tuple(sorted({*diagnosis.unschedulable_plugins, *diagnosis.pending_plugins})),
            preemption_node=node,
            victims=victims,
            error=failure.error,
            raised=failure.raised,
            diagnosis=diagnosis,
        )


def _why(
    framework: Framework, table: NodeTable, state: CycleState, pod: Pod, diagnosis: Diagnosis
) -> str:
    details, rejected = RejectionDetails(framework, table), diagnosis.rejected
    groups = [] if rejected is None else rejected.by_reasons()
    left = table.rows if rejected is None else np.setdiff1d(table.rows, rejected.rows)
    if len(left):
        groups.append((diagnosis.statuses.absent, left))
    counts = [
        RejectionCount(
            status.plugin or ", ".join(diagnosis.narrowed_by),
            status.code.label,
            ", ".join(status_reasons(status)),
            len(rows),
            details.of(state, pod, status, rows),
        )
        for status, rows in groups
    ]
    return why_not(counts, (), pod.metadata.namespace)


def _victims(
    framework: Framework, state: CycleState, pod: Pod, diagnosis: Diagnosis
) -> tuple[str, tuple[str, ...]]:
    state.skip_post_filter = False
    for plugin in framework.post_filter:
        find = getattr(plugin, "find_victims", None)
        try:
            found = None if find is None else find(state, pod, diagnosis.statuses)
        except AttemptError:
            raise
        except Exception as error:
            raise failed(
                f"looking for victims, PostFilter plugin {plugin.name}: {error!r}",
                error,
                plugin.name,
            ) from error
        if found is not None:
            return found.node_name, tuple(each.key for each in found.victims)
    return "", ()


def _failed(error: AttemptError) -> TrialDecision:
    if isinstance(error, CycleBudgetError):
        return TrialDecision(error=CUT)
    status = error.status
    plugins = (status.plugin,) if status.plugin else ()
    return TrialDecision(
        message=status.message,
        plugins=plugins,
        error=status.message,
        raised=error.__cause__ is not None,
    )
