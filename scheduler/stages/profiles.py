"""Third stage: the plugins of every profile, and the handles through which they reach the rest.

Used at the start and at each reload of the configuration. Unchanged parts are reused: a plugin with
the same profile, class and arguments remains the same instance and keeps its state, and a profile
whose plugins are all unchanged keeps its framework.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from config import ResolvedProfile
from config.isolation import PROCESS, memory_bytes
from config.loading import OverrunPolicy
from config.types import PluginIsolation
from scheduler.engine import Framework
from scheduler.engine.kubelet_rejections import KubeletRejections
from scheduler.engine.measured_plugin import MeasuredPlugin, PluginBudget
from scheduler.framework import Registry
from scheduler.framework.extension_points import PRE_FILTER
from scheduler.isolation.isolated_plugin import IsolatedPlugin
from scheduler.isolation.process.evaluator import ProcessEvaluator, ProcessSettings
from scheduler.isolation.thread import ThreadEvaluator
from scheduler.metrics import DeclaredMetrics, PluginFamilies
from scheduler.metrics.recorders import PluginFaultRecorder
from scheduler.service.node_recheck import NodeRecheck
from scheduler.service.options import seconds
from scheduler.service.plugin_overruns import IN_TREE
from scheduler.service.shared_objects import SharedObjects
from scheduler.service.subscriptions import PluginSubscriptions
from scheduler.stages.connections import Connections
from scheduler.stages.handle import ServiceHandle
from scheduler.stages.state import State


@dataclass(frozen=True, slots=True, eq=False)
class BuiltPlugin:
    """One plugin of one profile, with the class and arguments it was built from."""

    plugin: Any
    factory: Any
    args: Any
    subscriptions: PluginSubscriptions
    metrics: DeclaredMetrics
    isolation: PluginIsolation | None = None

    def withdraw(self) -> None:
        """Release the host's resources for the plugin, which nothing uses any more."""
        self.subscriptions.withdraw()
        self.metrics.withdraw()
        if isinstance(self.plugin, IsolatedPlugin):
            self.plugin.evaluator.close()


@dataclass(frozen=True, slots=True, eq=False)
class BuiltProfile:
    """One profile with its plugins, by name."""

    resolved: ResolvedProfile
    framework: Framework
    handle: ServiceHandle
    plugins: Mapping[str, BuiltPlugin]


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles in force by scheduler name, and objects that outlive a reload."""

    built: dict[str, BuiltProfile]
    #: Framework of each profile; the mapping is the same object for the whole run.
    frameworks: dict[str, Framework]
    #: Objects that plugins of several profiles share.
    shared: SharedObjects
    #: Nodes whose kubelet rejected pods: a filter that runs after those of the profile.
    rejections: KubeletRejections
    #: Filters a changed node again before a bind; None if that is switched off.
    recheck: NodeRecheck | None
    #: The time that plugins may use.
    budget: PluginBudget
    #: Whether plugins are isolated as the profiles say (`isolation`), or run like all others.
    isolates: bool

    def overrun_policies(self) -> dict[str, OverrunPolicy]:
        """Return each profile's policy for plugins that exceed their time budget."""
        return {name: each.resolved.overruns for name, each in self.built.items()}

    def with_plugin(self, plugin: str) -> list[str]:
        """Return the names of the profiles that have the plugin."""
        return [name for name, each in self.built.items() if plugin in each.plugins]

    def plugins(self) -> list[Any]:
        """Return the plugins of all profiles."""
        return [plugin for each in self.frameworks.values() for plugin in each.plugins.values()]

    def isolated(self, profile: str) -> dict[str, IsolatedPlugin]:
        """Return the isolated plugins of a profile, by name."""
        found = {name: each.plugin for name, each in self.built[profile].plugins.items()}
        return {name: each for name, each in found.items() if isinstance(each, IsolatedPlugin)}

    async def close(self) -> None:
        """End the processes of plugins."""
        for profile in self.built:
            for each in self.isolated(profile).values():
                await each.evaluator.closed()

    def replace(self, built: Mapping[str, BuiltProfile]) -> None:
        """Put other profiles in force, in the order of `built`."""
        self.built.clear()
        self.built.update(built)
        self.frameworks.clear()
        self.frameworks.update({name: each.framework for name, each in built.items()})


