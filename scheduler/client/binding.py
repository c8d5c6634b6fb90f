"""Binding of a pod until the outcome is certain.

After a success response the pod is bound; after a refusal, or a request that was not sent, it is
not. Every other failure (timeout, lost connection, 5xx, 409) leaves the outcome unknown, so a GET
decides before the caller releases anything: a pod bound to our node is a success, an unbound pod
with the same UID a failure that may be retried; otherwise another client has changed the pod. While
the GET itself fails the outcome stays unknown, however long that takes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

import structlog

from scheduler.api.pod import Pod
from scheduler.client.backoff import Backoff
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.request_sender import PreSendCheck
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient

_log = structlog.get_logger(__name__)

SETTLE_DELAY: Final = 0.5
"""Wait between a bind without response and the first GET: the server may still execute the bind.

A bind that takes effect even later is not lost, the watch shows it; waiting makes that rare.
"""

SETTLE_TIMEOUT_SECONDS: Final = 5.0
"""For one GET. It is retried anyway, and another connection may work."""


class BindOutcome(StrEnum):
    """The state of the pod after a bind request."""

    BOUND = "bound"
    """Bound to the requested node."""
    UNBOUND = "unbound"
    """The same pod, on no node: release and retry."""
    ELSEWHERE = "elsewhere"
    """Bound to another node, by another client."""
    GONE = "gone"
    """Deleted, or its name belongs to another pod now."""


class PodMovedOnError(Exception):
    """The pod is deleted or bound elsewhere for certain; it gets no event and no condition."""


@dataclass(frozen=True, slots=True)
class BindResult:
    """The outcome, and the error of the bind request if it had one."""

    outcome: BindOutcome
    error: RequestError | None = None

    @property
    def bound(self) -> bool:
        """Whether the pod is on the requested node."""
        return self.outcome is BindOutcome.BOUND

    @property
    def temporary(self) -> bool:
        """Whether the pod is on no node because of an error that may be gone at once."""
        failed = self.error is not None and self.error.temporary
        return failed and self.outcome is BindOutcome.UNBOUND


BOUND: Final = BindResult(BindOutcome.BOUND)


async def attempt_bind(
    client: ApiClient,
    pod: Pod,
    node_name: str,
    annotations: dict[str, str] | None = None,
    precondition: PreSendCheck | None = None,
) -> BindResult | RequestError:
    """Send the bind once. A RequestError is *returned* when the outcome is unknown: settle it."""
    try:
        await client.bind(pod, node_name, annotations, precondition)
    except RequestError as error:
        # 404 means not bound, but not why: the GET shows whether another pod has the name now.
        if error.outcome_unknown or (isinstance(error, ApiError) and error.status == 404):
            return error
        return BindResult(BindOutcome.UNBOUND, error)
    return BOUND


async def settle_bind(
    client: ApiClient,
    pod: Pod,
    node_name: str,
    error: RequestError,
    random: Random,
    slots: asyncio.Semaphore,
) -> BindResult:
    """Determine by GET the outcome of a bind that failed with `error`, however long that takes.

    `slots` limits the GETs in progress. Cancellation leaves the outcome unknown.
    """
    if not isinstance(error, ApiError):
        await client.clock.sleep(SETTLE_DELAY)
    backoff = Backoff(random, initial=0.1, cap=5.0)
    name, namespace = pod.metadata.name, pod.metadata.namespace
    timeout = min(client.timeout, SETTLE_TIMEOUT_SECONDS)
    while True:
        try:
            async with slots:
                found = await client.get(PODS, name, namespace, timeout=timeout)
        except RequestError as failure:
            if isinstance(failure, ApiError) and failure.status == 404:
                return BindResult(BindOutcome.GONE, error)
            delay = backoff.next()
            _log.warning(
                "outcome of a bind is still unknown, its node stays reserved",
                pod=pod.key,
                node=node_name,
                bind_error=str(error),
                retry_in=round(delay, 3),
                **describe(failure),
            )
            await client.clock.sleep(delay)
        else:
            return BindResult(_outcome(pod, found, node_name), error)


def _outcome(pod: Pod, found: Pod, node_name: str) -> BindOutcome:
    if found.metadata.uid != pod.metadata.uid:
        return BindOutcome.GONE
    if found.spec.node_name == node_name:
        return BindOutcome.BOUND
    return BindOutcome.ELSEWHERE if found.spec.node_name else BindOutcome.UNBOUND
