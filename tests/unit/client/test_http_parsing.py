"""Answers out of bytes: framing, whatever the cuts, and what is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.http.answer import Answer, header
from scheduler.client.http.parsing import AnswerParser, ProtocolError
from scheduler.client.http.request import HeaderBlock, request_bytes

OK = b"HTTP/1.1 200 OK\r\n"


def parsed(data: bytes, cuts: list[int] | None = None) -> tuple[AnswerParser, bytes]:
    """Feed `data` cut at the given places; the parser and the whole body."""
    parser = AnswerParser()
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
        OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", 200, b"ab", True, id="said twice"
    ),
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
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        200,
        b"a",
        True,
        id="chunks beat a length",
    ),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
        b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
        201,
        b"x",
        True,
        id="interim answers",
    ),
    pytest.param(
        OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False, id="close"
    ),
    pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False, id="HTTP/1.0"),
]


@pytest.mark.parametrize(("data", "status", "body", "reusable"), COMPLETE)
@given(cuts=st.lists(st.integers(0, 150), max_size=12))
def test_the_same_answer_however_the_bytes_are_cut(
    data: bytes, status: int, body: bytes, reusable: bool, cuts: list[int]
) -> None:
    parser, found = parsed(data, [cut for cut in cuts if cut < len(data)])
    assert parser.is_complete()
    assert (parser.status, found, parser.reusable, parser.surplus) == (status, body, reusable, b"")


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
def test_what_follows_an_answer_is_kept_apart(framing: bytes) -> None:
    parser, body = parsed(OK + framing + b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert body == b"x"
    assert parser.surplus.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP/1.1 answer"),
        (b"HTTP/2 200\r\n\r\n", "no HTTP/1.1 answer"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "no HTTP/1.1 answer"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "switched protocols"),
        (OK + b"Content-Length: -1\r\n\r\n", "no content length"),
        (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "no content length"),
        (OK + b"Content-Length: 1, 2\r\n\r\n", "no content length"),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "no content length"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "no chunk size"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", "no chunk size"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n", "no chunk size"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "a chunk longer than it said"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 5000, "a chunk line of more than"),
        (OK + b"X: " + b"y" * (300 * 1024), "a head of more than"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        parsed(data)


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=5))
def test_nothing_but_a_protocol_error_comes_of_noise(data: bytes, cuts: list[int]) -> None:
    try:
        parser, _ = parsed(b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n" + data, cuts)
    except ProtocolError:
        return
    assert parser.status == 200


def test_headers_are_found_whatever_their_case() -> None:
    answer = Answer(
        429, b"", b"HTTP/1.1 429 Too Many Requests\r\nretry-AFTER:  7 \r\nX: retry-after: 8"
    )
    assert answer.header("Retry-After") == "7"
    assert answer.header("Date") is None
    assert header(b"", "Date") is None


class TestRequests:
    """What leaves is one request and no more."""

    def test_bytes(self) -> None:
        headers = HeaderBlock({"Accept": "a", "Content-Type": "b"})
        assert request_bytes("POST", "/x?y=%20z", "h:1", headers, b"{}") == (
            b"POST /x?y=%20z HTTP/1.1\r\nHost: h:1\r\nAccept: a\r\nContent-Type: b\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        assert request_bytes("GET", "/", "h", headers, None) == (
            b"GET / HTTP/1.1\r\nHost: h\r\nAccept: a\r\nContent-Type: b\r\n\r\n"
        )

    @pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/\u00e4", "/a\x00"])
    def test_a_target_cannot_smuggle(self, target: str) -> None:
        with pytest.raises(ValueError, match="must be quoted"):
            request_bytes("GET", target, "h", HeaderBlock({}), None)

    @pytest.mark.parametrize("value", ["Bearer a\nb", "Bearer a\r\nX: y", "Bearer \u00e4"])
    def test_a_value_cannot_smuggle_and_is_not_shown(self, value: str) -> None:
        with pytest.raises(ValueError, match="the header Authorization") as caught:
            HeaderBlock({"Authorization": value})
        assert value not in str(caught.value)
