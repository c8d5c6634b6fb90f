"""ReadOnlyTransport: a transport that sends GET requests only, whoever asks for what."""

from __future__ import annotations

from typing import Final

from scheduler.client.errors import PreconditionFailed
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.transport import Transport

READ_ONLY: Final = "this process only reads"


class ReadOnlyTransport(Transport):
    """Refuses every request that could change something, before a connection is taken for it."""

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Send a GET as `Transport.exchange`. Raises PreconditionFailed for any other method."""
        if request.method != "GET":
            raise PreconditionFailed(request.method, request.target.partition("?")[0], READ_ONLY)
        return await super().exchange(request, timeout)
