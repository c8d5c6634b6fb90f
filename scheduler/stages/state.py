"""Second stage: the scheduler's state, and the parts of it that plugins see."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from scheduler.api.signatures.interner import PodSignatures
from scheduler.cache import Cache
from scheduler.engine import WaitingPods
from scheduler.extenders.extender import Extenders
from scheduler.extenders.transport import HttpExtenderTransport
from scheduler.permissions.state import PermissionState
from scheduler.service.background import BackgroundTasks
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.inbox import Inbox
from scheduler.service.listers import StoreListers
from scheduler.service.object_waits import ObjectWaits
from scheduler.service.observer import ObserverSlot
from scheduler.service.options import seconds
from scheduler.service.subscriptions import SubscriptionBoard
from scheduler.stages.connections import Connections

SLOTS_PER_CONCURRENT_BIND: Final = 20
"""Binding cycles allowed per concurrent bind request, enough to keep the requests coming."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of the scheduler. Touched from one event loop only."""

    signatures: PodSignatures
    cache: Cache
    listers: StoreListers
    subscriptions: SubscriptionBoard
    #: Set when the scheduling loop may have work.
    wake: asyncio.Event
    slots: BindingSlots
    waits: ObjectWaits
    waiting_pods: WaitingPods
    background: BackgroundTasks
    inbox: Inbox
    #: Has the observer of the recording that runs.
    reports: ObserverSlot
    extender_transport: HttpExtenderTransport
    extenders: Extenders
    #: Permissions that the API server does not grant.
    permissions: PermissionState


def build_state(connections: Connections, wake: asyncio.Event | None = None) -> State:
    """Build the stage, without any objects. `wake` defaults to a new event."""
    settings = connections.configuration.options
    extenders = connections.configuration.effective.extenders
    wake = wake or asyncio.Event()
    cache, listers, subscriptions = Cache(), StoreListers(), SubscriptionBoard(wake.set)
    slots = BindingSlots(settings.bind_concurrency * SLOTS_PER_CONCURRENT_BIND, wake)
    transport = HttpExtenderTransport(
        extenders,
        clock=connections.clock,
        metrics=connections.metrics,
        failures=settings.extender_failures,
        cool_down=seconds(settings.extender_circuit_open_duration),
        stores=listers.__getitem__,
    )
    return State(
        signatures=PodSignatures(),
        cache=cache,
        listers=listers,
        subscriptions=subscriptions,
        wake=wake,
        slots=slots,
        waits=ObjectWaits(subscriptions, slots),
        waiting_pods=WaitingPods(),
        background=BackgroundTasks(),
        inbox=Inbox(),
        reports=ObserverSlot(),
        extender_transport=transport,
        extenders=Extenders(extenders, transport, cache.table),
        permissions=PermissionState(connections.clock, connections.metrics),
    )
