"""Engine: takes a popped pod through its scheduling cycle, up to the point where binding begins.

It owns no state of its own beyond waiting pods: cache, queue and profiles are handed in. The
service (or a simulator in virtual time) pops, calls `attempt`, and carries out what comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from scheduler.api.pod import Pod
from scheduler.cache import Cache
from scheduler.cache.cache import CacheError
from scheduler.engine import failure
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_budget import CycleBudget, CycleBudgetError
from scheduler.engine.errors import AttemptError, failed
from scheduler.engine.failure import Failure
from scheduler.engine.metrics import (
    FINISHED_LATE,
    GIVEN_UP,
    SET_ASIDE,
    EngineMetrics,
    NoMetrics,
    PointTimer,
)
from scheduler.engine.overruns import MAX_BUDGET_FACTOR, Overruns
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.recheck import filter_assumed, filter_changed_node
from scheduler.engine.repetition import Repetition
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import NoNodesError, SchedulingAlgorithm, Unschedulable
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
from scheduler.text.exceptions import error_repr

_METRICS_SAMPLE = 10


class Engine:
    """Schedules pods of all profiles on one cache. Touched only from its owner's loop."""

    def __init__(  # noqa: PLR0913 - everything is handed in
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
    ) -> None:
        """Wire the engine.

        `on_plugin_error(plugin, point, pod, error)` is called with what plugins raise. Without
        `extenders` no cycle can be suspended, without `cycle_budget` its time is not limited.
        """
        self._budget = cycle_budget or CycleBudget(clock.monotonic, float("inf"))
        #: CPU seconds that an ordinary cycle may use.
        self.cycle_seconds = self._budget.seconds
        self._overruns = Overruns()
        self._on_plugin_error = on_plugin_error
        self.cache = cache
        self.frameworks = frameworks
        self.waiting_pods = waiting_pods if waiting_pods is not None else WaitingPods()
        self._nominator = nominator
        self._clock = clock
        self._random = random
        self._metrics = metrics if metrics is not None else NoMetrics()
        self._extenders = extenders
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
        """Begin attempts with other frameworks from now on.

        Attempts under way keep theirs. A framework that was in use keeps its results.
        """
        settings = percentage_of_nodes_to_score, plugin_time_budget
        if settings != (self._percentage, self._plugin_time_budget):
            self._percentage, self._plugin_time_budget = settings
            self.algorithms = {}
        self.frameworks = frameworks
        self._build_algorithms()

    def _build_algorithms(self) -> None:
        """Build what chooses nodes for each framework that has none yet."""
        before = self.algorithms
        self.algorithms = {}
        for name, framework in self.frameworks.items():
            algorithm = before.get(name)
            if algorithm is None or algorithm.framework is not framework:
                algorithm = self._algorithm(framework)
            self.algorithms[name] = algorithm
        #: Whether `suspends` can be true of any pod.
        self.may_suspend = any(each.may_suspend for each in self.algorithms.values())
        #: The plugins that put pods into groups, by profile; none for a profile without one.
        self.grouping = {n: f.grouping for n, f in self.frameworks.items() if f.grouping}

    def _algorithm(self, framework: Framework) -> SchedulingAlgorithm:
        percentage = framework.percentage_of_nodes_to_score
        return SchedulingAlgorithm(
            framework,
            self.cache.table,
            self._nominator,
            self._extenders,
            clock=self._clock,
            random=self._random,
            metrics=self._metrics,
            percentage=self._percentage if percentage is None else percentage,
            reuse=self._reuse,
            plugin_time_budget=self._plugin_time_budget,
            cycle_budget=self._budget,
        )

    # -- trials ----------------------------------------------------------------------------------

    def trial_algorithm(self, profile: str) -> SchedulingAlgorithm:
        """Return an algorithm that decides as that of a profile, but measures and suspends nothing.

        Its results and its rotation are its own. See `engine.trial_decision`.
        """
        framework = self.frameworks[profile]
        percentage = framework.percentage_of_nodes_to_score
        return SchedulingAlgorithm(
            framework,
            self.cache.table,
            self._nominator,
            clock=self._clock,
            random=self._random,
            metrics=NoMetrics(),
            percentage=self._percentage if percentage is None else percentage,
            cycle_budget=self._budget,
        )

    @contextmanager
    def trial_budget(self, seconds: float) -> Iterator[Callable[[], None]]:
        """Limit the CPU time of a decision of a trial, between cycles; yields `check_time`."""
        self._budget.begin(self._clock.monotonic(), seconds)
        try:
            yield self._budget.check
        finally:
            self._budget.end()

    def explanation_check(self) -> Callable[[], None]:
        """Return `check_time` for an explanation, which may use what the last cycle of a pod may.

        Its budget is separate, since a cycle may be suspended meanwhile.
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
        """Run the whole scheduling cycle: search, score, assume, reserve, permit.

        Of a member of a `group` without PostFilter and Permit, see `GroupCycle`; `repetition` is
        that of a member before it. `within` limits it to some rows, ascending.
        """
        attempt = self._begin(info, group, within)
        limit = self._begin_budget(attempt)
        if attempt.failure is not None:
            return attempt
        try:
            if repetition is None or not repetition.choose(attempt):
                run_synchronously(self._schedule(attempt))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - cycle boundary, see `_failed`
            attempt.failure = self._failed(attempt, error)
        self._measure(attempt, limit)
        if attempt.result is not None:
            self._commit(attempt)
        return attempt

    async def _schedule(self, attempt: Attempt) -> None:
        """Run the cycle up to the choice of a node, or to the end of PostFilter."""
        framework, algorithm = attempt.framework, attempt.algorithm
        assert algorithm is not None
        outcome = await algorithm.schedule(attempt.state, attempt.pod)
        if isinstance(outcome, Unschedulable):
            if outcome.raised is not None:
                self.report_plugin(attempt.pod, outcome.raised)
            if attempt.member:
                # PostFilter does not run for members, which is no fault of the pod.
                outcome.error.diagnosis.post_filter_message = ""
            rejected = failure.from_fit_error(
                outcome.error,
                outcome.nominating,
                outcome.post_filter,
                attempt.state,
                framework.unschedulable_reason(attempt.pod),
            )
            victims = outcome.victims
            attempt.failure = replace(rejected, victims=victims) if victims else rejected
        else:
            attempt.result = attempt.chosen = outcome

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
        """Run PreFilter alone, see `SchedulingAlgorithm.pre_filtered`."""
        return await self.algorithms[pod.spec.scheduler_name].pre_filtered(pod, self._clock.now())

    def untried(self, info: QueuedPodInfo, why: Failure) -> Attempt:
        """Build the failed attempt of a member whose group failed without it."""
        attempt = self._begin(info)
        attempt.failure = why
        return attempt

    def aborted(self, info: QueuedPodInfo, error: BaseException) -> Attempt:
        """Build the failed attempt of a cancelled `decide`."""
        attempt = self._begin(info)
        attempt.failure = self._failed(attempt, error)
        return attempt

    def _failed(self, attempt: Attempt, error: BaseException) -> Failure:
        """Build the failure for any exception in a cycle: it costs this attempt only.

        This includes asyncio's CancelledError in a synchronous cycle: a plugin raises it that reads
        the result of a cancelled task, and it would end the scheduling loop silently.
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
        """Start measuring the cycle, and return the seconds of CPU time that it may use.

        Fails the attempt at once while the template is paused after an overrun.
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
        """Measure the cycle after the choice of a node, or after PostFilter."""
        now = self._clock.monotonic()
        elapsed = now - attempt.started
        self._metrics.algorithm(elapsed)
        if elapsed > self._budget.noticeable:
            attempt.cost = self._budget.used(now)
        self._budget.end()
        if self._overruns.by_template or attempt.cost > limit:
            self._update_overruns(attempt, limit, now)

    def _update_overruns(self, attempt: Attempt, limit: float, now: float) -> None:
        """Record whether the cycle kept its budget, unless it was aborted."""
        if attempt.failure is not None and attempt.failure.pause:
            return
        if attempt.cost <= limit:
            self._overruns.kept(attempt.pod)
            return
        # The last plugin used the budget up, after the last check: its result is kept.
        overrun = self._overruns.overran(attempt.pod, now)
        self._metrics.cycle_over_budget(attempt.framework.profile_name, FINISHED_LATE)
        if attempt.failure is not None:
            attempt.failure = replace(attempt.failure, pause=overrun.pause)

    # -- cycles that may be suspended ------------------------------------------------------------

    def suspends(self, pod: Pod) -> bool:
        """Whether the pod's cycle may wait for something: use `decide` and `commit` then."""
        if not self.may_suspend:
            return False
        algorithm = self.algorithms.get(pod.spec.scheduler_name)
        return algorithm is not None and algorithm.suspends(pod)

    async def decide(
        self, info: QueuedPodInfo, *, group: Group | None = None, within: Rows | None = None
    ) -> Attempt:
        """Run the first half of a cycle that may be suspended, to a node or the end of PostFilter.

        Nothing is assumed yet. The owner holds back every change of its state until the end of
        `decide`, then applies all of them, and calls `commit` if there is no failure.
        """
        attempt = self._begin(info, group, within)
        limit = self._begin_budget(attempt)
        if attempt.failure is not None:
            return attempt
        try:
            await self._budget.metered(self._schedule(attempt))
        except Exception as error:  # noqa: BLE001 - cycle boundary
            attempt.failure = self._failed(attempt, error)
        self._measure(attempt, limit)
        return attempt

    def commit(self, attempt: Attempt) -> None:
        """Run the second half: assume, reserve, permit. Sets `failure` when that does not work.

        If the chosen node changed since `decide` began it is filtered again first.
        """
        assert attempt.result is not None
        try:
            filter_changed_node(
                attempt.framework,
                self.cache.table,
                attempt.state,
                attempt.pod,
                attempt.result,
                attempt.sequence,
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - cycle boundary, see `_failed`
            attempt.failure = self._failed(attempt, error)
            attempt.result = None
            return
        attempt.seen = self.cache.external_changes
        self._commit(attempt)

    # -- assume, reserve, permit -----------------------------------------------------------------

    def _commit(self, attempt: Attempt) -> None:
        assert attempt.result is not None
        try:
            attempt.pod = self.cache.assume_pod(attempt.pod, attempt.result.node_name)
        except CacheError as error:
            attempt.failure = failure.from_status(failed(str(error), error).status)
            attempt.result = None
            return
        self._nominator.delete_nominated_pod_if_exists(attempt.pod)
        self._run(self._reserve if attempt.member else self._reserve_and_permit, attempt)

    def permit(self, attempt: Attempt) -> None:
        """Run Permit; sets `failure` and undoes the assumption if a plugin rejects the pod."""
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
        """Whether another writer changed the chosen node since it was found to fit."""
        assert attempt.result is not None
        return self.cache.last_external_change(attempt.result.row) > attempt.seen

    def recheck(self, attempt: Attempt) -> Failure | None:
        """Filter the chosen node again, as it is now without the pod; None when the pod fits."""
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

    def abandon(self, attempt: Attempt) -> bool:
        """Undo Reserve and assume; whether the pod was still assumed."""
        self.unreserve(attempt)
        return self.cache.forget_pod(attempt.pod.metadata.uid)

    def unreserve(self, attempt: Attempt) -> None:
        """Run Unreserve of all Reserve plugins, in reverse order, whatever happened before."""
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
        """Reuse statistics by profile, and the number of waiting pods."""
        return {
            "reuse": {
                name: algorithm.search.results.statistics()
                for name, algorithm in self.algorithms.items()
            },
            "waiting_pods": len(self.waiting_pods),
            "templates_over_budget": len(self._overruns.by_template),
        }
