"""The endpoints as an aiohttp application (framework-cycle-config.md 8.3).

Every request is authenticated, authorised, answered and its connection closed. Answers to whom
something is refused are kube-scheduler's, byte for byte. Nothing here listens: see `server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from aiohttp import web

from scheduler.api.pod import Pod
from scheduler.client.reviews import UserInfo
from scheduler.service.metrics.pod_resources import render_pod_resources
from scheduler.service.serving import access, debug_pages
from scheduler.service.serving.access import Authenticator, Authorizer, Credentials
from scheduler.service.serving.debug_pages import DebugPages
from scheduler.service.serving.health import ENDPOINTS, HealthAnswer, HealthChecks
from scheduler.service.serving.slis import HealthSlis

_log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES: Final = 1024
"""Nothing that is served reads a body, but for one number."""

MAX_NUMBER_BYTES: Final = 32

MAX_IN_FLIGHT: Final = 100
"""Requests at once, health checks apart: more are answered 429."""

ACCESS_TIMEOUT_SECONDS: Final = 10.0
"""For both reviews together; kubelet and Prometheus give up at about that time."""

_PROBED: Final = frozenset(f"/{endpoint}" for endpoint in ENDPOINTS)

TEXT: Final = "text/plain; charset=utf-8"


class MetricsSource(Protocol):
    """What `SchedulerMetrics` offers here."""

    def refresh(self) -> None:
        """Bring gauges up to date. On the loop."""
        ...

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Text and content type. In a worker thread."""
        ...

    def reset(self) -> None:
        """Zero what counts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What is served."""

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


def create_app(
    endpoints: Endpoints, authenticator: Authenticator, authorizer: Authorizer
) -> web.Application:
    """Build the application; `/metrics/slis` becomes the observer of the health checks."""
    endpoints.health.observer = endpoints.slis
    app = web.Application(
        middlewares=[_Limit(), _Access(authenticator, authorizer)], client_max_size=MAX_BODY_BYTES
    )
    app.on_response_prepare.append(_finish_headers)
    handlers = _Handlers(endpoints)
    for endpoint in ENDPOINTS:
        app.router.add_route("*", f"/{endpoint}", handlers.health(endpoint))
        app.router.add_route("*", f"/{endpoint}/{{check}}", handlers.one_check(endpoint))
    app.router.add_get("/metrics", handlers.metrics)
    app.router.add_delete("/metrics", handlers.reset_metrics)
    app.router.add_get("/metrics/slis", handlers.slis)
    app.router.add_get("/metrics/resources", handlers.resources)
    app.router.add_get("/configz", handlers.configz)
    app.router.add_get("/version", handlers.version)
    if endpoints.set_verbosity is not None:
        app.router.add_put("/debug/flags/v", handlers.set_verbosity)
    app.router.add_get("/debug", handlers.debug_index)
    app.router.add_get("/debug/{page:.+}", handlers.debug_page)
    return app


