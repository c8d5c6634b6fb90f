"""Responses out of bytes: framing, whatever the cuts, and what is refused."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.errors import ConnectionFailed
from scheduler.client.http.parser import (
    MAX_ERROR_BYTES,
    MAX_HEAD_BYTES,
    BodyTooLargeError,
    ProtocolError,
    ResponseParser,
)
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.http.response import Response, header
from tests.unit.client.malformed_responses import ENDLESS, MALFORMED, OK, Endless, Malformed


def parsed(data: bytes, cuts: list[int] | None = None) -> tuple[ResponseParser, bytes]:
    """Feed `data` cut at the given places; the parser and the whole body."""
    parser = ResponseParser()
    body = b""
    places = [0, *sorted(cuts or []), len(data)]
    for start, end in itertools.pairwise(places):
        if start < end:
            body += parser.feed(data[start:end])
    return parser, body


COMPLETE = [
    pytest.param(OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True, id="length"),
    pytest.param(OK + b"content-length:0\r\n\r\n", 200, b"", True, id="empty, lower case"),
    pytest.param(b"HTTP/1.1 204\r\n\r\n", 204, b"", True, id="no content, no reason"),
    pytest.param(
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
        200,
        b"hello!",
        True,
        id="chunks",
    ),
    pytest.param(
        OK + b"Transfer-Encoding: chunked\r\n\r\nA;x=y\r\n0123456789\r\n0\r\nDigest: 1\r\n\r\n",
        200,
        b"0123456789",
        True,
        id="chunk extension and trailer",
    ),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
        b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
        201,
        b"x",
        True,
        id="interim responses",
    ),
    pytest.param(
        OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False, id="close"
    ),
    pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False, id="HTTP/1.0"),
]


@pytest.mark.parametrize(("data", "status", "body", "reusable"), COMPLETE)
@given(cuts=st.lists(st.integers(0, 150), max_size=12))
def test_the_same_response_however_the_bytes_are_cut(
    data: bytes, status: int, body: bytes, reusable: bool, cuts: list[int]
) -> None:
    parser, found = parsed(data, [cut for cut in cuts if cut < len(data)])
    assert parser.is_complete()
    assert (parser.status, found, parser.reusable, parser.trailing_data) == (
        status,
        body,
        reusable,
        False,
    )


@pytest.mark.parametrize(("data", "status", "body", "reusable"), COMPLETE)
def test_not_complete_a_byte_earlier(data: bytes, status: int, body: bytes, reusable: bool) -> None:
    parser, _ = parsed(data[:-1])
    assert not parser.is_complete()
    assert not parser.feed_end()


def test_the_end_of_the_connection_ends_a_body_without_length() -> None:
    parser, body = parsed(OK + b"\r\nall of it")
    assert not parser.is_complete()
    assert parser.feed_end()
    assert (body, parser.reusable) == (b"all of it", False)


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 1\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"],
)
def test_what_follows_a_response_is_kept_apart(framing: bytes) -> None:
    parser, body = parsed(OK + framing + b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert body == b"x"
    assert parser.is_complete()
    assert parser.trailing_data


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
def test_data_that_is_not_a_response_is_refused(case: Malformed, whole: bool) -> None:
    with pytest.raises(ProtocolError, match=case.error):
        parsed(case.data, None if whole else list(range(len(case.data))))


@pytest.mark.parametrize("case", ENDLESS, ids=lambda case: case.name)
def test_endless_data_is_refused_within_its_limit(case: Endless) -> None:
    parser = ResponseParser()
    parser.begin(MAX_HEAD_BYTES)
    pieces = itertools.repeat(case.piece)
    with pytest.raises(ProtocolError, match=case.error):
        feed_all(parser, itertools.chain([case.head], pieces), 1.1 * MAX_HEAD_BYTES)


def feed_all(parser: ResponseParser, pieces: Iterable[bytes], most: float) -> None:
    """Feed pieces, `most` bytes of them."""
    fed = 0
    for piece in pieces:
        fed += len(piece)
        assert fed <= most
        parser.feed(piece)


def test_the_limit_of_a_body_is_inclusive_and_an_errors_is_its_own() -> None:
    parser = ResponseParser()
    parser.begin(5)
    assert parser.feed(OK + b"Content-Length: 5\r\n\r\nhello") == b"hello"
    parser.begin(4)
    with pytest.raises(BodyTooLargeError, match="a body of more than 4 bytes"):
        parser.feed(OK + b"Content-Length: 5\r\n\r\nhello")
    parser = ResponseParser()
    with pytest.raises(BodyTooLargeError, match=f"more than {MAX_ERROR_BYTES} bytes"):
        parser.feed(b"HTTP/1.1 500 X\r\n\r\n" + b"x" * (MAX_ERROR_BYTES + 1))


def test_a_stream_has_no_limit_and_overhead_is_counted_between_bytes_of_the_body() -> None:
    parser = ResponseParser()
    parser.begin(None)
    parser.feed(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    line = b"x" * 1_000_000
    for _ in range(100):
        assert parser.feed(b"f4240;" + b"y" * 5000 + b"\r\n" + line + b"\r\n") == line


def test_one_parser_reads_the_responses_of_a_connection_one_after_the_other() -> None:
    parser = ResponseParser()
    for status, data, body, reusable in [
        (201, b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", b"x", True),
        (200, OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\ny\r\n0\r\n\r\n", b"y", True),
        (204, b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (429, b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", b"", True),
        (200, OK + b"\r\nall", b"all", False),
    ]:
        parser.begin()
        assert not parser.begun
        assert parser.feed(data) == body
        assert parser.feed_end() is True
        assert (parser.status, parser.reusable) == (status, reusable)
        assert parser.head == data.partition(b"\r\n\r\n")[0]


def test_a_parser_is_gone_without_the_garbage_collector() -> None:
    parser = ResponseParser()
    parser.feed(OK + b"Content-Length: 0\r\n\r\n")
    dead = weakref.ref(parser)
    parser.close()
    with pytest.raises(ProtocolError, match="closed"):
        parser.feed(OK)
    gc.disable()
    try:
        del parser
        assert dead() is None
    finally:
        gc.enable()


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=5))
def test_random_data_raises_nothing_but_protocol_errors(data: bytes, cuts: list[int]) -> None:
    try:
        parser, _ = parsed(b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n" + data, cuts)
    except ProtocolError:
        return
    assert parser.status == 200


def test_headers_are_found_whatever_their_case() -> None:
    response = Response(
        429, b"", b"HTTP/1.1 429 Too Many Requests\r\nretry-AFTER:  7 \r\nX: retry-after: 8"
    )
    assert response.header("Retry-After") == "7"
    assert response.header("Date") is None
    assert header(b"", "Date") is None


class TestRequests:
    """Exactly one request is sent."""

    def test_bytes(self) -> None:
        headers = HeaderBlock({"Accept": "a", "Content-Type": "b"})
        assert Request("POST", "/x?y=%20z", headers, b"{}").encode("h:1") == (
            b"POST /x?y=%20z HTTP/1.1\r\nHost: h:1\r\nAccept: a\r\nContent-Type: b\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        assert Request("GET", "/", headers).encode("h") == (
            b"GET / HTTP/1.1\r\nHost: h\r\nAccept: a\r\nContent-Type: b\r\n\r\n"
        )

    @pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/\u00e4", "/a\x00"])
    def test_a_target_cannot_smuggle(self, target: str) -> None:
        with pytest.raises(ConnectionFailed, match="must be quoted") as caught:
            Request("GET", target, HeaderBlock({})).encode("h")
        assert not caught.value.outcome_unknown

    @pytest.mark.parametrize("value", ["Bearer a\nb", "Bearer a\r\nX: y", "Bearer \u00e4"])
    def test_a_value_cannot_smuggle_and_is_not_shown(self, value: str) -> None:
        with pytest.raises(ValueError, match="the header Authorization") as caught:
            HeaderBlock({"Authorization": value})
        assert value not in str(caught.value)
