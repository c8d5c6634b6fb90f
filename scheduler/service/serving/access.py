"""Authentication and authorisation of requests to the endpoints.

Both are delegated to the API server (TokenReview, SubjectAccessReview), so that the cluster's RBAC
decides. Results are cached for some seconds; concurrent equal reviews are sent once. Without an API
server every request is anonymous and only open paths are allowed, as upstream without a kubeconfig.
Tokens are never kept: the cache has their digests.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from scheduler.client.access_reviews import Access
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.reviews import (
    MAY_NOT_REVIEW,
    AccessReviewStatus,
    TokenReviewStatus,
    UserInfo,
)
from scheduler.service.options import AccessOptions
from scheduler.service.serving.readers import Reader
from scheduler.service.serving.review_cache import ReviewCache

ANONYMOUS: Final = UserInfo(username="system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED_GROUP: Final = "system:authenticated"
PRIVILEGED_GROUP: Final = "system:masters"

MAX_TOKEN_BYTES: Final = 16 * 1024
"""Longer ones are rejected without a review. Service account tokens have about 1 KiB."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The credentials of a request."""

    #: Bearer token; empty when there is none.
    token: str = field(default="", repr=False)
    #: The client certificate as `ssl.SSLSocket.getpeercert` gives it, verified; None without one.
    certificate: Mapping[str, Any] | None = None


ReviewToken = Callable[[str], Awaitable[TokenReviewStatus]]
"""`scheduler.client.reviews.review_token` through a client without leader fence."""


class ReviewAccess(Protocol):
    """`scheduler.client.reviews.review_access` through a client without leader fence."""

    def __call__(self, user: UserInfo, /, *, path: str, verb: str) -> Awaitable[AccessReviewStatus]:
        """Send a SubjectAccessReview."""
        ...


ReviewResourceAccess = Callable[[UserInfo, Access], Awaitable[AccessReviewStatus]]
"""`scheduler.client.reviews.review_resource_access` through a client without leader fence."""


class AccessUnknownError(Exception):
    """A review failed; the message gives the reason, for the log."""


class ReviewForbiddenError(AccessUnknownError):
    """The API server refused the review: our own permissions, or credentials, are missing.

    `told` is for the client, who may be anybody: it has nothing of the request or the response.
    """

    def __init__(self, text: str, resource: str) -> None:
        super().__init__(text)
        self.told = f"{MAY_NOT_REVIEW}{resource}"


class TokenReviewForbiddenError(ReviewForbiddenError):
    """The refused review was that of a token, so the user is not known."""


_REFUSED: Final = (401, 403)


def _unknown_user(error: RequestError) -> AccessUnknownError:
    text = f"cannot review a token: {error}"
    if isinstance(error, ApiError) and error.status in _REFUSED:
        return TokenReviewForbiddenError(text, "tokenreviews")
    return AccessUnknownError(text)


def _unknown_access(error: RequestError) -> AccessUnknownError:
    text = f"cannot review an access: {error}"
    if isinstance(error, ApiError) and error.status in _REFUSED:
        return ReviewForbiddenError(text, "subjectaccessreviews")
    return AccessUnknownError(text)


