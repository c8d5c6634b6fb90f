"""Takeover: replaces the profiles of a running scheduler, all at once or not at all.

`prepare` builds what differs, and new plugins catch up with the objects that are known already, in
slices; nothing is replaced yet. `commit` replaces it between two scheduling cycles, without
suspending. Cache, queue, nominations, quota ledger, pods that wait at Permit and binding cycles
live on; docs/decisions/0009-reload.md lists what is rebuilt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config import Configuration, ResolvedProfile, differences, needing_restart
from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Framework
from scheduler.extenders.transport import ExtenderClient
from scheduler.framework import ActionType, Registry
from scheduler.framework.plugin_names import RESOURCE_QUOTA
from scheduler.queue import QueueProfiles, registered_resources
from scheduler.queue.queueing_hints import QueueingHintMap
from scheduler.service.options import seconds
from scheduler.service.resources import same_fields, watched_resource
from scheduler.service.shared_objects import SharedObjects
from scheduler.service.subscriptions import PluginSubscriptions
from scheduler.stages.profiles import BuiltPlugin, BuiltProfile, rebuild
from scheduler.stages.reflectors import json_kept, needed_plurals
from scheduler.stages.scheduling import connect_handles, extender_binder, hint_maps
from scheduler.stages.wiring import Wiring


class RestartRequiredError(Exception):
    """The configuration is valid, but a running process cannot take it over."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Profiles that can be put in force."""

    configuration: Configuration
    built: Mapping[str, BuiltProfile]
    hints: Mapping[str, QueueingHintMap]
    registered: Mapping[str, ActionType]
    #: Of all plugins, and of the objects that they share.
    subscriptions: tuple[PluginSubscriptions, ...]
    #: The objects that plugins shared before.
    shared: SharedObjects
    #: None: as before.
    extenders: Sequence[ExtenderClient] | None
    #: Whether anything differs from what is in force.
    differs: bool


