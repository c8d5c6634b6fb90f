"""Authorities of client certificates: read again and again, and withdrawn or kept."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
import structlog

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.service.serving.client_authorities import (
    MAX_CHARACTERS,
    REPEAT_SECONDS,
    ClientAuthorities,
    NoAuthoritiesError,
    NoServerError,
    of_cluster,
    of_file,
)
from tests.unit.client.virtual_clock import ManualClock


@dataclass
class Published:
    """A source that a test changes, and what was put in force."""

    answer: str | Exception = "one"
    trusted: list[str] = field(default_factory=list)
    reads: int = 0

    async def read(self) -> str:
        self.reads += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def trust(self, authorities: str) -> None:
        if authorities == "broken":
            raise ssl.SSLError("no start line")
        self.trusted.append(authorities)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@asynccontextmanager
async def running(published: Published, clock: ManualClock) -> AsyncIterator[None]:
    authorities = ClientAuthorities(published.read, published.trust, clock, Random(1))
    task = asyncio.create_task(authorities.run())
    await clock.settle()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_change_is_put_in_force_and_nothing_is_without_one(clock: ManualClock) -> None:
    published = Published()
    async with running(published, clock):
        await clock.advance(3 * REPEAT_SECONDS)
        assert (published.reads, published.trusted) == (4, ["one"])
        published.answer = "two"
        await clock.advance(REPEAT_SECONDS)
        published.answer = ""
        await clock.advance(REPEAT_SECONDS)
    assert published.trusted == ["one", "two", ""]


@pytest.mark.parametrize("answer", [NoAuthoritiesError("down"), "broken", "x" * 2 * MAX_CHARACTERS])
async def test_what_cannot_be_used_leaves_the_former_ones_and_is_logged_once(
    clock: ManualClock, log: list[structlog.typing.EventDict], answer: str | Exception
) -> None:
    published = Published()
    async with running(published, clock):
        published.answer = answer
        await clock.advance(10 * REPEAT_SECONDS)
        assert published.reads > 4
        assert published.trusted == ["one"]
        published.answer = "two"
        await clock.advance(2 * REPEAT_SECONDS)
    assert published.trusted == ["one", "two"]
    assert [line["event"] for line in log] == [
        "client certificates are accepted",
        "authorities of client certificates stay as they were",
        "client certificates are accepted",
    ]


async def test_without_any_from_the_start_tokens_are_named_and_the_first_ones_come_soon(
    clock: ManualClock, log: list[structlog.typing.EventDict]
) -> None:
    published = Published(NoAuthoritiesError("there is no ConfigMap"))
    async with running(published, clock):
        await clock.advance(2)
        published.answer = "one"
        await clock.advance(REPEAT_SECONDS / 2)
    assert published.trusted == ["one"]
    assert log[0]["event"] == "client certificates are not accepted, tokens are"
    assert log[0]["error"] == "there is no ConfigMap"


async def test_before_the_api_server_was_reached_nothing_is_said(
    clock: ManualClock, log: list[structlog.typing.EventDict]
) -> None:
    published = Published(NoServerError("refused"))
    async with running(published, clock):
        await clock.advance(3 * REPEAT_SECONDS)
        assert (log, published.reads > 4) == ([], True)
        published.answer = NoAuthoritiesError("there is no ConfigMap")
        await clock.advance(2 * REPEAT_SECONDS)
        assert [each["event"] for each in log] == [
            "client certificates are not accepted, tokens are"
        ]


async def test_an_api_server_that_does_not_respond_is_told_from_one_that_refuses() -> None:
    # The discard port of the loopback interface has no listener.
    async with Transport(ClientConfiguration("http://127.0.0.1:9")) as transport:
        with pytest.raises(NoServerError):
            await of_cluster(ApiClient(transport))()


async def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    source = of_file(str(path))
    with pytest.raises(NoAuthoritiesError, match=r"ca\.crt: No such file"):
        await source()
    path.write_text(" \n")
    with pytest.raises(NoAuthoritiesError, match=r"ca\.crt: the file is empty"):
        await source()
    path.write_text("one\n")
    assert await source() == "one"
    path.write_text("two\n")
    assert await source() == "two"
