"""The handler of requests to the endpoints.

Every request is authenticated, then authorised. Refusals are kube-scheduler's, byte for byte; other
errors have fixed texts. `server` listens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from aiohttp import web

from scheduler.api.pod import Pod
from scheduler.client.reviews import UserInfo
from scheduler.metrics.pod_resources import render_pod_resources
from scheduler.service.limited_log import LimitedLog
from scheduler.service.serving import access, debug_pages
from scheduler.service.serving.access import Authenticator, Authorizer, Credentials
from scheduler.service.serving.connections import client_of
from scheduler.service.serving.debug_pages import DebugPages
from scheduler.service.serving.health import ENDPOINTS, HealthChecks, HealthResponse
from scheduler.service.serving.server import Handler
from scheduler.service.serving.slis import HealthSlis

MAX_NUMBER_BYTES: Final = 32

MAX_IN_FLIGHT: Final = 100
"""Requests at once, health checks apart: more are answered 429."""

MAX_IN_FLIGHT_PER_CLIENT: Final = 25
"""Bounds one client's invalid tokens, so that reviews of other clients remain possible."""

ACCESS_TIMEOUT_SECONDS: Final = 10.0
"""For both reviews together; kubelet and Prometheus give up at about that time."""

_PROBED: Final = frozenset(f"/{endpoint}" for endpoint in ENDPOINTS)

TEXT: Final = "text/plain; charset=utf-8"


class MetricsSource(Protocol):
    """The part of `SchedulerMetrics` that is served."""

    def refresh(self) -> None:
        """Update gauges. On the loop."""
        ...

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return text and content type. In a worker thread."""
        ...

    def reset(self) -> None:
        """Zero counters and histograms."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The sources of the endpoints."""

    health: HealthChecks
    metrics: MetricsSource
    #: The body of `/configz`, see `config.configz`.
    configz: Callable[[], object]
    debug: DebugPages = field(default_factory=DebugPages)
    #: The body of `/version`.
    version: Mapping[str, str] = field(default_factory=dict)
    slis: HealthSlis = field(default_factory=HealthSlis)
    #: The pods behind `/metrics/resources`; none while another replica leads.
    pods: Callable[[], tuple[Pod, ...]] = tuple
    #: What `PUT /debug/flags/v` does; None switches it off, as without profiling.
    set_verbosity: Callable[[int], None] | None = None


def create_handler(
    endpoints: Endpoints, authenticator: Authenticator, authorizer: Authorizer
) -> Handler:
    """Build the handler of all requests; `/metrics/slis` observes the health checks from now on."""
    endpoints.health.observer = endpoints.slis
    router = _Router(_Handlers(endpoints), set_verbosity=endpoints.set_verbosity is not None)
    return _Limit(_Access(authenticator, authorizer, router))


class _Router:
    """Finds the handler for a path and method; both have been authorised by then."""

    def __init__(self, handlers: _Handlers, *, set_verbosity: bool) -> None:
        get = _reading
        self._exact: dict[str, Mapping[str, Handler]] = {
            "/metrics": get(handlers.metrics) | {"DELETE": handlers.reset_metrics},
            "/metrics/slis": get(handlers.slis),
            "/metrics/resources": get(handlers.resources),
            "/configz": get(handlers.configz),
            "/version": get(handlers.version),
            "/debug": get(handlers.debug_index),
        }
        if set_verbosity:
            self._exact["/debug/flags/v"] = {"PUT": handlers.set_verbosity}
        self._handlers = handlers

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        endpoint, slash, check = path[1:].partition("/")
        if endpoint in ENDPOINTS:
            # Whatever the method, as upstream.
            if slash:
                return self._handlers.one_check(endpoint, check)
            return self._handlers.health(endpoint, request)
        methods = self._exact.get(path)
        if methods is None and path.startswith("/debug/"):
            methods = _reading(self._handlers.debug_page)
        if methods is None:
            return not_found()
        handler = methods.get(request.method)
        if handler is None:
            response = _error(405, "Method Not Allowed")
            response.headers["Allow"] = ", ".join(methods)
            return response
        return await handler(request)


def _reading(handler: Handler) -> dict[str, Handler]:
    return {"GET": handler, "HEAD": handler}


