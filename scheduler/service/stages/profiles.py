"""Third stage: the plugins of every profile, and the handles through which they reach the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config import ResolvedProfile
from scheduler.engine import Framework
from scheduler.engine.kubelet_rejections import KubeletRejections
from scheduler.framework import Registry
from scheduler.service.api_writer import ServiceApiWriter
from scheduler.service.handle import ServiceHandle
from scheduler.service.node_recheck import NodeRecheck
from scheduler.service.options import seconds
from scheduler.service.stages.connections import Connections
from scheduler.service.stages.state import State


@dataclass(frozen=True, slots=True)
class Profiles:
    """Framework and handle of each profile, by scheduler name."""

    frameworks: Mapping[str, Framework]
    handles: Mapping[str, ServiceHandle]
    #: Objects that plugins of several profiles share, by name.
    shared: Mapping[str, Any]
    #: Nodes whose kubelet rejected pods; a filter after those of the profile.
    rejections: KubeletRejections
    #: Filters changed nodes again before a bind; None when that is switched off.
    recheck: NodeRecheck | None


def build_profiles(connections: Connections, state: State, registry: Registry) -> Profiles:
    """Instantiate the plugins. Raises ConfigurationError."""
    settings = connections.configuration.options
    shared: dict[str, Any] = {}
    recheck = NodeRecheck(connections.metrics) if settings.recheck_before_bind else None
    rejections = KubeletRejections(
        state.cache.table, seconds(settings.kubelet_rejection_backoff), connections.clock
    )
    handles: dict[str, ServiceHandle] = {}
    frameworks: dict[str, Framework] = {}
    for profile in connections.configuration.profiles:
        handle = _handle(profile, connections, state, shared, recheck)
        handles[profile.scheduler_name] = handle
        frameworks[profile.scheduler_name] = Framework(
            profile, registry, handle, last_filters=(rejections,)
        )
    return Profiles(frameworks, handles, shared, rejections, recheck)


def _handle(
    profile: ResolvedProfile,
    connections: Connections,
    state: State,
    shared: dict[str, Any],
    recheck: NodeRecheck | None,
) -> ServiceHandle:
    writer = ServiceApiWriter(
        connections.client,
        connections.dispatcher,
        connections.metrics,
        state.waits,
        connections.random,
        precondition=None if recheck is None else recheck.precondition,
    )
    return ServiceHandle(profile.scheduler_name, connections, state, writer, shared)
