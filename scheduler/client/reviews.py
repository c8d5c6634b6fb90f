"""Delegated authentication and authorisation: TokenReview and SubjectAccessReview.

Reviews are POSTs that change nothing. Use a client without fence: the endpoints of a replica that
does not lead must work, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Object
from scheduler.client.access_reviews import Access
from scheduler.client.errors import MalformedResponse
from scheduler.client.rest import ApiClient

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  (a path)
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

MAY_NOT_REVIEW: Final = "this scheduler itself may not create "
"""Begins what clients are told if the API server refuses a review; the resource follows."""

R = TypeVar("R")


class UserInfo(Object):
    """The user of a token."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewStatus(Object):
    """The result for a token; `user` is valid only if `authenticated`."""

    authenticated: bool = False
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    audiences: tuple[str, ...] = ()
    error: str = ""


class AccessReviewStatus(Object):
    """The result for an access."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class _TokenReview(Object):
    status: TokenReviewStatus = msgspec.field(default_factory=TokenReviewStatus)


class _AccessReview(Object):
    status: AccessReviewStatus = msgspec.field(default_factory=AccessReviewStatus)


_token_review = msgspec.json.Decoder(_TokenReview)
_access_review = msgspec.json.Decoder(_AccessReview)


async def review_token(
    client: ApiClient, token: str, audiences: tuple[str, ...] = ()
) -> TokenReviewStatus:
    """Look up the user of a bearer token."""
    spec: dict[str, object] = {"token": token}
    if audiences:
        spec["audiences"] = audiences
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    return (await _review(client, _TOKEN_REVIEWS, body, _token_review)).status


async def review_access(
    client: ApiClient, user: UserInfo, *, path: str, verb: str
) -> AccessReviewStatus:
    """Check whether `user` may access the non-resource URL `path`; `verb` is lower case."""
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "nonResourceAttributes": {"path": path, "verb": verb},
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return (await _review(client, _ACCESS_REVIEWS, body, _access_review)).status


async def review_resource_access(
    client: ApiClient, user: UserInfo, access: Access
) -> AccessReviewStatus:
    """Check whether `user` may do this with objects."""
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "resourceAttributes": access.attributes(),
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return (await _review(client, _ACCESS_REVIEWS, body, _access_review)).status


async def _review(
    client: ApiClient, path: str, body: Mapping[str, object], decoder: msgspec.json.Decoder[R]
) -> R:
    response = await client.request("POST", path, body=body)
    try:
        return decode_json(decoder, response.body)
    except ValueError as error:
        raise MalformedResponse("POST", path, f"not a {body['kind']}: {error}") from error
