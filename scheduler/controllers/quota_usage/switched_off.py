"""Says on quotas with deferred keys that nobody enforces them (KEP-5465 design 2.12, "Disable").

With the feature gate off `status.used` of such keys stays what it was, and looks as if it were
true. So the leader looks once, when it begins, and leaves an event on each quota concerned. It
changes nothing, and does without if it may not read quotas.
"""

from __future__ import annotations

from random import Random
from typing import Final

import structlog

from plugins.resource_quota.keys import PREFIX
from scheduler.api.policy import ResourceQuota
from scheduler.api.storage import ObjectReference
from scheduler.client.backoff import Backoff
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.resources import RESOURCE_QUOTAS
from scheduler.client.rest import ApiClient
from scheduler.framework import Events

_log = structlog.get_logger(__name__)

NOT_ENFORCED: Final = "DeferredQuotaNotEnforced"
"""Reason of the event."""
NOTE: Final = (
    "nobody enforces the deferred keys of quota {name}: ResourceQuotaDeferredEnforcement is off "
    "or quotaMode leaves them out. Their status.used is what it was then, and pods are scheduled "
    "unchecked"
)
_ATTEMPTS: Final = 5


async def report_unenforced(client: ApiClient, events: Events, random: Random) -> None:
    """Look at all quotas once; errors are logged and end in nothing."""
    backoff = Backoff(random, initial=1.0, cap=60.0)
    while True:
        try:
            quotas = await client.list(RESOURCE_QUOTAS)
        except RequestError as error:
            delay = backoff.next()
            refused = isinstance(error, ApiError) and error.status in (403, 404)
            if refused or backoff.attempts >= _ATTEMPTS:
                _log.debug("cannot look for quotas nobody enforces", **describe(error))
                return
            await client.clock.sleep(delay)
        else:
            break
    for quota in quotas:
        if any(key.startswith(PREFIX) for key in (*quota.spec.hard, *quota.status.used)):
            note = NOTE.format(name=quota.metadata.name)
            events.record(_reference(quota), "Warning", NOT_ENFORCED, "Quota", note)


def _reference(quota: ResourceQuota) -> ObjectReference:
    meta = quota.metadata
    return ObjectReference(
        api_version="v1",
        kind="ResourceQuota",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
    )
