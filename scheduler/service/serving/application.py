"""The endpoints: from a request to its answer (framework-cycle-config.md 8.3).

Every request is authenticated, authorised and answered. Answers to whom something is refused are
kube-scheduler's, byte for byte. Nothing here listens: see `server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from scheduler.api.pod import Pod
from scheduler.client.reviews import UserInfo
from scheduler.service.metrics.pod_resources import render_pod_resources
from scheduler.service.serving import access, answers
from scheduler.service.serving.access import Authenticator, Authorizer, Credentials
from scheduler.service.serving.answers import Answer
from scheduler.service.serving.debug_pages import DebugPages
from scheduler.service.serving.health import ENDPOINTS, HealthAnswer, HealthChecks
from scheduler.service.serving.requests import Request
from scheduler.service.serving.slis import HealthSlis

_log = structlog.get_logger(__name__)

Handler = Callable[[Request], Awaitable[Answer]]

MAX_NUMBER_BYTES: Final = 32

MAX_IN_FLIGHT: Final = 100
"""Requests at once, health checks apart: more are answered 429."""

ACCESS_TIMEOUT_SECONDS: Final = 10.0
"""For both reviews together; kubelet and Prometheus give up at about that time."""

_DEBUG: Final = "/debug/"

_PROBED: Final = frozenset(f"/{endpoint}" for endpoint in ENDPOINTS)


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


class Application:
    """Answers requests. Call it with one."""

    def __init__(
        self, endpoints: Endpoints, authenticator: Authenticator, authorizer: Authorizer
    ) -> None:
        """`/metrics/slis` becomes the observer of the health checks."""
        endpoints.health.observer = endpoints.slis
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._handlers = _Handlers(endpoints)
        self._routes = self._handlers.routes()
        self._in_flight = 0

    async def __call__(self, request: Request) -> Answer:
        """The answer. Health endpoints are always asked; how many others are at work is bounded."""
        if request.path in _PROBED:
            return await self._answer(request)
        if self._in_flight >= MAX_IN_FLIGHT:
            reason = "Too many requests, please try again later."
            return answers.error(429, reason, {"Retry-After": "1"})
        self._in_flight += 1
        try:
            return await self._answer(request)
        finally:
            self._in_flight -= 1

    async def _answer(self, request: Request) -> Answer:
        """Of who may know, known path or not."""
        refusal = await self._refusal(request)
        return await self._route(request) if refusal is None else refusal

    async def _route(self, request: Request) -> Answer:
        path = request.path
        methods = self._routes.get(path)
        if methods is None:
            endpoint, slash, check = path[1:].partition("/")
            if slash and endpoint in ENDPOINTS:
                return self._handlers.one_check(endpoint, check)
            if not path.startswith(_DEBUG):
                return answers.not_found()
            methods = {"GET": self._handlers.debug_page}
        method = "GET" if request.method == "HEAD" else request.method
        handler = methods.get(method) or methods.get("*")
        if handler is None:
            allowed = ", ".join(sorted(methods))
            return answers.error(405, "405 method not allowed", {"Allow": allowed})
        return await handler(request)

    async def _refusal(self, request: Request) -> Answer | None:
        token = access.bearer_token(request.headers.get("authorization"))
        verb, path = request.method.lower(), request.path
        try:
            async with asyncio.timeout(ACCESS_TIMEOUT_SECONDS):
                user = await self._authenticate(Credentials(token, request.certificate))
                if user is None:
                    return answers.refusal(401, "Unauthorized", "Unauthorized")
                if await self._authorizer.authorize(user, verb, path):
                    return None
        except (access.AccessUnknownError, TimeoutError) as error:
            _log.warning("cannot decide about a request", path=path, error=str(error))
            reason = f'Internal Server Error: "{path}": access could not be reviewed'
            return answers.error(500, reason)
        who = f'User "{user.username}"'
        message = f'forbidden: {who} cannot {verb} path "{path}"'
        return answers.refusal(403, "Forbidden", message, details=True)

    async def _authenticate(self, credentials: Credentials) -> UserInfo | None:
        try:
            return await self._authenticator.authenticate(credentials)
        except access.AccessUnknownError as error:
            # As upstream: who cannot be identified is refused, whatever the cause.
            _log.warning("cannot authenticate a request", error=str(error))
            return None


class _Handlers:
    """One method per endpoint."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        # A scrape is tens of milliseconds of CPU in a thread; one after the other is enough.
        self._scraping = asyncio.Lock()

    def routes(self) -> dict[str, dict[str, Handler]]:
        """Handlers by path and method; GET means HEAD as well, `*` any."""
        routes: dict[str, dict[str, Handler]] = {
            "/metrics": {"GET": self.metrics, "DELETE": self.reset_metrics},
            "/metrics/slis": {"GET": self.slis},
            "/metrics/resources": {"GET": self.resources},
            "/configz": {"GET": self.configz},
            "/version": {"GET": self.version},
            "/debug": {"GET": self.debug_index},
        }
        for endpoint in ENDPOINTS:
            routes[f"/{endpoint}"] = {"*": self.health(endpoint)}
        if self._endpoints.set_verbosity is not None:
            routes["/debug/flags/v"] = {"PUT": self.set_verbosity}
        return routes

    def health(self, endpoint: str) -> Handler:
        """All checks of an endpoint."""

        async def handle(request: Request) -> Answer:
            answer = self._endpoints.health.answer(
                endpoint, verbose="verbose" in request.query, excluded=request.all_of("exclude")
            )
            return _health_answer(answer)

        return handle

    def one_check(self, endpoint: str, check: str) -> Answer:
        """A single check, with the reason of its failure."""
        answer = self._endpoints.health.answer_one(endpoint, check)
        return answers.not_found() if answer is None else _health_answer(answer)

    async def metrics(self, request: Request) -> Answer:
        """Everything measured, in the format the scraper prefers."""
        source = self._endpoints.metrics
        async with self._scraping:
            source.refresh()
            accept = request.headers.get("accept", "")
            body, content_type = await asyncio.to_thread(source.exposition, accept)
        return Answer(body, content_type)

    async def reset_metrics(self, _: Request) -> Answer:
        """Zero what counts."""
        self._endpoints.metrics.reset()
        return answers.text("metrics reset\n")

    async def slis(self, request: Request) -> Answer:
        """Results of the health checks."""
        body, content_type = self._endpoints.slis.exposition(request.headers.get("accept", ""))
        return Answer(body, content_type)

    async def resources(self, _: Request) -> Answer:
        """Requests and limits of all pods, from one moment."""
        pods = self._endpoints.pods()
        async with self._scraping:
            body = await asyncio.to_thread(render_pod_resources, pods)
        return Answer(body, "text/plain; version=0.0.4; charset=utf-8")

    async def configz(self, _: Request) -> Answer:
        """The effective configuration."""
        return answers.json(self._endpoints.configz())

    async def version(self, _: Request) -> Answer:
        """What this build is."""
        return answers.json(self._endpoints.version)

    async def set_verbosity(self, request: Request) -> Answer:
        """Change the log level while running; the body is the number."""
        body = request.body[:MAX_NUMBER_BYTES].decode("ascii", "replace").strip()
        set_verbosity = self._endpoints.set_verbosity
        if set_verbosity is None or not body.isdecimal() or len(body) > 4:
            return answers.error(400, f'failed to set verbosity: "{body[:40]}" is not a number')
        set_verbosity(int(body))
        return answers.text(f"successfully set klog.logging.verbosity to {int(body)}")

    async def debug_index(self, _: Request) -> Answer:
        """The names of the debug pages."""
        return answers.json([f"/debug/{name}" for name in self._endpoints.debug.names()])

    async def debug_page(self, request: Request) -> Answer:
        """One debug page."""
        page = self._endpoints.debug.get(request.path.removeprefix(_DEBUG))
        if page is None:
            return answers.not_found()
        try:
            return answers.json(page(request.query))
        except LookupError as error:
            return answers.error(404, str(error.args[0]) if error.args else "not found")
        except ValueError as error:
            return answers.error(400, str(error))


def _health_answer(answer: HealthAnswer) -> Answer:
    return answers.text(answer.body, 200 if answer.healthy else 500)