class _Handlers:
    """One method per endpoint."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        # A scrape takes tens of milliseconds of CPU in a thread, so one at a time.
        self._scraping = asyncio.Lock()

    def health(self, endpoint: str, request: web.BaseRequest) -> web.Response:
        """Run all checks of an endpoint."""
        answer = self._endpoints.health.answer(
            endpoint,
            verbose="verbose" in request.query,
            excluded=request.query.getall("exclude", []),
        )
        return _health_response(answer)

    def one_check(self, endpoint: str, check: str) -> web.Response:
        """Run a single check, with the reason of its failure."""
        answer = self._endpoints.health.answer_one(endpoint, check)
        return not_found() if answer is None else _health_response(answer)

    async def metrics(self, request: web.BaseRequest) -> web.Response:
        """Return all metrics in the format that the scraper prefers."""
        source = self._endpoints.metrics
        async with self._scraping:
            source.refresh()
            accept = request.headers.get("Accept", "")
            body, content_type = await asyncio.to_thread(source.exposition, accept)
        return _text(body, content_type)

    async def reset_metrics(self, _: web.BaseRequest) -> web.Response:
        """Zero counters and histograms."""
        self._endpoints.metrics.reset()
        return _text(b"metrics reset\n")

    async def slis(self, request: web.BaseRequest) -> web.Response:
        """Return the results of health checks."""
        body, content_type = self._endpoints.slis.exposition(request.headers.get("Accept", ""))
        return _text(body, content_type)

    async def resources(self, _: web.BaseRequest) -> web.Response:
        """Return requests and limits of all pods, as of one moment."""
        pods = self._endpoints.pods()
        async with self._scraping:
            body = await asyncio.to_thread(render_pod_resources, pods)
        return _text(body, "text/plain; version=0.0.4; charset=utf-8")

    async def configz(self, _: web.BaseRequest) -> web.Response:
        """Return the effective configuration."""
        return await _json(self._endpoints.configz())

    async def version(self, _: web.BaseRequest) -> web.Response:
        """Return the version of this build."""
        return await _json(self._endpoints.version)

    async def set_verbosity(self, request: web.BaseRequest) -> web.Response:
        """Set the log level; the body is the number."""
        body = (await request.content.read(MAX_NUMBER_BYTES)).decode("ascii", "replace").strip()
        set_verbosity = self._endpoints.set_verbosity
        if set_verbosity is None or not body.isdecimal() or len(body) > 4:
            return _error(400, f'failed to set verbosity: "{body[:40]}" is not a number')
        set_verbosity(int(body))
        return _text(f"successfully set klog.logging.verbosity to {int(body)}".encode())

    async def debug_index(self, _: web.BaseRequest) -> web.Response:
        """Return the names of the debug pages."""
        return await _json([f"/debug/{name}" for name in self._endpoints.debug.names()])

    async def debug_page(self, request: web.BaseRequest) -> web.Response:
        """Return one debug page."""
        page = self._endpoints.debug.get(request.path.removeprefix("/debug/"))
        if page is None:
            return not_found()
        try:
            data = page(request.query)
        except LookupError as error:
            return _error(404, str(error.args[0]) if error.args else "not found")
        except ValueError as error:
            return _error(400, str(error))
        return await _json(data)


class _Limit:
    """Bound of concurrent requests, in total and per client.

    Health checks that are open to everyone are exempt.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        # A token must be reviewed by the API server first.
        if request.path in _PROBED and "Authorization" not in request.headers:
            return await self._handler(request)
        client = client_of(request.remote or "")
        if (
            self._in_flight.total() >= MAX_IN_FLIGHT
            or self._in_flight[client] >= MAX_IN_FLIGHT_PER_CLIENT
        ):
            response = _error(429, "Too many requests, please try again later.")
            response.headers["Retry-After"] = "1"
            return response
        self._in_flight[client] += 1
        try:
            return await self._handler(request)
        finally:
            self._in_flight[client] -= 1
            if not self._in_flight[client]:
                del self._in_flight[client]


class _Access:
    """Authenticates and authorises every request, known path or not."""

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, handler: Handler
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._handler = handler
        self._log = LimitedLog(__name__)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        refusal = await self._refusal(request)
        return await self._handler(request) if refusal is None else refusal

    async def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        token = access.bearer_token(request.headers.get("Authorization"))
        verb, path = request.method.lower(), request.path
        try:
            async with asyncio.timeout(ACCESS_TIMEOUT_SECONDS):
                user = await self._authenticate(Credentials(token, certificate))
                if user is None:
                    return _status(401, "Unauthorized", "Unauthorized")
                if await self._authorizer.authorize(user, verb, path):
                    return None
        except (access.AccessUnknownError, TimeoutError) as error:
            self._log.warning("cannot decide about a request", path=path, error=str(error))
            return _error(500, f'Internal Server Error: "{path}": access could not be reviewed')
        who = f'User "{user.username}"'
        message = f'forbidden: {who} cannot {verb} path "{path}"'
        return _status(403, "Forbidden", message, details=True)

    async def _authenticate(self, credentials: Credentials) -> UserInfo | None:
        try:
            return await self._authenticator.authenticate(credentials)
        except access.AccessUnknownError as error:
            # As upstream: an unidentified client is refused, whatever the cause.
            self._log.warning("cannot authenticate a request", error=str(error))
            return None


def not_found() -> web.Response:
    """Return the 404 of Go's HTTP server."""
    return _error(404, "404 page not found")


def _health_response(answer: HealthResponse) -> web.Response:
    response = _text(answer.body.encode())
    response.set_status(200 if answer.healthy else 500)
    return response


def _error(status: int, text: str) -> web.Response:
    response = _text(text.rstrip("\n").encode() + b"\n")
    response.set_status(status)
    return response


def _text(body: bytes, content_type: str = TEXT) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": content_type})


async def _json(data: object) -> web.Response:
    # Encoded at once, so that it shows one moment; the rest runs in a thread.
    body = await asyncio.to_thread(debug_pages.finish, debug_pages.compact(data))
    return _text(body, "application/json")


def _status(code: int, reason: str, message: str, *, details: bool = False) -> web.Response:
    """A metav1.Status as Go prints it, field order and final line end included."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details:
        status["details"] = {}
    status["code"] = code
    response = _text(debug_pages.compact(status) + b"\n", "application/json")
    response.set_status(code)
    return response
