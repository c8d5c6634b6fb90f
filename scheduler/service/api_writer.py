"""`framework.ApiWriter` and `framework.Events` over the client layer: plugins' writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from random import Random
from typing import Any, TypeVar

import msgspec

from scheduler.api.meta import Condition, second_time
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.storage import ObjectReference
from scheduler.client.binding import BindOutcome, PodMovedOnError
from scheduler.client.custom_resources import resource_of
from scheduler.client.dispatcher import Dispatcher, Lane
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.events import EventRecorder
from scheduler.client.request_sender import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import (
    concerns_another_pod,
    plan_status_patch,
    send_status_patch,
)
from scheduler.framework import (
    OutcomeUnknownError,
    Status,
    WriteConflictError,
    error,
)
from scheduler.metrics import SchedulerMetrics
from scheduler.service.api_reads import ApiReads
from scheduler.service.object_waits import ObjectWaits

R = TypeVar("R")


class ServiceApiWriter(ApiReads):
    """Implements `framework.ApiWriter`; every write passes the dispatcher and its leader fence."""

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        metrics: SchedulerMetrics,
        waits: ObjectWaits,
        random: Random,
        *,
        precondition: Callable[[Pod], str] | None = None,
    ) -> None:
        """Wire the writer.

        `precondition` runs when the request of a bind is about to be sent; if it returns a reason,
        the request is not sent.
        """
        super().__init__(client, waits)
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._random = random
        self._precondition = precondition
        #: Evictions under way, by UID, and whether each of their preemptors still needs them.
        self._evictions: dict[str, asyncio.Task[bool]] = {}
        self._needed: dict[str, list[Callable[[], bool]]] = {}

    async def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None
    ) -> Status | None:
        """Bind and return when the outcome is certain, however long that takes.

        The error of the status is a `PodMovedOnError` if the pod needs no scheduling any more.
        """
        precondition = self._precondition
        result = await self._dispatcher.bind(
            pod,
            node_name,
            None if annotations is None else dict(annotations),
            precondition=None if precondition is None else partial(precondition, pod),
        )
        outcome = result.outcome
        self._metrics.bind_outcome(outcome)
        if outcome is BindOutcome.BOUND:
            return None
        if outcome in (BindOutcome.GONE, BindOutcome.ELSEWHERE):
            return error(PodMovedOnError(f"pod {pod.key}: {outcome}"))
        return error(result.error if result.error is not None else f"pod {pod.key} is not bound")

    async def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Any:
        """Create an object; return it as it was stored."""
        resource = resource_of(plural)
        described = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self._write(lambda: self._client.create(resource, described, namespace))

    async def patch(
        self,
        plural: str,
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        subresource: str = "",
        *,
        strategic: bool = False,
    ) -> Any:
        """Send a patch; return the object's new state."""
        return await self._write(
            lambda: self._client.patch(
                resource_of(plural),
                name,
                namespace,
                body=body,
                patch_type=STRATEGIC_MERGE_PATCH if strategic else MERGE_PATCH,
                subresource=subresource,
            )
        )

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Delete an object; with `uid`, only if it has that UID."""
        await self._write(
            lambda: self._client.delete(resource_of(plural), name, namespace, uid=uid)
        )

    async def _write(self, send: Callable[[], Awaitable[R]]) -> R:
        """Send a write with the priority of a bind, and translate errors for plugins."""
        try:
            return await self._dispatcher.call(Lane.BIND, send)
        except ApiError as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise WriteConflictError(str(error), error.status) from error
            if error.outcome_unknown:
                raise OutcomeUnknownError(str(error)) from error
            raise
        except RequestError as error:
            if error.outcome_unknown:
                raise OutcomeUnknownError(str(error)) from error
            raise

    async def status_written(self, uids: Iterable[str]) -> None:
        """Wait for the status writes of pods; the writes themselves run concurrently."""
        for uid in uids:
            await self._dispatcher.status_written(uid)

    async def evict(
        self,
        pods: Sequence[Pod],
        condition: Condition,
        needed: Callable[[], bool] = lambda: True,
    ) -> Sequence[bool | BaseException]:
        """Write each pod's condition, then delete it; return True, False (it stays) or the error.

        All pods run concurrently. A pod whose eviction is under way is not evicted twice, since a
        burst of preemptors chooses mostly the same victims, which would cause thousands of
        requests. Such an eviction continues while any of its preemptors needs it.
        """
        tasks = [self._eviction(pod, condition, needed) for pod in pods]
        return await asyncio.gather(*map(asyncio.shield, tasks), return_exceptions=True)

    def _eviction(
        self, pod: Pod, condition: Condition, needed: Callable[[], bool]
    ) -> asyncio.Task[bool]:
        uid = pod.metadata.uid
        self._needed.setdefault(uid, []).append(needed)
        task = self._evictions.get(uid)
        if task is None:
            task = self._evictions[uid] = asyncio.create_task(self._evict(pod, condition))
            task.add_done_callback(lambda _: self._evicted(uid))
        return task

    def _evicted(self, uid: str) -> None:
        del self._evictions[uid], self._needed[uid]

    async def _evict(self, pod: Pod, condition: Condition) -> bool:
        metadata, needed = pod.metadata, self._needed[pod.metadata.uid]

        async def if_needed(send: Callable[[], Awaitable[object]]) -> bool:
            # Checked here, since the request may have waited for its slot.
            if not any(each() for each in needed):
                return False
            await send()
            return True

        def mark() -> Awaitable[bool]:
            return if_needed(lambda: self._send_condition(pod, condition))

        def delete() -> Awaitable[bool]:
            name, namespace, uid = metadata.name, metadata.namespace, metadata.uid
            return if_needed(lambda: self._client.delete(PODS, name, namespace, uid=uid))

        call = self._dispatcher.call
        try:
            if not await call(Lane.BIND, mark):
                return False
            if await call(Lane.BIND, delete):
                return True
            spared = msgspec.structs.replace(condition, status="False")
            await call(Lane.BIND, lambda: self._send_condition(pod, spared))
        except ApiError as error:
            # Neither write names a resourceVersion, so a conflict is about the UID: the name is
            # another pod's now.
            if error.status == HTTPStatus.CONFLICT or concerns_another_pod(error):
                return False
            raise
        return False

    async def _send_condition(self, pod: Pod, condition: Condition) -> None:
        """Write a condition of a pod, unless the pod has it already."""
        own = msgspec.structs.replace(
            condition, observed_generation=pod.metadata.generation or None
        )
        patch = plan_status_patch(pod, own, None, second_time(self._client.clock.now()))
        if patch is not None:
            await send_status_patch(self._client, patch, self._random)


class ProfileEvents:
    """Implements `framework.Events`; the pod's own profile is the reporting controller."""

    def __init__(self, recorder: EventRecorder, controller: str) -> None:
        self._recorder = recorder
        self._controller = controller

    def record(
        self,
        regarding: Pod | Node | ObjectReference,
        type: str,  # noqa: A002  (the Event field's own name)
        reason: str,
        action: str,
        note: str,
        related: Pod | None = None,
    ) -> None:
        """Queue an event; never blocks."""
        controller = self._controller
        if isinstance(regarding, Pod) and regarding.spec.scheduler_name:
            controller = regarding.spec.scheduler_name
        self._recorder.event(regarding, related, type, reason, action, note, controller)
