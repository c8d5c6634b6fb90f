"""Unauthenticated clients cause fixed texts, one log line and few reviews."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from devtools.loop_time import pass_time
from scheduler.client.errors import ConnectionFailed
from scheduler.client.reviews import TokenReviewStatus
from scheduler.service.options import AccessOptions
from scheduler.service.serving import application
from scheduler.service.serving.access import Authenticator, Authorizer
from tests.integration.serving.conftest import EndpointClient, Open, Site, until_closed

CANARY = b"canary-31337"
MALFORMED = {
    "not http": CANARY + b" at all\r\n\r\n",
    "before HTTP/1.0": b"CONNECT " + CANARY + b"\r\n\r\n",
    "version": b"GET / HTTP/" + CANARY + b"\r\n\r\n",
    "header": b"GET / HTTP/1.1\r\nHost: x\r\n" + CANARY + b"\r\n\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : " + CANARY + b"\r\n\r\n",
    "length": b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: " + CANARY + b"\r\n\r\n",
    "two framings": b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\nX: " + CANARY + b"\r\n\r\n",
    "long line": b"GET /" + CANARY * 4_000 + b" HTTP/1.1\r\n\r\n",
    "long header": b"GET / HTTP/1.1\r\nX: " + CANARY * 4_000 + b"\r\n\r\n",
}


async def send(client: EndpointClient, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
    writer.write(data)
    received = await until_closed(reader)
    writer.close()
    return received


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_gets_a_fixed_text(opened: Open, site: Site, sent: bytes) -> None:
    async with opened(site) as client:
        with capture_logs() as lines:
            received = await send(client, sent)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"400"
    assert body == b"400 Bad Request\n"
    assert CANARY not in received
    assert b"Server:" not in head
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("malformed request", "warning")
    assert CANARY.decode() not in repr(line)
    assert "exc_info" not in line


async def test_many_malformed_requests_are_one_log_line(opened: Open, site: Site) -> None:
    async with opened(site) as client:
        with capture_logs() as lines:
            for _ in range(50):
                await send(client, MALFORMED["not http"])
    assert len(lines) == 1


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd", CANARY])
@pytest.mark.parametrize(
    ("line", "status"), [(b"GET /debug/x", b"200"), (b"PUT /debug/flags/v", b"400")]
)
async def test_a_content_coding_is_ignored(
    opened: Open, site: Site, coding: bytes, line: bytes, status: bytes
) -> None:
    site.debug["x"] = lambda _: [1]
    head = b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Encoding: "
    async with opened(site) as client:
        with capture_logs() as lines:
            received = await send(client, line + head + coding + b"\r\n\r\n\x8b4")
    assert received.startswith(b"HTTP/1.1 " + status)
    assert CANARY not in received
    assert not lines


async def test_a_request_with_endless_headers_is_bounded(opened: Open, site: Site) -> None:
    """Each header is within the limit, but they do not end."""
    async with opened(site) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5_000)))
        received = await until_closed(reader)
        writer.close()
    assert received.startswith(b"HTTP/1.0 400 ")


@pytest.mark.parametrize("expect", [b"100-continue", CANARY])
async def test_expectations_are_ignored(opened: Open, site: Site, expect: bytes) -> None:
    async with opened(site) as client:
        received = await send(
            client, b"GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: " + expect + b"\r\n\r\n"
        )
    assert received.startswith(b"HTTP/1.1 200 OK")
    assert CANARY not in received


async def test_a_body_that_never_comes_is_not_waited_for(opened: Open, site: Site) -> None:
    head = b"POST /configz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    async with opened(site) as client:
        sending = asyncio.create_task(send(client, head + b"1"))
        while not sending.done():
            # In steps, each shorter than the time that the request has to arrive.
            pass_time(0.05)
            await asyncio.sleep(0)
        assert sending.result().startswith(b"HTTP/1.1 405 ")


async def test_made_up_tokens_of_one_client_leave_room_for_others(
    opened: Open, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MAX_IN_FLIGHT_PER_CLIENT", 2)
    both, go_on = asyncio.Barrier(3), asyncio.Event()

    async def review(_: str) -> TokenReviewStatus:
        await both.wait()
        await go_on.wait()
        return TokenReviewStatus()

    async with opened(site, authenticator=Authenticator(review, AccessOptions())) as client:
        slow = [
            asyncio.create_task(client.request("/healthz", token=f"made-up-{i}")) for i in range(2)
        ]
        await both.wait()
        # The limit of this client is used up, but a probe without a token does not count.
        rejected = await client.request("/healthz", token="made-up")
        assert rejected.status == 429
        assert (await client.request("/healthz")).text == "ok"
        go_on.set()
        assert [(await each).status for each in slow] == [401, 401]
    assert rejected.headers["Retry-After"] == "1"


async def test_a_rejected_token_is_reviewed_once(opened: Open, site: Site) -> None:
    reviews = 0

    async def review(_: str) -> TokenReviewStatus:
        nonlocal reviews
        reviews += 1
        return TokenReviewStatus()

    async with opened(
        site,
        authenticator=Authenticator(review, AccessOptions()),
        authorizer=Authorizer(None, AccessOptions()),
    ) as client:
        for _ in range(20):
            assert (await client.request("/metrics", token="made-up")).status == 401
    assert reviews == 1


async def test_an_unreachable_api_server_is_one_log_line(opened: Open, site: Site) -> None:
    async def review(_: str) -> TokenReviewStatus:
        raise ConnectionFailed("POST", "/apis", "refused", sent=False)

    async with opened(site, authenticator=Authenticator(review, AccessOptions())) as client:
        with capture_logs() as lines:
            for number in range(20):
                assert (await client.request("/metrics", token=f"made-up-{number}")).status == 401
    assert [line["event"] for line in lines] == ["cannot authenticate a request"]
