"""Responses that two readers could understand differently, or that have no end (RFC 9112).

One table for the parser alone and for the client over real sockets. `MALFORMED` is refused as it
stands; of `ENDLESS` the head is sent once and the piece again and again, until the client closes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OK: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNKS: Final = b"\r\n\r\n1\r\nx\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Malformed:
    """A response, and the words of the error it must become."""

    name: str
    data: bytes
    error: str


def _each(error: str, **cases: bytes) -> list[Malformed]:
    return [Malformed(name.replace("_", " "), data, error) for name, data in cases.items()]


MALFORMED: Final = [
    *_each(
        "no HTTP/1.1 response",
        another_protocol=b"SSH-2.0-OpenSSH\r\n\r\n",
        http2=b"HTTP/2 200\r\n\r\n",
        http_0_9=b"HTTP/0.9 200 OK\r\nContent-Length: 1\r\n\r\nx",
        a_short_status=b"HTTP/1.1 20 OK\r\n\r\n",
        a_status_below_100=b"HTTP/1.1 099 OK\r\nContent-Length: 1\r\n\r\nx",
        a_long_status=b"HTTP/1.1 2000 OK\r\nContent-Length: 1\r\n\r\nx",
        bare_LF_after_the_status=b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
        bare_LF_after_a_header=OK + b"X: y\nContent-Length: 1\r\n\r\nx",
        bare_CR_in_a_header=OK + b"X: y\rContent-Length: 5\r\nContent-Length: 1\r\n\r\nx",
        NUL_in_a_header=OK + b"X: \x00\r\nContent-Length: 1\r\n\r\nx",
        a_header_without_colon=OK + b"X\r\nContent-Length: 1\r\n\r\nx",
        a_header_without_name=OK + b": y\r\nContent-Length: 1\r\n\r\nx",
        a_space_before_the_colon=OK + b"Content-Length : 1\r\n\r\nx",
        a_tab_before_the_colon=OK + b"Transfer-Encoding\t: chunked" + _CHUNKS,
        a_folded_header=OK + b"X: y\r\n z\r\nContent-Length: 1\r\n\r\nx",
        a_folded_length=OK + b"Content-Length: 1\r\n 0\r\n\r\nx",
    ),
    *_each(
        "Content-Length",
        a_negative_length=OK + b"Content-Length: -1\r\n\r\n",
        a_signed_length=OK + b"Content-Length: +1\r\n\r\nx",
        a_hexadecimal_length=OK + b"Content-Length: 0x1\r\n\r\nx",
        a_length_past_64_bits=OK + b"Content-Length: 18446744073709551617\r\n\r\nx",
        a_list_of_lengths=OK + b"Content-Length: 1, 1\r\n\r\nx",
        two_lengths=OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
        a_length_given_twice=OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        length_and_chunks=OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked" + _CHUNKS,
        chunks_and_length=OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3" + _CHUNKS,
        a_length_in_a_trailer=CHUNKED + b"1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n",
    ),
    *_each(
        "a transfer coding that is not supported",
        xchunked=OK + b"Transfer-Encoding: xchunked" + _CHUNKS,
        chunkedx=OK + b"Transfer-Encoding: chunkedx" + _CHUNKS,
        gzip=OK + b"Transfer-Encoding: gzip\r\n\r\nx",
        gzip_and_chunks=OK + b"Transfer-Encoding: gzip, chunked" + _CHUNKS,
        identity=OK + b"Transfer-Encoding: identity\r\n\r\nx",
        chunks_twice=OK + b"Transfer-Encoding: chunked, chunked" + _CHUNKS,
        chunks_in_two_headers=OK
        + b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked"
        + _CHUNKS,
        chunks_before_the_end=OK + b"Transfer-Encoding: chunked, gzip" + _CHUNKS,
        chunks_of_HTTP_1_0=b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked" + _CHUNKS,
    ),
    *_each(
        "no HTTP/1.1 response",
        no_chunk_size=CHUNKED + b"\r\n",
        a_chunk_size_of_letters=CHUNKED + b"xyz\r\n",
        a_negative_chunk_size=CHUNKED + b"-1\r\nx\r\n0\r\n\r\n",
        a_prefixed_chunk_size=CHUNKED + b"0x1\r\nx\r\n0\r\n\r\n",
        a_chunk_size_past_64_bits=CHUNKED + b"10000000000000001\r\nx\r\n0\r\n\r\n",
        a_space_after_the_chunk_size=CHUNKED + b"1 \r\nx\r\n0\r\n\r\n",
        bare_LF_after_the_chunk_size=CHUNKED + b"1\nx\n0\n\n",
        bare_LF_in_a_chunk_extension=CHUNKED + b"1;a\nb\r\nx\r\n0\r\n\r\n",
        a_chunk_longer_than_it_said=CHUNKED + b"1\r\nxy\r\n0\r\n\r\n",
    ),
    *_each(
        "switched protocols",
        status_101=b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        an_upgrade=b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    ),
]


@dataclass(frozen=True)
class Endless:
    """A response that goes on for ever, and the words of the error it must become."""

    name: str
    head: bytes
    piece: bytes
    error: str
    #: Whether it is one for streams, too, whose bodies have no limit.
    streams: bool = True


ENDLESS: Final = [
    Endless("headers", OK, b"X: " + b"y" * 1000 + b"\r\n", "a head of more than"),
    Endless("one header", OK + b"X: ", b"y" * 1000, "a head of more than"),
    Endless("reason", b"HTTP/1.1 200 ", b"y" * 1000, "a head of more than"),
    Endless("empty lines", b"", b"\r\n" * 500, "a head of more than"),
    Endless("interim responses", b"", b"HTTP/1.1 100 Continue\r\n\r\n", "interim responses"),
    Endless(
        "one interim response", b"HTTP/1.1 103 X\r\n", b"X: " + b"y" * 999 + b"\r\n", "a head of"
    ),
    Endless("chunk extension", CHUNKED + b"1;", b"y" * 1000, "chunk extensions or trailers of"),
    Endless("zeros of a chunk size", CHUNKED, b"0" * 1000, "chunk extensions or trailers of"),
    Endless("trailers", CHUNKED + b"0\r\n", b"X: y\r\n" * 200, "chunk extensions or trailers of"),
    Endless("one trailer", CHUNKED + b"0\r\nX: ", b"y" * 1000, "chunk extensions or trailers of"),
    Endless("chunks", CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n", "a body of more", streams=False),
    Endless(
        "length", OK + b"Content-Length: 999999999999\r\n\r\n", b"x" * 1024, "a body", streams=False
    ),
    Endless("connection", OK + b"\r\n", b"x" * 1024, "a body of more than", streams=False),
    Endless("error", b"HTTP/1.1 500 X\r\n\r\n", b"x" * 1024, "a body of more than", streams=False),
]
