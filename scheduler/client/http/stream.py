"""Response bodies that are read as they arrive: watches."""

from __future__ import annotations

from typing import Protocol

from scheduler.client.http.connection import FAILURES, Connection
from scheduler.client.http.parser import ResponseParser
from scheduler.client.http.request import Request


class ResponseStream(Protocol):
    """The response to a request whose body has no end."""

    @property
    def status(self) -> int:
        """Status code."""
        ...

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        ...

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; empty at its end.

        Raises:
            RequestTimeout: nothing arrived within the stream's idle timeout.
            ConnectionFailed: the connection broke before the end of the body.
        """
        ...

    def close(self) -> None:
        """Close the connection: a stream cannot be read to its end."""
        ...


class ConnectionStream:
    """A `ResponseStream` on a `Connection` of its own."""

    def __init__(self, request: Request, connection: Connection, parser: ResponseParser) -> None:
        self._request = request
        self._connection = connection
        self._parser = parser
        self.status = parser.status
        self.head = parser.head

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; empty at its end."""
        connection = self._connection
        while True:
            piece = connection.read_nowait()
            if piece or self._parser.is_complete():
                return piece
            try:
                await connection.wait_readable()
            except FAILURES as error:
                raise self._request.failure(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.abort()
