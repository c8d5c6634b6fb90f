"""The client side of the Kubernetes API: reading (reflectors) and writing (dispatcher).

May import `scheduler.api` only. Every object belongs to one event loop; every call has a timeout.

How the parts fit: `load_configuration` finds cluster and credentials, a `Transport` owns the
session, an `ApiClient` is one purpose on it (user agent, rate limit, fence). A `Reflector` follows
one resource into a `Store`; the `Dispatcher` sends binds, status patches and the events of an
`EventRecorder`; a `LeaderElector` opens and shuts the fence.
"""

from scheduler.client.binding import BindOutcome, BindResult, bind_and_settle
from scheduler.client.clock import Clock, LeaseClock, SystemClock
from scheduler.client.configuration import ClientConfiguration, load_configuration
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions
from scheduler.client.dispatcher import Dispatcher, DispatcherOptions, Lane
from scheduler.client.errors import (
    ApiError,
    ConfigurationError,
    ConnectionFailed,
    MalformedResponse,
    NotLeader,
    RequestError,
    RequestTimeout,
)
from scheduler.client.events import EventRecorder, EventRecorderOptions
from scheduler.client.fence import Fence, Heartbeat, LeaderFence, OpenFence
from scheduler.client.leader_election import (
    LeaderElectionOptions,
    LeaderElector,
    LeadershipLostError,
    LeaseLock,
    check_timing,
)
from scheduler.client.metrics import ClientMetrics, NullMetrics
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.reflector import Reflector
from scheduler.client.resources import RESOURCES, Resource
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import PodStatusPatch, plan_status_patch
from scheduler.client.store import Store
from scheduler.client.transport import Transport

__all__ = [
    "RESOURCES",
    "ApiClient",
    "ApiError",
    "BindOutcome",
    "BindResult",
    "ClientConfiguration",
    "ClientMetrics",
    "Clock",
    "ConfigurationError",
    "ConnectionFailed",
    "Delta",
    "DeltaType",
    "Dispatcher",
    "DispatcherOptions",
    "EventRecorder",
    "EventRecorderOptions",
    "Fence",
    "Heartbeat",
    "Lane",
    "LeaderElectionOptions",
    "LeaderElector",
    "LeaderFence",
    "LeadershipLostError",
    "LeaseClock",
    "LeaseLock",
    "MalformedResponse",
    "NotLeader",
    "NullMetrics",
    "OpenFence",
    "PodStatusPatch",
    "RateLimiter",
    "Reflector",
    "ReflectorOptions",
    "RequestError",
    "RequestTimeout",
    "Resource",
    "Store",
    "SystemClock",
    "Transport",
    "bind_and_settle",
    "check_timing",
    "load_configuration",
    "plan_status_patch",
]
