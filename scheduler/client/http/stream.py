"""The body of an answer, read as it arrives: watches."""

from __future__ import annotations

from scheduler.client.errors import ConnectionFailed, RequestTimeout
from scheduler.client.http.connection import Connection
from scheduler.client.http.parser import ProtocolError, ResponseParser


class BodyStream:
    """Read it to its end, or cut it with `close`."""

    __slots__ = ("_connection", "_method", "_parser", "_path")

    def __init__(
        self, method: str, path: str, connection: Connection, parser: ResponseParser
    ) -> None:
        self._method = method
        self._path = path
        self._connection = connection
        self._parser = parser

    @property
    def status(self) -> int:
        """Status code."""
        return self._parser.status

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        return self._parser.head

    @property
    def reading_paused(self) -> bool:
        """Whether the server has to wait, because nobody reads what came."""
        return self._connection.reading_paused

    async def read(self) -> bytes:
        """Whatever has arrived, at least a byte; empty at the end of the body.

        Raises:
            RequestTimeout: silence for longer than the stream's limit.
            ConnectionFailed: the connection broke before the end of the body.
        """
        connection = self._connection
        while True:
            piece = connection.read_nowait()
            if piece or self._parser.is_complete():
                return piece
            try:
                await connection.wait_readable()
            except TimeoutError as error:
                text = f"timed out: {error}"
                raise RequestTimeout(self._method, self._path, text, sent=True) from error
            except (OSError, ProtocolError) as error:
                raise ConnectionFailed(self._method, self._path, str(error), sent=True) from error

    def close(self) -> None:
        """Cut the connection: the rest of a stream never ends."""
        self._connection.abort()
