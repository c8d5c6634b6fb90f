"""PermissionReviewer: asks the API server which declared permissions are missing.

One SelfSubjectRulesReview answers for all that it shows as granted. Whatever it does not, because
it is missing or because an authorizer cannot list its rules, is confirmed by a
SelfSubjectAccessReview each; what is denied then is looked up in discovery, because the API server
denies what it does not have as well. It is repeated: soon while anything is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random
from typing import Final, NoReturn

import structlog

from scheduler.client.access_reviews import (
    ResourceRule,
    grants,
    review_own_access,
    review_own_rules,
    served_resources,
)
from scheduler.client.backoff import Backoff
from scheduler.client.errors import RequestError, describe
from scheduler.client.rest import ApiClient
from scheduler.framework import Permission
from scheduler.service.permissions.state import Missing, PermissionState, accesses

_log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS: Final = 1.0
LAST_RETRY_SECONDS: Final = 20.0
"""Between two reviews while anything is missing: an installer may apply the rules after the
Deployment, and a rule that is left out on purpose should cost little."""

REPEAT_SECONDS: Final = 600.0
"""Between two reviews while nothing is missing."""


class PermissionReviewer:
    """`run` in a task of its own."""

    def __init__(
        self, client: ApiClient, state: PermissionState, namespace: str, random: Random
    ) -> None:
        """Prepare; `namespace` is that of the Lease, whose Role the rules then include."""
        self._client = client
        self._state = state
        self._namespace = namespace
        self._backoff = Backoff(random, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)

    async def run(self) -> NoReturn:
        """Review until cancelled."""
        while True:
            await self.review()
            if not self._state.missing:
                self._backoff.reset()
            await self._client.clock.sleep(
                self._backoff.next() if self._state.missing else REPEAT_SECONDS
            )

    async def review(self) -> None:
        """Review once. Without a response nothing changes: the requests themselves will show."""
        try:
            reviewed = [each for each in self._state.declared if not each.on_demand]
            denied = await denied_permissions(self._client, reviewed, self._namespace)
            absent = await absent_resources(self._client, denied)
        except RequestError as error:
            _log.info("permissions cannot be reviewed", **describe(error))
            return
        self._state.reviewed(denied, absent)


async def denied_permissions(
    client: ApiClient, permissions: Iterable[Permission], namespace: str
) -> Missing:
    """Return what our own user may not do, by permission.

    Raises:
        RequestError: there was no review.
    """
    rules = await _own_rules(client, namespace)
    denied: dict[Permission, tuple[str, ...]] = {}
    for permission in permissions:
        verbs = [
            access.verb
            for access in accesses(permission)
            if not grants(rules, access) and not await review_own_access(client, access)
        ]
        if verbs:
            denied[permission] = tuple(dict.fromkeys(verbs))
    return denied


async def _own_rules(client: ApiClient, namespace: str) -> tuple[ResourceRule, ...]:
    """Return the rules of our own user; none where they cannot be listed."""
    try:
        return (await review_own_rules(client, namespace)).resource_rules
    except RequestError:
        # Each access is reviewed by itself then.
        return ()


async def absent_resources(
    client: ApiClient, permissions: Collection[Permission]
) -> frozenset[Permission]:
    """Return the permissions for resources that the API server does not have.

    All that are used here are of version v1 of their group.

    Raises:
        RequestError: discovery failed.
    """
    groups = {each.group for each in permissions if each.resource}
    served = {group: await served_resources(client, group) for group in sorted(groups)}
    return frozenset(
        each for each in permissions if each.resource and each.resource not in served[each.group]
    )
