"""Fourth stage: queue, engine, binding and the loop that drives them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from scheduler.engine import Engine, Evaluator, Framework
from scheduler.engine.cycle_time import CycleBudget
from scheduler.engine.what_if import FrameworkWhatIf
from scheduler.extenders.binder import ExtenderBinder
from scheduler.framework import ActionType, QueuedPodInfo, Status
from scheduler.groups.running.scheduling import GroupScheduling
from scheduler.history import DecisionHistory, DecisionRecorder
from scheduler.queue import QueueOptions, SchedulingQueue, build_hint_map, registered_resources
from scheduler.queue.cluster_events import EventFeatures
from scheduler.queue.queueing_hints import QueueingHintMap
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.failure_handler import FailureHandler
from scheduler.service.gate_reporter import GateReporter
from scheduler.service.limited_log import LimitedLog
from scheduler.service.options import seconds
from scheduler.service.plugin_conditions import PluginConditions
from scheduler.service.plugin_exceptions import PluginExceptions
from scheduler.service.plugin_overruns import PluginOverruns
from scheduler.service.scheduling_loop import SchedulingLoop
from scheduler.service.status_writer import StatusWriter
from scheduler.stages.connections import Connections
from scheduler.stages.handle import SchedulingParts
from scheduler.stages.profiles import Profiles
from scheduler.stages.state import State

_errors = LimitedLog(__name__)


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The parts that take a pod from the queue to its binding, or back to the queue."""

    queue: SchedulingQueue
    #: Actions that some plugin registered, by resource.
    registered: dict[str, ActionType]
    features: EventFeatures
    engine: Engine
    gates: GateReporter
    failures: FailureHandler
    binding: BindingCycle
    loop: SchedulingLoop
    budget: CycleBudget
    conditions: PluginConditions
    #: Queueing hints that the plugins of each profile registered; replaced in place.
    hints: dict[str, QueueingHintMap]
    decisions: DecisionRecorder
    exceptions: PluginExceptions
    overruns: PluginOverruns
    profiles: Profiles

    @property
    def groups(self) -> GroupScheduling:
        """The part that tries groups."""
        found = self.loop.groups
        assert isinstance(found, GroupScheduling)
        return found

    def plugin_faults(self, profile: str, plugins: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return lines about failures of the plugins of a profile, by plugin."""
        lines = self.overruns.of_profile(profile, plugins)
        for plugin, raised in self.exceptions.of_plugins(plugins).items():
            lines[plugin] = (*lines.get(plugin, ()), *raised)
        for plugin, isolated in self.profiles.isolated(profile).items():
            if ended := isolated.evaluator.faults():
                lines[plugin] = (*lines.get(plugin, ()), *ended)
        return lines


def build_scheduling(
    connections: Connections,
    state: State,
    profiles: Profiles,
    max_in_unschedulable: timedelta,
) -> Scheduling:
    """Build the stage and complete the plugins' handles with its parts.

    `max_in_unschedulable`: the time after which a pod is retried even without an event; 0 means
    never.
    """
    configuration = connections.configuration
    settings, metrics, clock = configuration.options, connections.metrics, connections.clock
    features = EventFeatures(
        node_declared_features=configuration.feature_gates.enabled("NodeDeclaredFeatures")
    )
    budget = _budget(connections)
    hints = hint_maps(connections, profiles.frameworks, extenders=bool(state.extenders))
    registered = registered_resources(hints)
    raised = PluginExceptions(metrics.plugin_faults.raised)
    queue = _queue(
        connections, state, profiles, features, budget, max_in_unschedulable, hints, raised
    )
    engine = _engine(connections, state, profiles, queue, budget, raised)
    statuses = StatusWriter(connections.dispatcher, clock, queue.nominator)
    conditions = PluginConditions(profiles.frameworks)
    gates = _gates(connections, state, queue, statuses, conditions)
    failures = FailureHandler(
        queue,
        state.listers.pod,
        events=connections.events,
        statuses=statuses,
        clock=clock,
        metrics=metrics,
        gates=gates,
        conditions=conditions,
    )
    decisions = _decisions(connections, state, profiles, queue, gates)
    binding = _binding(connections, state, profiles, engine, failures, statuses, decisions)
    loop = _loop_class(connections)(
        engine,
        queue,
        binding,
        failures,
        events=connections.events,
        clock=clock,
        slice_seconds=seconds(settings.scheduling_time_slice),
        slots=state.slots,
        wake=state.wake,
        inbox=state.inbox,
        decisions=decisions,
        timed=state.subscriptions.timed,
        groups=partial(
            GroupScheduling,
            engine,
            queue,
            binding,
            decisions,
            clock,
            state.reports,
            wake=state.wake.set,
        ),
        reports=state.reports,
    )
    scheduling = Scheduling(
        queue, registered, features, engine, gates, failures, binding, loop, budget, conditions,
        hints, decisions, raised, _overruns(connections, profiles), profiles,
    )  # fmt: skip
    connect_handles(connections, state, profiles, scheduling)
    return scheduling


def connect_handles(
    connections: Connections, state: State, profiles: Profiles, scheduling: Scheduling
) -> None:
    """Complete the handles of all plugins, at the start and after profiles were replaced."""
    queue, binding, failures = scheduling.queue, scheduling.binding, scheduling.failures
    for name, built in profiles.built.items():
        evaluator = _evaluator(name, connections, state, profiles, queue, scheduling.budget)
        what_if = FrameworkWhatIf(built.framework, state.cache.table)
        built.handle.connect(
            SchedulingParts(queue, evaluator, what_if, binding.preempt, failures.relabel)
        )


def hint_maps(
    connections: Connections, frameworks: Mapping[str, Framework], *, extenders: bool
) -> dict[str, QueueingHintMap]:
    """Collect the events that the plugins of each profile register, and those of extenders.

    Raises ConfigurationError.
    """
    gates = connections.configuration.feature_gates
    return {
        name: build_hint_map(
            framework.event_plugins(),
            extenders=extenders,
            queueing_hints=gates.enabled("SchedulerQueueingHints"),
        )
        for name, framework in frameworks.items()
    }


def _overruns(connections: Connections, profiles: Profiles) -> PluginOverruns:
    metrics = connections.metrics
    overruns = PluginOverruns(
        metrics.plugin_faults, connections.clock, profiles.overrun_policies, profiles.with_plugin
    )
    metrics.on_over_budget.subscribe(overruns.overran)
    return overruns


def _gates(
    connections: Connections,
    state: State,
    queue: SchedulingQueue,
    statuses: StatusWriter,
    conditions: PluginConditions,
) -> GateReporter:
    gates = GateReporter(
        queue,
        state.listers.pod,
        statuses,
        connections.clock,
        delay=seconds(connections.configuration.options.status_patch_delay),
        conditions=conditions,
        wake=state.wake.set,
    )
    # Its timed work precedes the plugins'.
    state.subscriptions.timed.insert(0, gates)
    return gates


def _decisions(
    connections: Connections,
    state: State,
    profiles: Profiles,
    queue: SchedulingQueue,
    gates: GateReporter,
) -> DecisionRecorder:
    """Build the recorder, which is told of gated pods before `gates`."""
    limits, clock = connections.configuration.options.decision_history, connections.clock

    def failed(problem: Exception) -> None:
        connections.metrics.recording_failed("decisions")
        _errors.exception("recording a decision failed", problem)

    decisions = DecisionRecorder(
        DecisionHistory(limits.pods, limits.attempts_per_pod),
        state.cache.table,
        clock.monotonic,
        failed,
    )
    decisions.replace_frameworks(profiles.frameworks)

    def gated(info: QueuedPodInfo, status: Status) -> None:
        decisions.gated(info, status, clock.now())
        gates.held(info, status)

    queue.signals.on_gated.subscribe(gated)
    return decisions


def _loop_class(connections: Connections) -> type[SchedulingLoop]:
    tracing = connections.tracing
    return SchedulingLoop if tracing is None else tracing.scheduling_loop


def _budget(connections: Connections) -> CycleBudget:
    monotonic = connections.clock.monotonic
    limit = seconds(connections.configuration.options.cycle_time_budget)
    if not limit:
        # No CPU clock is read where nothing is limited.
        return CycleBudget(monotonic, float("inf"))
    # Everything that touches queue and engine runs on this one thread.
    return CycleBudget(monotonic, limit, time.thread_time, _full_collections)


def _queue(
    connections: Connections,
    state: State,
    profiles: Profiles,
    features: EventFeatures,
    budget: CycleBudget,
    max_in_unschedulable: timedelta,
    hints: Mapping[str, QueueingHintMap],
    raised: PluginExceptions,
) -> SchedulingQueue:
    configuration, frameworks = connections.configuration, profiles.frameworks
    settings, gates = configuration.options, configuration.feature_gates
    queue = SchedulingQueue(
        connections.clock,
        next(iter(frameworks.values())).queue_sort.sort_key,
        {name: framework.pre_enqueue for name, framework in frameworks.items()},
        hints,
        pod_lister=state.listers.pod,
        nomination_under_way=connections.dispatcher.nomination_under_way,
        options=QueueOptions(
            initial_backoff=float(configuration.effective.pod_initial_backoff_seconds),
            max_backoff=float(configuration.effective.pod_max_backoff_seconds),
            max_in_unschedulable=seconds(max_in_unschedulable) or None,
            pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            cycle_budget=budget.seconds,
            slice_seconds=seconds(settings.scheduling_time_slice),
            time_based_hint_period=seconds(settings.time_based_hint_period),
            features=features,
        ),
        metrics=connections.metrics.queue,
        timer=connections.clock.monotonic if connections.metrics.queue.measures else None,
        on_plugin_error=raised.raised,
    )
    queue.nominator.subscribe(state.subscriptions.publish_nomination)
    queue.nominator.on_node.subscribe(state.cache.table.note_nominations)
    return queue


def _engine(
    connections: Connections,
    state: State,
    profiles: Profiles,
    queue: SchedulingQueue,
    budget: CycleBudget,
    raised: PluginExceptions,
) -> Engine:
    configuration, tracing = connections.configuration, connections.tracing
    metrics = connections.metrics.engine
    return Engine(
        state.cache,
        profiles.frameworks,
        queue.nominator,
        clock=connections.clock,
        random=connections.random,
        metrics=metrics if tracing is None else tracing.attempts.measure(metrics),
        percentage_of_nodes_to_score=configuration.effective.percentage_of_nodes_to_score or 0,
        plugin_time_budget=seconds(configuration.options.plugin_time_budget),
        cycle_budget=budget,
        waiting_pods=state.waiting_pods,
        on_plugin_error=raised.raised,
        extenders=state.extenders,
        cancelled=_cancelled,
    )


def _cancelled() -> bool:
    """Whether the task that runs is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _evaluator(
    name: str,
    connections: Connections,
    state: State,
    profiles: Profiles,
    queue: SchedulingQueue,
    budget: CycleBudget,
) -> Evaluator:
    observe, tracing = connections.metrics.preemption, connections.tracing
    return Evaluator(
        profiles.frameworks[name],
        state.cache.table,
        queue.nominator,
        state.listers,
        random=connections.random,
        own_schedulers=tuple(profiles.frameworks),
        observe=observe if tracing is None else tracing.observed_preemption(observe),
        review=state.extenders.review,
        check=budget.check,
    )


def _binding(
    connections: Connections,
    state: State,
    profiles: Profiles,
    engine: Engine,
    failures: FailureHandler,
    statuses: StatusWriter,
    decisions: DecisionRecorder,
) -> BindingCycle:
    return connections.binding_cycle(
        engine,
        failures.queue,
        failures,
        events=connections.events,
        statuses=statuses,
        subscriptions=state.subscriptions,
        clock=connections.clock,
        metrics=connections.metrics,
        slots=state.slots,
        inbox=state.inbox,
        decisions=decisions,
        reports=state.reports,
        recheck=profiles.recheck,
        extenders=extender_binder(connections, state, profiles),
    )


def extender_binder(
    connections: Connections, state: State, profiles: Profiles
) -> ExtenderBinder | None:
    """Return the binder through extenders; None if there are no extenders."""
    if not state.extenders:
        return None
    recheck = profiles.recheck
    return ExtenderBinder(
        state.extenders,
        state.extender_transport,
        connections.dispatcher,
        connections.metrics,
        precondition=None if recheck is None else recheck.precondition,
    )


def _full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])
