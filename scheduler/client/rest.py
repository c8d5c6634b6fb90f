"""Typed verbs of the Kubernetes API over one shared transport.

Every request has a timeout; `request_sender` has the rules that apply to all of them. Only a 401
or 429 is retried here: callers know what their writes mean (`binding`, `status_patch`, `events`).

Watches bypass the rate limit and are opened by `open_watch`; `reflector` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from scheduler.api.pod import Pod
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.errors import MalformedResponse, ResponseTooLarge
from scheduler.client.fence import Fence, OpenFence
from scheduler.client.http.parser import MAX_BODY_BYTES, MAX_PAGE_BYTES, MAX_UNPAGED_BYTES
from scheduler.client.http.response import Response
from scheduler.client.http.stream import ResponseStream
from scheduler.client.metrics import ClientMetrics, NullMetrics
from scheduler.client.outages import OutageLog
from scheduler.client.paging import PAGE_SIZE, Page, PageSizes, decode_page
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.request_sender import (
    JSON,
    STRATEGIC_MERGE_PATCH,
    PreSendCheck,
    RequestSender,
    TraceHeaders,
)
from scheduler.client.resources import Resource, T
from scheduler.client.transport import Transport

REQUEST_TIMEOUT_SECONDS: Final = 30.0
"""For an ordinary request, waiting for a connection included."""

BIND_TIMEOUT_SECONDS: Final = 4.0
"""With the default renew deadline of 10 s it stays below the lease duration of 15 s
(docs/decisions/0007-lease-thread.md)."""

Body = bytes | Mapping[str, Any]


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


_encoder = msgspec.json.Encoder()


class ApiClient:
    """Verbs for one purpose: own user agent, rate limit, timeout and fence, shared transport."""

    def __init__(  # noqa: PLR0913 - one client, settings by name
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
        trace_headers: TraceHeaders | None = None,
    ) -> None:
        """Without a limiter there is no limit; without a fence writes are always allowed.

        `trace_headers` ties requests to the trace of the task that sends them; watches have none.
        """
        self.transport = transport
        self.timeout = timeout
        self.bind_timeout = bind_timeout
        self.clock: Clock = clock or SystemClock()
        self.metrics: ClientMetrics = metrics or NullMetrics()
        found = transport.configuration
        self.outages = OutageLog(self.clock, found.server, found.source, found.kubectl)
        self._user_agent = user_agent
        self._trace_headers = trace_headers
        self._sender = RequestSender(
            transport,
            user_agent=user_agent,
            limiter=limiter,
            fence=fence or OpenFence(),
            clock=self.clock,
            metrics=self.metrics,
            trace_headers=trace_headers,
        )
        # The server stops at our timeout, so that a bind rarely takes effect after it was settled.
        self._binding = f"binding?timeout={bind_timeout:g}s"
        self._page_sizes = PageSizes()

    def derive(
        self,
        suffix: str,
        *,
        limiter: RateLimiter | None = None,
        fence: Fence | None = None,
        timeout: float | None = None,
    ) -> ApiClient:
        """Make a client for another purpose on the same connections, without limit and fence."""
        return ApiClient(
            self.transport,
            user_agent=f"{self._user_agent}/{suffix}",
            limiter=limiter,
            fence=fence,
            timeout=self.timeout if timeout is None else timeout,
            bind_timeout=self.bind_timeout,
            clock=self.clock,
            metrics=self.metrics,
            trace_headers=self._trace_headers,
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
        response = await self.request("GET", path, timeout=timeout)
        return _decoded(resource, "GET", path, response.body)

    async def list_page(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        continue_token: str = "",
    ) -> Page:
        """Read one page; `limit` 0 reads everything at once.

        A page may have fewer items than `limit`: large objects come in small pages (`paging`).

        Raises:
            ApiError: status 410 when `continue_token` has expired.
            MalformedResponse: the body is not a list with a resourceVersion.
        """
        query = {"fieldSelector": field_selector} if field_selector else {}
        if continue_token:
            query["continue"] = continue_token
        path = resource.collection_path(namespace)
        response = await self._request_page(path, query, limit)
        try:
            page = await decode_page(response.body)
        except ValueError as error:
            raise MalformedResponse("GET", path, f"not a list: {error}") from error
        if limit:
            size, length = int(query["limit"]), len(response.body)
            self._page_sizes.received(path, size, len(page.items or ()), length)
        if resource.versioned and not page.metadata.resource_version:
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
        field_selector: str = "",
        limit: int | None = None,
    ) -> list[T]:
        """Read all objects, or the first `limit`, page by page.

        For objects that should be followed use a `Reflector`.
        """
        items: list[T] = []
        token = ""
        while True:
            page = await self.list_page(
                resource, namespace, field_selector=field_selector, continue_token=token
            )
            path = resource.collection_path(namespace)
            items += [_decoded(resource, "GET", path, raw) for raw in page.items or ()]
            token = page.metadata.continue_token
            if not token or (limit is not None and len(items) >= limit):
                return items[:limit]

    async def create(self, resource: Resource[T], body: Body, namespace: str = "") -> T:
        """Create an object from a mapping or ready JSON."""
        path = resource.collection_path(namespace)
        response = await self.request("POST", path, body=body)
        return _decoded(resource, "POST", path, response.body)

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
        response = await self.request("PATCH", path, body=body, content_type=patch_type)
        return _decoded(resource, "PATCH", path, response.body)

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
        """Delete an object; with `uid` or `resource_version` only that one (409 otherwise)."""
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
        """Create the pod's Binding. One attempt: `binding` interprets failures.

        `annotations` are merged into the pod's by the API server in the same transaction.
        `precondition` is called when the request is about to be sent; a reason raises
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
        await self._sender.send(
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
        """Send any request. `path` must be quoted; `max_body` limits the response's body, bytes.

        Raises:
            ApiError: the status of the response is 400 or above.
            ConnectionFailed, RequestTimeout, NotLeader: no response; see
                `RequestError.outcome_unknown`.
        """
        if query:
            path = f"{path}?{urlencode(query)}"
        data = body if body is None or isinstance(body, bytes) else _encoder.encode(body)
        return await self._sender.send(
            method,
            path,
            data,
            content_type,
            self.timeout if timeout is None else timeout,
            max_body,
        )

    def open_watch(
        self,
        resource: Resource[Any],
        namespace: str,
        query: Mapping[str, str],
        *,
        idle_timeout: float,
    ) -> AbstractAsyncContextManager[ResponseStream]:
        """Open a watch; leaving the context closes its connection.

        Raises:
            ApiError: the server refused the watch; a 401 has renewed the credential already.
        """
        target = f"{resource.collection_path(namespace)}?{urlencode({'watch': '1', **query})}"
        return self._sender.open_watch(target, idle_timeout=idle_timeout)


def _decoded(resource: Resource[T], method: str, path: str, body: bytes | msgspec.Raw) -> T:
    try:
        return resource.decode(body)
    except ValueError as error:
        raise MalformedResponse(method, path, f"not a {resource.kind}: {error}") from error
