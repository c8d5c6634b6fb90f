"""The reviews behind `access`, sent to the API server through `scheduler.client`."""

from __future__ import annotations

from functools import partial

from scheduler.client.rest import ApiClient
from scheduler.client.reviews import UserInfo, review_access, review_token
from scheduler.service.options import AccessOptions
from scheduler.service.serving.access import DelegatedAuthenticator, DelegatedAuthorizer


def delegated_authenticator(
    client: ApiClient | None, options: AccessOptions
) -> DelegatedAuthenticator:
    """Return an authenticator by TokenReview; `client` has no leader fence, None: no kubeconfig."""
    review = None if client is None else partial(_token_user, client)
    return DelegatedAuthenticator(review, ttl=options.token_ttl)


def delegated_authorizer(client: ApiClient | None, options: AccessOptions) -> DelegatedAuthorizer:
    """Return an authorizer by SubjectAccessReview; `client` as in `delegated_authenticator`."""
    review = None if client is None else partial(_allowed, client)
    return DelegatedAuthorizer(
        review,
        open_paths=options.always_allow_paths,
        allowed_ttl=options.authorized_ttl,
        denied_ttl=options.unauthorized_ttl,
    )


async def _token_user(client: ApiClient, token: str) -> UserInfo | None:
    status = await review_token(client, token)
    return status.user if status.authenticated else None


async def _allowed(client: ApiClient, user: UserInfo, verb: str, path: str) -> bool:
    status = await review_access(client, user, path=path, verb=verb)
    return status.allowed and not status.denied
