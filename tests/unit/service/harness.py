"""The parts of the service between engine and API server, with a recorder in place of the latter.

Cache, queue, engine, failure handler, binding cycle and scheduling loop are real; time is a clock
that the test moves, and what would be written is in `patches` and `events`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from scheduler.api import Pod
from scheduler.api.signal import Signal
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.status_patch import PodStatusPatch
from scheduler.engine import Engine, WaitingPods
from scheduler.framework import ActionType, ClusterEvent, ClusterEventWithHint, unresolvable
from scheduler.groups.running.scheduling import GroupScheduling
from scheduler.history import DecisionHistory, DecisionRecorder
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import (
    EventFeatures,
    QueueOptions,
    QueueState,
    SchedulingQueue,
    build_hint_map,
)
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.failure_handler import FailureHandler
from scheduler.service.gate_reporter import GateReporter
from scheduler.service.inbox import Inbox
from scheduler.service.observer import ObserverSlot
from scheduler.service.plugin_conditions import PluginConditions
from scheduler.service.scheduling_loop import SchedulingLoop
from scheduler.service.status_writer import StatusWriter
from scheduler.service.subscriptions import SubscriptionBoard
from tests.unit.engine.harness import PROFILE, World, plugin

ANY_EVENT = ClusterEvent("*", ActionType.ALL)


class RecordingDispatcher(Dispatcher):
    """Keeps status patches instead of sending them."""

    def __init__(self) -> None:
        self.patches: list[PodStatusPatch] = []
        #: UIDs of pods with a nomination whose write is under way.
        self.under_way: set[str] = set()
        self.on_nomination_written = Signal[[str, str]]()

    def patch_status(self, patch: PodStatusPatch) -> None:
        self.patches.append(patch)

    def nomination_under_way(self, uid: str) -> bool:
        return uid in self.under_way


@dataclass
class RecordedEvents:
    """Implements `framework.Events`."""

    notes: list[tuple[str, str, str]] = field(default_factory=list)

    def record(
        self,
        regarding: Any,
        type: str,  # noqa: A002 - the Event field's own name
        reason: str,
        action: str,
        note: str,
        related: Any = None,
    ) -> None:
        self.notes.append((regarding.metadata.name, reason, note))


@dataclass(frozen=True)
class Move:
    """One event that was offered to the queue."""

    label: str
    old: str
    new: str
    excludes: Callable[[Pod], bool]
    #: Nodes that the cache had then.
    nodes: int


class Service:
    """A scheduler of one profile. A pod called `bystander` fits nowhere, and any event wakes it."""

    def __init__(
        self,
        *plugins: type[Any],
        watched: tuple[str, ...] = (),
        sends: Dispatcher | None = None,
        cycle_seconds: float = float("inf"),
    ) -> None:
        """`sends` takes the status patches in place of the recorder."""
        self.world = World(_refuser(), *plugins, cycle_seconds=cycle_seconds)
        self.clock = self.world.clock
        self.cache = self.world.cache
        self.informer: dict[str, Pod] = {}
        self.dispatcher = RecordingDispatcher()
        writer = sends or self.dispatcher
        self.queue = self._make_queue(cycle_seconds, writer)
        self.moves: list[Move] = []
        self._record_moves()
        self.waiting_pods = WaitingPods()
        self.engine = Engine(
            self.cache,
            {PROFILE: self.world.framework},
            self.queue.nominator,
            clock=self.clock,
            random=random.Random(1),
            cycle_budget=self.world.budget,
            waiting_pods=self.waiting_pods,
        )
        self.events = RecordedEvents()
        self.metrics = SchedulerMetrics()
        self.wake = asyncio.Event()
        self.subscriptions = SubscriptionBoard(self.wake.set)
        for plural in watched:
            self.subscriptions.on_object(plural, lambda old, new: None)
        self.statuses = StatusWriter(writer, self.clock, self.queue.nominator)
        conditions = PluginConditions({PROFILE: self.world.framework})
        self.gates = GateReporter(
            self.queue,
            self._newest,
            self.statuses,
            self.clock,
            delay=1.0,
            conditions=conditions,
            wake=self.wake.set,
        )
        self.queue.signals.on_gated.subscribe(self.gates.held)
        self.failures = FailureHandler(
            self.queue,
            self._newest,
            events=self.events,
            statuses=self.statuses,
            clock=self.clock,
            metrics=self.metrics,
            gates=self.gates,
            conditions=conditions,
        )
        self.slots = BindingSlots(100, self.wake)
        self.inbox = Inbox()
        self.decisions = DecisionRecorder(DecisionHistory(), self.cache.table, self.clock.monotonic)
        self.decisions.replace_frameworks(self.engine.frameworks)
        self.binding = self._make_binding()
        self.loop = self._make_loop()
        self.handlers = self._make_handlers()

    def _newest(self, namespace: str, name: str) -> Pod | None:
        return self.informer.get(f"{namespace}/{name}")

    def _make_queue(self, cycle_seconds: float, writer: Dispatcher) -> SchedulingQueue:
        framework = self.world.framework
        return SchedulingQueue(
            self.clock,
            framework.queue_sort.sort_key,
            {PROFILE: framework.pre_enqueue},
            {PROFILE: build_hint_map(framework.event_plugins(), queueing_hints=True)},
            pod_lister=self._newest,
            nomination_under_way=writer.nomination_under_way,
            options=QueueOptions(cycle_budget=cycle_seconds),
        )

    def _make_binding(self) -> BindingCycle:
        return BindingCycle(
            self.engine,
            self.queue,
            self.failures,
            events=self.events,
            statuses=self.statuses,
            subscriptions=self.subscriptions,
            clock=self.clock,
            metrics=self.metrics,
            slots=self.slots,
            inbox=self.inbox,
            decisions=self.decisions,
        )

    def _make_loop(self) -> SchedulingLoop:
        return SchedulingLoop(
            self.engine,
            self.queue,
            self.binding,
            self.failures,
            events=self.events,
            clock=self.clock,
            slice_seconds=0.005,
            slots=self.slots,
            wake=self.wake,
            inbox=self.inbox,
            decisions=self.decisions,
            timed=(self.gates,),
            groups=partial(
                GroupScheduling,
                self.engine,
                self.queue,
                self.binding,
                self.decisions,
                self.clock,
                ObserverSlot(),
                wake=self.wake.set,
            ),
        )

    def _make_handlers(self) -> EventHandlers:
        return EventHandlers(
            self.cache,
            self.queue,
            self.waiting_pods,
            scheduler_names={PROFILE},
            registered={},
            subscriptions=self.subscriptions,
            clock=self.clock,
            metrics=self.metrics,
            features=EventFeatures(),
        )

    def _record_moves(self) -> None:
        move = self.queue.move_all_to_active_or_backoff

        def recorded(event: ClusterEvent, old: Any, new: Any, pre_check: Any = None) -> int:
            was, now = ("" if each is None else each.metadata.name for each in (old, new))
            excludes = (lambda pod: False) if pre_check is None else lambda pod: not pre_check(pod)
            nodes = self.cache.statistics().nodes
            self.moves.append(Move(event.label, was, now, excludes, nodes))
            return move(event, old, new, pre_check)

        self.queue.move_all_to_active_or_backoff = recorded  # type: ignore[method-assign]

    def pending(
        self, name: str, *, nominated: str = "", namespace: str = "default", **spec: Any
    ) -> Pod:
        """A pod that the informer shows and the queue has."""
        pod = self.world.pod(name, nominated=nominated, **spec)
        pod.metadata.namespace = namespace
        self.informer[pod.key] = pod
        self.queue.add(pod)
        return pod

    async def attempt(self, during: Callable[[], None] | None = None) -> None:
        """Pop one pod and take it to the end; `during` is called between the two cycles."""
        info = self.queue.pop()
        assert info is not None, "nothing to schedule"
        attempt = await self.loop.schedule(info)
        if during is not None:
            during()
        if attempt is not None:
            await self.binding.run(attempt)
        self.cache.validate()
        self.queue.validate()

    def place(self, pod: Pod) -> QueueState | None:
        """Return the queue that has a pod."""
        places = {view.uid: view.place for view in self.queue.views()}
        return places.get(pod.uid)

    def nominated_to(self, name: str) -> str:
        """The node that a pod is nominated to; empty for none."""
        for node in self.queue.nominator.nominated_nodes():
            for pod in self.queue.nominator.nominated_pods_for_node(node):
                if pod.metadata.name == name:
                    return node
        return ""


def _refuser() -> type[Any]:
    """Refuses pods called bystander; registers every event, without a hint."""

    def pre_filter(state: Any, pod: Pod, table: Any) -> Any:
        return unresolvable("stay") if pod.metadata.name == "bystander" else None

    return plugin(
        "Refuser",
        pre_filter=pre_filter,
        filter=lambda *_: None,
        events_to_register=lambda *_: [ClusterEventWithHint(ANY_EVENT)],
    )