class _PluginSource(Mapping[str, Any]):
    """Plugin factories by name; a factory returns the present instance if nothing changed."""

    def __init__(
        self,
        registry: Mapping[str, Any],
        handle: ServiceHandle,
        state: State,
        metrics: PluginFamilies,
        before: Mapping[str, BuiltPlugin] | None,
        isolation: Mapping[str, PluginIsolation],
        faults: PluginFaultRecorder,
    ) -> None:
        """`before`: the plugins of the profile in force; None at the start."""
        self._isolation = isolation
        self._faults = faults
        self._metrics = metrics
        self._registry = registry
        self._handle = handle
        self._state = state
        self._before = before or {}
        self._attached = before is None
        self.plugins: dict[str, BuiltPlugin] = {}

    def __getitem__(self, name: str) -> Any:
        return partial(self._make, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)

    def _make(self, name: str, args: Any, _handle: object) -> Any:
        factory, known = self._registry[name], self._before.get(name)
        isolation = self._isolation.get(name)
        if known is None or (known.factory, known.args, known.isolation) != (
            factory,
            args,
            isolation,
        ):
            subscriptions = PluginSubscriptions(self._state.subscriptions, attached=self._attached)
            metrics = self._metrics.declare(name, getattr(factory, "metrics", ()))
            metrics.forget_with(subscriptions)
            handle = self._handle.for_plugin(subscriptions, metrics)
            if isolation is None:
                plugin = factory(args, handle)
            else:
                plugin = self._isolated(factory, args, handle, isolation)
            if self._attached:
                metrics.expose()
            known = BuiltPlugin(plugin, factory, args, subscriptions, metrics, isolation)
        self.plugins[name] = known
        return known.plugin

    def _isolated(
        self, factory: Any, args: Any, handle: ServiceHandle, isolation: PluginIsolation
    ) -> IsolatedPlugin:
        timeout, count = seconds(isolation.timeout), self._faults.isolated
        if isolation.mode == PROCESS:
            settings = ProcessSettings(
                handle.profile_name, handle.feature_gates, timeout, memory_bytes(isolation)
            )
            evaluator = ProcessEvaluator(factory, args, settings, self._faults.process_ended)
            return IsolatedPlugin(factory, evaluator, timeout, count)
        plugin = factory(args, handle)
        return IsolatedPlugin(plugin, ThreadEvaluator(plugin, timeout), timeout, count)


def build_profiles(
    connections: Connections, state: State, registry: Registry, *, isolates: bool = False
) -> Profiles:
    """Instantiate the plugins.

    `isolates`: whether plugins are isolated as the profiles say and their calls are measured;
    neither is done in virtual time.
    Raises ConfigurationError.
    """
    settings = connections.configuration.options
    recheck = NodeRecheck(connections.metrics) if settings.recheck_before_bind else None
    rejections = KubeletRejections(
        state.cache.table, seconds(settings.kubelet_rejection_backoff), connections.clock
    )
    budget = PluginBudget(
        connections.clock.monotonic,
        seconds(settings.plugin_time_budget),
        connections.metrics.engine.over_budget,
    )
    profiles = Profiles({}, {}, SharedObjects(), rejections, recheck, budget, isolates)
    resolved = connections.configuration.profiles
    profiles.replace(rebuild(resolved, profiles, connections, state, registry, start=True))
    return profiles


def rebuild(
    resolved: Iterable[ResolvedProfile],
    profiles: Profiles,
    connections: Connections,
    state: State,
    registry: Mapping[str, Any],
    *,
    start: bool = False,
    renew: bool = False,
) -> dict[str, BuiltProfile]:
    """Build `resolved`, reusing unchanged parts of the profiles in force, which stay in force.

    `renew`: build a new framework for every profile, because something else changed for all.

    Except at the `start`, new plugins receive no calls before their subscriptions catch up. Objects
    that they share are added to `profiles.shared`. Raises ConfigurationError.
    """
    connections.metrics.plugins.begin()
    return {
        each.scheduler_name: _build(
            each, profiles, connections, state, registry, start=start, renew=renew
        )
        for each in resolved
    }


def _build(
    resolved: ResolvedProfile,
    profiles: Profiles,
    connections: Connections,
    state: State,
    registry: Mapping[str, Any],
    *,
    start: bool,
    renew: bool,
) -> BuiltProfile:
    known = profiles.built.get(resolved.scheduler_name)
    handle = known.handle if known else _handle(resolved, connections, state, profiles)
    before = None if start else known.plugins if known else {}
    isolation = {each.plugin: each for each in resolved.isolation if profiles.isolates}
    source = _PluginSource(
        registry,
        handle,
        state,
        connections.metrics.plugins,
        before,
        isolation,
        connections.metrics.plugin_faults,
    )
    framework = Framework(
        _with_pre_filter(resolved, isolation),
        source,
        handle,
        last_filters=(profiles.rejections,),
        measure=partial(_measured, resolved.scheduler_name, profiles),
    )
    if known and not renew and known.resolved == resolved and known.plugins == source.plugins:
        return known
    return BuiltProfile(resolved, framework, handle, source.plugins)


def _with_pre_filter(resolved: ResolvedProfile, isolation: Collection[str]) -> ResolvedProfile:
    """Enable isolated plugins at PreFilter, where they are evaluated."""
    enabled = resolved.points[PRE_FILTER.yaml]
    added = tuple(name for name in resolved.plugins if name in isolation and name not in enabled)
    if not added:
        return resolved
    points = {**resolved.points, PRE_FILTER.yaml: (*enabled, *added)}
    return dataclasses.replace(resolved, points=points)


def _measured(profile: str, profiles: Profiles, plugin: Any) -> Any:
    """Return the object that the framework calls in place of a plugin."""
    is_ours = plugin is profiles.rejections or plugin.name in IN_TREE
    # Without isolation time is virtual, and calls take none.
    if is_ours or not profiles.isolates:
        return plugin
    return MeasuredPlugin(plugin, profile, profiles.budget)


def _handle(
    profile: ResolvedProfile, connections: Connections, state: State, profiles: Profiles
) -> ServiceHandle:
    writer = connections.plugin_writer(state.waits, profiles.recheck, state.listers)
    return ServiceHandle(profile.scheduler_name, connections, state, writer, profiles.shared)
