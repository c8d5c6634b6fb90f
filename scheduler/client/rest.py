"""Typed verbs of the Kubernetes API over one shared transport.

Invariants: every request has a timeout, passes the rate limit once, and a write is sent only while
the leader fence is open, asked after every wait. A 401 renews the credential, unless somebody has
since the request was sent, and tries once more; a 429 waits as told and tries again. Both answers
mean that nothing was done. Nothing else is retried here: callers know what their writes mean
(`binding`, `status_patch`, `events`).

Watches bypass the rate limit and are opened by `open_watch`; `reflector` reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from scheduler.api.meta import Object
from scheduler.api.pod import Pod
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.errors import (
    ApiError,
    ConfigurationError,
    ConnectionFailed,
    MalformedResponse,
    NotLeader,
    PreconditionFailed,
    RequestError,
    RequestTimeout,
    ResponseTooLarge,
    api_error,
)
from scheduler.client.fence import Fence, OpenFence
from scheduler.client.http.parser import MAX_BODY_BYTES, MAX_PAGE_BYTES, MAX_UNPAGED_BYTES
from scheduler.client.http.request import Guard, HeaderBlock, Request
from scheduler.client.http.response import Response, header
from scheduler.client.http.stream import ResponseStream
from scheduler.client.http.tls import ResumingContext
from scheduler.client.metrics import ClientMetrics, NullMetrics
from scheduler.client.outages import OutageLog
from scheduler.client.paging import PageSizes
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.resources import Resource, T
from scheduler.client.transport import Transport, read_error_body

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

REQUEST_TIMEOUT_SECONDS: Final = 30.0
"""For an ordinary request, waiting for a connection included."""

BIND_TIMEOUT_SECONDS: Final = 4.0
"""With the default renew deadline of 10 s it stays below the lease duration of 15 s (DESIGN 7)."""

THROTTLED_ATTEMPTS: Final = 10
"""How often an answer 429 is waited out, as client-go does."""

PAGE_SIZE: Final = 500

PreSendCheck = Callable[[], str]
"""Asked when a request is about to leave: why it must not; empty when it may."""

Body = bytes | Mapping[str, Any]


class ListMeta(Object):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(Object):
    """One page of a list, its items not decoded yet."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    # null when a list is empty and the server is careless
    items: list[msgspec.Raw] | None = None


class _BindingMeta(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] | None = None


class _BindingTarget(msgspec.Struct):
    name: str
    kind: str = "Node"


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _BindingMeta
    target: _BindingTarget
    api_version: str = "v1"
    kind: str = "Binding"


_page_decoder = msgspec.json.Decoder(Page)
_encoder = msgspec.json.Encoder()


