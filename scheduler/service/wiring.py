"""Wiring: builds every long-lived object of a run, in the order of their needs."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any

import structlog

from config import GATES, ClientConnectionConfiguration, Configuration
from plugins.resource_quota.arguments import API
from plugins.resource_quota.enforcement import QuotaEnforcement
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.quantity_fields import located, node_amounts, pod_amounts
from scheduler.api.requests import node_allocatable
from scheduler.api.signatures.interner import PodSignatures
from scheduler.cache import Cache
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.dispatcher import Dispatcher, DispatcherOptions
from scheduler.client.events import EventRecorder, EventRecorderOptions
from scheduler.client.fence import Fence
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.reflector import Delta, DeltaType, Reflector, ReflectorOptions
from scheduler.client.resources import NODES, PODS, RESOURCES
from scheduler.client.rest import ApiClient
from scheduler.client.store import KeepRaw
from scheduler.client.transport import Transport
from scheduler.controllers.kubelet_rejections import RejectedPods
from scheduler.controllers.node_provisioning import (
    BridgeOptions,
    ConditionSelector,
    Decisions,
    Limits,
    NodeProvisioningBridge,
    StatusObject,
    profiles_that_fall_back_by_default,
)
from scheduler.controllers.quota_usage import (
    NativeUsage,
    SharedReservations,
    UsageWriter,
    report_unenforced,
)
from scheduler.engine import Engine, Evaluator, Framework, WaitingPods
from scheduler.engine.cycle_budget import CycleBudget
from scheduler.engine.kubelet_rejections import KubeletRejections
from scheduler.extenders.binder import ExtenderBinder
from scheduler.extenders.extender import Extenders
from scheduler.extenders.transport import ServiceOutside
from scheduler.framework import Registry
from scheduler.framework.plugin_names import RESOURCE_QUOTA
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import SchedulingQueue, build_hint_map, registered_resources
from scheduler.queue.cluster_events import EventFeatures
from scheduler.service.api_writer import ProfileEvents, ServiceApiWriter
from scheduler.service.background import BackgroundTasks
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.failure_handler import FailureHandler
from scheduler.service.gate_reporter import GateReporter
from scheduler.service.handle import ServiceHandle, SubscriptionBoard
from scheduler.service.inbox import Inbox
from scheduler.service.listers import StoreListers
from scheduler.service.node_recheck import NodeRecheck
from scheduler.service.object_waits import ObjectWaits
from scheduler.service.options import RunOptions
from scheduler.service.plugin_conditions import PluginConditions
from scheduler.service.resources import EVENT_RESOURCES, PODS_SELECTOR, watched_plurals
from scheduler.service.scheduling_loop import SchedulingLoop
from scheduler.service.status_writer import StatusWriter

_log = structlog.get_logger(__name__)

MAX_BINDING_PER_SLOT = 20
"""Binding cycles begun per bind slot before the loop pauses: enough to keep the slots busy."""


class Wiring:
    """All parts of a scheduler that talks to one API server. Nothing runs yet."""

    def __init__(
        self,
        configuration: Configuration,
        registry: Registry,
        options: RunOptions,
        transport: Transport,
        *,
        fence: Fence,
        metrics: SchedulerMetrics,
        clock: Clock | None = None,
    ) -> None:
        """`clock` stands in for the machine's; None: the machine's."""
        self.configuration = configuration
        self._registry = registry
        self.metrics = metrics
        self.clock = clock or SystemClock()
        self._options = options
        settings = configuration.options
        # The one source of randomness; a seed makes ties and jitter reproducible.
        self._random = random.Random(settings.seed)
        connection = configuration.effective.client_connection
        limiter = RateLimiter(self.clock, qps=connection.qps, burst=connection.burst)
        self.client = ApiClient(
            transport,
            user_agent="kubestow/scheduler",
            limiter=limiter,
            fence=fence,
            bind_timeout=seconds(settings.bind_timeout),
            clock=self.clock,
            metrics=metrics.client,
        )
        self.dispatcher = Dispatcher(
            self.client,
            fence=fence,
            options=DispatcherOptions(binds=settings.bind_concurrency),
            random=self._random,
        )
        # Events have a rate limit of their own, as upstream: they must not eat into that of binds.
        event_limiter = RateLimiter(self.clock, qps=connection.qps, burst=connection.burst)
        self.recorder = EventRecorder(
            self.client.derive("events", limiter=event_limiter, fence=fence),
            self.dispatcher,
            options=_event_options(settings.events_per_second),
            random=self._random,
        )
        self.signatures = PodSignatures()
        self.cache = Cache()
        self.listers = StoreListers()
        self.subscriptions = SubscriptionBoard()
        self.waits = ObjectWaits(self.subscriptions)
        self.waiting_pods = WaitingPods()
        self.background = BackgroundTasks()
        self.inbox = Inbox()
        self.outside = self._outside()
        self.extenders = Extenders(
            configuration.effective.extenders, self.outside, self.cache.table
        )
        first = configuration.profiles[0].scheduler_name
        self.events = ProfileEvents(self.recorder, first)
        self._handles: dict[str, ServiceHandle] = {}
        self._shared: dict[str, Any] = {}
        self._writers: list[ServiceApiWriter] = []
        self.rejections = KubeletRejections(
            self.cache.table, seconds(settings.kubelet_rejection_backoff), self.clock
        )
        self.frameworks = {profile.scheduler_name: self._framework(profile)
                           for profile in configuration.profiles}  # fmt: skip
        self.queue = self._queue()
        self.engine = self._engine()
        self.statuses = StatusWriter(self.dispatcher, self.clock, self.queue.nominator)
        conditions = PluginConditions(self.frameworks)
        self.gates = GateReporter(
            self.queue,
            self._newest_pod,
            self.statuses.held,
            self.clock,
            delay=seconds(settings.status_patch_delay),
            conditions=conditions,
        )
        self.queue.on_gated = self.gates.held
        self.statuses.on_not_scheduled = self.gates.superseded
        self.failures = FailureHandler(
            self.queue,
            self._newest_pod,
            events=self.events,
            statuses=self.statuses,
            clock=self.clock,
            metrics=metrics,
            gates=self.gates,
            conditions=conditions,
        )
        self.recheck = NodeRecheck(self.engine, metrics) if settings.recheck_before_bind else None
        self.binding = self._binding_cycle()
        for handle in self._handles.values():
            handle.stop_binding, handle.write_label = self.binding.preempt, self.failures.relabel
        self.loop = SchedulingLoop(
            self.engine,
            self.queue,
            self.binding,
            self.failures,
            events=self.events,
            clock=self.clock,
            slice_seconds=seconds(settings.scheduling_time_slice),
            max_binding=settings.bind_concurrency * MAX_BINDING_PER_SLOT,
            gates=self.gates,
            inbox=self.inbox,
            timed=self.subscriptions.timed,
        )
        self.bridge = self._bridge(limit=connection, fence=fence)
        self.usage_writer, self.native_usage = self._usage_writers(limit=connection, fence=fence)
        self.reservations = self._shared_reservations()
        self.reflectors = self._reflectors()
        metrics.add_source(self._report)
        metrics.client.host = transport.host
        metrics.features(
            (name, gate.stage.value, configuration.feature_gates.enabled(name))
            for name, gate in GATES.items()
        )

    # -- profiles, queue, engine -----------------------------------------------------------------

    def _framework(self, profile: Any) -> Framework:
        writer = ServiceApiWriter(
            self.client, self.dispatcher, self.metrics, self.waits, self._random
        )
        self._writers.append(writer)
        handle = ServiceHandle(
            profile.scheduler_name,
            cache=self.cache,
            clock=self.clock,
            listers=self.listers,
            waiting_pods=self.waiting_pods,
            feature_gates=self.configuration.feature_gates,
            subscriptions=self.subscriptions,
            api=writer,
            events=self.events,
            background=self.background,
            shared=self._shared,
            metrics=self.metrics.plugins,
            inbox=self.inbox,
        )
        self._handles[profile.scheduler_name] = handle
        framework = Framework(profile, self._registry, handle, last_filters=(self.rejections,))
        handle.what_if.framework = framework
        return framework

    def _queue(self) -> SchedulingQueue:
        effective = self.configuration.effective
        gates = self.configuration.feature_gates
        self._hints = {
            name: build_hint_map(
                framework.event_plugins(),
                extenders=bool(self.extenders),
                queueing_hints=gates.enabled("SchedulerQueueingHints"),
            )
            for name, framework in self.frameworks.items()
        }
        first = next(iter(self.frameworks.values()))
        self._budget = self._cycle_budget()
        queue = SchedulingQueue(
            self.clock,
            first.queue_sort.sort_key,
            {name: framework.pre_enqueue for name, framework in self.frameworks.items()},
            self._hints,
            pod_lister=self._newest_pod,
            initial_backoff=float(effective.pod_initial_backoff_seconds),
            max_backoff=float(effective.pod_max_backoff_seconds),
            max_in_unschedulable=seconds(self._options.pod_max_in_unschedulable_pods) or None,
            pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            cycle_budget=self._budget.seconds,
            slice_seconds=seconds(self.configuration.options.scheduling_time_slice),
            time_based_hint_period=seconds(self.configuration.options.time_based_hint_period),
            metrics=self.metrics.queue,
            features=self._features(),
            timer=self.clock.monotonic,
            on_plugin_error=_log_plugin_error,
        )
        queue.nominator.subscribe(self.subscriptions.publish_nomination)
        queue.nominator.subscribe_nodes(self.cache.table.note_nominations)
        for name, handle in self._handles.items():
            handle.queue = queue
            handle.evaluator = Evaluator(
                self.frameworks[name],
                self.cache.table,
                queue.nominator,
                self.listers,
                random=self._random,
                own_schedulers=tuple(self.frameworks),
                observe=self.metrics.preemption,
                review=self.extenders.review,
                check=self._budget.check,
            )
        return queue

    def _cycle_budget(self) -> CycleBudget:
        limit = seconds(self.configuration.options.cycle_time_budget) or float("inf")
        # Everything that touches queue and engine runs on this one thread.
        return CycleBudget(self.clock.monotonic, limit, time.thread_time, _full_collections)

    def _features(self) -> EventFeatures:
        gates = self.configuration.feature_gates
        return EventFeatures(node_declared_features=gates.enabled("NodeDeclaredFeatures"))

    def _engine(self) -> Engine:
        return Engine(
            self.cache,
            self.frameworks,
            self.queue.nominator,
            clock=self.clock,
            random=self._random,
            metrics=self.metrics.engine,
            percentage_of_nodes_to_score=(
                self.configuration.effective.percentage_of_nodes_to_score or 0
            ),
            plugin_time_budget=seconds(self.configuration.options.plugin_time_budget),
            cycle_budget=self._budget,
            waiting_pods=self.waiting_pods,
            on_plugin_error=_log_plugin_error,
            extenders=self.extenders,
        )

    def _outside(self) -> ServiceOutside:
        settings = self.configuration.options
        return ServiceOutside(
            self.configuration.effective.extenders,
            clock=self.clock,
            metrics=self.metrics,
            failures=settings.extender_failures,
            cool_down=seconds(settings.extender_circuit_open_duration),
            stores=self.listers.__getitem__,
        )

    def _binding_cycle(self) -> BindingCycle:
        binder = ExtenderBinder(self.extenders, self.outside, self.dispatcher, self.metrics)
        binding = BindingCycle(
            self.engine,
            self.queue,
            self.failures,
            events=self.events,
            statuses=self.statuses,
            subscriptions=self.subscriptions,
            clock=self.clock,
            metrics=self.metrics,
            recheck=self.recheck,
            inbox=self.inbox,
            extenders=binder,
        )
        self.waits.on_wait = binding.waits
        if self.recheck is not None:
            for writer in self._writers:
                writer.precondition = self.recheck.precondition
            binder.precondition = self.recheck.precondition
        return binding

    async def close(self) -> None:
        """Close what is open towards others than the API server."""
        await self.outside.close()

    def _bridge(
        self, *, limit: ClientConnectionConfiguration, fence: Fence
    ) -> NodeProvisioningBridge | None:
        """The bridge for autoscalers' events, unless it is off; it sees pods from here on."""
        settings = self.configuration.options.node_provisioning_bridge
        window = settings.suspect_window
        fallback = self.configuration.feature_gates.enabled("PodTopologySpreadFallbackMode")
        if settings.mode == "Off" or (settings.mode == "Auto" and not fallback):
            return None
        status = StatusObject(
            settings.cluster_autoscaler_namespace, settings.cluster_autoscaler_config_map
        )
        decisions = Decisions(
            names=self.frameworks,
            wanted=ConditionSelector(
                every_pod=settings.scope == "All",
                by_default=tuple(profiles_that_fall_back_by_default(self.configuration.profiles)),
            ),
            status=status,
            limits=Limits(
                None if window is None else seconds(window),
                seconds(settings.provisioning_deadline),
            ),
            backs_off=settings.mode == "Auto",
        )
        # A rate limit of its own: an autoscaler that turns thousands of pods down must not eat into
        # that of binds.
        limiter = RateLimiter(self.clock, qps=limit.qps, burst=limit.burst)
        bridge = NodeProvisioningBridge(
            self.client.derive("node-provisioning-bridge", limiter=limiter, fence=fence),
            self.dispatcher,
            decisions,
            options=BridgeOptions(
                always=settings.mode == "On",
                status=status,
                idle_timeout=seconds(self.configuration.options.watch_idle_timeout),
            ),
            metrics=self.metrics.bridge,
            random=self._random,
        )
        self.subscriptions.on_object("pods", bridge.pod)
        self.subscriptions.on_object("nodes", bridge.node)
        return bridge

    def _usage_writers(
        self, *, limit: ClientConnectionConfiguration, fence: Fence
    ) -> tuple[UsageWriter | None, NativeUsage | None]:
        """The writers of what quotas use: of deferred keys, and of built-in ones in native mode."""
        enforcement = self._enforcement
        if enforcement is None:
            return None, None
        # A rate limit of their own: thousands of quotas must not eat into that of binds.
        limiter = RateLimiter(self.clock, qps=limit.qps, burst=limit.burst)
        client = self.client.derive("quota-usage", limiter=limiter, fence=fence)
        writer = native = None
        if enforcement.ledger.mode.deferred_keys:
            writer = UsageWriter(
                client,
                self.dispatcher,
                enforcement,
                self.subscriptions,
                metrics=self.metrics.quota,
                random=self._random,
            )
        if enforcement.ledger.mode.native:
            native = NativeUsage(
                client,
                self.dispatcher,
                enforcement,
                events=self.events,
                metrics=self.metrics.quota,
                random=self._random,
            )
        return writer, native

    def _shared_reservations(self) -> SharedReservations | None:
        """What several active schedulers book in the API; its requests are part of binding."""
        enforcement = self._enforcement
        if enforcement is None or enforcement.args.reservation != API:
            return None
        return SharedReservations(
            self.client, self.dispatcher, enforcement, self.subscriptions, random=self._random
        )

    @property
    def _enforcement(self) -> QuotaEnforcement | None:
        """The books of ResourceQuota, where a profile enforces quotas."""
        enforcement = self._shared.get(RESOURCE_QUOTA)
        return enforcement if isinstance(enforcement, QuotaEnforcement) else None

    def leaders_work(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What runs beside the scheduling loop while this process leads, with its name."""
        if self.bridge is not None:
            yield "node provisioning bridge", self.bridge.run()
        if self.usage_writer is not None:
            yield "quota usage writer", self.usage_writer.run()
        if self.native_usage is not None:
            yield "native quota usage", self.native_usage.run()
        if self.reservations is not None:
            yield "shared quota reservations", self.reservations.run()
        if self.usage_writer is None:
            work = report_unenforced(self.client, self.events, self._random)
            yield "quotas nobody enforces", work

    # -- reflectors ------------------------------------------------------------------------------

    def _reflectors(self) -> list[Reflector[Any]]:
        registered = registered_resources(self._hints)
        handlers = EventHandlers(
            self.cache,
            self.queue,
            self.waiting_pods,
            scheduler_names=self.frameworks,
            registered=registered,
            subscriptions=self.subscriptions,
            clock=self.clock,
            metrics=self.metrics,
            features=self._features(),
            rejected=self._rejected_pods(),
            honor_foreign_nominations=self.configuration.options.honor_foreign_nominations,
        )
        plugins = [p for framework in self.frameworks.values() for p in framework.plugins.values()]
        reflectors = [
            self._reflector(
                NODES, handlers.nodes, on_decode=_readable, keep_raw=self._keeps_raw_nodes()
            ),
            self._reflector(
                PODS,
                self._releasing(handlers.pods),
                field_selector=PODS_SELECTOR,
                on_decode=self._intern,
                keep_raw=self._keeps_raw_pods(),
            ),
        ]
        for plural in watched_plurals(registered, plugins, self.subscriptions.plurals):
            handler = handlers.other(plural, EVENT_RESOURCES.get(plural, ""))
            reflectors.append(self._reflector(RESOURCES[plural], handler))
        return reflectors

    def _rejected_pods(self) -> RejectedPods:
        connection = self.configuration.effective.client_connection
        limiter = RateLimiter(self.clock, qps=connection.qps, burst=connection.burst)
        return RejectedPods(
            self.client.derive("rejections", limiter=limiter),
            self.rejections,
            start=self.background.start,
            submit=self.inbox.submit,
            metrics=self.metrics,
        )

    def _reflector(
        self,
        resource: Any,
        handler: Callable[[Any], None],
        *,
        field_selector: str = "",
        on_decode: Callable[[Any], Any] | None = None,
        keep_raw: KeepRaw[Any] | None = None,
    ) -> Reflector[Any]:
        reflector = Reflector(
            self.client,
            resource,
            self.inbox.through(handler),
            options=ReflectorOptions(
                field_selector=field_selector,
                idle_timeout=seconds(self.configuration.options.watch_idle_timeout),
            ),
            random=self._random,
            on_decode=on_decode,
            on_relist=self.loop.pause,
            keep_raw=keep_raw,
        )
        self.listers.add(resource.plural, reflector.store)
        return reflector

    def _keeps_raw_nodes(self) -> KeepRaw[Node] | None:
        """Nodes are handed on as they came, to extenders that do not keep their own."""
        extenders = self.configuration.effective.extenders
        if not any(
            not each.node_cache_capable and (each.filter_verb or each.prioritize_verb)
            for each in extenders
        ):
            return None
        return _always

    def _keeps_raw_pods(self) -> KeepRaw[Pod] | None:
        """Our pending pods; all pods where an extender is shown victims."""
        extenders = self.configuration.effective.extenders
        if not any(
            each.filter_verb or each.prioritize_verb or each.preempt_verb for each in extenders
        ):
            return None
        if any(each.preempt_verb and not each.node_cache_capable for each in extenders):
            return _always
        ours = frozenset(self.frameworks)
        return lambda pod: not pod.spec.node_name and pod.spec.scheduler_name in ours

    def _intern(self, pod: Pod) -> Pod:
        try:
            self.signatures.intern(pod)
        except QuantityError as error:
            raise located(error, pod_amounts(pod)) from error
        return pod

    def _releasing(
        self, handler: Callable[[Sequence[Delta[Pod]]], None]
    ) -> Callable[[Sequence[Delta[Pod]]], None]:
        """Give back the signatures of replaced and deleted objects, after they were handled."""

        def handle(batch: Sequence[Delta[Pod]]) -> None:
            handler(batch)
            for delta in batch:
                if delta.old is not None:
                    self.signatures.release(delta.old)
                # The last state of a deleted pod was interned as well, unless it is the known one.
                if delta.type is DeltaType.DELETED and delta.object is not delta.old:
                    self.signatures.release(delta.object)

        return handle

    def _newest_pod(self, namespace: str, name: str) -> Pod | None:
        return self.listers["pods"].get(name, namespace)

    # -- inspection ------------------------------------------------------------------------------

    def _report(self, metrics: SchedulerMetrics) -> None:
        cache = self.cache.statistics()
        metrics.cache_size(nodes=cache.nodes, pods=cache.pods, assumed_pods=cache.assumed_pods)
        metrics.deferred_namespaces(len(self.queue.statistics().deferred_namespaces))
        for name, reuse in self.engine.statistics()["reuse"].items():
            metrics.reuse(name, hits=reuse.hits, misses=reuse.misses)

    def statistics(self) -> dict[str, Any]:
        """Everything that can say how it is doing."""
        return {
            "queue": self.queue.statistics(),
            "gates": self.gates.statistics(),
            "cache": self.cache.statistics(),
            "engine": self.engine.statistics(),
            "signatures": self.signatures.statistics(),
            "selectors": self.cache.table.selector_counts.statistics(),
            "terms": self.cache.table.terms.statistics(),
            "dispatcher": self.dispatcher.statistics(),
            "events": self.recorder.statistics(),
            "bridge": None if self.bridge is None else self.bridge.statistics(),
            "quota ledger": None if self._enforcement is None else self._enforcement.statistics(),
            "quota usage": None if self.usage_writer is None else self.usage_writer.statistics(),
            "inbox": self.inbox.statistics(),
            "extenders": self.outside.statistics(),
            "reflectors": [reflector.statistics() for reflector in self.reflectors],
        }


def seconds(value: timedelta | None) -> float:
    """Seconds of a duration; 0 for none."""
    return 0.0 if value is None else value.total_seconds()


def _full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])


def _always(_: object) -> bool:
    return True


def _readable(node: Node) -> Node:
    """Refuse a node whose resources cannot be read. Raises QuantityError."""
    try:
        node_allocatable(node)
    except QuantityError as error:
        raise located(error, node_amounts(node)) from error
    return node


def _event_options(per_second: float | None) -> EventRecorderOptions:
    """Limits of the recorder; without a rate of its own the client's is the only one."""
    if per_second is None:
        return EventRecorderOptions(qps=-1.0)
    return EventRecorderOptions(qps=per_second, burst=max(1, int(2 * per_second)))


def _log_plugin_error(plugin: str, what: str, pod: Pod, problem: Exception) -> None:
    _log.error("plugin raised", plugin=plugin, where=what, pod=pod.key, error=repr(problem))
