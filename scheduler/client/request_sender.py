"""RequestSender: sends requests by the rules of the API server and of leader election.

Invariants: a request passes the rate limit once per attempt, and a write is sent only while the
leader fence is open, which is checked after every wait. A 401 renews the credential, unless it was
renewed since the request was sent, and leads to one more attempt. A 429 is retried after the delay
that the server demands. Both statuses mean that nothing was done; nothing else is retried here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from scheduler.client.clock import Clock
from scheduler.client.errors import (
    ApiError,
    ConfigurationError,
    ConnectionFailed,
    NotLeader,
    PreconditionFailed,
    RequestTimeout,
    api_error,
)
from scheduler.client.fence import Fence
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.http.response import Response, header
from scheduler.client.http.stream import ResponseStream
from scheduler.client.http.tls import ResumingContext
from scheduler.client.metrics import ClientMetrics
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.transport import Transport, read_error_body

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

THROTTLED_ATTEMPTS: Final = 10
"""Attempts of a request to which the server responds with 429, as in client-go."""

PreSendCheck = Callable[[], str]
"""Called when a request is about to be sent: the reason why it must not be, or an empty string."""

TraceHeaders = Callable[[], Mapping[str, str]]
"""Returns the headers that tie a request to the trace of the task that sends it; empty if none."""


class RequestSender:
    """Sends requests for one `ApiClient`."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str,
        limiter: RateLimiter | None,
        fence: Fence,
        clock: Clock,
        metrics: ClientMetrics,
        trace_headers: TraceHeaders | None = None,
    ) -> None:
        self._transport = transport
        self._trace_headers = trace_headers
        self._user_agent = user_agent
        self._limiter = limiter
        self._fence = fence
        self._clock = clock
        self._metrics = metrics
        self._credentials = transport.configuration.credentials
        self._tls = transport.configuration.tls
        # Headers are rebuilt only when the credential changes.
        self._authorization: str | None = None
        self._headers = self._build_headers(None)

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        timeout: float,
        max_body: int,
        precondition: PreSendCheck | None = None,
    ) -> Response:
        """Send a request, and again after a 401 or 429 as described above.

        Raises: as `ApiClient.request`; PreconditionFailed when `precondition` returned a reason.
        """
        path = target.partition("?")[0]
        guard = None if method == "GET" else partial(self._check, method, path, precondition)
        renewed = False
        attempts = 0
        while True:
            await self._wait_for_turn(method)
            await self._authorize(method, path)
            if guard is not None:
                # Last: each wait above may have taken longer than the lease. The transport calls
                # it again if it has to wait for a connection.
                guard()
            sent_with = self._credential()
            headers = self._headers_for(content_type if body is not None else "")
            if self._trace_headers is not None and (added := self._trace_headers()):
                headers = headers.adding(added)
            request = Request(method, target, headers, body, max_body, guard)
            response = await self._exchange(request, timeout)
            status = response.status
            if status < 400:
                return response
            retry_after = response.header("Retry-After")
            error = self._api_error(method, path, status, response.body, retry_after)
            attempts += 1
            if status == 403 and method != "GET":
                self._transport.on_forbidden_write()
            if status == 401 and not renewed:
                renewed = True
                if await self._replace(sent_with, method, path):
                    continue
            elif status == 429 and error.retry_after is not None and attempts < THROTTLED_ATTEMPTS:
                await self._clock.sleep(error.retry_after)
                continue
            try:
                raise error
            finally:
                # Its traceback holds this frame and all callers', with their pods of 1 MB: as a
                # cycle they would stay until the next garbage collection.
                del error

    @asynccontextmanager
    async def open_watch(
        self, target: str, *, idle_timeout: float
    ) -> AsyncIterator[ResponseStream]:
        """Open a watch; leaving the context closes its connection.

        Raises:
            ApiError: the server refused the watch; a 401 has renewed the credential already.
        """
        path = target.partition("?")[0]
        await self._authorize("WATCH", path)
        sent_with = self._credential()
        request = Request("GET", target, self._headers[""])
        async with self._transport.stream(request, idle_timeout=idle_timeout) as stream:
            if stream.status >= 400:
                body = await read_error_body(stream)
                if stream.status == 401:
                    await self._replace(sent_with, "WATCH", path)
                retry_after = header(stream.head, "Retry-After")
                raise self._api_error("WATCH", path, stream.status, body, retry_after)
            yield stream

    # ----------------------------------------------------------------------------------- internals

    def _build_headers(self, authorization: str | None) -> dict[str, HeaderBlock]:
        """Return the headers by content type; the key "" is for requests without a body."""
        base = {
            "Accept": JSON,
            "Accept-Encoding": "identity",
            "User-Agent": self._user_agent,
        }
        if authorization:
            base["Authorization"] = authorization
        plain = HeaderBlock(base, self._transport.configuration.impersonation)
        headers = {"": plain}
        for content_type in (JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
            headers[content_type] = plain.adding({"Content-Type": content_type})
        return headers

    def _headers_for(self, content_type: str) -> HeaderBlock:
        headers = self._headers.get(content_type)
        if headers is None:
            headers = self._headers[""].adding({"Content-Type": content_type})
        return headers

    async def _authorize(self, method: str, path: str) -> None:
        """Bring the headers up to date with the credential."""
        try:
            authorization = await self._credentials.authorization()
            if authorization != self._authorization:
                self._headers = self._build_headers(authorization)
                self._authorization = authorization
        except (ConfigurationError, ValueError) as error:
            raise ConnectionFailed(method, path, str(error), sent=False) from error

    def _credential(self) -> tuple[str | None, ResumingContext | None]:
        """Return the identity of a request sent now: Authorization header and TLS context."""
        return self._authorization, None if self._tls is None else self._tls.current()

    async def _replace(
        self, refused: tuple[str | None, ResumingContext | None], method: str, path: str
    ) -> bool:
        """Replace the credential that the server refused; return False if there is no other."""
        await self._authorize(method, path)
        if self._credential() == refused:
            try:
                await self._credentials.renew()
            except ConfigurationError as error:
                raise ConnectionFailed(method, path, str(error), sent=False) from error
            if self._tls is not None:
                self._tls.reload()
            await self._authorize(method, path)
        return self._credential() != refused

    def _check(self, method: str, path: str, precondition: PreSendCheck | None) -> None:
        if not self._fence.allowed():
            raise NotLeader(method, path)
        if precondition is not None and (reason := precondition()):
            raise PreconditionFailed(method, path, reason)

    def _api_error(
        self, method: str, path: str, status: int, body: bytes, retry_after: str | None
    ) -> ApiError:
        return api_error(method, path, status, body, retry_after, now=self._clock.now())

    async def _wait_for_turn(self, method: str) -> None:
        if self._limiter is None:
            return
        delay = self._limiter.reserve()
        if delay > 0.0:
            self._metrics.throttled(method, delay)
            await self._clock.sleep(delay)

    async def _exchange(self, request: Request, timeout: float) -> Response:
        started = self._clock.monotonic()
        code = "<error>"
        try:
            response = await self._transport.exchange(request, timeout)
            code = str(response.status)
            return response
        except RequestTimeout:
            code = "<timeout>"
            raise
        finally:
            self._metrics.request(request.method, code, self._clock.monotonic() - started)
