"""From bytes to the one request of a connection."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.service.serving.answers import Answer, error
from scheduler.service.serving.requests import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    BadRequestError,
    Request,
    RequestParser,
)

HEAD = b"GET %s HTTP/1.1\r\nHost: x\r\n"


def parsed(data: bytes) -> Request:
    request = RequestParser().feed(data)
    assert request is not None
    return request


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/metrics", "/metrics", {}),
        (b"/readyz?verbose&exclude=a&exclude=b", "/readyz", {"verbose": "", "exclude": "a"}),
        (b"/debug/explain?pod=ns%2Fa", "/debug/explain", {"pod": "ns/a"}),
        (b"http://host:1/metrics?a=1", "/metrics", {"a": "1"}),
        (b"/a?u=http://b", "/a", {"u": "http://b"}),
        (b"//metrics", "//metrics", {}),
        (b"/open/../metrics", "/metrics", {}),
        (b"/open/%2e%2e/metrics", "/metrics", {}),
        (b"/open%2f..%2fmetrics", "/metrics", {}),
        (b"/../../x/./y/..", "/x/", {}),
        (b"/a..b/.c", "/a..b/.c", {}),
        (b"/caf%C3%A9", "/caf\u00e9", {}),
        (b"/%ff", "/\ufffd", {}),
    ],
)
def test_targets(target: bytes, path: str, query: dict[str, str]) -> None:
    request = parsed(HEAD % target + b"\r\n")
    assert (request.path, request.query) == (path, query)


def test_headers_and_fields() -> None:
    request = parsed(HEAD % b"/?a=1&a=2&b" + b"Accept: a\r\naccept:  b \r\nX:\r\n\r\n")
    assert request.headers == {"host": "x", "accept": "a, b", "x": ""}
    assert (request.all_of("a"), request.all_of("c")) == (["1", "2"], [])


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"not http at all\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (HEAD % b"*" + b"\r\n", 400),
        (HEAD % b"metrics" + b"\r\n", 400),
        (HEAD % b"http://[x/" + b"\r\n", 400),
        (HEAD % b"/#a" + b"\r\n", 400),
        (HEAD % (b"/?" + b"a&" * 101) + b"\r\n", 400),
        (HEAD % b"/" + b"Host: y\r\n\r\n", 400),
        (HEAD % b"/" + b"Authorization: a\r\nAuthorization: b\r\n\r\n", 400),
        (HEAD % b"/" + b" folded: a\r\n\r\n", 400),
        (HEAD % b"/" + b"A : b\r\n\r\n", 400),
        (HEAD % b"/" + b"A: b\x00\r\n\r\n", 400),
        (HEAD % b"/" + b"A: b\nC: d\r\n\r\n", 400),
        (HEAD % b"/" + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD % b"/" + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n", 400),
        (HEAD % b"/" + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (HEAD % b"/" + b"Transfer-Encoding: chunked\r\n\r\n", 411),
        (HEAD % b"/" + b"A: " + b"a" * MAX_HEAD_BYTES, 400),
        (HEAD % b"/" + b"A: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        RequestParser().feed(data)
    assert caught.value.status == status


@given(st.lists(st.integers(1, 90), max_size=8))
def test_however_the_bytes_are_cut_the_same_request_comes_out(cuts: list[int]) -> None:
    data = b"PUT /debug/flags/v?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n" + b"4" * 12
    parser, found = RequestParser(), None
    at = 0
    for size in [*cuts, len(data)]:
        piece, at = data[at : at + size], at + size
        if found is None:
            found = parser.feed(piece)
        else:
            parser.discard(piece)
    assert parser.complete
    assert found == parsed(data)
    assert found is not None
    assert found.body == b"4" * 12


@given(st.binary(max_size=300), st.sampled_from([b"", HEAD % b"/", HEAD[:4]]))
def test_any_bytes_are_a_request_or_refused(data: bytes, beginning: bytes) -> None:
    with suppress(BadRequestError):
        request = RequestParser().feed(beginning + data)
        assert request is None or request.path.startswith("/")


def test_of_a_long_body_only_the_beginning_is_kept() -> None:
    length = 3 * MAX_BODY_BYTES
    parser = RequestParser()
    assert parser.feed(HEAD % b"/" + b"Content-Length: %d\r\n\r\n" % length) is None
    request = parser.feed(b"1" * (MAX_BODY_BYTES + 1))
    assert request is not None
    assert len(request.body) == MAX_BODY_BYTES
    assert not parser.complete
    parser.discard(b"1" * (length - MAX_BODY_BYTES - 1))
    assert parser.complete


def test_the_end_of_a_head_that_was_refused_is_noticed() -> None:
    parser = RequestParser()
    with pytest.raises(BadRequestError):
        parser.feed(b"GET /" + b"a" * MAX_HEAD_BYTES)
    assert not parser.complete
    for piece in (b"a" * 10, b"\r\n", b"\r", b"\n"):
        parser.discard(piece)
    assert parser.complete


def test_a_client_that_asks_is_told_to_send_its_body() -> None:
    parser = RequestParser()
    assert parser.feed(HEAD % b"/" + b"Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n") is None
    assert parser.wants_continue
    assert parser.feed(b"4") is not None
    assert not parser.wants_continue


def test_the_bytes_of_an_answer() -> None:
    refused = error(429, "later", {"Retry-After": "1"})
    assert refused.encode(0.0).split(b"\r\n") == [
        b"HTTP/1.1 429 Too Many Requests",
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: 6",
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
        b"X-Content-Type-Options: nosniff",
        b"Cache-Control: no-cache, private",
        b"Connection: close",
        b"Retry-After: 1",
        b"",
        b"later\n",
    ]
    head = Answer(b"12345").encode(0.0, with_body=False)
    assert b"Content-Length: 5\r\n" in head
    assert head.endswith(b"\r\n\r\n")
