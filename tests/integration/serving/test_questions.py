"""Questions over HTTPS: who asks is counted by user, and refusals say when to ask again."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.client.reviews import AccessReviewStatus, TokenReviewStatus, UserInfo
from scheduler.service.options import AccessOptions
from scheduler.service.questions import (
    NotSyncedError,
    QuestionFailedError,
    TooManyQuestionsError,
    asking_user,
)
from scheduler.service.serving import application
from scheduler.service.serving.access import Authenticator, Authorizer
from tests.integration.serving.conftest import Open, Site, allow_anonymous

PATH = "/debug/whatif"


async def named(token: str) -> TokenReviewStatus:
    """A token is the name of its user."""
    return TokenReviewStatus(authenticated=True, user=UserInfo(username=token))


async def allowed(_: UserInfo, /, *, path: str, verb: str) -> AccessReviewStatus:
    return AccessReviewStatus(allowed=True)


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (NotSyncedError("not yet"), 503, "1"),
        (TooManyQuestionsError("too many"), 429, "1"),
        (QuestionFailedError("NodeName failed: out of order"), 500, None),
        (ValueError("nonsense"), 400, None),
        (LookupError("no such pod"), 404, None),
    ],
)
async def test_a_refusal_has_its_status(
    opened: Open, site: Site, error: Exception, status: int, retry: str | None
) -> None:
    async def refuse(_: bytes) -> object:
        raise error

    anyone = allow_anonymous(PATH)
    async with opened(site, authorizer=anyone, questions={"whatif": refuse}) as client:
        response = await client.request(PATH, "POST", data=b"{}")
    assert (response.status, response.text) == (status, f"{error}\n")
    assert response.headers.get("Retry-After") == retry


async def test_users_of_one_address_do_not_take_each_others_room(
    opened: Open, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients of a port-forward all have the address of the end of the tunnel."""
    monkeypatch.setattr(application, "MAX_IN_FLIGHT_PER_CLIENT", 2)
    asked, arrived, go_on = list[str](), asyncio.Semaphore(0), asyncio.Event()

    async def answer(_: bytes) -> object:
        asked.append(asking_user.get())
        arrived.release()
        await go_on.wait()
        return {}

    options = AccessOptions()
    async with opened(
        site,
        authenticator=Authenticator(named, options),
        authorizer=Authorizer(allowed, options),
        questions={"whatif": answer},
    ) as client:
        tasks = []
        for user in ("ann", "ann", "bob", "bob"):
            tasks.append(asyncio.create_task(client.request(PATH, "POST", user, data=b"{}")))
            await arrived.acquire()
        refused = await client.request(PATH, "POST", "ann", data=b"{}")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        go_on.set()
        assert [(await each).status for each in tasks] == [200] * 4
        assert (await client.request(PATH, "POST", "ann", data=b"{}")).status == 200
    assert asked == ["ann", "ann", "bob", "bob", "ann"]
