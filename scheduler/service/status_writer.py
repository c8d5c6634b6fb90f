"""StatusWriter: pod conditions and nominations, written through the dispatcher (section 3.7).

The newest wish for a pod replaces an older one that was not sent. What the API server already says is not
written again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import structlog

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.client.clock import second_time
from scheduler.framework import Clock

_log = structlog.get_logger(__name__)
POD_SCHEDULED = "PodScheduled"

PatchStatus = Callable[[Pod, bytes], Awaitable[None]]
"""Sends a strategic merge patch to the pod's status; retries by itself, raises when it gave up."""


class StatusQueue(Protocol):
    """The dispatcher's part for status patches."""

    def submit_status(self, uid: str, send: Callable[[], Awaitable[None]]) -> None:
        """Send soon; an earlier unsent one of the same pod is dropped."""
        ...


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod's status should say."""

    reason: str
    message: str
    #: None leaves the nomination alone.
    nominated_node_name: str | None


class StatusWriter:
    """Writes PodScheduled=False and `status.nominatedNodeName`."""

    def __init__(
        self,
        dispatcher: StatusQueue,
        patch: PatchStatus,
        newest: Callable[[str, str], Pod | None],
        clock: Clock,
    ) -> None:
        self._dispatcher = dispatcher
        self._patch = patch
        self._newest = newest
        self._clock = clock

    def not_scheduled(
        self, pod: Pod, reason: str, message: str, nominated_node_name: str | None
    ) -> None:
        """Say why the pod is pending."""
        self._submit(pod, Wish(reason, message, nominated_node_name))

    def expected_on(self, pod: Pod, node_name: str) -> None:
        """Say where the pod will be bound, before slow binding work begins."""
        self._submit(pod, Wish("", "", node_name))

    def _submit(self, pod: Pod, wish: Wish) -> None:
        if status_patch(pod, wish, self._clock.now()) is not None:
            self._dispatcher.submit_status(pod.metadata.uid, lambda: self._send(pod, wish))

    async def _send(self, pod: Pod, wish: Wish) -> None:
        newest = self._newest(pod.metadata.namespace, pod.metadata.name)
        if newest is None or newest.metadata.uid != pod.metadata.uid or newest.spec.node_name:
            return
        body = status_patch(newest, wish, self._clock.now())
        if body is None:
            return
        try:
            await self._patch(newest, body)
        except Exception as problem:  # request boundary: the next failed attempt writes again
            _log.warning("pod status not written", pod=pod.key, error=str(problem))


def status_patch(pod: Pod, wish: Wish, now: float) -> bytes | None:
    """A strategic merge patch that makes `pod` say `wish`, or None when it does already."""
    status: dict[str, Any] = {}
    if wish.reason:
        condition = _condition(pod, wish, now)
        if condition is not None:
            status["conditions"] = [condition]
    nominated = wish.nominated_node_name
    if nominated is not None and nominated != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated or None
    if not status:
        return None
    # The UID makes the API server refuse the patch if the name belongs to another pod by now.
    return msgspec.json.encode({"metadata": {"uid": pod.metadata.uid}, "status": status})


def _condition(pod: Pod, wish: Wish, now: float) -> dict[str, Any] | None:
    known: Condition | None = next(
        (c for c in pod.status.conditions if c.type == POD_SCHEDULED), None
    )
    same_status = known is not None and known.status == "False"
    if (
        known is not None
        and same_status
        and known.reason == wish.reason
        and known.message == wish.message
    ):
        return None
    transition = known.last_transition_time if known is not None and same_status else None
    condition: dict[str, Any] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": wish.reason,
        "message": wish.message,
        "lastProbeTime": None,
        "lastTransitionTime": transition or second_time(now),
    }
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    return condition
