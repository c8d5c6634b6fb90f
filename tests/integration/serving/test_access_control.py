"""Access control over TLS, with reviews of a real (embedded) API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.credentials import StaticCredentials
from scheduler.client.errors import ApiError, StatusBody
from scheduler.client.rest import ApiClient
from scheduler.client.reviews import review_access, review_token
from scheduler.client.transport import Transport
from scheduler.service.options import AccessOptions
from scheduler.service.serving.access import Authenticator, Authorizer
from simulator import EmbeddedCluster
from simulator.subresources import Reviewer
from tests.integration.serving.conftest import Open, Site

USERS: dict[str, dict[str, Any]] = {
    "prometheus": {"username": "system:serviceaccount:monitoring:prometheus", "uid": "7"},
    "unprivileged": {"username": "system:serviceaccount:default:unprivileged"},
    "admin": {"username": "admin", "groups": ["system:masters"]},
}


def may(spec: dict[str, Any]) -> bool:
    """Decide as RBAC would: Prometheus may read metrics."""
    attributes = spec["nonResourceAttributes"]
    groups = spec.get("groups") or []
    known = "system:authenticated" in groups or "system:unauthenticated" in groups
    return bool(
        known
        and spec["user"] == USERS["prometheus"]["username"]
        and attributes == {"path": "/metrics", "verb": "get"}
    )


@pytest.fixture
async def client() -> AsyncIterator[ApiClient]:
    reviewer = Reviewer(authenticate=USERS.get, allow=may)
    async with EmbeddedCluster(reviewer=reviewer, controllers=()) as cluster:
        configuration = ClientConfiguration(cluster.url, credentials=StaticCredentials("own"))
        async with Transport(configuration) as transport:
            yield ApiClient(transport)


def forbidden(user: str, verb: str, path: str) -> str:
    return (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":'
        f'"forbidden: User \\"{user}\\" cannot {verb} path \\"{path}\\"",'
        '"reason":"Forbidden","details":{},"code":403}\n'
    )


UNAUTHORIZED = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    '"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
)
ANONYMOUS = "system:anonymous"
UNPRIVILEGED = "system:serviceaccount:default:unprivileged"


@pytest.mark.parametrize(
    ("token", "method", "path", "status", "body"),
    [
        ("", "GET", "/healthz", 200, "ok"),
        ("", "GET", "/livez", 200, "ok"),
        ("", "GET", "/readyz", 200, "ok"),
        ("", "GET", "/readyz/shutdown", 403, forbidden(ANONYMOUS, "get", "/readyz/shutdown")),
        ("", "GET", "/healthz/", 403, forbidden(ANONYMOUS, "get", "/healthz/")),
        ("", "GET", "/metrics", 403, forbidden(ANONYMOUS, "get", "/metrics")),
        ("", "GET", "/metrics/slis", 403, forbidden(ANONYMOUS, "get", "/metrics/slis")),
        ("", "GET", "/metrics/resources", 403, None),
        ("", "GET", "/configz", 403, None),
        ("", "GET", "/version", 403, None),
        ("", "GET", "/debug", 403, None),
        ("", "GET", "/debug/queue", 403, None),
        ("", "PUT", "/debug/flags/v", 403, forbidden(ANONYMOUS, "put", "/debug/flags/v")),
        # The response does not reveal which paths exist.
        ("", "GET", "/nope", 403, forbidden(ANONYMOUS, "get", "/nope")),
        ("", "POST", "/metrics", 403, forbidden(ANONYMOUS, "post", "/metrics")),
        ("made-up", "GET", "/metrics", 401, UNAUTHORIZED),
        ("made-up", "GET", "/healthz", 401, UNAUTHORIZED),
        ("unprivileged", "GET", "/metrics", 403, forbidden(UNPRIVILEGED, "get", "/metrics")),
        ("unprivileged", "GET", "/healthz", 200, "ok"),
        ("prometheus", "GET", "/metrics", 200, None),
        ("prometheus", "DELETE", "/metrics", 403, None),
        ("prometheus", "GET", "/configz", 403, None),
        ("admin", "GET", "/configz", 200, None),
        ("admin", "DELETE", "/metrics", 200, "metrics reset\n"),
        ("admin", "GET", "/nope", 404, "404 page not found\n"),
    ],
)
async def test_the_api_server_authorizes(
    opened: Open,
    site: Site,
    client: ApiClient,
    token: str,
    method: str,
    path: str,
    status: int,
    body: str | None,
) -> None:
    options = AccessOptions()
    async with opened(
        site,
        authenticator=Authenticator(partial(review_token, client), options),
        authorizer=Authorizer(partial(review_access, client), options),
    ) as endpoints:
        response = await endpoints.request(path, method, token)
    assert response.status == status
    if body is not None:
        assert response.text == body


@pytest.mark.parametrize("token", ["", "admin"])
@pytest.mark.parametrize(("path", "status"), [("/readyz", 200), ("/metrics", 403), ("/x", 403)])
async def test_without_a_cluster_all_but_health_is_forbidden(
    opened: Open, site: Site, token: str, path: str, status: int
) -> None:
    options = AccessOptions()
    async with opened(
        site,
        authenticator=Authenticator(None, options),
        authorizer=Authorizer(None, options),
    ) as endpoints:
        response = await endpoints.request(path, token=token)
    assert response.status == status
    if status == 403:
        assert json.loads(response.text)["message"] == (
            f'forbidden: User "system:anonymous" cannot get path "{path}"'
        )


async def test_without_the_api_server_health_is_served_and_the_rest_rejected(
    opened: Open, site: Site
) -> None:
    # The discard port of the loopback interface has no listener.
    async with Transport(ClientConfiguration("http://127.0.0.1:9")) as transport:
        client = ApiClient(transport)
        async with opened(
            site,
            authenticator=Authenticator(partial(review_token, client), AccessOptions()),
            authorizer=Authorizer(partial(review_access, client), AccessOptions()),
        ) as endpoints:
            assert (await endpoints.request("/readyz")).status == 200
            assert (await endpoints.request("/metrics", token="prometheus")).status == 401
            anonymous = await endpoints.request("/metrics")
    assert (anonymous.status, anonymous.text) == (
        500,
        'Internal Server Error: "/metrics": access could not be reviewed\n',
    )


async def test_a_scheduler_that_may_not_review_says_so_and_nothing_else(
    opened: Open, site: Site
) -> None:
    async def refuse(*_: object, **__: object) -> Any:
        text = 'User "system:serviceaccount:x:y" cannot create resource'
        body = StatusBody(message=text, reason="Forbidden")
        raise ApiError("POST", "/apis/secret", status=403, body=body)

    async with opened(
        site,
        authenticator=Authenticator(refuse, AccessOptions()),
        authorizer=Authorizer(refuse, AccessOptions()),
    ) as endpoints:
        assert (await endpoints.request("/readyz")).status == 200
        by_token = await endpoints.request("/metrics", token="prometheus")
        anonymous = await endpoints.request("/metrics")
    told = "this scheduler itself may not create tokenreviews"
    assert (by_token.status, by_token.text) == (
        401,
        UNAUTHORIZED.replace('"message":"Unauthorized"', f'"message":"{told}"'),
    )
    told = "this scheduler itself may not create subjectaccessreviews"
    assert (anonymous.status, anonymous.text) == (
        500,
        f'Internal Server Error: "/metrics": {told}\n',
    )


async def test_options_reach_the_reviews(opened: Open, site: Site, client: ApiClient) -> None:
    options = AccessOptions(always_allow_paths=("/metrics",))
    async with opened(
        site,
        authenticator=Authenticator(partial(review_token, client), options),
        authorizer=Authorizer(partial(review_access, client), options),
    ) as endpoints:
        assert (await endpoints.request("/metrics")).status == 200
        assert (await endpoints.request("/healthz")).status == 403
