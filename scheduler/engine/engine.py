"""Engine: runs the scheduling cycle of a popped pod, up to the point where binding begins.

Its state is the pods that wait at Permit and the budgets of cycles; cache and profiles are passed
in. The service (or a simulator) pops a pod, awaits `decide`, calls `commit`, and carries out the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from scheduler.api.pod import Pod
from scheduler.cache import Cache
from scheduler.cache.cache import CacheError
from scheduler.engine import failure
from scheduler.engine.cycle_time import CycleBudget, PointTimer
from scheduler.engine.errors import AttemptError, CycleBudgetError, failed
from scheduler.engine.failure import Failure
from scheduler.engine.metrics import FINISHED_LATE, GIVEN_UP, SET_ASIDE, EngineMetrics, NoMetrics
from scheduler.engine.overruns import MAX_BUDGET_FACTOR, Overruns
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.recheck import filter_assumed, filter_changed_node
from scheduler.engine.repetition import EqualPods, Repetition
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import (
    Attempt,
    NoNodesError,
    ScheduleResult,
    SchedulingAlgorithm,
    Unschedulable,
)
from scheduler.engine.waiting import WaitingPod, WaitingPods, permit_again
from scheduler.extenders.extender import Extenders
from scheduler.framework import (
    Clock,
    Code,
    CycleState,
    Nominator,
    QueuedPodInfo,
    RandomSource,
    Rows,
)
from scheduler.framework.grouping import GroupToSchedule as Group
from scheduler.sanitizing.exceptions import error_repr

_METRICS_SAMPLE = 10


class Engine:
    """Schedules pods of all profiles on one cache. Used only from its owner's event loop."""

    def __init__(  # noqa: PLR0913 - all dependencies are injected
        self,
        cache: Cache,
        frameworks: Mapping[str, Framework],
        nominator: Nominator,
        *,
        clock: Clock,
        random: RandomSource,
        metrics: EngineMetrics | None = None,
        percentage_of_nodes_to_score: int = 0,
        reuse: bool = True,
        plugin_time_budget: float = float("inf"),
        cycle_budget: CycleBudget | None = None,
        waiting_pods: WaitingPods | None = None,
        on_plugin_error: Callable[[str, str, Pod, BaseException], None] | None = None,
        extenders: Extenders | None = None,
        cancelled: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wire the engine.

        `on_plugin_error(plugin, point, pod, error)` is called for exceptions of plugins. Without
        `extenders` no cycle can be suspended; without `cycle_budget` cycles have no time limit.
        `cancelled()` tells whether the owner ends a cycle that was suspended, when a
        BaseException such as CancelledError comes out of it; else a plugin raised that.
        """
        self._budget = cycle_budget or CycleBudget(clock.monotonic, float("inf"))
        #: CPU seconds that an ordinary cycle may use.
        self.cycle_seconds = self._budget.seconds
        self._overruns = Overruns()
        self._equal = EqualPods(cache.table)
        self._on_plugin_error = on_plugin_error
        self.cache = cache
        self.frameworks = frameworks
        self.waiting_pods = waiting_pods if waiting_pods is not None else WaitingPods()
        self._nominator = nominator
        self._clock = clock
        self._random = random
        self._metrics = metrics if metrics is not None else NoMetrics()
        self._extenders = extenders
        self._cancelled = cancelled
        self._reuse = reuse
        self.algorithms: dict[str, SchedulingAlgorithm] = {}
        self._percentage = percentage_of_nodes_to_score
        self._plugin_time_budget = plugin_time_budget
        self._build_algorithms()

    def replace_frameworks(
        self,
        frameworks: Mapping[str, Framework],
        *,
        percentage_of_nodes_to_score: int,
        plugin_time_budget: float,
    ) -> None:
        """Use other frameworks for all attempts that begin from now on.

        Attempts under way keep their framework. A framework that is passed again keeps its cached
        results, unless one of the other settings has changed.
        """
        settings = percentage_of_nodes_to_score, plugin_time_budget
        if settings != (self._percentage, self._plugin_time_budget):
            self._percentage, self._plugin_time_budget = settings
            self.algorithms = {}
        self.frameworks = frameworks
        self._build_algorithms()

    def _build_algorithms(self) -> None:
        """Create an algorithm for each framework that does not have one yet."""
        before = self.algorithms
        self.algorithms = {}
        for name, framework in self.frameworks.items():
            algorithm = before.get(name)
            if algorithm is None or algorithm.framework is not framework:
                algorithm = self._algorithm(framework, self._metrics, self._extenders)
            self.algorithms[name] = algorithm
        #: Whether `suspends` may return True for any pod.
        self.may_suspend = any(each.may_suspend for each in self.algorithms.values())
        #: The grouping plugin by profile; profiles without one are missing.
        self.grouping = {n: f.grouping for n, f in self.frameworks.items() if f.grouping}

    def _algorithm(
        self, framework: Framework, metrics: EngineMetrics, extenders: Extenders | None = None
    ) -> SchedulingAlgorithm:
        percentage = framework.percentage_of_nodes_to_score
        return SchedulingAlgorithm(
            framework,
            self.cache.table,
            self._nominator,
            extenders,
            clock=self._clock,
            random=self._random,
            metrics=metrics,
            percentage=self._percentage if percentage is None else percentage,
            reuse=self._reuse,
            plugin_time_budget=self._plugin_time_budget,
            cycle_budget=self._budget,
        )

    # -- trials ----------------------------------------------------------------------------------

    def trial_algorithm(self, profile: str) -> SchedulingAlgorithm:
        """Return an algorithm that decides like the profile's, but records no metrics.

        It never suspends, and has its own cached results and rotation index; see
        `explain.examining.trial_decision`.
        """
        return self._algorithm(self.frameworks[profile], NoMetrics())

    @contextmanager
    def trial_budget(self, seconds: float) -> Iterator[Callable[[], None]]:
        """Limit the CPU time of one decision in a trial, between cycles; yields `check_time`."""
        self._budget.begin(self._clock.monotonic(), seconds)
        try:
            yield self._budget.check
        finally:
            self._budget.end()

    def explanation_check(self) -> Callable[[], None]:
        """Return `check_time` for an explanation, with the largest budget that a cycle may get.

        The budget is separate from that of cycles, since one may be suspended meanwhile.
        """
        budget = self._budget.separate()
        budget.begin(self._clock.monotonic(), MAX_BUDGET_FACTOR * budget.seconds)
        return budget.check

    # -- attempts --------------------------------------------------------------------------------

    def attempt(
        self,
        info: QueuedPodInfo,
        *,
        group: Group | None = None,
        repetition: Repetition | None = None,
        within: Rows | None = None,
    ) -> Attempt:
        """Run a whole cycle, `decide` and `commit`, for pods whose cycle is never suspended.

        Raises RuntimeError if it is.
        """
        attempt = run_synchronously(
            self.decide(info, group=group, repetition=repetition, within=within)
        )
        self.commit(attempt)
        return attempt

    async def decide(
        self,
        info: QueuedPodInfo,
        *,
        group: Group | None = None,
        repetition: Repetition | None = None,
        within: Rows | None = None,
    ) -> Attempt:
        """Run the first half of a cycle: search and score; if no node fits, PostFilter.

        Call `commit` with the result. This is suspended only while an extender or an async plugin
        is awaited; the owner must defer all changes of its state meanwhile.

        For a member of a `group`, PostFilter and Permit do not run (see `GroupCycle`), and the
        `repetition` of an earlier member may be used. `within` limits the search to some rows,
        ascending.
        """
        attempt = self._begin(info, group, within)
        limit = self._begin_budget(attempt)
        if attempt.failure is not None:
            return attempt
        if repetition is None:
            repetition = self._equal.before(attempt)
        try:
            if repetition is None or not repetition.choose(attempt):
                assert attempt.algorithm is not None
                cycle = attempt.algorithm.schedule(attempt.state, attempt.pod)
                outcome = await (self._budget.metered(cycle) if self.may_suspend else cycle)
                if isinstance(outcome, Unschedulable):
                    attempt.failure = self._unschedulable(attempt, outcome)
                else:
                    attempt.result = attempt.chosen = outcome
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            suspended = self._budget.suspended
            if suspended and not isinstance(error, Exception) and self._cancelled():
                self._budget.end()
                raise
            attempt.failure = self._failed(attempt, error)
        self._measure(attempt, limit)
        return attempt

    def commit(self, attempt: Attempt) -> None:
        """Run the second half of a cycle: assume, Reserve, Permit. Sets `failure` if one fails.

        If the chosen node has changed since `decide` began, it is filtered again first. If no node
        was chosen, nothing runs.
        """
        result, log = attempt.result, self.cache.table.change_log
        if result is not None and (
            log.sequence == attempt.sequence or self._still_fits(attempt, result)
        ):
            self._assume(attempt, result)
        self._equal.after(attempt)

    def _still_fits(self, attempt: Attempt, result: ScheduleResult) -> bool:
        """Filter the chosen node again if it changed while the cycle was suspended."""
        framework, table, state = attempt.framework, self.cache.table, attempt.state
        try:
            filter_changed_node(framework, table, state, attempt.pod, result, attempt.sequence)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - cycle boundary, see `_failed`
            attempt.failure = self._failed(attempt, error)
            attempt.result = None
            return False
        attempt.seen = self.cache.external_changes
        return True

    def _assume(self, attempt: Attempt, result: ScheduleResult) -> None:
        """Assume the pod on its node, and run Reserve and Permit."""
        try:
            attempt.pod = self.cache.assume_pod(attempt.pod, result.node_name)
        except CacheError as error:
            attempt.failure = failure.from_status(failed(str(error), error).status)
            attempt.result = None
            return
        self._nominator.delete_nominated_pod_if_exists(attempt.pod)
        self._run(self._reserve if attempt.member else self._reserve_and_permit, attempt)

    def suspends(self, pod: Pod) -> bool:
        """Whether extenders or async plugins take part in the pod's cycle."""
        if not self.may_suspend:
            return False
        algorithm = self.algorithms.get(pod.spec.scheduler_name)
        return algorithm is not None and algorithm.suspends(pod)

    def _unschedulable(self, attempt: Attempt, outcome: Unschedulable) -> Failure:
        if outcome.raised is not None:
            self.report_plugin(attempt.pod, outcome.raised)
        if attempt.member:
            # PostFilter was skipped because of the group, which would mislead in a message.
            outcome.error.diagnosis.post_filter_message = ""
        rejected = failure.from_fit_error(
            outcome.error,
            outcome.nominating,
            outcome.post_filter,
            attempt.state,
            attempt.framework.unschedulable_reason(attempt.pod),
        )
        victims = outcome.victims
        return replace(rejected, victims=victims) if victims else rejected

    def _begin(
        self, info: QueuedPodInfo, group: Group | None = None, within: Rows | None = None
    ) -> Attempt:
        clock, framework = self._clock, self.frameworks[info.pod.spec.scheduler_name]
        state = CycleState(clock.now())
        state.info, state.within, state.skip_post_filter = info, within, group is not None
        state.group = "" if group is None or group.alone else group.name
        state.check_time = self._budget.check
        state.record_plugin_metrics = self._random.randrange(_METRICS_SAMPLE) == 0
        attempt = Attempt(info, framework, state, clock.monotonic(), info.pod)
        attempt.seen, attempt.member = self.cache.external_changes, group is not None
        attempt.sequence = self.cache.table.change_log.sequence
        attempt.algorithm = self.algorithms[framework.profile_name]
        attempt.algorithm.stopwatch.begin()
        return attempt

    async def pre_filtered(self, pod: Pod) -> CycleState | None:
        """Run PreFilter only; see `SchedulingAlgorithm.pre_filtered`."""
        return await self.algorithms[pod.spec.scheduler_name].pre_filtered(pod, self._clock.now())

    def untried(self, info: QueuedPodInfo, why: Failure) -> Attempt:
        """Build the failed attempt of a member that was not tried because its group failed."""
        attempt = self._begin(info)
        attempt.failure = why
        return attempt

    def aborted(self, info: QueuedPodInfo, error: BaseException) -> Attempt:
        """Build the failed attempt after a plugin let `decide` end as cancelled."""
        attempt = self._begin(info)
        attempt.failure = self._failed(attempt, error)
        return attempt

    def _failed(self, attempt: Attempt, error: BaseException) -> Failure:
        """Turn an exception of a cycle into the failure of this attempt.

        In a synchronous cycle this includes asyncio's CancelledError. A plugin that reads the
        result of a cancelled task raises it, and it would end the scheduling loop silently.
        """
        if isinstance(error, CycleBudgetError):
            return self._over_budget(attempt, error)
        if isinstance(error, NoNodesError):
            return failure.no_nodes(str(error), error.unschedulable_reason)
        if isinstance(error, AttemptError):
            self.report_plugin(attempt.pod, error)
            return failure.from_status(error.status)
        attempt.fault = error
        if attempt.algorithm is not None:
            attempt.algorithm.search.forget(attempt.pod)
        return failure.from_status(failed(f"scheduling cycle: {error_repr(error)}", error).status)

    def report_plugin(self, pod: Pod, error: AttemptError) -> None:
        """Report the exception of a plugin that ended an attempt, if one did."""
        cause = error.__cause__
        if self._on_plugin_error and error.origin[0] and cause is not None:
            self._on_plugin_error(*error.origin, pod, cause)

    # -- the budget of a cycle -------------------------------------------------------------------

    def _begin_budget(self, attempt: Attempt) -> float:
        """Start measuring the cycle; return its limit in seconds of CPU time.

        If the pod's template is paused after an overrun, the attempt fails at once.
        """
        limit = self._budget.seconds
        if self._overruns.by_template:
            left = self._overruns.pause_left(attempt.pod, attempt.started)
            if left:
                attempt.failure = failure.set_aside(left)
                self._metrics.cycle_over_budget(attempt.framework.profile_name, SET_ASIDE)
                return 0.0
            limit *= self._overruns.factor(attempt.pod)
        self._budget.begin(attempt.started, limit)
        return limit

    def _over_budget(self, attempt: Attempt, error: CycleBudgetError) -> Failure:
        overrun = self._overruns.overran(attempt.pod, self._clock.monotonic())
        self._metrics.cycle_over_budget(attempt.framework.profile_name, GIVEN_UP)
        following = overrun.factor * self._budget.seconds
        return failure.budget_exceeded(error, overrun.pause, following)

    def _measure(self, attempt: Attempt, limit: float) -> None:
        """End the measurement of the cycle, after the choice of a node or after PostFilter."""
        now = self._clock.monotonic()
        elapsed = now - attempt.started
        self._metrics.algorithm(elapsed)
        if elapsed > self._budget.noticeable:
            attempt.cost = self._budget.used(now)
        self._budget.end()
        if self._overruns.by_template or attempt.cost > limit:
            self._update_overruns(attempt, limit, now)

    def _update_overruns(self, attempt: Attempt, limit: float, now: float) -> None:
        """Record whether the cycle stayed within its budget, unless it was aborted."""
        if attempt.failure is not None and attempt.failure.pause:
            return
        if attempt.cost <= limit:
            self._overruns.kept(attempt.pod)
            return
        # The last plugin exceeded the budget after the last check, so the cycle's result counts.
        overrun = self._overruns.overran(attempt.pod, now)
        self._metrics.cycle_over_budget(attempt.framework.profile_name, FINISHED_LATE)
        if attempt.failure is not None:
            attempt.failure = replace(attempt.failure, pause=overrun.pause)

    def permit(self, attempt: Attempt) -> None:
        """Run Permit; if a plugin rejects the pod, undo Reserve and assume, and set `failure`."""
        self._run(self._permit, attempt)

    def _run(self, step: Callable[[Attempt], Failure | None], attempt: Attempt) -> None:
        try:
            rejected = step(attempt)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - cycle boundary, see `_failed`
            rejected = self._failed(attempt, error)
        if rejected is not None:
            self.abandon(attempt)
            attempt.failure = rejected
            attempt.result = None

    def changed_by_others(self, attempt: Attempt) -> bool:
        """Whether another writer has changed the chosen node since it was last filtered."""
        assert attempt.result is not None
        return self.cache.last_external_change(attempt.result.row) > attempt.seen

    def recheck(self, attempt: Attempt) -> Failure | None:
        """Filter the chosen node again, without the assumed pod; return None if the pod fits."""
        attempt.seen = self.cache.external_changes
        if not self.cache.is_assumed(attempt.info.uid):
            return None
        try:
            status = filter_assumed(
                attempt.framework, self.cache.table, attempt.info.pod, attempt.pod, attempt.state
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - cycle boundary, see `_failed`
            return self._failed(attempt, error)
        return None if status is None else failure.node_changed(attempt.node_name, status)

    def adopt(self, info: QueuedPodInfo, node_name: str) -> Attempt:
        """Assume a pod on a node that was chosen elsewhere, and run Reserve; return its attempt.

        For replays. The pod need not fit: PreFilter and Filter run only because Reserve may read
        their results. An error of a plugin is ignored: Reserve then does not run, or ends early.

        Raises:
            CacheError: the pod already has a node.
            LookupError: the pod's schedulerName is no profile.
        """
        attempt = self._begin(info)
        table = self.cache.table
        row = table.row_of(node_name)
        attempt.pod = self.cache.assume_pod(info.pod, node_name)
        attempt.result = ScheduleResult(node_name, -1 if row is None else row, 0, 0)
        self._nominator.delete_nominated_pod_if_exists(attempt.pod)
        # As in a trial, so that plugins do not take this check for an attempt at the pod.
        attempt.state.info = None
        with suppress(AttemptError):
            filter_assumed(
                attempt.framework, table, info.pod, attempt.pod, attempt.state, keep=True
            )
            attempt.state.info = info
            self._reserve(attempt)
        attempt.state.info = info
        return attempt

    def abandon(self, attempt: Attempt) -> bool:
        """Undo Reserve and assume; return whether the pod was still assumed."""
        self.unreserve(attempt)
        return self.cache.forget_pod(attempt.pod.metadata.uid)

    def unreserve(self, attempt: Attempt) -> None:
        """Run Unreserve of all Reserve plugins in reverse order, whether or not Reserve ran."""
        attempt.framework.run_unreserve(
            attempt.state, attempt.pod, attempt.node_name, self._on_plugin_error
        )

    def _reserve_and_permit(self, attempt: Attempt) -> Failure | None:
        return self._reserve(attempt) or self._permit(attempt)

    def _reserve(self, attempt: Attempt) -> Failure | None:
        framework = attempt.framework
        if not framework.reserve:
            return None
        with self._point("Reserve", attempt) as point:
            status = framework.run_reserve(attempt.state, attempt.pod, attempt.node_name)
            if status is None:
                return None
            point.status = status.code.label
        return failure.rejected_on_node(status, attempt.node_name)

    def _permit(self, attempt: Attempt) -> Failure | None:
        framework = attempt.framework
        if not framework.permit:
            return None
        with self._point("Permit", attempt) as point:
            status, timeouts = framework.run_permit(attempt.state, attempt.pod, attempt.node_name)
            if status is not None:
                point.status = status.code.label
                return failure.rejected_on_node(status, attempt.node_name)
            if timeouts:
                point.status = Code.WAIT.label
                again = permit_again(framework.permit, timeouts, attempt.state, attempt.node_name)
                attempt.waiting = WaitingPod(attempt.pod, timeouts, self._clock, again)
                self.waiting_pods.add(attempt.waiting)
        return None

    def _point(self, point: str, attempt: Attempt) -> PointTimer:
        assert attempt.algorithm is not None
        return attempt.algorithm.stopwatch.points[point]

    def statistics(self) -> Mapping[str, Any]:
        """Return cache statistics by profile, and numbers of waiting pods and paused templates."""
        return {
            "reuse": {
                name: algorithm.search.results.statistics()
                for name, algorithm in self.algorithms.items()
            },
            "waiting_pods": len(self.waiting_pods),
            "templates_over_budget": len(self._overruns.by_template),
        }
