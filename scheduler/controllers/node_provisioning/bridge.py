"""The bridge: autoscalers' events in, pod condition NodeProvisioningInProgress out (KEP-3990).

The I/O around `Decisions`: reflectors, one task that plans patches, one task per write. It runs in
the leader, and every write passes the leader fence. It follows events only while a pod needs it.
The scheduler never depends on it: after a failure, such as a missing permission to read events, it
reports itself degraded and tries again with growing delays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import structlog

from scheduler.api.meta import Named, parse_time, second_time
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.policy import CoreEvent
from scheduler.client.clock import Clock, woken
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions, ReflectorStatistics
from scheduler.client.dispatcher import Dispatcher, DispatcherClosedError, Lane
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.reflector import Reflector
from scheduler.client.resources import CORE_EVENTS, NODE_CLAIMS, PODS
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import PodStatusPatch, concerns_another_pod, send_status_patch
from scheduler.controllers.node_provisioning.decisions import (
    NEVER,
    Decisions,
    DecisionStatistics,
    Patch,
)
from scheduler.controllers.node_provisioning.ownership import (
    FIELD_MANAGER,
    other_writer,
    read_owned_pod,
)
from scheduler.controllers.node_provisioning.signals import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    StatusObject,
    event_time,
)
from scheduler.metrics.recorders import BridgeRecorder

_log = structlog.get_logger(__name__)

COMPONENT: Final = "manifests/components/node-provisioning-bridge"

ENTRY_GRACE: Final = 300.0
"""Seconds for which events are followed after the last pod that needed them: pods come in groups,
and each start lists all events anew."""

RESTART_SECONDS: Final = 30.0
"""Seconds before a restart after an unexpected error."""

TIMESTAMP_SECONDS: Final = 1.0
"""Seconds by which a timestamp of whole seconds may precede the event."""

EVENT_WATCH_SECONDS: Final = (60.0, 120.0)
"""Bounds of the duration of a watch of events. Without bookmarks, a lost peer is noticed only when
the watch ends; and a quiet watch must be resumed before the API server compacts the version that it
starts from, which happens every five minutes."""

_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """Options of when the bridge runs and how it watches."""

    #: Follow events even if no pod needs them.
    always: bool = False
    status: StatusObject = field(default_factory=StatusObject)
    #: Seconds without a byte after which a watch is closed.
    idle_timeout: float = 70.0
    linger: float = ENTRY_GRACE


@dataclass(frozen=True, slots=True)
class BridgeStatistics:
    """Current state, for the debug page and tests."""

    active: bool
    degraded: str | None
    decisions: DecisionStatistics
    streams: tuple[ReflectorStatistics, ...]


class NodeProvisioningBridge:
    """Touched from one event loop. `run` in the leader; `pod` from the start, in every replica."""

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        decisions: Decisions,
        *,
        options: BridgeOptions,
        metrics: BridgeRecorder,
        random: Random,
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._decisions = decisions
        self._options = options
        self._metrics = metrics
        self._random = random
        self._clock: Clock = client.clock
        self._wake = asyncio.Event()
        self._streams: tuple[_Stream, ...] = ()
        self._following: list[asyncio.Task[None]] = []
        self._claims: asyncio.Task[None] | None = None
        self._needed = False
        self._needed_at = 0.0
        self._degraded: str | None = None

    # -- pods and nodes ----------------------------------------------------------------------------

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a changed pod; for `Subscriptions.on_object`."""
        if new is not None:
            self._decisions.pod_changed(new)
        elif old is not None:
            self._decisions.forget(old.uid)
        needed = self._decisions.needed
        if self._decisions.has_work or needed is not self._needed:
            self._needed = needed
            self._wake.set()

    def node(self, old: Node | None, new: Node | None) -> None:
        """Handle a changed node; for `Subscriptions.on_object`."""
        if old is None and new is not None:
            self._decisions.node_added(*self._wall_and_monotonic(new.metadata.creation_timestamp))

    def _wall_and_monotonic(self, timestamp: str | None) -> tuple[float, float]:
        """Return a past timestamp as wall and monotonic time; without one, the current time."""
        wall, now = self._clock.now(), self._clock.monotonic()
        time = parse_time(timestamp or "")
        return (wall, now) if time is None else (time, now - max(0.0, wall - time))

    def health(self) -> str | None:
        """Return why the bridge is degraded, or None. The scheduler is ready either way."""
        return self._degraded

    def statistics(self) -> BridgeStatistics:
        """Return the current state."""
        return BridgeStatistics(
            active=bool(self._following),
            degraded=self._degraded,
            decisions=self._decisions.statistics(),
            streams=tuple(stream.reflector.statistics() for stream in self._streams),
        )

    # -- the task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled, or until another manager of the condition makes it superfluous."""
        while not self._decisions.stopped:
            self._decisions.begin()
            try:
                async with asyncio.TaskGroup() as group:
                    await self._serve(group)
                    self._stop_following()
            except Exception as error:  # noqa: BLE001 - the scheduler continues without the bridge
                _log.exception("node provisioning bridge failed, starting again")
                self._set_degraded(f"failed: {error!r}")
                await self._clock.sleep(RESTART_SECONDS)
            finally:
                self._stop_following()

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        until = 0.0
        while not self._decisions.stopped:
            await woken(self._wake, until - self._clock.monotonic())
            now = self._clock.monotonic()
            until = self._follow_as_needed(group, now)
            if self._following and all(stream.settled for stream in self._streams):
                plan = self._decisions.plan(now, second_time(self._clock.now()))
                until = min(until, plan.wake)
                for patch in plan.patches:
                    group.create_task(self._write(patch), name=f"condition {patch.pod.key}")
        _log.warning(
            "node provisioning bridge ends: something else writes the condition",
            condition="NodeProvisioningInProgress",
            pods=self._decisions.conflicting_managers,
        )

    # -- following events --------------------------------------------------------------------------

    def _follow_as_needed(self, group: asyncio.TaskGroup, now: float) -> float:
        """Begin or end following events; return when to check again."""
        if self._decisions.needed or self._options.always:
            self._needed_at = now
            if not self._following:
                self._follow(group)
            if self._decisions.karpenter_promised and self._claims is None:
                self._follow_claims(group)
            return NEVER
        if not self._following:
            return NEVER
        end = self._needed_at + self._options.linger
        if now < end:
            return end
        self._stop_following()
        return NEVER

    def _follow(self, group: asyncio.TaskGroup) -> None:
        _log.info("node provisioning bridge begins to follow autoscalers' events")
        status = self._options.status
        self._streams = tuple(
            self._stream(f"involvedObject.kind={kind},source={source}", namespace)
            for kind, source, namespace in (
                ("Pod", CLUSTER_AUTOSCALER, ""),
                ("Pod", KARPENTER, ""),
                ("ConfigMap", CLUSTER_AUTOSCALER, status.namespace),
                ("NodeClaim", KARPENTER, ""),
            )
        )
        self._following = [
            group.create_task(stream.reflector.run(), name=f"events {stream.selector}")
            for stream in self._streams
        ]
        self._metrics.active(True)

    def _stop_following(self) -> None:
        if not self._following:
            return
        for task in self._following:
            task.cancel()
        if self._claims is not None:
            self._claims.cancel()
        self._following, self._streams, self._claims = [], (), None
        self._decisions.forget_events()
        self._metrics.active(False)
        self._set_degraded(None)

    def _stream(self, selector: str, namespace: str) -> _Stream:
        options = ReflectorOptions(
            namespace=namespace,
            field_selector=selector,
            idle_timeout=self._options.idle_timeout,
            bookmarks=False,
            watch_seconds=EVENT_WATCH_SECONDS,
        )
        return _Stream(
            self._client, options, self._random, self._apply_events, self._contact_changed
        )

    def _follow_claims(self, group: asyncio.TaskGroup) -> None:
        """Watch Karpenter's node claims: machines that no event about a pod names."""

        def on_contact(error: RequestError | None) -> None:
            if isinstance(error, ApiError) and error.status in (_FORBIDDEN, _NOT_FOUND):
                # Optional. `_claims` stays set, so that the watch is not tried again before events
                # are followed the next time.
                task.cancel()
                _log.info(
                    "not watching Karpenter's node claims: conditions rest on its events alone",
                    status=error.status,
                    component=COMPONENT,
                )

        reflector = Reflector(
            self._client,
            NODE_CLAIMS,
            self._handle_claims,
            options=ReflectorOptions(idle_timeout=self._options.idle_timeout),
            random=self._random,
            on_contact=on_contact,
        )
        task = self._claims = group.create_task(reflector.run(), name="node claims")

    def _handle_claims(self, batch: Sequence[Delta[Named]]) -> None:
        for delta in batch:
            metadata = delta.object.metadata
            if delta.type is DeltaType.ADDED:
                created = self._wall_and_monotonic(metadata.creation_timestamp)
                self._decisions.claim_created(metadata.name, *created)
            elif delta.type is DeltaType.DELETED:
                deleted = self._wall_and_monotonic(metadata.deletion_timestamp)
                self._decisions.claim_deleted(metadata.name, *deleted)
        self._wake.set()

    def _apply_events(self, batch: Sequence[Delta[CoreEvent]], live: bool) -> None:
        for delta in batch:
            try:
                self._apply_event(delta, live=live)
            except Exception:  # noqa: BLE001 - object boundary: one odd event costs itself only
                _log.exception("cannot read event", name=delta.object.metadata.name)
        self._wake.set()

    def _apply_event(self, delta: Delta[CoreEvent], *, live: bool) -> None:
        event = delta.object
        if delta.type is DeltaType.DELETED:
            self._decisions.event_deleted(event)
            return
        age = max(0.0, self._clock.now() - (event_time(event) or 0.0))
        signal = self._decisions.event_changed(
            event, self._clock.monotonic(), max(0.0, age - TIMESTAMP_SECONDS)
        )
        if signal is not None and live:
            self._metrics.event_lag(age)

    def _contact_changed(self) -> None:
        """Update the health after a stream was opened or failed."""
        self._wake.set()
        failed = [(each, each.error) for each in self._streams if each.error is not None]
        if not failed:
            self._set_degraded(None)
            return
        stream, error = failed[0]
        if isinstance(error, ApiError) and error.status == _FORBIDDEN:
            self._set_degraded(
                "not allowed to read events: a rule for apiGroups [''], resources [events], verbs "
                f"[get, list, watch] is missing; apply the kustomize component {COMPONENT}"
            )
        else:
            self._set_degraded(f"cannot follow events {stream.selector}: {error}")

    def _set_degraded(self, reason: str | None) -> None:
        if reason == self._degraded:
            return
        self._degraded = reason
        self._metrics.degraded(reason is not None)
        if reason is None:
            _log.info("node provisioning bridge has recovered")
        else:
            _log.warning("node provisioning bridge is degraded", reason=reason)

    # -- writing -----------------------------------------------------------------------------------

    async def _write(self, patch: Patch) -> None:
        pod = patch.pod
        try:
            if patch.verify and not await self._may_write(patch):
                return
            status = PodStatusPatch(
                pod.metadata.namespace, pod.metadata.name, pod.uid, (patch.condition,)
            )
            await self._dispatcher.call(
                Lane.STATUS,
                lambda: send_status_patch(
                    self._client, status, self._random, field_manager=FIELD_MANAGER
                ),
            )
        except DispatcherClosedError:
            self._decisions.failed(patch, self._clock.monotonic())
        except RequestError as error:
            self._write_failed(patch, error)
        else:
            condition = patch.condition
            self._decisions.written(patch, self._clock.monotonic())
            self._metrics.patched(condition.status, condition.reason, patch.source)
            _log.info(
                "node provisioning condition written", pod=pod.key, status=condition.status,
                reason=condition.reason, source=patch.source,
            )  # fmt: skip
        finally:
            self._wake.set()

    def _write_failed(self, patch: Patch, error: RequestError) -> None:
        if concerns_another_pod(error):
            self._decisions.forget(patch.pod.uid)
            return
        self._decisions.failed(patch, self._clock.monotonic())
        _log.warning(
            "node provisioning condition was not written", pod=patch.pod.key, **describe(error)
        )

    async def _may_write(self, patch: Patch) -> bool:
        """Read the pod, to see whether another manager wrote its condition."""
        metadata = patch.pod.metadata
        response = await self._client.request("GET", PODS.path(metadata.name, metadata.namespace))
        try:
            owned = read_owned_pod(response.body)
        except ValueError as error:
            _log.warning("cannot read pod", pod=patch.pod.key, error=str(error))
            self._decisions.failed(patch, self._clock.monotonic())
            return False
        if owned.metadata.uid != patch.pod.uid:
            self._decisions.forget(patch.pod.uid)
            return False
        writer = other_writer(owned, seen_without=patch.seen_without)
        if writer is None:
            return True
        self._decisions.concede(patch)
        self._metrics.conflicting_managers(self._decisions.conflicting_managers)
        _log.info("another writer of the condition: leaving it", pod=patch.pod.key, manager=writer)
        return False


class _Stream:
    """One watch of events and its last error."""

    def __init__(
        self,
        client: ApiClient,
        options: ReflectorOptions,
        random: Random,
        apply: Callable[[Sequence[Delta[CoreEvent]], bool], None],
        changed: Callable[[], None],
    ) -> None:
        """`apply(batch, live)` takes events, which are not live before the first list is over."""
        self.selector = options.field_selector
        self.error: RequestError | None = None
        self._changed = changed
        self.reflector: Reflector[CoreEvent] = Reflector(
            client,
            CORE_EVENTS,
            lambda batch: apply(batch, self.reflector.synced.is_set()),
            options=options,
            random=random,
            on_contact=self._contact,
        )

    @property
    def settled(self) -> bool:
        """Whether its first list is complete, or it failed and the others go on without it."""
        return self.reflector.synced.is_set() or self.error is not None

    def _contact(self, error: RequestError | None) -> None:
        self.error = error
        self._changed()