class _Handlers:
    """One method per endpoint."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        # A scrape is tens of milliseconds of CPU in a thread; one after the other is enough.
        self._scraping = asyncio.Lock()

    def health(self, endpoint: str) -> Handler:
        """All checks of an endpoint."""

        async def handle(request: web.Request) -> web.Response:
            answer = self._endpoints.health.answer(
                endpoint,
                verbose="verbose" in request.query,
                excluded=request.query.getall("exclude", []),
            )
            return _health_response(answer)

        return handle

    def one_check(self, endpoint: str) -> Handler:
        """A single check, with the reason of its failure."""

        async def handle(request: web.Request) -> web.Response:
            answer = self._endpoints.health.answer_one(endpoint, request.match_info["check"])
            return not_found() if answer is None else _health_response(answer)

        return handle

    async def metrics(self, request: web.Request) -> web.Response:
        """Everything measured, in the format the scraper prefers."""
        source = self._endpoints.metrics
        async with self._scraping:
            source.refresh()
            accept = request.headers.get("Accept", "")
            body, content_type = await asyncio.to_thread(source.exposition, accept)
        return _text(body, content_type)

    async def reset_metrics(self, _: web.Request) -> web.Response:
        """Zero what counts."""
        self._endpoints.metrics.reset()
        return _text(b"metrics reset\n")

    async def slis(self, request: web.Request) -> web.Response:
        """Results of the health checks."""
        body, content_type = self._endpoints.slis.exposition(request.headers.get("Accept", ""))
        return _text(body, content_type)

    async def resources(self, _: web.Request) -> web.Response:
        """Requests and limits of all pods, from one moment."""
        pods = self._endpoints.pods()
        async with self._scraping:
            body = await asyncio.to_thread(render_pod_resources, pods)
        return _text(body, "text/plain; version=0.0.4; charset=utf-8")

    async def configz(self, _: web.Request) -> web.Response:
        """The effective configuration."""
        return _json(self._endpoints.configz())

    async def version(self, _: web.Request) -> web.Response:
        """What this build is."""
        return _json(self._endpoints.version)

    async def set_verbosity(self, request: web.Request) -> web.Response:
        """Change the log level while running; the body is the number."""
        body = (await request.content.read(MAX_NUMBER_BYTES)).decode("ascii", "replace").strip()
        set_verbosity = self._endpoints.set_verbosity
        if set_verbosity is None or not body.isdecimal() or len(body) > 4:
            return _error(400, f'failed to set verbosity: "{body[:40]}" is not a number')
        set_verbosity(int(body))
        return _text(f"successfully set klog.logging.verbosity to {int(body)}".encode())

    async def debug_index(self, _: web.Request) -> web.Response:
        """The names of the debug pages."""
        return _json([f"/debug/{name}" for name in self._endpoints.debug.names()])

    async def debug_page(self, request: web.Request) -> web.Response:
        """One debug page."""
        page = self._endpoints.debug.get(request.match_info["page"])
        if page is None:
            return not_found()
        try:
            return _json(page(request.query))
        except LookupError as error:
            return _error(404, str(error.args[0]) if error.args else "not found")
        except ValueError as error:
            return _error(400, str(error))


class _Limit:
    """Middleware: bounds the requests at work. Health endpoints are always answered."""

    __middleware_version__ = 1

    def __init__(self) -> None:
        self._in_flight = 0

    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _PROBED:
            return await handler(request)
        if self._in_flight >= MAX_IN_FLIGHT:
            response = _error(429, "Too many requests, please try again later.")
            response.headers["Retry-After"] = "1"
            return response
        self._in_flight += 1
        try:
            return await handler(request)
        finally:
            self._in_flight -= 1


class _Access:
    """Middleware: authenticates and authorises every request, known path or not."""

    __middleware_version__ = 1

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = await self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return not_found()

    async def _refusal(self, request: web.Request) -> web.Response | None:
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
            _log.warning("cannot decide about a request", path=path, error=str(error))
            return _error(500, f'Internal Server Error: "{path}": access could not be reviewed')
        who = f'User "{user.username}"'
        message = f'forbidden: {who} cannot {verb} path "{path}"'
        return _status(403, "Forbidden", message, details=True)

    async def _authenticate(self, credentials: Credentials) -> UserInfo | None:
        try:
            return await self._authenticator.authenticate(credentials)
        except access.AccessUnknownError as error:
            # As upstream: who cannot be identified is refused, whatever the cause.
            _log.warning("cannot authenticate a request", error=str(error))
            return None


async def _finish_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("Cache-Control", "no-cache, private")
    response.headers.popall("Server", None)
    # One request for each connection, see `server`. Headers are complete by now: say it here too.
    response.force_close()
    response.headers["Connection"] = "close"


def not_found() -> web.Response:
    """What Go's HTTP server says."""
    return _error(404, "404 page not found")


def _health_response(answer: HealthAnswer) -> web.Response:
    response = _text(answer.body.encode())
    response.set_status(200 if answer.healthy else 500)
    return response


def _error(status: int, text: str) -> web.Response:
    response = _text(text.rstrip("\n").encode() + b"\n")
    response.set_status(status)
    return response


def _text(body: bytes, content_type: str = TEXT) -> web.Response:
    headers = {"Content-Type": content_type, "X-Content-Type-Options": "nosniff"}
    return web.Response(body=body, headers=headers)


def _json(data: object) -> web.Response:
    body = debug_pages.encode(data)
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
