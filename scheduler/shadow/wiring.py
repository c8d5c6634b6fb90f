"""Wiring of a shadow: the stages of the service, with what follows in place of what writes.

Not built: dispatcher, recorder of Events, Lease, reviews of permissions, and the controllers that
write. Permissions are those to read, and what is missing is known from the responses to reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from config import Configuration
from scheduler.api.pod import Pod
from scheduler.client.clock import Clock
from scheduler.client.read_only import ReadOnlyTransport
from scheduler.client.reflector import Reflector
from scheduler.client.resources import NODES, PODS
from scheduler.explain.records.shadow import PendingPod, ShadowSummary
from scheduler.framework import Permission, Registry
from scheduler.metrics import SchedulerMetrics
from scheduler.permissions.declarations import Parts, declared
from scheduler.permissions.state import FOLLOWING
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.options import RunOptions
from scheduler.service.rejected_pods import RejectedPods
from scheduler.service.resources import watched_plurals
from scheduler.shadow.assessing import Assessor
from scheduler.shadow.choices import MAX_AHEAD, rejection_of
from scheduler.shadow.following import Follower, FollowingCycle, FollowingHandlers
from scheduler.shadow.judging import MAX_MESSAGE, same_reasons
from scheduler.shadow.steady_time import SteadyTime
from scheduler.shadow.tally import ShadowTally
from scheduler.shadow.unsent import connect
from scheduler.stages.connections import Connections
from scheduler.stages.profiles import Profiles, build_profiles
from scheduler.stages.reflectors import build_handlers, build_reflectors
from scheduler.stages.scheduling import Scheduling, build_scheduling
from scheduler.stages.state import State, build_state

if TYPE_CHECKING:
    from scheduler.offline.happenings import Happenings

READING: Final = ("get", "list", "watch")
SILENT_SECONDS: Final = 90.0
"""The API server sends a bookmark to each watch about once a minute."""
MAX_COMPARED: Final = 5000
"""Pods without a node that a summary compares; of more, the others are left out."""


@dataclass(frozen=True, slots=True)
class ShadowWiring:
    """All parts of a shadow. Nothing runs yet."""

    connections: Connections
    state: State
    profiles: Profiles
    scheduling: Scheduling
    handlers: FollowingHandlers
    reflectors: tuple[Reflector[Any], ...]
    follower: Follower
    tally: ShadowTally
    time: SteadyTime

    async def close(self) -> None:
        """End plugins' processes and close the connections to extenders."""
        await self.profiles.close()
        await self.state.extender_transport.close()

    def keep(self, happenings: Happenings) -> None:
        """Keep what happens from now on, for a replay."""
        stores = self.state.listers.stores
        objects = {plural: store.list() for plural, store in stores.items()}
        happenings.begin(objects, self.time.now())
        self.handlers.on_batch.subscribe(happenings.note)

    def pods(self) -> Iterator[Pod]:
        """Yield the pods of the followed names."""
        names = self.tally.names
        return (
            each
            for each in self.state.listers.stores["pods"].list()
            if each.spec.scheduler_name in names
        )

    def summary(self, rows: int = 20) -> ShadowSummary:
        """Return the sums so far, with at most `rows` of the pods that differ or wait."""
        pods = list(self.pods())
        pending = [each for each in pods if not each.spec.node_name]
        return self.tally.summary(
            self.time.now(),
            nodes=self.state.cache.table.node_count,
            pods=len(pods),
            pending=[
                found
                for each in pending[:MAX_COMPARED]
                if (found := self._pending(each)) is not None
            ],
            more=max(0, len(pending) - MAX_COMPARED),
            silent=self._silent(),
            rows=rows,
        )

    def _silent(self) -> tuple[float, str]:
        """Return for how long nothing was heard about nodes or pods, and why; 0 s if that is usual.

        Bindings of that time are not seen: what is compared ends before it.
        """
        followed = {each.resource.plural: each for each in self.reflectors}
        for resource in (PODS, NODES):
            found = followed[resource.plural].statistics()
            if found.seconds_since_contact >= SILENT_SECONDS:
                return found.seconds_since_contact, found.last_error[:MAX_MESSAGE]
        return 0.0, ""

    def report(self, metrics: SchedulerMetrics) -> None:
        """Set the metrics that are computed on request."""
        tally, summary = self.tally, self.summary(0)
        metrics.shadow(
            tally.verdicts,
            tally.causes,
            {
                "held": self.follower.choices.held,
                "waiting_there": summary.waiting_there,
                "waiting_here": summary.waiting_here,
                "waiting_both": summary.waiting_both,
            },
            tally.sooner,
        )

    def _pending(self, pod: Pod) -> PendingPod | None:
        """Return how a pod waits; None if nobody has said anything about it yet."""
        there = rejection_of(pod)
        choice = self.follower.choices.get(pod.uid)
        if choice is not None:
            if there is None or not choice.rejected:
                return None
            return PendingPod(
                pod=pod.key,
                profile=pod.spec.scheduler_name,
                here=choice.node,
                since=choice.time,
                message_there=there[:MAX_MESSAGE],
            )
        info = self.scheduling.queue.queued(pod.uid)
        message = "" if info is None else info.last_message
        if not message:
            return None
        last = self.scheduling.decisions.history.of_pod(pod.metadata.namespace, pod.metadata.name)
        decision = last[-1] if last and last[-1].uid == pod.uid else None
        return PendingPod(
            pod=pod.key,
            profile=pod.spec.scheduler_name,
            message=message[:MAX_MESSAGE],
            message_there=(there or "")[:MAX_MESSAGE],
            same_reason=there is not None and same_reasons(message, there),
            victims=() if decision is None else decision.victims,
            nominated="" if decision is None else decision.nominated_node,
        )


