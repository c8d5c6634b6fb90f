"""Authentication and authorization without sockets, and the number of reviews."""

from __future__ import annotations

import asyncio
import gc

import pytest

from scheduler.client.errors import ApiError, ConnectionFailed, RequestError, StatusBody
from scheduler.client.reviews import AccessReviewStatus, TokenReviewStatus, UserInfo
from scheduler.service.options import AccessOptions
from scheduler.service.serving.access import (
    ANONYMOUS,
    MAX_TOKEN_BYTES,
    AccessUnknownError,
    Authenticator,
    Authorizer,
    ClientCredentials,
    ReviewForbiddenError,
    TokenReviewForbiddenError,
    bearer_token,
)
from scheduler.service.serving.review_cache import ReviewCache
from tests.unit.client.virtual_clock import ManualClock

OPTIONS = AccessOptions()
ALICE = UserInfo(username="alice", groups=("dev",))
CERTIFICATE = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("organizationName", "ops"), ("commonName", "carol")),
    )
}


class Reviews:
    """An API server with one valid token, which counts reviews."""

    def __init__(self) -> None:
        self.tokens = 0
        self.accesses: list[tuple[str, str, str]] = []
        self.down = False
        self.failure: RequestError = ConnectionFailed("POST", "/apis", "refused", sent=False)
        self.allowed = {("alice", "get", "/metrics"), ("alice", "get", "/denied")}
        self.denied = {("alice", "get", "/denied")}

    async def token(self, token: str) -> TokenReviewStatus:
        self.tokens += 1
        self._fail_if_down()
        good = token == "good"
        return TokenReviewStatus(authenticated=good, user=ALICE if good else UserInfo())

    async def access(self, user: UserInfo, *, path: str, verb: str) -> AccessReviewStatus:
        access = (user.username, verb, path)
        self.accesses.append(access)
        self._fail_if_down()
        return AccessReviewStatus(allowed=access in self.allowed, denied=access in self.denied)

    def _fail_if_down(self) -> None:
        if self.down:
            raise self.failure


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize(
    ("credentials", "name", "groups"),
    [
        (ClientCredentials(), "system:anonymous", ("system:unauthenticated",)),
        (ClientCredentials("good"), "alice", ("dev", "system:authenticated")),
        (ClientCredentials("bad"), None, ()),
        (ClientCredentials("x" * (MAX_TOKEN_BYTES + 1)), None, ()),
        # A header that is not UTF-8 is decoded to this.
        (ClientCredentials("\udcff"), None, ()),
        (
            ClientCredentials("", CERTIFICATE),
            "carol",
            ("system:masters", "ops", "system:authenticated"),
        ),
        # The certificate was verified already; the token need not be looked at.
        (
            ClientCredentials("bad", CERTIFICATE),
            "carol",
            ("system:masters", "ops", "system:authenticated"),
        ),
        (ClientCredentials("good", {"subject": ()}), "alice", ("dev", "system:authenticated")),
    ],
)
async def test_credentials_name_a_user(
    reviews: Reviews, credentials: ClientCredentials, name: str | None, groups: tuple[str, ...]
) -> None:
    user = await Authenticator(reviews.token, OPTIONS).authenticate(credentials)
    assert (user.username if user else None) == name
    assert (user.groups if user else ()) == groups


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        # As Go, and therefore the API server, reads several names.
        (((("commonName", "first"),), (("commonName", "last"),)), "last"),
        (((("commonName", "first"),), (("commonName", ""),)), "system:anonymous"),
        (((("commonName", ""),),), "system:anonymous"),
        (((("organizationName", "system:masters"),),), "system:anonymous"),
        (((("commonName", "a\n\x1b[31mb\0"),),), "a\n\x1b[31mb\0"),
    ],
)
async def test_a_subject_has_one_name_or_none(subject: object, name: str) -> None:
    user = await Authenticator(None, OPTIONS).authenticate(
        ClientCredentials("", {"subject": subject})
    )
    assert user is not None
    assert user.username == name
    assert ("system:masters" in user.groups) is False


async def test_a_certificate_that_expired_since_its_session_began_is_refused() -> None:
    clock = ManualClock()
    certificate = {**CERTIFICATE, "notAfter": "Nov 14 22:14:20 2023 GMT"}
    authenticator = Authenticator(None, OPTIONS, clock)
    user = await authenticator.authenticate(ClientCredentials("", certificate))
    assert user is not None
    assert user.username == "carol"
    await clock.advance(61)
    assert await authenticator.authenticate(ClientCredentials("", certificate)) is None


