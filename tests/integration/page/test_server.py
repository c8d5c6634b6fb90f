"""The local server lets its own page in and nobody else, and asks what may be asked."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from scheduler.cli.page import server as server_module
from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.server import HEADERS, PageServer
from tests.page.answers import Answers

SECRET_LENGTH = 43


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest_asyncio.fixture
async def server(answers: Answers) -> AsyncIterator[PageServer]:
    async with PageServer(answers) as running:
        yield running


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def get(
    browser: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Return status and JSON of a response, whose headers protect it whatever it is."""
    async with browser.get(url, headers=headers, allow_redirects=False) as response:
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        body = await response.read()
        is_json = response.content_type == "application/json"
        return response.status, json.loads(body) if is_json else body


async def test_page_and_files_are_served_below_the_secret(
    server: PageServer, browser: aiohttp.ClientSession
) -> None:
    assert len(server.url.split("/")[3]) == SECRET_LENGTH
    status, body = await get(browser, server.url)
    assert (status, body[:15]) == (200, b"<!doctype html>")
    for name, kind in {
        "app.js": "javascript",
        "style.css": "css",
        "vendor/preact.js": "java",
    }.items():
        async with browser.get(server.url + name) as response:
            assert response.status == 200
            assert kind in response.content_type
            assert "sourceMappingURL" not in await response.text()


async def test_the_policy_allows_nothing_from_elsewhere_and_no_inline_code() -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in HEADERS["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert {value for name, value in policy.items() if name.endswith("-src")} == {
        "'none'",
        "'self'",
    }
    assert (policy["frame-ancestors"], policy["form-action"]) == ("'none'", "'none'")
    assert policy["require-trusted-types-for"] == "'script'"


@pytest.mark.parametrize(
    "path",
    ["", "api/queue", "wrong/", "wrong/api/queue", "wrong/app.js", "%ff/", "../../etc/passwd"],
)
async def test_without_the_secret_there_is_nothing(
    server: PageServer, browser: aiohttp.ClientSession, answers: Answers, path: str
) -> None:
    status, _ = await get(browser, f"http://127.0.0.1:{server.port}/{path}")
    assert status == 404
    assert answers.asked == []


@pytest.mark.parametrize(
    "path", ["../__init__.py", "..%2f..%2fui.py", "vendor/manifest.json", "%00", "vendor/", "a.js"]
)
async def test_only_the_files_of_the_page_are_served(
    server: PageServer, browser: aiohttp.ClientSession, path: str
) -> None:
    from yarl import URL

    async with browser.get(URL(server.url + path, encoded=True)) as response:
        assert response.status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
    ids=str,
)
async def test_other_hosts_and_pages_are_refused_even_with_the_secret(
    server: PageServer,
    browser: aiohttp.ClientSession,
    answers: Answers,
    headers: dict[str, str],
) -> None:
    filled = {name: value.format(port=server.port) for name, value in headers.items()}
    for path in ("", "api/queue", "app.js"):
        status, body = await get(browser, server.url + path, filled)
        assert (status, body["kind"]) == (403, "Error")
    assert answers.asked == []


async def test_its_own_page_is_let_in(server: PageServer, browser: aiohttp.ClientSession) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert (await get(browser, f"{server.url}api/queue", own))[0] == 200
    clicked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await get(browser, server.url, clicked))[0] == 200
    by_name = server.url.replace("127.0.0.1", "localhost")
    assert (await get(browser, by_name))[0] == 200


async def test_two_hosts_in_one_request_are_refused(server: PageServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    path = server.url.split("/", 3)[3]
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    writer.write(f"GET /{path} HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] in (b"400", b"403")
    writer.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_it_reads_only(
    server: PageServer, browser: aiohttp.ClientSession, method: str
) -> None:
    async with browser.request(method, f"{server.url}api/queue") as response:
        assert response.status == 405
        assert response.headers["Content-Security-Policy"]


async def test_a_question_reaches_the_source_with_its_parameters(
    server: PageServer, browser: aiohttp.ClientSession, answers: Answers
) -> None:
    status, body = await get(browser, f"{server.url}api/queue?limit=10&namespace=team-a")
    assert (status, body["kind"]) == (200, "QueueList")
    await get(browser, f"{server.url}api/decisions?at=12.5&since=3")
    assert answers.asked == [
        ("/debug/queue", {"limit": "10", "namespace": "team-a"}, None),
        ("/debug/decisions", {"since": "3"}, 12.5),
    ]
    status, body = await get(browser, f"{server.url}api/source")
    assert (status, body["kind"]) == (200, "live")


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("statistics", 404),
        ("whatif", 404),
        ("queue?limit=0", 400),
        ("queue?limit=1001", 400),
        ("queue?limit=1&limit=2", 400),
        ("queue?limit=%D9%A1", 400),
        ("queue?verbose=1", 400),
        ("explain?pod=", 400),
        ("explain?pod=a%0Ab", 400),
        ("explain?pod=" + "a" * 601, 400),
        ("node?name=%E2%80%AE", 400),
        ("decisions?at=now", 400),
        ("decisions?at=1e9", 400),
    ],
)
async def test_other_questions_and_values_out_of_bounds_are_refused(
    server: PageServer,
    browser: aiohttp.ClientSession,
    answers: Answers,
    question: str,
    status: int,
) -> None:
    found, body = await get(browser, f"{server.url}api/{question}")
    assert (found, body["kind"], body["status"]) == (status, "Error", status)
    assert answers.asked == []


async def test_the_reason_of_a_failure_is_passed_on(
    server: PageServer, browser: aiohttp.ClientSession, answers: Answers
) -> None:
    answers.failure = QuestionError(404, 'no pod "a/b"')
    status, body = await get(browser, f"{server.url}api/explain?pod=a/b")
    assert (status, body["message"]) == (404, 'no pod "a/b"')


async def test_few_questions_run_at_a_time_and_not_too_many_wait(
    browser: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONCURRENT", 2)
    monkeypatch.setattr(server_module, "MAX_WAITING", 5)
    go, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    class Slow(Answers):
        def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            go.wait()
            with lock:
                running -= 1
            return b"{}"

    async with PageServer(Slow()) as server:
        url = f"{server.url}api/queue"
        asked = [asyncio.create_task(get(browser, url)) for _ in range(6)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result()[0] for task in done] == [429]
        go.set()
        statuses = sorted([(await task)[0] for task in asked])
    assert (statuses, most) == ([200] * 5 + [429], 2)


async def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            async with PageServer(Answers(), port=other.getsockname()[1]):
                pass
