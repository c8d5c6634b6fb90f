"""Reviews of permissions: their results, requests and times."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.client.errors import ApiError, ConnectionFailed, StatusBody
from scheduler.framework import Permission
from scheduler.permissions.reviewer import (
    LAST_RETRY_SECONDS,
    REPEAT_SECONDS,
    PermissionReviewer,
)
from scheduler.permissions.state import PermissionState
from tests.unit.client.virtual_clock import ManualClock

BIND = Permission(resource="pods/binding", verbs=("create",), purpose="Binder")
BUDGETS = Permission(
    group="policy", resource="poddisruptionbudgets", verbs=("list", "watch"), purpose="P",
    without="none",
)  # fmt: skip
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
BINDINGS = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/binding"]}
CREATION = Permission(
    group="coordination.k8s.io", resource="leases", verbs=("create",), namespace="n", purpose="L"
)
RENEWAL = replace(CREATION, verbs=("get", "update"), names=("kubestow",))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/n/leases/kubestow"
RULES, ACCESS = "selfsubjectrulesreviews", "selfsubjectaccessreviews"


class Gauges:
    def missing_permission(
        self, resource: str, verb: str, *, required: bool, missing: bool
    ) -> None:
        """Accept."""


class Response:
    def __init__(self, body: object) -> None:
        self.body = json.dumps(body).encode()


class Server:
    """Answers like an API server that lists `rules`, allows `allowed` and has `served`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rules: list[dict[str, Any]] | None = []
        self.allowed: set[str] = set()
        self.served: list[str] = ["poddisruptionbudgets"]
        self.lease = False
        self.namespaces: set[str] = set()
        self.error: Exception | None = None
        self.requests: Counter[str] = Counter()
        #: Called once, during the next request.
        self.meanwhile: Callable[[], None] | None = None

    async def request(self, method: str, path: str, body: Any = None) -> Response:
        name = path.rsplit("/", 1)[-1] if method == "POST" else path
        self.requests[name] += 1
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        if self.error is not None:
            raise self.error
        if name == RULES:
            self.namespaces.add(body["spec"]["namespace"])
            if self.rules is None:
                raise ApiError(method, path, status=404, body=StatusBody())
            return Response({"status": {"resourceRules": self.rules, "incomplete": True}})
        if name == LEASE:
            if not self.lease:
                raise ApiError(method, path, status=404, body=StatusBody())
            return Response({})
        if name == ACCESS:
            asked = body["spec"]["resourceAttributes"]
            return Response({"status": {"allowed": asked["resource"] in self.allowed}})
        if path == "/apis/policy/v1" and not self.served:
            raise ApiError(method, path, status=404, body=StatusBody())
        if path.count("/") == 2:
            return Response({"versions": [{"version": "v1"}]})
        return Response({"resources": [{"name": each} for each in (*self.served, "pods")]})


@pytest.fixture
def server() -> Server:
    return Server()


def reviewer_of(server: Server) -> tuple[PermissionReviewer, PermissionState]:
    state = PermissionState(server.clock, Gauges())
    state.declare([BIND, BUDGETS])
    client: Any = server
    return PermissionReviewer(client, state, Random(1)), state


async def test_one_request_is_enough_where_all_is_granted(server: Server) -> None:
    server.rules = [EVERYTHING]
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    assert not state.missing
    assert server.requests == {RULES: 1}


async def test_what_an_incomplete_list_lacks_is_confirmed_one_by_one(server: Server) -> None:
    server.rules = [BINDINGS]
    server.allowed = {"poddisruptionbudgets"}
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    assert not state.missing
    assert server.requests == {RULES: 1, ACCESS: 2}


async def test_without_rules_reviews_each_access_is_reviewed(server: Server) -> None:
    server.rules = None
    server.allowed = {"pods"}
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    assert state.missing == {BUDGETS: ("list", "watch")}
    assert server.requests == {
        RULES: 1,
        ACCESS: 3,
        "/apis/policy": 1,
        "/apis/policy/v1": 1,
    }


async def test_what_the_server_does_not_have_is_not_missing(server: Server) -> None:
    server.rules, server.served = [BINDINGS], []
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    assert not state.missing


async def test_a_server_that_does_not_answer_changes_nothing(server: Server) -> None:
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    before = dict(state.missing)
    server.error = ConnectionFailed("POST", "/x", "refused", sent=False)
    await reviewer.review()
    assert state.missing == before != {}


