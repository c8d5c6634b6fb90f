"""Authentication and authorisation of requests to the endpoints.

Both are delegated to the API server (TokenReview, SubjectAccessReview), so that the cluster's RBAC
decides. Results are cached for ten seconds; concurrent equal reviews are sent once. Without a
client every request is anonymous and only open paths are allowed, as upstream without a kubeconfig.
Tokens are never kept: the cache has their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import structlog

from scheduler.client.clock import Clock, SystemClock
from scheduler.client.errors import RequestError
from scheduler.client.reviews import UserInfo
from scheduler.service.serving.review_cache import ReviewCache

_log = structlog.get_logger(__name__)

ANONYMOUS: Final = UserInfo(username="system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED_GROUP: Final = "system:authenticated"
PRIVILEGED_GROUP: Final = "system:masters"
DEFAULT_OPEN_PATHS: Final = ("/healthz", "/readyz", "/livez")

TTL_SECONDS: Final = 10.0
"""How long an answer is remembered, upstream's default: a revoked token is refused soon, and a
scraper every few seconds costs the API server little."""

MAX_TOKEN_BYTES: Final = 16 * 1024
"""Longer ones are refused unseen. Service account tokens have about 1 KiB."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a request."""

    #: Bearer token; empty when there is none.
    token: str = field(default="", repr=False)
    #: The client certificate as `ssl.SSLSocket.getpeercert` gives it, verified; None without one.
    certificate: Mapping[str, Any] | None = None


class AccessUnknownError(Exception):
    """A review failed; the message gives the reason, for the log."""


class Authenticator(Protocol):
    """Authentication of requests."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """Return the user; None if the credentials are invalid.

        Raises:
            AccessUnknownError: the review failed.
        """
        ...


class Authorizer(Protocol):
    """Authorisation of users."""

    async def authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether `user` may `verb` (an HTTP method in lower case) the path.

        Raises:
            AccessUnknownError: the review failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenReviewResult:
    """A reviewed token: its user, or None."""

    user: UserInfo | None


ReviewToken = Callable[[str], Awaitable[UserInfo | None]]
"""Review a token; return its user, or None if it is invalid."""

ReviewAccess = Callable[[UserInfo, str, str], Awaitable[bool]]
"""Ask whether a user may `verb` a path."""


class DelegatedAuthenticator:
    """Authenticator by client certificate, then by token; other requests are anonymous."""

    def __init__(
        self,
        review: ReviewToken | None = None,
        *,
        ttl: float = TTL_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; without `review` tokens are ignored."""
        self._review = review
        self._ttl = ttl
        self._cache: ReviewCache[TokenReviewResult] = ReviewCache(clock or SystemClock())

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """See `Authenticator`."""
        if credentials.certificate:
            user = certificate_user(credentials.certificate)
            if user is not None:
                return user
        if not credentials.token or self._review is None:
            return ANONYMOUS
        # No token has other characters (RFC 6750), and a TokenReview could not carry all of them.
        if len(credentials.token) > MAX_TOKEN_BYTES or not credentials.token.isascii():
            return None
        key = hashlib.sha256(credentials.token.encode()).digest()
        ask = partial(self._ask, self._review, credentials.token)
        return (await self._cache.get(key, ask, lambda _: self._ttl)).user

    async def _ask(self, review: ReviewToken, token: str) -> TokenReviewResult:
        try:
            user = await review(token)
        except RequestError as error:
            raise AccessUnknownError(f"cannot review a token: {error}") from error
        if user is None:
            return TokenReviewResult(None)
        return TokenReviewResult(_with_group(user, AUTHENTICATED_GROUP))


class DelegatedAuthorizer:
    """Authorizer of open paths and `system:masters`, then by the API server if there is one."""

    def __init__(
        self,
        review: ReviewAccess | None = None,
        *,
        open_paths: Sequence[str] = DEFAULT_OPEN_PATHS,
        allowed_ttl: float = TTL_SECONDS,
        denied_ttl: float = TTL_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; `open_paths` are matched exactly, or by prefix with a trailing `*`."""
        self._review = review
        self._open = frozenset(path for path in open_paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in open_paths if path.endswith("*"))
        self._ttls = {True: allowed_ttl, False: denied_ttl}
        self._cache: ReviewCache[bool] = ReviewCache(clock or SystemClock())

    async def authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        """See `Authorizer`."""
        if self._is_open(path) or PRIVILEGED_GROUP in user.groups:
            return True
        if self._review is None:
            return False
        # A digest: clients choose the length of paths, and the cache is bounded by entries.
        question = (user.username, user.uid, user.groups, user.extra, verb, path)
        key = hashlib.sha256(repr(question).encode("utf-8", "surrogatepass")).digest()
        ask = partial(self._ask, self._review, user, verb, path)
        return await self._cache.get(key, ask, self._ttls.__getitem__)

    async def _ask(self, review: ReviewAccess, user: UserInfo, verb: str, path: str) -> bool:
        try:
            return await review(user, verb, path)
        except RequestError as error:
            raise AccessUnknownError(f"cannot review an access: {error}") from error

    def _is_open(self, path: str) -> bool:
        if path in self._open:
            return True
        # A prefix must not open what `..` leads out of.
        return path.startswith(self._open_prefixes) and ".." not in path.split("/")


def certificate_user(certificate: Mapping[str, Any]) -> UserInfo | None:
    """Return the user of a verified certificate: common name, organisations as groups."""
    subject = [pair for attribute in certificate.get("subject", ()) for pair in attribute]
    names = [value for key, value in subject if key == "commonName"]
    if not names:
        return None
    groups = [value for key, value in subject if key == "organizationName"]
    return UserInfo(username=names[0], groups=(*groups, AUTHENTICATED_GROUP))


def bearer_token(header: str | None) -> str:
    """Return the token of an `Authorization` header, or the empty string.

    >>> bearer_token("bearer abc"), bearer_token("Basic abc"), bearer_token(None)
    ('abc', '', '')
    """
    scheme, _, token = (header or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _with_group(user: UserInfo, group: str) -> UserInfo:
    if group in user.groups:
        return user
    return UserInfo(
        username=user.username, uid=user.uid, groups=(*user.groups, group), extra=user.extra
    )