async def test_without_an_api_server_a_token_means_nothing() -> None:
    assert await Authenticator(None, OPTIONS).authenticate(ClientCredentials("good")) is ANONYMOUS


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Bearer", ""),
        ("Basic abc", ""),
        ("abc", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_only_bearer_tokens_are_read(header: str | None, token: str) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("user", "verb", "path", "with_server", "allowed", "reviewed"),
    [
        (ANONYMOUS, "get", "/healthz", True, True, 0),
        (ANONYMOUS, "get", "/readyz", False, True, 0),
        (ANONYMOUS, "get", "/livez", False, True, 0),
        # Exactly these: single checks give reasons.
        (ANONYMOUS, "get", "/readyz/shutdown", True, False, 1),
        (ANONYMOUS, "get", "/healthz/", True, False, 1),
        (ANONYMOUS, "get", "/metrics", True, False, 1),
        (ANONYMOUS, "get", "/metrics", False, False, 0),
        (ALICE, "get", "/metrics", True, True, 1),
        (ALICE, "delete", "/metrics", True, False, 1),
        (ALICE, "get", "/denied", True, False, 1),
        (ALICE, "get", "/metrics", False, False, 0),
        (UserInfo(username="root", groups=("system:masters",)), "put", "/x", False, True, 0),
    ],
)
async def test_access(
    reviews: Reviews,
    user: UserInfo,
    verb: str,
    path: str,
    with_server: bool,
    allowed: bool,
    reviewed: int,
) -> None:
    authorizer = Authorizer(reviews.access if with_server else None, OPTIONS)
    assert await authorizer.authorize(user, verb, path) is allowed
    assert len(reviews.accesses) == reviewed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/open/a", True),
        ("/open/", True),
        ("/open", False),
        ("/open/../metrics", False),
        ("/exact", True),
        ("/exact/a", False),
        ("/healthz", False),
    ],
)
async def test_open_paths_are_exact_or_prefixes(path: str, allowed: bool) -> None:
    authorizer = Authorizer(None, AccessOptions(always_allow_paths=("/open/*", "/exact")))
    assert await authorizer.authorize(ANONYMOUS, "get", path) is allowed


async def test_results_are_cached_for_ten_seconds(reviews: Reviews, clock: ManualClock) -> None:
    authenticator = Authenticator(reviews.token, OPTIONS, clock)
    authorizer = Authorizer(reviews.access, OPTIONS, clock)

    async def ask() -> None:
        await authenticator.authenticate(ClientCredentials("good"))
        await authenticator.authenticate(ClientCredentials("bad"))
        await authorizer.authorize(ALICE, "get", "/metrics")
        await authorizer.authorize(ALICE, "get", "/configz")

    await ask()
    clock.jump(9.9)
    await ask()
    assert (reviews.tokens, len(reviews.accesses)) == (2, 2)
    clock.jump(0.2)
    await ask()
    assert (reviews.tokens, len(reviews.accesses)) == (4, 4)