def wire(
    configuration: Configuration,
    registry: Registry,
    transport: ReadOnlyTransport,
    *,
    metrics: SchedulerMetrics,
    clock: Clock | None = None,
) -> ShadowWiring:
    """Build all parts; the names of the profiles are those that are followed.

    Raises:
        ConfigurationError: plugins or extenders cannot work as configured.
    """
    connections = connect(configuration, transport, metrics=metrics, clock=clock)
    state = build_state(connections)
    state = replace(state, slots=BindingSlots(MAX_AHEAD, state.wake))
    profiles = build_profiles(connections, state, registry, isolates=True)
    scheduling = build_scheduling(
        connections, state, profiles, RunOptions().pod_max_in_unschedulable_pods
    )
    assert isinstance(scheduling.binding, FollowingCycle)
    choices, time = scheduling.binding.choices, scheduling.binding.time
    tally = ShadowTally([each.scheduler_name for each in configuration.profiles], time.now())
    follower = Follower(
        choices,
        Assessor(scheduling.engine, connections.clock),
        state.cache,
        scheduling.queue,
        time,
        tally,
        state.subscriptions,
    )
    scheduling.decisions.on_attempt.subscribe(follower.attempted)
    declare(state, profiles, scheduling)
    handlers = _handlers(connections, state, profiles, scheduling, follower)
    reflectors = build_reflectors(connections, state, profiles, scheduling, handlers)
    wiring = ShadowWiring(
        connections, state, profiles, scheduling, handlers, reflectors, follower, tally, time
    )
    metrics.add_source(wiring.report)
    return wiring


def declare(state: State, profiles: Profiles, scheduling: Scheduling) -> None:
    """Declare the permissions to read, at the start: all are required.

    A scheduler goes on without some objects, such as volumes. A comparison would be wrong.
    """
    plugins = profiles.plugins()
    watched = watched_plurals(scheduling.registered, plugins, state.subscriptions.plurals)
    parts = Parts(plugins=plugins, watched=watched, serving=False)
    permissions = reading(declared(parts))
    state.permissions.declare(replace(each, without="") for each in permissions)


def reading(permissions: Iterable[Permission]) -> Iterator[Permission]:
    """Yield what is left of permissions without verbs that write.

    A single get beside writes is part of these, such as after a conflict.
    """
    for each in permissions:
        verbs = tuple(verb for verb in each.verbs if verb in READING)
        if each.resource and verbs and (verbs == each.verbs or {*verbs} & {*FOLLOWING}):
            yield replace(each, verbs=verbs)


def _handlers(
    connections: Connections,
    state: State,
    profiles: Profiles,
    scheduling: Scheduling,
    follower: Follower,
) -> FollowingHandlers:
    rejected = RejectedPods(
        connections.derive("rejections"),
        profiles.rejections,
        start=state.background.start,
        submit=state.inbox.submit,
        metrics=connections.metrics,
    )
    make = partial(FollowingHandlers, follower)
    return build_handlers(make, connections, state, profiles, scheduling, rejected=rejected)
