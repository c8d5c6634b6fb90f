"""Binding through an extender instead of the Bind plugins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from config import Extender
from scheduler.api.pod import Pod
from scheduler.client.binding import BOUND, BindOutcome, BindResult, PodMovedOnError
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.errors import ConnectionFailed, RequestError
from scheduler.extenders.extender import ExtenderError, Extenders, display_name
from scheduler.extenders.protocol import binding_request, parse_binding_response
from scheduler.extenders.transport import ExtenderCallError, HttpExtenderTransport
from scheduler.framework import SKIP, Status, error
from scheduler.metrics import SchedulerMetrics


class ExtenderBinder:
    """Binds through an extender interested in the pod."""

    def __init__(
        self,
        extenders: Extenders,
        transport: HttpExtenderTransport,
        dispatcher: Dispatcher,
        metrics: SchedulerMetrics,
        *,
        precondition: Callable[[Pod], str] | None = None,
    ) -> None:
        """Wire the binder; a text returned by `precondition` stops a request about to be sent."""
        self._extenders = extenders
        self._transport = transport
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._precondition = precondition

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Bind through an extender; return when the outcome is certain, or `SKIP` if none binds.

        A failed request that may have bound the pod is settled by a GET, as for our own binds.
        """
        for extender in self._extenders.binders(pod):
            failed: list[ExtenderError] = []
            send = partial(self._send, extender, pod, node_name, failed)
            result = await self._dispatcher.bind(pod, node_name, send=send)
            self._metrics.bind_outcome(result.outcome.value)
            if result.bound:
                return None
            if result.outcome in (BindOutcome.GONE, BindOutcome.ELSEWHERE):
                return error(PodMovedOnError(f"pod {pod.key}: {result.outcome.value}"))
            if not failed:
                # Nothing was sent: another replica may be leading, or the node has changed.
                return error(result.error or f"pod {pod.key} is not bound")
            if not extender.ignorable:
                return error(failed[0])
            self._transport.log_ignored_failure(extender, extender.bind_verb, pod, failed[0])
        return SKIP

    async def _send(
        self, extender: Extender, pod: Pod, node_name: str, failed: list[ExtenderError]
    ) -> BindResult | RequestError:
        reason = "" if self._precondition is None else self._precondition(pod)
        if reason:
            not_sent = ConnectionFailed("POST", display_name(extender), reason, sent=False)
            return BindResult(BindOutcome.UNBOUND, not_sent)
        body = binding_request(pod, node_name)
        try:
            await self._transport.send(extender, extender.bind_verb, body, parse_binding_response)
        except ExtenderError as error:
            failed.append(error)
            unknown = ConnectionFailed("POST", display_name(extender), str(error), sent=True)
            if isinstance(error, ExtenderCallError) and error.never_sent:
                return BindResult(BindOutcome.UNBOUND, unknown)
            return unknown
        return BOUND
