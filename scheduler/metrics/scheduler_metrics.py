"""SchedulerMetrics: all metrics of one process.

`engine`, `queue`, `plugins`, `bridge` and `quota` go to the parts below, which know them by their
own Protocols; so do the clients, each with a `client_recorder`. The service calls the rest. Nothing
is global: two schedulers in one process (tests, the simulator) have separate metrics.

Written from the event loop only. `exposition` may run in a worker thread, after `refresh` on the
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector

from scheduler.api.signal import Signal
from scheduler.build_info import BuildInfo, build_info
from scheduler.metrics.definitions import DEFINITIONS
from scheduler.metrics.exposition import FamilyCollector, render
from scheduler.metrics.families import Families
from scheduler.metrics.plugin_metrics import PluginFamilies
from scheduler.metrics.recorders import (
    BridgeRecorder,
    ClientRecorder,
    EngineRecorder,
    PluginFaultRecorder,
    QueueRecorder,
    QuotaRecorder,
)
from scheduler.queue.metrics import QueueMetrics

_MANY_ATTEMPTS = 15
"""Pods with this many attempts or more share one label value, as upstream."""

_ATTEMPTS_LABELS = (*map(str, range(_MANY_ATTEMPTS)), f"{_MANY_ATTEMPTS}+")


class SchedulerMetrics:
    """Recorder and exposition of all metrics. Times are in seconds."""

    #: Whether anybody reads `event_handling`.
    measures_events = True

    def __init__(
        self,
        *,
        registry: CollectorRegistry | None = None,
        build: BuildInfo | None = None,
        disabled: Collection[str] = (),
        process: bool = True,
        queue: bool = True,
    ) -> None:
        """Create all metrics.

        Args:
            registry: registry to expose; by default a new one.
            build: build information; by default that of the installed distribution.
            disabled: names of metrics that are not exposed (`--disabled-metrics`).
            process: expose CPU, memory and descriptors of this process as well.
            queue: count what happens in the queue.
        """
        families = self._families = Families(DEFINITIONS)
        #: Called after a plugin over its budget was counted.
        self.on_over_budget = Signal[[str, str, str, float]]()
        self.engine = EngineRecorder(families, self.on_over_budget)
        self.queue = QueueRecorder(families) if queue else QueueMetrics()
        self.plugins = PluginFamilies(families)
        self.bridge, self.quota = BridgeRecorder(families), QuotaRecorder(families)
        self._attempts = families.counter("scheduler_schedule_attempts_total")
        self._attempt_durations = families.histogram(
            "scheduler_scheduling_attempt_duration_seconds"
        )
        self._pod_attempts = families.histogram("scheduler_pod_scheduling_attempts")[()]
        self._sli = families.histogram("scheduler_pod_scheduling_sli_duration_seconds")
        self._after_flush = families.counter("scheduler_pod_scheduled_after_flush_total")[()]
        self._handling = families.histogram("scheduler_event_handling_duration_seconds")
        self._handler_errors = families.counter("kubestow_handler_errors_total")
        self._misspelt = families.counter("kubestow_misspelt_scheduler_names_total")[()]
        self.plugin_faults = PluginFaultRecorder(families)
        self._permit_waits = families.histogram("scheduler_permit_wait_duration_seconds")
        self._preemption_attempts = families.counter("scheduler_preemption_attempts_total")[()]
        self._preemption_victims = families.histogram("scheduler_preemption_victims")[()]
        self._binding = families.gauge("scheduler_goroutines")["binding",]
        self._loop_lag = families.histogram("kubestow_event_loop_lag_seconds")[()]
        self._bind_outcomes = families.counter("kubestow_bind_outcomes_total")
        self._rejections = families.counter("kubestow_kubelet_rejections_total")
        self._rechecks = families.counter("kubestow_node_rechecks_total")
        self._result_cache = families.counter("kubestow_result_cache_requests_total")
        self._extender_requests = families.counter("kubestow_extender_requests_total")
        self._extender_durations = families.histogram("kubestow_extender_request_duration_seconds")
        self._extender_breakers = families.gauge("kubestow_extender_circuit_open")
        sizes = families.gauge("scheduler_cache_size")
        self._nodes, self._pods = sizes["nodes",], sizes["pods",]
        self._assumed_pods = sizes["assumed_pods",]
        self._missing_permissions = families.gauge("kubestow_missing_permissions")
        self._deferred = families.gauge("kubestow_deferred_namespaces")[()]
        self._features = families.gauge("kubernetes_feature_enabled")
        self._note_build(build or build_info())
        self._sources: list[Callable[[SchedulerMetrics], None]] = []
        self.registry = registry or CollectorRegistry(auto_describe=False)
        for entries in (families.entries, self.plugins.entries):
            self.registry.register(FamilyCollector(entries, frozenset(disabled)))
        if process:
            ProcessCollector(registry=self.registry)

    def _note_build(self, build: BuildInfo) -> None:
        version = tuple(build.version_info().values())  # the fields of version.Info, in order
        self._families.gauge("kubernetes_build_info")[version].set(1.0)
        self._families.gauge("kubestow_build_info")[build.version, build.python].set(1.0)

    def client_recorder(self, host: str) -> ClientRecorder:
        """Return the recorder of a client of the API server at `host`, a label of its metrics."""
        return ClientRecorder(self._families, host)

    # -- attempts ----------------------------------------------------------------------------------

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """Record an attempt that ended with `result` `seconds` after the pop.

        `result` is `scheduled`, `unschedulable` or `error`.
        """
        labels = (result, profile)
        self._attempts[labels].inc()
        self._attempt_durations[labels].observe(seconds)

    def attempts_by_result(self) -> dict[str, int]:
        """Return the number of attempts of all profiles by their result."""
        found: dict[str, int] = {}
        for (result, _), counter in self._attempts.items():
            found[result] = found.get(result, 0) + int(counter.value)
        return found

    def bound(self, attempts: int, sli_seconds: float, *, after_flush: bool = False) -> None:
        """Record a bind in the `attempts`-th attempt, `sli_seconds` after the first activation.

        `after_flush`: the periodic flush, not an event, had brought the pod to that attempt.
        """
        self._pod_attempts.observe(attempts)
        self._sli[_ATTEMPTS_LABELS[min(attempts, _MANY_ATTEMPTS)],].observe(sli_seconds)
        if after_flush:
            self._after_flush.inc()

    def permit_wait(self, result: str, seconds: float) -> None:
        """Observe a wait at Permit that ended with status `result`."""
        self._permit_waits[result,].observe(seconds)

    def preemption(self, victims: int = 0) -> None:
        """Record a search for victims; `victims` of them are evicted, 0 if none were found."""
        self._preemption_attempts.inc()
        if victims:
            self._preemption_victims.observe(victims)

    def binding_cycles(self, delta: int) -> None:
        """Change the number of binding cycles: begun (+1) or ended (-1)."""
        self._binding.add(delta)

    def bind_outcome(self, outcome: str) -> None:
        """Count a settled bind request."""
        self._bind_outcomes[outcome,].inc()

    def kubelet_rejection(self, reason: str) -> None:
        """Count a pod of ours that the kubelet of its node did not admit."""
        self._rejections[reason,].inc()

    def node_recheck(self, *, fits: bool) -> None:
        """Count a chosen node that was filtered again after another writer changed it."""
        self._rechecks["fits" if fits else "rejected",].inc()

    def configuration_in_force(self, generation: int, pause_seconds: float = 0.0) -> None:
        """Set the number of the configuration in force, and how long its takeover held the loop.

        1 is that of the start.
        """
        self._families.gauge("kubestow_config_reload_pause_seconds")[()].set(pause_seconds)
        self._families.gauge("kubestow_config_generation")[()].set(float(generation))
        self._families.gauge("kubestow_config_last_reload_successful")[()].set(1.0)

    def configuration_reload(self, result: str, *, refused: bool) -> None:
        """Count a change of the files of the configuration."""
        self._families.counter("kubestow_config_reloads_total")[result,].inc()
        successful = self._families.gauge("kubestow_config_last_reload_successful")
        successful[()].set(0.0 if refused else 1.0)

    def extender_request(self, extender: str, verb: str, result: str, seconds: float) -> None:
        """Record a call of an extender that ended `success` or `error`."""
        self._extender_requests[extender, verb, result].inc()
        self._extender_durations[extender, verb].observe(seconds)

    def extender_not_called(self, extender: str, verb: str) -> None:
        """Count a call that the circuit breaker stopped."""
        self._extender_requests[extender, verb, "not_called"].inc()

    def extender_circuit(
        self,
        extender: str,
        verb: str,
        *,
        open: bool,  # noqa: A002 - the term for circuit breakers
    ) -> None:
        """Set whether a circuit breaker is open."""
        self._extender_breakers[extender, verb].set(1.0 if open else 0.0)

    def result_cache(self, profile: str, *, hits: int, misses: int) -> None:
        """Set the requests to the result cache since the start, from the engine's statistics."""
        self._result_cache[profile, "hit"].value = hits
        self._result_cache[profile, "miss"].value = misses

    def decision_history(self, *, pods: int, decisions: int, held: int, evicted: int) -> None:
        """Set the size of the decision history, `held` bytes of it, and the pods it let go."""
        sizes = self._families.gauge("kubestow_decision_history_size")
        sizes["pods",].set(pods)
        sizes["decisions",].set(decisions)
        self._families.gauge("kubestow_decision_history_bytes")[()].set(held)
        self._families.counter("kubestow_decision_history_evicted_pods_total")[()].value = evicted

    def shadow(
        self,
        verdicts: Mapping[str, int],
        causes: Mapping[tuple[str, str], int],
        pods: Mapping[str, int],
        sooner: int,
    ) -> None:
        """Set the judgements of a shadow since the start, and how many pods wait where."""
        judged = self._families.counter("kubestow_shadow_judged_pods_total")
        for verdict, count in verdicts.items():
            judged[verdict,].value = count
        differing = self._families.counter("kubestow_shadow_differences_total")
        for labels, count in causes.items():
            differing[labels].value = count
        states = self._families.gauge("kubestow_shadow_pods")
        for state, count in pods.items():
            states[state,].set(float(count))
        self._families.counter("kubestow_shadow_sooner_pods_total")[()].value = sooner

    def recording_failed(self, kind: str) -> None:
        """Count a failure to remember a decision (`decisions`) or to record it (`bundles`)."""
        self._families.counter("kubestow_recording_failures_total")[kind,].inc()

    def trace_spans(self, *, exported: int, failed: int, dropped: int) -> None:
        """Set the spans of traces since the start, from the statistics of their export."""
        spans = self._families.counter("kubestow_trace_spans_total")
        spans["exported",].value = exported
        spans["failed",].value = failed
        spans["dropped",].value = dropped

    # -- events, cache, loop -----------------------------------------------------------------------

    def event_handling(self, event: str, seconds: float) -> None:
        """Observe the handling of one change; `event` is a `ClusterEvent.label`."""
        self._handling[event,].observe(seconds)

    def misspelt_scheduler(self) -> None:
        """Count a pending pod whose schedulerName is nearly one of ours."""
        self._misspelt.inc()

    def handler_error(self, plural: str) -> None:
        """Count a change of an object that its handler failed to apply."""
        self._handler_errors[plural,].inc()

    def cache_size(self, *, nodes: int, pods: int, assumed_pods: int) -> None:
        """Set the sizes of the cache; `nodes` includes deleted ones that still have pods."""
        self._nodes.set(nodes)
        self._pods.set(pods)
        self._assumed_pods.set(assumed_pods)

    def deferred_namespaces(self, count: int) -> None:
        """Set the number of namespaces whose pods are popped after all others."""
        self._deferred.set(count)

    def missing_permission(
        self, resource: str, verb: str, *, required: bool, missing: bool
    ) -> None:
        """Set whether a permission is missing; `required`: no pod can be scheduled without it."""
        labels = resource, verb, "true" if required else "false"
        self._missing_permissions[labels].set(1.0 if missing else 0.0)

    def loop_lag(self, seconds: float) -> None:
        """Observe the delay of a timer of the event loop."""
        self._loop_lag.observe(seconds)

    def features(self, gates: Iterable[tuple[str, str, bool]]) -> None:
        """Set the feature gates: name, stage (`Alpha`, `Beta`, `GA`), and whether it is on."""
        for name, stage, enabled in gates:
            label = "" if stage == "GA" else stage.upper()
            self._features[name, label].set(1.0 if enabled else 0.0)

    # -- exposition --------------------------------------------------------------------------------

    def add_source(self, source: Callable[[SchedulerMetrics], None]) -> None:
        """Call `source(self)` before every exposition, on the loop; it must be quick.

        For values that are cheaper to read than to follow.
        """
        self._sources.append(source)

    def refresh(self) -> None:
        """Call the sources. On the event loop, before `exposition`."""
        for source in self._sources:
            source(self)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics as text and its content type, for a scraper's `Accept` header.

        OpenMetrics where asked for, else the classic text format. Safe in a worker thread.
        """
        return render(self.registry, accept)

    def reset(self) -> None:
        """Zero counters and histograms (`DELETE /metrics`). Gauges hold current states and stay."""
        self._families.reset()
        self.plugins.reset()