class ApiClient:
    """Verbs for one purpose: own user agent, rate limit, timeout and fence, shared transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "kubestow",
        limiter: RateLimiter | None = None,
        fence: Fence | None = None,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        bind_timeout: float = BIND_TIMEOUT_SECONDS,
        clock: Clock | None = None,
        metrics: ClientMetrics | None = None,
    ) -> None:
        """Wire the client; no limiter means no limit, no fence means writes are always allowed."""
        self.transport = transport
        self.timeout = timeout
        self.bind_timeout = bind_timeout
        self._user_agent = user_agent
        self._limiter = limiter
        self._fence = fence or OpenFence()
        self.clock: Clock = clock or SystemClock()
        self.metrics: ClientMetrics = metrics or NullMetrics()
        self.outages = OutageLog(self.clock, transport.configuration.server)
        self._credentials = transport.configuration.credentials
        self._tls = transport.configuration.tls
        # The server gives up when we do, so that a bind hardly ever lands after it was settled.
        self._binding = f"binding?timeout={bind_timeout:g}s"
        self._page_sizes = PageSizes()
        # Headers are rebuilt only when the credential changes.
        self._authorization: str | None = None
        self._headers = self._build_headers(None)

    def derive(
        self,
        suffix: str,
        *,
        limiter: RateLimiter | None = None,
        fence: Fence | None = None,
        timeout: float | None = None,
    ) -> ApiClient:
        """A client for another purpose on the same connections; no limit or fence is inherited."""
        return ApiClient(
            self.transport,
            user_agent=f"{self._user_agent}/{suffix}",
            limiter=limiter,
            fence=fence,
            timeout=self.timeout if timeout is None else timeout,
            bind_timeout=self.bind_timeout,
            clock=self.clock,
            metrics=self.metrics,
        )

    # --------------------------------------------------------------------------------------- verbs

    async def get(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        timeout: float | None = None,
    ) -> T:
        """Read one object."""
        path = resource.path(name, namespace)
        answer = await self.request("GET", path, timeout=timeout)
        return _decoded(resource, "GET", path, answer.body)

    async def list_page(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        continue_token: str = "",
    ) -> Page:
        """Read one page; `limit` 0 reads everything at once.

        A page may have fewer items than asked for: large objects come a few at a time (`paging`).

        Raises:
            ApiError: status 410 when `continue_token` has expired.
            MalformedResponse: the body is not a list with a resourceVersion.
        """
        query = _selectors(label_selector, field_selector)
        if continue_token:
            query["continue"] = continue_token
        path = resource.collection_path(namespace)
        answer = await self._request_page(path, query, limit)
        try:
            page = await _decoded_page(answer.body)
        except ValueError as error:
            raise MalformedResponse("GET", path, f"not a list: {error}") from error
        if limit:
            size, length = int(query["limit"]), len(answer.body)
            self._page_sizes.came(path, size, len(page.items or ()), length)
        if not page.metadata.resource_version:
            raise MalformedResponse("GET", path, "a list without metadata.resourceVersion")
        return page

    async def _request_page(self, path: str, query: dict[str, str], limit: int) -> Response:
        if not limit:
            return await self.request("GET", path, query=query, max_body=MAX_UNPAGED_BYTES)
        while True:
            size = self._page_sizes.next(path, limit)
            query["limit"] = str(size)
            try:
                return await self.request("GET", path, query=query, max_body=MAX_PAGE_BYTES)
            except ResponseTooLarge:
                if not self._page_sizes.too_large(path, size):
                    raise

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[T]:
        """Read all objects, page by page. For objects that should be followed use a `Reflector`."""
        items: list[T] = []
        token = ""
        while True:
            page = await self.list_page(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                continue_token=token,
            )
            path = resource.collection_path(namespace)
            items += [_decoded(resource, "GET", path, raw) for raw in page.items or ()]
            token = page.metadata.continue_token
            if not token:
                return items

    async def create(self, resource: Resource[T], item: T | Body, namespace: str = "") -> T:
        """Create an object from a struct, a mapping or ready JSON."""
        path = resource.collection_path(namespace)
        answer = await self.request("POST", path, body=_encoded(resource, item))
        return _decoded(resource, "POST", path, answer.body)

    async def replace(
        self,
        resource: Resource[T],
        body: Body,
        name: str,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        """Replace an object with complete JSON; a struct would lose unknown fields."""
        path = resource.path(name, namespace, subresource)
        answer = await self.request("PUT", path, body=body)
        return _decoded(resource, "PUT", path, answer.body)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        body: Body,
        patch_type: str = STRATEGIC_MERGE_PATCH,
        subresource: str = "",
    ) -> T:
        """Patch an object or one of its subresources."""
        path = resource.path(name, namespace, subresource)
        answer = await self.request("PATCH", path, body=body, content_type=patch_type)
        return _decoded(resource, "PATCH", path, answer.body)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; with `uid` only that very one (409 otherwise)."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if uid or resource_version:
            options["preconditions"] = {key: text for key, text in preconditions.items() if text}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self.request("DELETE", resource.path(name, namespace), body=options)

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        annotations: dict[str, str] | None = None,
        precondition: PreSendCheck | None = None,
    ) -> None:
        """Create the pod's Binding. One try: `binding.bind_and_settle` knows what failures mean.

        `annotations` are merged into the pod's by the API server in the same transaction.
        `precondition` is asked when the request is about to leave; a reason raises
        `PreconditionFailed`.
        """
        metadata = pod.metadata
        body = _encoder.encode(
            _Binding(
                _BindingMeta(metadata.name, metadata.namespace, metadata.uid, annotations),
                _BindingTarget(node_name),
            )
        )
        # Names come from the API server, which admits nothing in them that would need quoting.
        target = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}/{self._binding}"
        await self._send(
            "POST", target, body, JSON, self.bind_timeout, MAX_BODY_BYTES, precondition
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        timeout: float | None = None,
        max_body: int = MAX_BODY_BYTES,
    ) -> Response:
        """Send any request. `path` must be quoted; `max_body` limits the answer's body, bytes.

        Raises:
            ApiError: the answer's status is 400 or above.
            ConnectionFailed, RequestTimeout, NotLeader: no answer; see
            `RequestError.outcome_unknown`.
        """
        if query:
            path = f"{path}?{urlencode(query)}"
        data = body if body is None or isinstance(body, bytes) else _encoder.encode(body)
        return await self._send(
            method,
            path,
            data,
            content_type,
            self.timeout if timeout is None else timeout,
            max_body,
        )

    @asynccontextmanager
    async def open_watch(
        self,
        resource: Resource[Any],
        namespace: str,
        query: Mapping[str, str],
        *,
        idle_timeout: float,
    ) -> AsyncIterator[ResponseStream]:
        """Open a watch and give its bytes; leaving the context cuts it.

        Raises:
            ApiError: the server refused the watch; a 401 has renewed the credential already.
        """
        path = f"{resource.collection_path(namespace)}?{urlencode({'watch': '1', **query})}"
        await self._authorize("WATCH", path)
        sent_with = self._credential()
        request = Request("GET", path, self._headers[""])
        async with self.transport.stream(request, idle_timeout=idle_timeout) as stream:
            if stream.status >= 400:
                body = await read_error_body(stream)
                if stream.status == 401:
                    await self._replace(sent_with, "WATCH", path)
                retry_after = header(stream.head, "Retry-After")
                raise self._api_error("WATCH", path, stream.status, body, retry_after)
            yield stream

    # ------------------------------------------------------------------------------------ internals

    def _build_headers(self, authorization: str | None) -> dict[str, HeaderBlock]:
        """Headers by content type; the key "" is for requests without a body."""
        base = {
            "Accept": JSON,
            "Accept-Encoding": "identity",
            "User-Agent": self._user_agent,
        }
        if authorization:
            base["Authorization"] = authorization
        headers = {"": HeaderBlock(base)}
        for content_type in (JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
            headers[content_type] = HeaderBlock({**base, "Content-Type": content_type})
        return headers

    async def _authorize(self, method: str, path: str) -> None:
        try:
            authorization = await self._credentials.authorization()
        except ConfigurationError as error:
            raise ConnectionFailed(method, path, str(error), sent=False) from error
        if authorization != self._authorization:
            try:
                self._headers = self._build_headers(authorization)
            except ValueError as error:
                raise ConnectionFailed(method, path, str(error), sent=False) from error
            self._authorization = authorization

    def _credential(self) -> tuple[str | None, ResumingContext | None]:
        """Who we are for a request that leaves now: its header, and which certificate."""
        return self._authorization, None if self._tls is None else self._tls.current()

    async def _replace(
        self, refused: tuple[str | None, ResumingContext | None], method: str, path: str
    ) -> bool:
        """Have another credential than the one the server refused; False when there is none."""
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

    async def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        timeout: float,
        max_body: int,
        precondition: PreSendCheck | None = None,
    ) -> Response:
        path = target.partition("?")[0]
        renewed = False
        tries = 0
        while True:
            await self._wait_for_turn(method)
            await self._authorize(method, path)
            guard = None
            if method != "GET":
                # Asked last: every wait above may have taken longer than the lease. And again by
                # the transport, should it have to wait.
                guard = partial(self._check, method, path, precondition)
                guard()
            sent_with = self._credential()
            answer = await self._exchange(
                method, target, body, content_type, timeout, max_body, guard
            )
            status = answer.status
            if status < 400:
                return answer
            error = self._api_error(method, path, status, answer.body, answer.header("Retry-After"))
            tries += 1
            if status == 401 and not renewed:
                renewed = True
                if await self._replace(sent_with, method, path):
                    continue
            elif status == 429 and error.retry_after is not None and tries < THROTTLED_ATTEMPTS:
                await self.clock.sleep(error.retry_after)
                continue
            try:
                raise error
            finally:
                # Its traceback holds this frame and all callers', with their pods of 1 MB: as a
                # cycle they would stay until the next garbage collection.
                del error

    def _check(self, method: str, path: str, precondition: PreSendCheck | None) -> None:
        if not self._fence.allowed():
            raise NotLeader(method, path)
        if precondition is not None and (reason := precondition()):
            raise PreconditionFailed(method, path, reason)

    def _api_error(
        self, method: str, path: str, status: int, body: bytes, retry_after: str | None
    ) -> ApiError:
        return api_error(method, path, status, body, retry_after, now=self.clock.now())

    async def _wait_for_turn(self, method: str) -> None:
        if self._limiter is None:
            return
        delay = self._limiter.reserve()
        if delay > 0.0:
            self.metrics.throttled(method, delay)
            await self.clock.sleep(delay)

    async def _exchange(
        self,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        timeout: float,
        max_body: int,
        guard: Guard | None,
    ) -> Response:
        headers = self._headers.get(content_type if body is not None else "")
        if headers is None:
            headers = HeaderBlock({**self._headers[""].fields, "Content-Type": content_type})
        started = self.clock.monotonic()
        code = "<error>"
        try:
            request = Request(method, target, headers, body, max_body, guard)
            response = await self.transport.exchange(request, timeout)
            code = str(response.status)
            return response
        except RequestTimeout:
            code = "<timeout>"
            raise
        finally:
            self.metrics.request(method, code, self.clock.monotonic() - started)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _encoded(resource: Resource[T], item: T | Body) -> Body:
    if isinstance(item, (bytes, Mapping)):
        return item
    return resource.encode(item)


async def _decoded_page(body: bytes) -> Page:
    try:
        return _page_decoder.decode(body)
    except RecursionError:
        # Some 20 ns a byte, and most of it without the interpreter's lock.
        return await asyncio.to_thread(_decoded_deep_page, body)


def _decoded_deep_page(body: bytes) -> Page:
    # Splitting a page into items skips them by recursion as well. The items stay as they are.
    from scheduler.api.nesting import Nesting  # noqa: PLC0415 - see scheduler.api.decoding

    nesting = Nesting(body)
    page = _page_decoder.decode(nesting.pruned())
    if page.items:
        page.items = [msgspec.Raw(item) for item in nesting.elements("items")]
    return page


def _decoded(resource: Resource[T], method: str, path: str, body: bytes | msgspec.Raw) -> T:
    try:
        return resource.decode(body)
    except ValueError as error:
        raise MalformedResponse(method, path, f"not a {resource.kind}: {error}") from error


__all__ = [
    "BIND_TIMEOUT_SECONDS",
    "JSON",
    "MERGE_PATCH",
    "PAGE_SIZE",
    "STRATEGIC_MERGE_PATCH",
    "ApiClient",
    "ApiError",
    "Body",
    "ListMeta",
    "Page",
    "RequestError",
]
