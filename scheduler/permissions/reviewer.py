"""PermissionReviewer: asks the API server which declared permissions are missing.

One SelfSubjectRulesReview answers for all that it shows as granted. Whatever it does not, because
it is missing or because an authorizer cannot list its rules, is confirmed by a
SelfSubjectAccessReview each; what is denied then is looked up in discovery, because the API server
denies what it does not have as well. It is repeated: soon while anything is missing or unknown, and
at once after a write that was forbidden.
"""

from __future__ import annotations

import asyncio
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
from scheduler.client.clock import sleep_unless
from scheduler.client.errors import NO_RESPONSE, ApiError, RequestError, describe
from scheduler.client.resources import LEASES
from scheduler.client.rest import ApiClient
from scheduler.framework import Permission
from scheduler.permissions.state import PermissionState, accesses

_log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS: Final = 1.0
LAST_RETRY_SECONDS: Final = 20.0
"""Between two reviews while anything is missing, or no review succeeds: an installer may apply the
rules after the Deployment, and a rule that is left out on purpose should cost little."""

REPEAT_SECONDS: Final = 600.0
"""Between two reviews while nothing is missing."""

EVERYWHERE: Final = "kubestow.no-namespace"
"""The namespace whose rules are listed. The dot makes it no valid name, so that only rules for all
namespaces apply: a RoleBinding would make them look as if they held everywhere."""


class PermissionReviewer:
    """`run` in a task of its own."""

    def __init__(self, client: ApiClient, state: PermissionState, random: Random) -> None:
        self._client = client
        self._state = state
        state.reviews.append(self.review)
        self._backoff = Backoff(random, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
        # Whether the last review failed.
        self._failed = False
        # Whether that was logged; once, until one succeeds.
        self._logged = False
        self._wanted = asyncio.Event()
        self._reviewed_at = client.clock.monotonic()

    async def run(self) -> NoReturn:
        """Review until cancelled."""
        while True:
            self._wanted.clear()
            self._reviewed_at = self._client.clock.monotonic()
            await self.review()
            if self._failed or self._state.missing:
                delay = self._backoff.next()
            else:
                self._backoff.reset()
                delay = REPEAT_SECONDS
            await sleep_unless(self._wanted, self._client.clock, delay)

    def review_now(self) -> None:
        """Let `run` review at once, and soon again if anything is missing then."""
        self._backoff.reset()
        self._wanted.set()

    def write_forbidden(self) -> None:
        """Let `run` review at once, unless it did within `LAST_RETRY_SECONDS`.

        Admission forbids writes as well, and tenants can cause that as often as they like.
        """
        if self._client.clock.monotonic() - self._reviewed_at >= LAST_RETRY_SECONDS:
            self._wanted.set()

    async def review(self) -> None:
        """Review what is declared, again if that changes meanwhile.

        Without a response nothing changes: the requests themselves will show.
        """
        declared = None
        with self._state.reviewing():
            while declared != self._state.declared:
                declared = self._state.declared
                await self._review(declared)

    async def _review(self, declared: tuple[Permission, ...]) -> None:
        try:
            reviewed = [each for each in declared if not each.on_demand]
            denied = await denied_permissions(self._client, reviewed)
            await drop_needless_creation(self._client, denied, declared)
            absent = await absent_resources(self._client, denied)
        except RequestError as error:
            self._failed = True
            # An API server that cannot be reached is logged by whoever follows objects.
            if not self._logged and not isinstance(error, NO_RESPONSE):
                self._logged = True
                _log.info("permissions cannot be reviewed", **describe(error))
            return
        self._failed = self._logged = False
        if self._state.declared == declared:
            self._state.reviewed(denied, absent)


async def drop_needless_creation(
    client: ApiClient, denied: dict[Permission, tuple[str, ...]], declared: Iterable[Permission]
) -> None:
    """Drop the permission to create the Lease if it exists: nobody creates it again.

    A Lease that may not be read counts as absent.

    Raises:
        RequestError: the API server did not respond.
    """
    leases = [each for each in declared if each.resource == LEASES.plural]
    creation = next((each for each in leases if each.verbs == ("create",)), None)
    named = next((each for each in leases if each.names), None)
    if creation is None or creation not in denied or named is None:
        return
    if await _exists(client, named.names[0], named.namespace):
        del denied[creation]


async def _exists(client: ApiClient, name: str, namespace: str) -> bool:
    try:
        await client.request("GET", LEASES.path(name, namespace))
    except ApiError:
        return False
    return True


async def denied_permissions(
    client: ApiClient, permissions: Iterable[Permission]
) -> dict[Permission, tuple[str, ...]]:
    """Return what our own user may not do, by permission.

    Raises:
        RequestError: there was no review.
    """
    rules = await _own_rules(client)
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


async def _own_rules(client: ApiClient) -> tuple[ResourceRule, ...]:
    """Return the rules of our own user for all namespaces; none where they cannot be listed."""
    try:
        return (await review_own_rules(client, EVERYWHERE)).resource_rules
    except RequestError:
        # Each access is reviewed by itself then.
        return ()


async def absent_resources(
    client: ApiClient, permissions: Collection[Permission]
) -> frozenset[Permission]:
    """Return the permissions for resources that the API server does not have.

    A resource exists if some version of its group has it; RBAC knows no versions. Those of the core
    group always exist. A subresource exists if its resource does: some are names for RBAC only, and
    not discovered.

    Raises:
        RequestError: discovery failed.
    """
    groups = {each.group for each in permissions if each.group}
    served = {group: await served_resources(client, group) for group in sorted(groups)}
    return frozenset(
        each
        for each in permissions
        if each.group and each.resource.partition("/")[0] not in served[each.group]
    )
