"""An event on each quota with deferred keys that are not enforced (gate or mode is off).

With the feature gate off, `status.used` of such keys keeps its last value and looks as if it were
true. So the leader looks once, when it begins (docs/deferred-quota.md, "Switching it off"). It
changes nothing, and goes without if it may not read quotas.
"""

from __future__ import annotations

from http import HTTPStatus
from random import Random
from typing import Final

import structlog

from plugins.resource_quota.keys import PREFIX
from plugins.resource_quota.messages import quota_reference
from scheduler.client.backoff import Backoff
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.resources import RESOURCE_QUOTAS
from scheduler.client.rest import ApiClient
from scheduler.framework import Events

_log = structlog.get_logger(__name__)

NOT_ENFORCED: Final = "DeferredQuotaNotEnforced"
"""Reason of the event."""
NOTE: Final = (
    "the deferred keys of quota {name} are not enforced: ResourceQuotaDeferredEnforcement is off "
    "or quotaMode leaves them out. Their status.used keeps its last value, and pods are scheduled "
    "unchecked"
)
MAX_ATTEMPTS: Final = 5
_NO_ACCESS: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


async def report_unenforced(client: ApiClient, events: Events, random: Random) -> None:
    """List all quotas once and report those with deferred keys; errors are logged only."""
    backoff = Backoff(random, initial=1.0, cap=60.0)
    while True:
        try:
            quotas = await client.list(RESOURCE_QUOTAS)
            break
        except RequestError as error:
            delay = backoff.next()
            forbidden = isinstance(error, ApiError) and error.status in _NO_ACCESS
            if forbidden or backoff.attempts >= MAX_ATTEMPTS:
                _log.debug("cannot list quotas that are not enforced", **describe(error))
                return
        await client.clock.sleep(delay)
    for quota in quotas:
        if any(key.startswith(PREFIX) for key in (*quota.spec.hard, *quota.status.used)):
            meta = quota.metadata
            reference = quota_reference(meta.namespace, meta.name, meta.uid)
            events.record(reference, "Warning", NOT_ENFORCED, "Quota", NOTE.format(name=meta.name))