async def test_allowed_and_denied_have_their_own_times(
    reviews: Reviews, clock: ManualClock
) -> None:
    options = AccessOptions(authorized_ttl=20.0, unauthorized_ttl=0.0)
    authorizer = Authorizer(reviews.access, options, clock)
    for _ in range(2):
        await authorizer.authorize(ALICE, "get", "/metrics")
        await authorizer.authorize(ALICE, "get", "/configz")
        clock.jump(15.0)
    assert [path for *_, path in reviews.accesses] == ["/metrics", "/configz", "/configz"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_review_that_the_api_server_forbids_tells_no_more_than_that(
    reviews: Reviews, status: int
) -> None:
    body = StatusBody(message="User kubestow-account cannot create", reason="Forbidden")
    reviews.down, reviews.failure = True, ApiError("POST", "/apis", status=status, body=body)
    with pytest.raises(TokenReviewForbiddenError, match="kubestow-account") as token:
        await Authenticator(reviews.token, OPTIONS).authenticate(ClientCredentials("good"))
    with pytest.raises(ReviewForbiddenError, match="kubestow-account") as access:
        await Authorizer(reviews.access, OPTIONS).authorize(ALICE, "get", "/metrics")
    assert token.value.told == "this scheduler itself may not create tokenreviews"
    assert access.value.told == "this scheduler itself may not create subjectaccessreviews"


async def test_a_failed_review_is_reported_and_not_cached(reviews: Reviews) -> None:
    authenticator = Authenticator(reviews.token, OPTIONS)
    authorizer = Authorizer(reviews.access, OPTIONS)
    reviews.down = True
    with pytest.raises(AccessUnknownError, match=r"cannot review a token: .*refused"):
        await authenticator.authenticate(ClientCredentials("good"))
    with pytest.raises(AccessUnknownError, match=r"cannot review an access: .*refused"):
        await authorizer.authorize(ALICE, "get", "/metrics")
    reviews.down = False
    assert await authenticator.authenticate(ClientCredentials("good")) is not None
    assert await authorizer.authorize(ALICE, "get", "/metrics")


async def test_users_are_distinguished_by_all_their_attributes(reviews: Reviews) -> None:
    authorizer = Authorizer(reviews.access, OPTIONS)
    for user in (
        ALICE,
        UserInfo(username="alice", groups=("dev", "more")),
        UserInfo(username="alice", groups=("dev",), uid="1"),
        UserInfo(username="alice", groups=("dev",), extra={"scope": ("a",)}),
        UserInfo(username="alice", groups=("dev",)),
    ):
        await authorizer.authorize(user, "get", "/metrics")
    assert len(reviews.accesses) == 4


class Gate:
    """A review that waits until the test opens the gate."""

    def __init__(self) -> None:
        self.reviews = 0
        self.running = 0
        self.most = 0
        self.open = asyncio.Event()

    async def review(self) -> str:
        self.reviews += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.open.wait()
        finally:
            self.running -= 1
        return "result"


async def test_concurrent_equal_reviews_are_sent_once(clock: ManualClock) -> None:
    cache: ReviewCache[str] = ReviewCache(clock)
    gate = Gate()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(cache.get("key", gate.review, lambda _: 10.0))
        await clock.settle()
        gate.open.set()
    assert gate.reviews == 1


async def test_a_cancelled_review_is_sent_by_the_next_caller(clock: ManualClock) -> None:
    cache: ReviewCache[str] = ReviewCache(clock)
    gate = Gate()
    first = asyncio.create_task(cache.get("key", gate.review, lambda _: 10.0))
    second = asyncio.create_task(cache.get("key", gate.review, lambda _: 10.0))
    await clock.settle()
    first.cancel()
    await clock.settle()
    gate.open.set()
    assert await second == "result"
    assert gate.reviews == 2
    del first, second
    gc.collect()
    assert not cache._locks


async def test_few_reviews_are_sent_at_once(clock: ManualClock) -> None:
    cache: ReviewCache[str] = ReviewCache(clock, concurrent=3)
    gate = Gate()
    async with asyncio.TaskGroup() as tasks:
        for key in range(20):
            tasks.create_task(cache.get(key, gate.review, lambda _: 10.0))
        await clock.settle()
        gate.open.set()
    assert (gate.reviews, gate.most) == (20, 3)


async def test_the_cache_is_bounded_and_drops_the_oldest(clock: ManualClock) -> None:
    cache: ReviewCache[str] = ReviewCache(clock, entries=2)
    gate = Gate()
    gate.open.set()
    for key in ("a", "b", "c", "c", "a"):
        await cache.get(key, gate.review, lambda _: 10.0)
    assert len(cache) == 2
    assert gate.reviews == 4


async def test_reviews_have_the_rate_of_upstreams_client(clock: ManualClock) -> None:
    """A burst of made-up tokens is no burst of reviews: 400 at once, then 200 a second."""
    reviews = Reviews()
    authenticator = Authenticator(reviews.token, OPTIONS, clock)

    async def present(number: int) -> None:
        await authenticator.authenticate(ClientCredentials(f"made-up {number}"))

    tasks = [asyncio.create_task(present(number)) for number in range(2_000)]
    while reviews.tokens < 400:
        await clock.settle()
    await clock.settle()
    assert reviews.tokens == 400
    for second in (1, 2, 3):
        await clock.advance(1.0)
        assert reviews.tokens == pytest.approx(400 + 200 * second, abs=1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_long_paths_cost_the_cache_nothing(clock: ManualClock) -> None:
    reviews = Reviews()
    authorizer = Authorizer(reviews.access, OPTIONS, clock)
    for _ in range(2):
        assert not await authorizer.authorize(ALICE, "get", "/x" * 16_000)
    assert len(reviews.accesses) == 1
    (key,) = authorizer._cache._results
    assert isinstance(key, bytes)
    assert len(key) == 32


def test_a_token_is_in_no_representation() -> None:
    assert "s3cret" not in repr(ClientCredentials("s3cret"))
