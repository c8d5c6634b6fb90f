"""What plugins may write: `framework.ApiWriter` and `framework.Events` over the client layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.client.binding import BindOutcome
from scheduler.client.dispatcher import Dispatcher, Lane
from scheduler.client.events import EventRecorder
from scheduler.client.resources import RESOURCES
from scheduler.client.rest import MERGE_PATCH, ApiClient
from scheduler.framework import Status, error
from scheduler.service.metrics import SchedulerMetrics


class PodMovedOnError(Exception):
    """The pod is certain to be gone or bound elsewhere: nothing is to be said about it any more."""


class ServiceApiWriter:
    """Implements `framework.ApiWriter`; every write passes the dispatcher and its leader fence."""

    def __init__(
        self, client: ApiClient, dispatcher: Dispatcher, metrics: SchedulerMetrics
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._metrics = metrics

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Bind; returns only when the outcome is certain, however long that takes.

        The error of the status is a `PodMovedOnError` if the pod needs no scheduling any more.
        """
        result = await self._dispatcher.bind(pod, node_name)
        self._metrics.bind_outcome(result.outcome.value)
        if result.bound:
            return None
        if result.outcome in (BindOutcome.GONE, BindOutcome.ELSEWHERE):
            return error(PodMovedOnError(f"pod {pod.key}: {result.outcome.value}"))
        return error(result.error if result.error is not None else f"pod {pod.key} is not bound")

    async def patch(
        self, plural: str, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> Any:
        """A merge patch; returns the object as it is now."""
        return await self._dispatcher.call(
            Lane.BIND,
            lambda: self._client.patch(
                RESOURCES[plural],
                name,
                namespace,
                body=body,
                patch_type=MERGE_PATCH,
                subresource=subresource,
            ),
        )

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Delete; with `uid` only that very object."""
        await self._dispatcher.call(
            Lane.BIND, lambda: self._client.delete(RESOURCES[plural], name, namespace, uid=uid)
        )


class ProfileEvents:
    """Implements `framework.Events`; the pod's own profile is the reporting controller."""

    def __init__(self, recorder: EventRecorder, controller: str) -> None:
        self._recorder = recorder
        self._controller = controller

    def record(
        self,
        regarding: Pod | Node,
        type: str,  # noqa: A002  (the Event field's own name)
        reason: str,
        action: str,
        note: str,
        related: Pod | None = None,
    ) -> None:
        """Note an event; never blocks."""
        controller = self._controller
        if isinstance(regarding, Pod) and regarding.spec.scheduler_name:
            controller = regarding.spec.scheduler_name
        self._recorder.event(regarding, related, type, reason, action, note, controller)