class Authenticator:
    """Authentication by client certificate, then by token; other requests are anonymous."""

    def __init__(
        self,
        review: ReviewToken | None,
        options: AccessOptions,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; without `review` tokens are ignored."""
        self._review = review
        self._ttl = options.token_ttl
        self._clock = clock or SystemClock()
        self._cache: ReviewCache[UserInfo | None] = ReviewCache(self._clock)

    async def authenticate(self, credentials: ClientCredentials) -> UserInfo | None:
        """Return the user; None if the credentials are invalid.

        Raises:
            AccessUnknownError: the review failed.
        """
        if credentials.certificate:
            if has_expired(credentials.certificate, self._clock.now()):
                return None
            user = certificate_user(credentials.certificate)
            if user is not None:
                return user
        if not credentials.token or self._review is None:
            return ANONYMOUS
        # A bearer token is ASCII (RFC 6750); a lone surrogate could not even be encoded as JSON.
        if len(credentials.token) > MAX_TOKEN_BYTES or not credentials.token.isascii():
            return None
        key = hashlib.sha256(credentials.token.encode()).digest()
        user_of = partial(self._user_of, self._review, credentials.token)
        return await self._cache.get(key, user_of, lambda _: self._ttl)

    async def _user_of(self, review: ReviewToken, token: str) -> UserInfo | None:
        try:
            status = await review(token)
        except RequestError as error:
            raise _unknown_user(error) from error
        if not status.authenticated:
            return None
        user = status.user
        if AUTHENTICATED_GROUP in user.groups:
            return user
        return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED_GROUP))


class Authorizer:
    """Authorisation of open paths and `system:masters`, then by the API server if there is one."""

    def __init__(
        self,
        review: ReviewAccess | None,
        options: AccessOptions,
        clock: Clock | None = None,
        *,
        review_resource: ReviewResourceAccess | None = None,
    ) -> None:
        """Prepare; without `review` all other paths are forbidden."""
        self._review = review
        self._review_resource = review_resource
        paths = options.always_allow_paths
        self._open = frozenset(path for path in paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._ttls = {True: options.authorized_ttl, False: options.unauthorized_ttl}
        self._cache: ReviewCache[bool] = ReviewCache(clock or SystemClock())

    async def authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether `user` may `verb` (an HTTP method in lower case) the path.

        Raises:
            AccessUnknownError: the review failed.
        """
        if self._is_open(path) or PRIVILEGED_GROUP in user.groups:
            return True
        if self._review is None:
            return False
        # A digest: clients choose the length of paths, and the cache is bounded by entries.
        access = (user.username, user.uid, user.groups, user.extra, verb, path)
        key = hashlib.sha256(repr(access).encode("utf-8", "surrogatepass")).digest()
        allowed = partial(self._allowed, self._review, user, verb, path)
        return await self._cache.get(key, allowed, self._ttls.__getitem__)

    async def reader(self, user: UserInfo, namespace: str) -> Reader | None:
        """Return the user as a reader of one namespace; None if it may not get the pods there.

        Raises:
            AccessUnknownError: a review failed.
        """
        if not await self._may(user, Access(verb="get", resource="pods", namespace=namespace)):
            return None
        return Reader(
            namespace,
            nodes=await self._may(user, Access(verb="list", resource="nodes")),
            pods=await self._may(user, Access(verb="get", resource="pods")),
        )

    async def _may(self, user: UserInfo, access: Access) -> bool:
        if self._review_resource is None:
            return False
        who = (user.username, user.uid, user.groups, user.extra, access)
        key = hashlib.sha256(repr(who).encode("utf-8", "surrogatepass")).digest()
        allowed = partial(self._allowed_resource, self._review_resource, user, access)
        return await self._cache.get(key, allowed, self._ttls.__getitem__)

    async def _allowed_resource(
        self, review: ReviewResourceAccess, user: UserInfo, access: Access
    ) -> bool:
        try:
            status = await review(user, access)
        except RequestError as error:
            raise _unknown_access(error) from error
        return status.allowed and not status.denied

    async def _allowed(self, review: ReviewAccess, user: UserInfo, verb: str, path: str) -> bool:
        try:
            status = await review(user, path=path, verb=verb)
        except RequestError as error:
            raise _unknown_access(error) from error
        return status.allowed and not status.denied

    def _is_open(self, path: str) -> bool:
        if path in self._open:
            return True
        # `..` could lead from an open prefix to another path.
        return path.startswith(self._open_prefixes) and ".." not in path.split("/")


def certificate_user(certificate: Mapping[str, Any]) -> UserInfo | None:
    """Return the user of a verified certificate: common name, organisations as groups."""
    subject = [pair for attribute in certificate.get("subject", ()) for pair in attribute]
    names = [value for key, value in subject if key == "commonName"]
    # The last of several, as Go and therefore the API server read them: one certificate names one
    # user everywhere.
    if not names or not names[-1]:
        return None
    groups = [value for key, value in subject if key == "organizationName"]
    return UserInfo(username=names[-1], groups=(*groups, AUTHENTICATED_GROUP))


def has_expired(certificate: Mapping[str, Any], now: float) -> bool:
    """Whether a verified certificate is no longer valid at this time, in seconds since the epoch.

    A resumed TLS session has the certificate of its first handshake, which OpenSSL does not verify
    again.
    """
    end = certificate.get("notAfter")
    return end is not None and ssl.cert_time_to_seconds(end) < now


def bearer_token(header: str | None) -> str:
    """Return the token of an `Authorization` header, or the empty string.

    >>> bearer_token("bearer abc"), bearer_token("Basic abc"), bearer_token(None)
    ('abc', '', '')
    """
    scheme, _, token = (header or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
