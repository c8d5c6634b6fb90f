"""PermissionState: which declared permissions are missing, and what that means for readiness.

What the reflectors meet counts for what they follow, because it is a fact; the reviewer tells the
rest before it is needed. A resource that the API server lacks is not missing: there are no objects
of it. Each change is logged once; changes that a review shows are one line for what is required
and one for the rest, however many permissions are missing.

A missing permission is required when no pod can be scheduled without it. Then the process is not
ready, and after `STUCK_SECONDS` without a change not alive, so that its restarts show that it
cannot work. A missing optional one turns off what it is for, and nothing else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog

from scheduler.api.signal import Signal
from scheduler.client.access_reviews import Access
from scheduler.client.clock import Clock
from scheduler.client.custom_resources import is_reference, resource_of
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.resources import RESOURCES, Resource
from scheduler.framework import Permission
from scheduler.permissions.rbac import missing_rules

_log = structlog.get_logger(__name__)

STUCK_SECONDS: Final = 120.0
"""Time after which the lack of a required permission makes the process not alive. Long enough to
apply a ClusterRole after the Deployment, short enough for a rollout to be seen as failed."""

REQUIRED: Final = "nothing can be scheduled: required permissions missing"
OPTIONAL: Final = "optional permissions missing"
GRANTED: Final = "permissions granted"
ADVICE: Final = "kubestow check, with the same kubeconfig, prints the command that grants all of it"
GRANT: Final = "an administrator grants all of it with: {command} | kubectl apply -f -"
_ACCOUNT: Final = re.compile(
    r'User "system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})" cannot '
)

MAX_RULES: Final = 3
"""Missing permissions whose rules the log prints; the command that grants all has the others."""

FORBIDDEN: Final = 403
NOT_FOUND: Final = 404

FOLLOWING: Final = ("list", "watch")
"""The verbs of a reflector."""

Missing = Mapping[Permission, tuple[str, ...]]
"""The verbs that are missing, by permission."""


class MissingPermissionsMetrics(Protocol):
    """The metric of this module."""

    def missing_permission(
        self, resource: str, verb: str, *, required: bool, missing: bool
    ) -> None:
        """Set whether a permission is missing."""
        ...


class PermissionState:
    """Touched from one event loop. `declare` before anything else, and after each reload."""

    def __init__(self, clock: Clock, metrics: MissingPermissionsMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        #: All permissions that this configuration needs.
        self.declared: tuple[Permission, ...] = ()
        #: The command that prints what grants all of it; empty if the log does not say it.
        self.granting: tuple[str, ...] = ()
        #: Called after a missing permission came.
        self.on_granted = Signal[[]]()
        #: Sends a new request for a resource and returns how the server responds, by plural.
        self.looks: dict[str, Callable[[], Awaitable[RequestError | None]]] = {}
        #: Review all permissions; the reviewer adds itself.
        self.reviews: list[Callable[[], Awaitable[None]]] = []
        # By the reviewer, and by reflectors, which win where they had a response.
        self._reviewed: dict[Permission, tuple[str, ...]] = {}
        self._met: dict[Permission, tuple[str, ...]] = {}
        # Resources that the API server does not have, by discovery.
        self._undiscovered: frozenset[Permission] = frozenset()
        # By a reflector's 404, with the identifiers of the resources: one permission is for all
        # versions of a resource, of which the API server may have some.
        self._not_found: set[str] = set()
        self._found: set[str] = set()
        self._missing: dict[Permission, tuple[str, ...]] = {}
        # When the missing ones last changed.
        self._changed_at = clock.monotonic()
        # What of it the log says, and the reviews that run, during which nothing is logged.
        self._logged: dict[Permission, tuple[str, ...]] = {}
        self._reviews = 0
        # The message of a refusal, which names the user.
        self._refusal = ""

    def declare(self, permissions: Iterable[Permission]) -> None:
        """Set what the configuration needs; what is known of a permission stays known."""
        self.declared = tuple(permissions)
        same = {_access(each): each for each in self.declared}
        before, self._missing = self._missing, {}
        for old, verbs in before.items():
            new = same.get(_access(old))
            if new is not None and new.required == old.required:
                self._missing[new] = verbs
            else:
                self._gauge(old, ())
        self._logged = {
            same[_access(old)]: verbs
            for old, verbs in self._logged.items()
            if same.get(_access(old)) in self._missing
        }
        self._reviewed, self._met = (
            {same[_access(old)]: verbs for old, verbs in known.items() if _access(old) in same}
            for known in (self._reviewed, self._met)
        )
        self._undiscovered = frozenset(
            same[_access(old)] for old in self._undiscovered if _access(old) in same
        )
        self._settle()

    @property
    def missing(self) -> Missing:
        """The verbs that are missing, by permission."""
        return self._missing

    def may(self, verb: str, resource: str) -> bool:
        """Whether nothing is known that forbids it; true for what was not declared."""
        if is_reference(resource) or resource in RESOURCES:
            known = resource_of(resource)
            group, resource = known.group, known.api_plural
        else:
            # A subresource, or one that no plugin watches.
            group = None
        return not any(
            permission.resource == resource and verb in verbs and group in (None, permission.group)
            for permission, verbs in self._missing.items()
        )

    def serves(self, resource: str) -> bool:
        """Whether the API server has a declared resource, as far as is known."""
        permission = self._of(resource_of(resource))
        if permission is None:
            return True
        return resource not in self._not_found and permission not in self._undiscovered

    async def served_now(self, resource: str) -> bool | None:
        """Ask the API server whether it has a resource; the answer is newer than the call.

        None: there is no answer. True: the objects are known.
        """
        look = self.looks.get(resource)
        error = None if look is None else await look()
        if error is None:
            return self.serves(resource)
        if not isinstance(error, ApiError) or error.status not in (FORBIDDEN, NOT_FOUND):
            return None
        if error.status == FORBIDDEN:
            # Authorization comes first, so that only discovery shows what exists.
            for review in self.reviews:
                await review()
        return self.serves(resource)

    # -- what others find out ----------------------------------------------------------------------

    def contacted(self, resource: Resource[Any], error: RequestError | None) -> bool | None:
        """Note a response to a reflector; None: the watch is open.

        Returns whether to go on without the resource; None if the response says nothing about it.
        """
        permission = self._of(resource)
        if permission is None:
            return None
        plural = resource.plural
        if error is None:
            self._found.add(plural)
            self._not_found.discard(plural)
            self._undiscovered -= {permission}
            self._met[permission] = ()
        elif not isinstance(error, ApiError) or error.status not in (FORBIDDEN, NOT_FOUND):
            return None
        elif error.status == NOT_FOUND and permission.required and not resource.group:
            # No API server lacks nodes: it is another program, as `client.outages` says.
            return None
        elif error.status == NOT_FOUND and resource.group:
            # A group may be absent from a server; the core group never is.
            self._not_found.add(plural)
            self._found.discard(plural)
        else:
            # Whether the others exist is not known any more: authorization comes first.
            self._not_found = {
                each for each in self._not_found if not self._about(each, permission)
            }
            self._met[permission] = FOLLOWING
            if permission.required or not self._refusal:
                self._refusal = error.message
        self._settle()
        return not permission.required or not self.serves(plural)

    @contextmanager
    def reviewing(self) -> Iterator[None]:
        """Log no change until the end of a review, which shows all of them at once."""
        self._reviews += 1
        try:
            yield
        finally:
            self._reviews -= 1
            self._log_changes()

    def reviewed(self, denied: Missing, absent: Iterable[Permission]) -> None:
        """Note the result of a review: what is denied, and which of it the API server lacks."""
        self._reviewed, self._undiscovered = dict(denied), frozenset(absent)
        self._settle()

    def _is_absent(self, permission: Permission) -> bool:
        if permission in self._undiscovered:
            return True
        absent = any(self._about(each, permission) for each in self._not_found)
        return absent and not any(self._about(each, permission) for each in self._found)

    def _about(self, plural: str, permission: Permission) -> bool:
        return self._of(resource_of(plural)) is permission

    def _of(self, resource: Resource[Any]) -> Permission | None:
        for each in self.declared:
            same = each.resource == resource.api_plural and each.group == resource.group
            if same and "watch" in each.verbs:
                return each
        return None

    def _settle(self) -> None:
        before, self._missing = self._missing, {}
        for each in self.declared:
            verbs = self._verbs_missing(each)
            if verbs:
                self._missing[each] = verbs
        if self._missing == before:
            return
        self._changed_at = self._clock.monotonic()
        for permission in self.declared:
            self._gauge(permission, self._missing.get(permission, ()))
        self._log_changes()
        if before.keys() - self._missing.keys():
            self.on_granted()

    def _verbs_missing(self, permission: Permission) -> tuple[str, ...]:
        denied = {*self._reviewed.get(permission, ())}
        if permission in self._met:
            denied = (denied - {*FOLLOWING}) | {*self._met[permission]}
        if not denied or self._is_absent(permission):
            return ()
        return tuple(verb for verb in permission.verbs if verb in denied)

    def _log_changes(self) -> None:
        """Log how `_missing` differs from what the log says: a line for each kind of change."""
        if self._reviews:
            return
        before, self._logged = self._logged, self._missing
        changed = [each for each in self._missing if self._missing[each] != before.get(each)]
        granted = [each for each in before if each not in self._missing]
        if required := [each for each in changed if each.required]:
            grant = {"grant": self._grant()} if self.granting else {}
            _log.error(REQUIRED, **self._fields(required), **grant)
        if optional := [each for each in changed if not each.required]:
            off: dict[str, list[str]] = {}
            for each in optional:
                off.setdefault(each.without, []).append(each.qualified)
            without = [f"{text} ({', '.join(names)})" for text, names in off.items()]
            _log.warning(OPTIONAL, without=without, **self._fields(optional))
        if granted:
            _log.info(GRANTED, permissions=[_words(each, before[each]) for each in granted])
        if not self._missing:
            self._refusal = ""

    def _fields(self, permissions: Sequence[Permission]) -> dict[str, Any]:
        missing = [(each, self._missing[each]) for each in permissions]
        fields: dict[str, Any] = {"missing": [_words(*each) for each in missing]}
        if len(missing) <= MAX_RULES:
            fields["rules"] = missing_rules(missing)
        if self._refusal:
            fields["error"] = self._refusal
        return fields

    def _grant(self) -> str:
        """Return how to get the required permissions."""
        found = _ACCOUNT.search(self._refusal)
        if found is None:
            return ADVICE
        words = (*self.granting, "--service-account", f"{found[1]}/{found[2]}")
        return GRANT.format(command=shlex.join(words))

    def _gauge(self, permission: Permission, missing: tuple[str, ...]) -> None:
        for verb in permission.verbs:
            self._metrics.missing_permission(
                permission.qualified,
                verb,
                required=permission.required,
                missing=verb in missing,
            )

    # -- health ------------------------------------------------------------------------------------

    def ready(self) -> str | None:
        """Return why no pod can be scheduled, with the rules to add; None if nothing required."""
        required = [(each, verbs) for each, verbs in self._missing.items() if each.required]
        if not required:
            return None
        which = ", ".join(f"{'/'.join(verbs)} {each.qualified}" for each, verbs in required)
        return f"missing permissions: {which}; add these rules:\n{missing_rules(required)}"

    def alive(self) -> str | None:
        """Return what `ready` does once nothing has changed for `STUCK_SECONDS`."""
        stuck = self._clock.monotonic() - self._changed_at >= STUCK_SECONDS
        return self.ready() if stuck else None

    def degraded(self) -> str | None:
        """Return what is off for lack of an optional permission, or None."""
        off = [
            f"{'/'.join(verbs)} {each.qualified}: {each.without}"
            for each, verbs in self._missing.items()
            if not each.required
        ]
        return f"missing permissions: {'; '.join(off)}" if off else None


def _access(permission: Permission) -> Permission:
    """Return a permission without texts, which name the plugins that need it."""
    return replace(permission, purpose="", without="")


def _words(permission: Permission, verbs: Iterable[str]) -> str:
    where = f" in {permission.namespace}" if permission.namespace else ""
    return f"{'/'.join(verbs)} {permission.qualified}{where}"


def accesses(permission: Permission) -> tuple[Access, ...]:
    """Return what to review for a permission: each verb, and each name where there are any."""
    if not permission.resource:
        return ()
    return tuple(
        Access(
            verb=verb,
            resource=permission.resource,
            group=permission.group,
            namespace=permission.namespace,
            name=name,
        )
        for verb in permission.verbs
        for name in permission.names or ("",)
    )
