"""Wiring: builds every long-lived object of a run, stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from config import GATES, Configuration
from scheduler.client.clock import Clock
from scheduler.client.fence import Fence
from scheduler.client.reflector import Reflector
from scheduler.client.transport import Transport
from scheduler.framework import Registry
from scheduler.metrics import SchedulerMetrics
from scheduler.permissions.reviewer import PermissionReviewer
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.misspelt_names import MisspeltNames
from scheduler.service.options import RunOptions
from scheduler.stages.connections import Connections, connect
from scheduler.stages.controllers import Controllers, build_controllers
from scheduler.stages.permissions import PRINT_ROLES, build_reviewer, declare_permissions
from scheduler.stages.profiles import Profiles, build_profiles
from scheduler.stages.reflectors import build_handlers, build_reflectors
from scheduler.stages.scheduling import Scheduling, build_scheduling
from scheduler.stages.state import State, build_state


@dataclass(frozen=True, slots=True)
class Wiring:
    """All parts of a scheduler that talks to one API server. Nothing runs yet."""

    connections: Connections
    state: State
    profiles: Profiles
    scheduling: Scheduling
    controllers: Controllers
    #: Declares the permissions that the profiles in force need.
    declare_permissions: Callable[[], None]
    reviewer: PermissionReviewer
    handlers: EventHandlers
    reflectors: tuple[Reflector[Any], ...]

    async def close(self) -> None:
        """End plugins' processes, close the connections to extenders and send the last traces."""
        await self.profiles.close()
        await self.state.extender_transport.close()
        if self.connections.tracing is not None:
            await self.connections.tracing.close()

    def resource_version(self) -> str:
        """Return the version of the newest change of pods or nodes that is known."""
        versions = [
            each.statistics().resource_version
            for each in self.reflectors
            if each.resource.plural in ("pods", "nodes")
        ]
        return max(versions, key=lambda each: (len(each), each), default="")

    def report(self, metrics: SchedulerMetrics) -> None:
        """Set the metrics that are cheaper to compute on request than to keep up to date."""
        cache = self.state.cache.statistics()
        metrics.cache_size(nodes=cache.nodes, pods=cache.pods, assumed_pods=cache.assumed_pods)
        metrics.deferred_namespaces(len(self.scheduling.queue.statistics().deferred_namespaces))
        history = self.scheduling.decisions.history.statistics()
        metrics.decision_history(
            pods=history.pods,
            decisions=history.decisions,
            held=history.bytes,
            evicted=history.evicted_pods,
        )
        for framework in self.profiles.frameworks.values():
            if framework.grouping is not None:
                framework.grouping.report_groups(self.scheduling.groups.waiting.kept)
        for name, reuse in self.scheduling.engine.statistics()["reuse"].items():
            metrics.result_cache(name, hits=reuse.hits, misses=reuse.misses)

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of all parts, for the debug page."""
        state, scheduling, quota = self.state, self.scheduling, self.controllers.quota
        optional = {
            "bridge": self.controllers.bridge,
            "quota ledger": quota.enforcement,
            "quota usage": quota.usage_writer,
        }
        parts = {
            "queue": scheduling.queue,
            "gates": scheduling.gates,
            "cache": state.cache,
            "engine": scheduling.engine,
            "signatures": state.signatures,
            "selectors": state.cache.table.selector_counts,
            "terms": state.cache.table.terms,
            "decisions": scheduling.decisions.history,
            "dispatcher": self.connections.dispatcher,
            "events": self.connections.recorder,
            **optional,
            "inbox": state.inbox,
            "extenders": state.extender_transport,
        }
        found = {name: None if part is None else part.statistics() for name, part in parts.items()}
        return {**found, "reflectors": [each.statistics() for each in self.reflectors]}


def wire(
    configuration: Configuration,
    registry: Registry,
    options: RunOptions,
    transport: Transport,
    *,
    fence: Fence,
    metrics: SchedulerMetrics,
    clock: Clock | None = None,
) -> Wiring:
    """Build all parts. `clock` replaces the machine's clock if it is given.

    Raises:
        ConfigurationError: plugins or extenders cannot work as configured.
    """
    connections = connect(configuration, transport, fence=fence, metrics=metrics, clock=clock)
    state = build_state(connections)
    profiles = build_profiles(connections, state, registry, isolates=True)
    scheduling = build_scheduling(
        connections, state, profiles, options.pod_max_in_unschedulable_pods
    )
    controllers = build_controllers(connections, state, profiles)
    declare = partial(
        declare_permissions,
        connections,
        state,
        profiles,
        scheduling,
        controllers,
        serving=bool(options.serving.secure_port),
    )
    declare()
    state.permissions.granting = (*PRINT_ROLES, *filter(None, [options.config_file]))
    reviewer = build_reviewer(connections, state, scheduling)
    handlers = build_handlers(
        EventHandlers,
        connections,
        state,
        profiles,
        scheduling,
        rejected=controllers.rejected_pods,
        misspelt=MisspeltNames(metrics),
        reports=state.reports,
    )
    reflectors = build_reflectors(connections, state, profiles, scheduling, handlers)
    wiring = Wiring(
        connections,
        state,
        profiles,
        scheduling,
        controllers,
        declare,
        reviewer,
        handlers,
        reflectors,
    )
    metrics.add_source(wiring.report)
    metrics.features(
        (name, gate.stage.value, configuration.feature_gates.enabled(name))
        for name, gate in GATES.items()
    )
    return wiring
