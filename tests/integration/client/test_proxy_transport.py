"""Through an HTTP proxy: the same responses and errors as directly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ConnectionFailed, RequestTimeout
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.http.tls import ClientTls
from scheduler.client.transport import Transport, read_error_body
from scheduler.service.serving.self_signed import make_pair
from tests.integration.client.faulty_server import until
from tests.integration.client.scripted_server import (
    OK,
    PATIENCE,
    TIMEOUT,
    Step,
    never,
    sends,
    serving,
)

HEADERS = HeaderBlock({"Accept": "application/json"})
GET = Request("GET", "/x", HEADERS)
POST = Request("POST", "/x", HEADERS, b"{}")


def through(port: int) -> Transport:
    return Transport(ClientConfiguration("http://api.invalid", proxy=f"http://127.0.0.1:{port}"))


async def test_the_request_goes_to_the_proxy() -> None:
    script = sends(b"HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno")
    async with serving(script) as server, through(server.port) as transport:
        response = await transport.exchange(Request("GET", "/x?y=z", HEADERS), PATIENCE)
    # api.invalid does not resolve: only a proxy can have responded.
    assert (response.status, response.body, response.header("retry-after")) == (429, b"no", "3")


async def test_a_watch_through_the_proxy() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    script = sends(head, b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n")
    async with (
        serving(script) as server,
        through(server.port) as transport,
        transport.stream(GET, idle_timeout=PATIENCE) as stream,
    ):
        assert (stream.status, await read_error_body(stream)) == (200, b"onetwo")


async def test_a_new_client_certificate_is_not_used_on_old_connections() -> None:
    tls = ClientTls()
    async with serving(*[sends(OK)] * 6) as server:
        proxy = f"http://127.0.0.1:{server.port}"
        configuration = ClientConfiguration("http://api.invalid", tls, proxy=proxy)
        async with Transport(configuration) as transport:
            for expected in (1, 2, 3):
                for _ in range(2):
                    response = await transport.exchange(GET, PATIENCE)
                    assert (response.body, server.connections) == (b"ok", expected)
                tls.use_certificate(*make_pair(datetime.now(UTC), timedelta(days=1)))
            # Only the last one and the one before are kept.
            await until(lambda: server.ended == 1)
        await until(lambda: server.ended == 3)


@pytest.mark.parametrize(
    ("step", "error"), [(sends(close=True), ConnectionFailed), (never, RequestTimeout)]
)
async def test_faults_become_the_same_errors(step: Step, error: type[Exception]) -> None:
    async with serving(step) as server, through(server.port) as transport:
        with pytest.raises(error) as caught:
            await transport.exchange(POST, TIMEOUT if step is never else PATIENCE)
        assert getattr(caught.value, "sent")  # noqa: B009 - both have it, their base does not


async def test_a_proxy_that_is_not_there() -> None:
    async with through(1) as transport:
        with pytest.raises(ConnectionFailed) as caught:
            await transport.exchange(POST, PATIENCE)
        assert not caught.value.outcome_unknown


async def test_a_proxy_that_wants_another_password_does_not_show_ours() -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with serving(sends(refusal, close=True)) as server:
        proxy = f"http://user:canary@127.0.0.1:{server.port}"
        configuration = ClientConfiguration("https://api.invalid", ClientTls(), proxy=proxy)
        async with Transport(configuration) as transport:
            with pytest.raises(ConnectionFailed, match="responded 407") as caught:
                await transport.exchange(GET, PATIENCE)
    assert "canary" not in str(caught.value)


async def test_a_write_that_waited_for_its_connection_is_guarded() -> None:
    """The guard runs as without a proxy: meanwhile the Lease may have been lost."""
    calls: list[str] = []

    def guard() -> None:
        calls.append("checked")
        if len(calls) == 1:
            raise LookupError("too late")

    async with serving(sends(OK), sends(OK)) as server, through(server.port) as transport:
        guarded = Request("POST", "/x", HEADERS, b"{}", guard=guard)

        async def post() -> None:
            await transport.exchange(guarded, PATIENCE)

        with pytest.raises(LookupError, match="too late"):
            await post()
        assert server.requests == 0
        await post()
        assert calls == ["checked", "checked"]
        await post()
        assert (calls, server.requests) == (["checked", "checked"], 2)
