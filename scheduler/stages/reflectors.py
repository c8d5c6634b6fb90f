"""The reflectors that feed the stages: pods, nodes, and the resources that plugins require."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from config import Extender
from scheduler.client.custom_resources import is_reference
from scheduler.client.deltas import ReflectorOptions
from scheduler.client.reflector import Reflector
from scheduler.client.resources import NODES, PODS
from scheduler.client.store import KeepRaw
from scheduler.engine import Framework
from scheduler.extenders.extender import sends_nodes, sends_pod, sends_victims
from scheduler.framework import ActionType
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.options import seconds
from scheduler.service.pod_intake import PodIntake, check_node
from scheduler.service.resources import PODS_SELECTOR, event_name, watched_plurals, watched_resource
from scheduler.stages.connections import Connections
from scheduler.stages.profiles import Profiles
from scheduler.stages.scheduling import Scheduling
from scheduler.stages.state import State

H = TypeVar("H", bound=EventHandlers)


def build_reflectors(
    connections: Connections,
    state: State,
    profiles: Profiles,
    scheduling: Scheduling,
    handlers: EventHandlers,
) -> tuple[Reflector[Any], ...]:
    """Build a reflector for each watched resource, with a lister over its store; none runs yet."""
    configuration = connections.configuration
    idle_timeout = seconds(configuration.options.watch_idle_timeout)

    def reflector(
        resource: Any,
        handler: Callable[[Any], None],
        *,
        field_selector: str = "",
        on_decode: Callable[[Any], Any] | None = None,
        keep_raw: KeepRaw[Any] | None = None,
    ) -> Reflector[Any]:
        made = Reflector(
            connections.client,
            resource,
            handler,
            options=ReflectorOptions(field_selector=field_selector, idle_timeout=idle_timeout),
            random=connections.random,
            on_decode=on_decode,
            # A list of a custom resource may take long, and nothing in the core reads it.
            on_relist=None if is_reference(resource.plural) else scheduling.loop.pause,
            on_contact=partial(state.permissions.contacted, resource),
            keep_raw=keep_raw,
            submit=state.inbox.submit,
        )
        state.listers.add(resource.plural, made.store)
        state.permissions.looks[resource.plural] = made.look_again
        return made

    extenders = configuration.effective.extenders
    intake = PodIntake(state.signatures)
    nodes = reflector(
        NODES,
        handlers.nodes,
        on_decode=check_node,
        keep_raw=_always if json_kept(extenders)[0] else None,
    )
    pods = reflector(
        PODS,
        intake.releasing(handlers.pods),
        field_selector=PODS_SELECTOR,
        on_decode=intake.intern,
        keep_raw=_kept_pods(connections),
    )
    needed = needed_plurals(profiles.frameworks, scheduling.registered, state.subscriptions.plurals)
    plugins = [each for one in profiles.frameworks.values() for each in one.plugins.values()]
    others = (
        reflector(watched_resource(plural, plugins), handlers.other(plural, event_name(plural)))
        for plural in needed
    )
    return (nodes, pods, *others)


def needed_plurals(
    frameworks: Mapping[str, Framework],
    registered: Mapping[str, ActionType],
    subscribed: Iterable[str],
) -> tuple[str, ...]:
    """Return the resources that profiles need watched, besides pods and nodes."""
    plugins = [each for framework in frameworks.values() for each in framework.plugins.values()]
    return watched_plurals(registered, plugins, subscribed)


def build_handlers(
    make: Callable[..., H],
    connections: Connections,
    state: State,
    profiles: Profiles,
    scheduling: Scheduling,
    **others: Any,
) -> H:
    """Build the handlers of changes: an instance of `make`, a class, with `others` as well."""
    return make(
        state.cache,
        scheduling.queue,
        state.waiting_pods,
        scheduler_names=profiles.frameworks,
        registered=scheduling.registered,
        subscriptions=state.subscriptions,
        clock=connections.clock,
        metrics=connections.metrics,
        features=scheduling.features,
        honor_foreign_nominations=connections.configuration.options.honor_foreign_nominations,
        **others,
    )


def json_kept(extenders: Sequence[Extender]) -> tuple[bool, bool, bool]:
    """Return whether to keep the JSON of nodes, of pending pods and of all pods for extenders."""
    return (
        any(map(sends_nodes, extenders)),
        any(map(sends_pod, extenders)),
        any(map(sends_victims, extenders)),
    )


def _kept_pods(connections: Connections) -> KeepRaw[Any] | None:
    """Return a predicate for the pods whose JSON is kept; None if no extender needs it.

    It accepts pending pods, and all pods if an extender is sent victims. It does not exclude other
    schedulers' pods, since a reload of the configuration may make them ours.
    """
    _, pending, all_pods = json_kept(connections.configuration.effective.extenders)
    if not pending:
        return None
    if all_pods:
        return _always
    return lambda pod: not pod.spec.node_name


def _always(_: object) -> bool:
    return True