async def test_a_review_that_fails_is_repeated_soon_and_logged_once(server: Server) -> None:
    server.error = ConnectionFailed("POST", "/x", "refused", sent=False)
    reviewer, state = reviewer_of(server)
    task = asyncio.create_task(reviewer.run())
    try:
        with capture_logs() as logs:
            await server.clock.advance(120)
            # Whoever follows objects says that the server cannot be reached.
            assert logs == []
            server.error = ApiError("POST", "/x", status=500, body=StatusBody())
            await server.clock.advance(120)
        assert [each["event"] for each in logs] == ["permissions cannot be reviewed"]
        server.error = None
        await server.clock.advance(LAST_RETRY_SECONDS * 1.5)
        assert state.missing
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_rules_are_listed_where_no_role_of_a_namespace_applies(server: Server) -> None:
    reviewer, _ = reviewer_of(server)
    await reviewer.review()
    assert all("." in each for each in server.namespaces)
    assert server.namespaces


@pytest.mark.parametrize("exists", [True, False])
async def test_a_lease_that_exists_need_not_be_created(server: Server, exists: bool) -> None:
    reviewer, state = reviewer_of(server)
    state.declare([CREATION, RENEWAL])
    server.lease, server.served = exists, ["leases"]
    await reviewer.review()
    assert state.missing == {
        RENEWAL: RENEWAL.verbs,
        **({} if exists else {CREATION: CREATION.verbs}),
    }


async def test_the_core_group_is_never_absent(server: Server) -> None:
    server.served = []
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    assert state.missing == {BIND: ("create",)}


async def test_reviews_are_frequent_only_while_something_is_missing(server: Server) -> None:
    reviewer, state = reviewer_of(server)
    task = asyncio.create_task(reviewer.run())
    try:
        await server.clock.advance(120)
        assert 6 <= server.requests[RULES] <= 12
        server.rules = [EVERYTHING]
        await server.clock.advance(LAST_RETRY_SECONDS * 1.5)
        assert not state.missing
        before = server.requests[RULES]
        await server.clock.advance(REPEAT_SECONDS - LAST_RETRY_SECONDS * 1.5)
        assert server.requests[RULES] - before <= 1
        server.rules = []
        await server.clock.advance(REPEAT_SECONDS)
        assert state.missing
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_forbidden_write_is_followed_by_a_review_at_once_but_not_by_many(
    server: Server,
) -> None:
    server.rules = [EVERYTHING]
    reviewer, state = reviewer_of(server)
    task = asyncio.create_task(reviewer.run())
    try:
        await server.clock.advance(LAST_RETRY_SECONDS)
        server.rules = []
        reviewer.write_forbidden()
        await server.clock.settle()
        assert BIND in state.missing
        server.rules = [EVERYTHING]
        await server.clock.advance(LAST_RETRY_SECONDS * 1.5)
        assert not state.missing
        before = server.requests[RULES]
        for _ in range(int(LAST_RETRY_SECONDS)):
            for _ in range(10):
                reviewer.write_forbidden()
            await server.clock.advance(1.0)
        assert server.requests[RULES] - before == 1
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_on_demand_permissions_are_not_reviewed(server: Server) -> None:
    reviewer, state = reviewer_of(server)
    nodes = Permission(resource="events", verbs=("list",), purpose="x", without="y", on_demand=True)
    state.declare([nodes])
    await reviewer.review()
    assert not state.missing


async def test_a_review_of_what_was_declared_before_is_repeated(server: Server) -> None:
    """A reload declares anew; with other texts the permissions are not equal to those before."""
    reviewer, state = reviewer_of(server)
    await reviewer.review()
    following = replace(BIND, purpose="Another binder")
    server.meanwhile = lambda: state.declare([following])
    await reviewer.review()
    assert state.missing == {following: ("create",)}
    assert server.requests[RULES] == 3


async def test_what_is_declared_anew_is_reviewed_at_once_and_soon_again(server: Server) -> None:
    server.rules = [BINDINGS]
    reviewer, state = reviewer_of(server)
    state.declare([BIND])
    task = asyncio.create_task(reviewer.run())
    try:
        await server.clock.advance(REPEAT_SECONDS / 2)
        assert not state.missing
        state.declare([BIND, BUDGETS])
        reviewer.review_now()
        await server.clock.settle()
        assert state.missing == {BUDGETS: ("list", "watch")}
        server.rules = [EVERYTHING]
        await server.clock.advance(LAST_RETRY_SECONDS * 1.5)
        assert not state.missing
    finally:
        task.cancel()
        await asyncio.wait((task,))