class Takeover:
    """Replaces the profiles of one `Wiring`. Touched from its event loop only."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._configuration = wiring.connections.configuration
        self._retired = RetiredPlugins(wiring)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self._configuration

    def prepare(
        self, configuration: Configuration, registry: Registry, forgotten: Container[str] = ()
    ) -> Prepared:
        """Build the plugins that differ.

        `forgotten`: names of modules that were imported afresh; what plugins shared of their
        classes is made anew.

        Raises:
            RestartRequiredError: with every reason.
            ConfigurationError: a plugin refused its arguments.
        """
        reasons = [
            f"{path} needs a restart"
            for path in needing_restart(self._configuration, configuration)
        ]
        reasons += self._extenders_needing_restart(configuration)
        reasons += self._plugins_needing_restart(configuration, registry)
        if reasons:
            raise RestartRequiredError(reasons)
        shared = self._wiring.profiles.shared
        before = shared.copy()
        shared.forget(forgotten)
        try:
            return self._build(configuration, configuration.profiles, registry, before)
        except BaseException:
            shared.restore(before)
            raise

    def _build(
        self,
        configuration: Configuration,
        resolved: Sequence[ResolvedProfile],
        registry: Mapping[str, Any],
        shared: SharedObjects,
    ) -> Prepared:
        wiring = self._wiring
        profiles, connections, state = wiring.profiles, wiring.connections, wiring.state
        extenders = configuration.effective.extenders
        renew = extenders != self._configuration.effective.extenders
        clients = state.extender_transport.clients_of(extenders) if renew else None
        built = rebuild(resolved, profiles, connections, state, registry, renew=renew)
        frameworks = {name: each.framework for name, each in built.items()}
        replaced = {
            name: each
            for name, each in frameworks.items()
            if each is not profiles.frameworks.get(name)
        }
        new_hints = hint_maps(connections, replaced, extenders=bool(extenders))
        old_hints = wiring.scheduling.hints
        hints = {name: (new_hints if name in replaced else old_hints)[name] for name in built}
        registered = registered_resources(hints)
        subscriptions = (
            *profiles.shared.subscriptions.values(),
            *(
                each.subscriptions
                for profile in built.values()
                for each in profile.plugins.values()
            ),
        )
        self._require_watched(frameworks, registered, subscriptions)
        differs = list(built.items()) != list(profiles.built.items()) or bool(
            differences(self._configuration, configuration)
        )
        return Prepared(
            configuration, built, hints, registered, subscriptions, shared, clients, differs
        )

    def _require_watched(
        self,
        frameworks: Mapping[str, Framework],
        registered: Mapping[str, ActionType],
        subscriptions: Iterable[PluginSubscriptions],
    ) -> None:
        subscribed: frozenset[str] = frozenset().union(*(each.plurals for each in subscriptions))
        watched = {each.resource.plural: each.resource for each in self._wiring.reflectors}
        plugins = [each for one in frameworks.values() for each in one.plugins.values()]
        reasons = []
        for plural in sorted(needed_plurals(frameworks, registered, subscribed)):
            known = watched.get(plural)
            if known is None:
                reasons.append(f"no plugin read {plural} so far: watching it needs a restart")
            elif not same_fields(known.type, watched_resource(plural, plugins).type):
                reasons.append(f"other fields in the type of {plural} need a restart")
        if reasons:
            raise RestartRequiredError(reasons)

    def without(self, profile: str, plugin: str) -> Prepared | None:
        """Build a profile without one of its plugins; None if it cannot do without.

        The configuration stays in force, so that a reload builds the plugin again.
        """
        built = self._wiring.profiles.built
        known = built.get(profile)
        left = None if known is None else known.resolved.without(plugin)
        if left is None:
            return None
        resolved = [left if name == profile else each.resolved for name, each in built.items()]
        factories = {
            name: each.factory for one in built.values() for name, each in one.plugins.items()
        }
        shared = self._wiring.profiles.shared.copy()
        return self._build(self._configuration, resolved, factories, shared)

    def reject_waiting(self, profile: str, plugin: str, message: str) -> None:
        """Reject the pods of a profile that wait at Permit for the plugin."""
        for waiting in self._wiring.state.waiting_pods:
            if waiting.pod.spec.scheduler_name == profile and plugin in waiting.pending_plugins():
                waiting.reject(plugin, message)

    def begin_catching_up(self, prepared: Prepared) -> None:
        """Let new plugins hear of changes; call it between two cycles, when none is deferred."""
        for each in prepared.subscriptions:
            each.begin_catching_up(self._wiring.state.listers.by_keys)

    def deliver_known(self, prepared: Prepared) -> Iterator[None]:
        """Deliver every known object to new plugins; yields after each, to let others run."""
        for each in prepared.subscriptions:
            yield from each.deliver_known()

    def abandon(self, prepared: Prepared) -> None:
        """Drop what was prepared; nothing was replaced."""
        self._wiring.profiles.shared.restore(prepared.shared)
        for each in prepared.subscriptions:
            each.leave_catching_up()

    def commit(self, prepared: Prepared) -> list[str]:
        """Put the profiles in force; call it between two cycles, when plugins have caught up.

        Returns the scheduler names that are new: the caller queues pods of theirs that the
        informer knows already (`known_pods`).
        """
        wiring, before = self._wiring, dict(self._wiring.profiles.built)
        scheduling, state = wiring.scheduling, wiring.state
        wiring.profiles.replace(prepared.built)
        scheduling.hints.clear()
        scheduling.hints.update(prepared.hints)
        scheduling.registered.clear()
        scheduling.registered.update(prepared.registered)
        if prepared.extenders is not None:
            state.extender_transport.replace(prepared.extenders)
            state.extenders.replace([each.extender for each in prepared.extenders])
            binder = extender_binder(wiring.connections, state, wiring.profiles)
            scheduling.binding.extenders = binder
        percentage, budget, initial, maximum = _settings(prepared.configuration)
        wiring.profiles.budget.seconds = budget
        scheduling.engine.replace_frameworks(
            wiring.profiles.frameworks,
            percentage_of_nodes_to_score=int(percentage),
            plugin_time_budget=budget,
        )
        connect_handles(wiring.connections, state, wiring.profiles, scheduling)
        scheduling.conditions.replace(wiring.profiles.frameworks)
        scheduling.exceptions.forget()
        scheduling.overruns.forget()
        scheduling.decisions.replace_frameworks(wiring.profiles.frameworks)
        limits = prepared.configuration.options.decision_history
        scheduling.decisions.history.resize(limits.pods, limits.attempts_per_pod)
        for each in prepared.subscriptions:
            each.attach()
        for profile in prepared.built.values():
            for plugin in profile.plugins.values():
                plugin.metrics.expose()
        scheduling.queue.replace_backoff(initial=initial, maximum=maximum)
        strangers = scheduling.queue.replace_profiles(
            QueueProfiles(
                {name: each.pre_enqueue for name, each in wiring.profiles.frameworks.items()},
                prepared.hints,
                _sort_key(before, prepared.built),
            ),
            {name for name, each in prepared.built.items() if before.get(name) is not each},
        )
        wiring.handlers.replace_profiles(prepared.built, strangers)
        self._configuration = prepared.configuration
        self._retired.add(before, prepared.shared)
        wiring.declare_permissions()
        state.wake.set()
        return [name for name in prepared.built if name not in before]

    def known_pods(self, scheduler_names: list[str]) -> list[Pod]:
        """Return the pending pods of these names that the informer knows."""
        pods: Iterator[Pod] = iter(self._wiring.state.listers["pods"].list())
        return [
            pod
            for pod in pods
            if not pod.spec.node_name and pod.spec.scheduler_name in scheduler_names
        ]

    def queue_known(self, pod: Pod) -> None:
        """Queue a known pod of a new profile, if it is still pending."""
        newest = self._wiring.state.listers.pod(pod.metadata.namespace, pod.metadata.name)
        if newest is not None:
            self._wiring.handlers.queue_known(newest)

    def _extenders_needing_restart(self, configuration: Configuration) -> Iterator[str]:
        """Yield what is sent to extenders and was not kept, because none was sent it before."""
        at_start = self._wiring.connections.configuration.effective.extenders
        kept, needed = (json_kept(each) for each in (at_start, configuration.effective.extenders))
        for what, before, now in zip(("nodes", "pods", "victims"), kept, needed, strict=True):
            if now and not before:
                yield (
                    f"extenders: {what} are sent to one, and to none at the start: needs a restart"
                )

    def _plugins_needing_restart(
        self, configuration: Configuration, registry: Registry
    ) -> Iterator[str]:
        """Yield plugins whose state another instance could not know."""
        old, new = (
            {name for profile in each.profiles for name in profile.plugins}
            for each in (self._configuration, configuration)
        )
        if (RESOURCE_QUOTA in old) is not (RESOURCE_QUOTA in new):
            # The controllers of deferred quotas are built at the start.
            yield f"enabling or disabling plugin {RESOURCE_QUOTA} needs a restart"
        for profile in configuration.profiles:
            known = self._wiring.profiles.built.get(profile.scheduler_name)
            for name in profile.plugins if known else ():
                built = known.plugins.get(name) if known else None
                if built is None or not getattr(built.factory, "restart_on_change", False):
                    continue
                where = f"profiles[{profile.scheduler_name}]"
                if built.args != profile.args.get(name):
                    yield f"{where}: other arguments of plugin {name} need a restart"
                elif registry.get(name) is not built.factory:
                    yield f"{where}: another version of plugin {name} needs a restart"


class RetiredPlugins:
    """Plugins that no profile uses any more, as long as binding cycles hold them.

    The subscriptions of such a plugin end with the last binding cycle that holds it.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        #: Frameworks that are no longer in force, and the plugins of those under way.
        self._held: dict[Framework, tuple[BuiltPlugin, ...]] = {}
        self._under_way: Counter[Framework] = Counter()
        self._plugins: list[BuiltPlugin] = []
        #: Of objects that only retired plugins share.
        self._shared: list[PluginSubscriptions] = []

    def add(self, before: Mapping[str, BuiltProfile], shared: SharedObjects) -> None:
        """Retire what was in force before and is no more."""
        profiles, binding = self._wiring.profiles, self._wiring.scheduling.binding
        for name, each in before.items():
            if profiles.built.get(name) is not each:
                self._held[each.framework] = tuple(each.plugins.values())
                self._plugins += each.plugins.values()
        kept = profiles.shared.subscriptions.values()
        self._shared += [each for each in shared.subscriptions.values() if each not in kept]
        self._under_way = Counter(
            each.framework for each in binding.under_way.values() if each.framework in self._held
        )
        self._withdraw_unused()
        if self._under_way:
            binding.on_end.subscribe(self._ended)

    def _ended(self, attempt: Attempt) -> None:
        framework = attempt.framework
        if framework in self._under_way:
            self._under_way[framework] -= 1
            if not self._under_way[framework]:
                del self._under_way[framework]
                self._withdraw_unused()

    def _withdraw_unused(self) -> None:
        """End the subscriptions of plugins that neither a profile nor a binding cycle uses."""
        built = self._wiring.profiles.built.values()
        in_force = {plugin for each in built for plugin in each.plugins.values()}
        self._held = {each: self._held[each] for each in self._under_way}
        held = {plugin for plugins in self._held.values() for plugin in plugins} - in_force
        for plugin in self._plugins:
            if plugin not in in_force and plugin not in held:
                plugin.withdraw()
        self._plugins = list(held)
        if not held:
            for shared in self._shared:
                shared.withdraw()
            self._shared = []


def _settings(configuration: Configuration) -> tuple[float, float, float, float]:
    """Return what is taken over besides profiles, in seconds and percent."""
    effective = configuration.effective
    return (
        effective.percentage_of_nodes_to_score or 0,
        seconds(effective.kubestow.plugin_time_budget),
        float(effective.pod_initial_backoff_seconds),
        float(effective.pod_max_backoff_seconds),
    )


def _sort_key(before: Mapping[str, BuiltProfile], built: Mapping[str, BuiltProfile]) -> Any:
    """Return the sort key, or None where pods are sorted as before."""
    old, new = next(iter(before.values())), next(iter(built.values()))
    first, second = (each.plugins[each.framework.queue_sort.name] for each in (old, new))
    if first.factory is second.factory and first.args == second.args:
        return None
    return second.plugin.sort_key
