"""QuotaPatcher: every write of a ResourceQuota, through the dispatcher and its leader fence.

A patch carries the UID as a precondition, so that another quota of the same name is left alone.
One that depends on what was read carries the resourceVersion as well; a conflict is tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from random import Random
from typing import Any, Final

import structlog

from scheduler.api.policy import ResourceQuota
from scheduler.client.backoff import Backoff
from scheduler.client.dispatcher import Dispatcher, Lane
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.request_sender import MERGE_PATCH
from scheduler.client.resources import RESOURCE_QUOTAS
from scheduler.client.rest import ApiClient

_log = structlog.get_logger(__name__)

MAX_ATTEMPTS: Final = 6
"""The first and five more after conflicts."""

Key = tuple[str, str]
"""Namespace and name of a quota."""


class QuotaPatcher:
    """Writes `status.used` and annotations of quotas.

    Its methods raise RequestError when a write may not have been made, and DispatcherClosedError
    when this process leads no longer.
    """

    def __init__(self, client: ApiClient, dispatcher: Dispatcher, random: Random) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._random = random

    async def patch_used(
        self, key: Key, used: Mapping[str, str], *, uid: str, version: str = ""
    ) -> ResourceQuota:
        """Set amounts in `status.used` of the quota with this UID; return it as stored."""
        body = {"metadata": _preconditions(uid, version), "status": {"used": dict(used)}}
        return await self._patch(Lane.STATUS, key, body, subresource="status")

    async def raise_used(
        self, key: Key, plan: Callable[[ResourceQuota], Mapping[str, str]]
    ) -> bool:
        """Set the amounts that `plan` derives from the quota as it is; return whether any are."""

        async def attempt(quota: ResourceQuota) -> bool:
            used, meta = plan(quota), quota.metadata
            if used:
                await self.patch_used(key, used, uid=meta.uid, version=meta.resource_version)
            return bool(used)

        return await self._retry(key, attempt)

    async def annotate(
        self, key: Key, plan: Callable[[ResourceQuota], Mapping[str, str | None] | None]
    ) -> None:
        """Set the annotations that `plan` derives from the quota as it is.

        An annotation whose value is None is removed; a plan of None writes nothing.
        """

        async def attempt(quota: ResourceQuota) -> bool:
            annotations, meta = plan(quota), quota.metadata
            if annotations is not None:
                metadata = _preconditions(meta.uid, meta.resource_version)
                body = {"metadata": {**metadata, "annotations": dict(annotations)}}
                await self._patch(Lane.BIND, key, body)
            return annotations is not None

        await self._retry(key, attempt)

    async def _retry(self, key: Key, attempt: Callable[[ResourceQuota], Awaitable[bool]]) -> bool:
        """Read the quota and try, again after each conflict, `MAX_ATTEMPTS` times in all."""
        namespace, name = key
        backoff = Backoff(self._random, initial=0.005, cap=0.2)
        while True:
            quota = await self._client.get(RESOURCE_QUOTAS, name, namespace)
            try:
                return await attempt(quota)
            except ApiError as error:
                delay = backoff.next()
                if error.status != HTTPStatus.CONFLICT or backoff.attempts >= MAX_ATTEMPTS:
                    raise
            await self._client.clock.sleep(delay)

    async def _patch(
        self, lane: Lane, key: Key, body: Mapping[str, Any], subresource: str = ""
    ) -> ResourceQuota:
        namespace, name = key
        return await self._dispatcher.call(
            lane,
            lambda: self._client.patch(
                RESOURCE_QUOTAS,
                name,
                namespace,
                body=body,
                patch_type=MERGE_PATCH,
                subresource=subresource,
            ),
        )


def log_failure(text: str, key: Key, error: RequestError, **details: object) -> None:
    """Log a write of a quota that failed, with what to do about it."""
    forbidden = isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN
    _log.warning(
        text,
        quota="/".join(key),
        remedy="allow patch on resourcequotas/status, see manifests/rbac.yaml"
        if forbidden
        else "none needed if it passes",
        **details,
        **describe(error),
    )


def _preconditions(uid: str, version: str) -> dict[str, str]:
    return {"uid": uid, "resourceVersion": version} if version else {"uid": uid}
