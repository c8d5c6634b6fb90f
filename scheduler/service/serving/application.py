"""The handler of requests to the endpoints.

Every request is authenticated, then authorised. Responses to unauthorised requests are
kube-scheduler's, byte for byte; other errors have fixed texts. `server` listens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import Final

from aiohttp import web

from scheduler.api.pod import Pod
from scheduler.client.reviews import UserInfo
from scheduler.explain.records import IndexPage
from scheduler.metrics import SchedulerMetrics
from scheduler.metrics.pod_resources import render_pod_resources
from scheduler.service.limited_log import LimitedLog
from scheduler.service.questions import (
    NotSyncedError,
    QuestionFailedError,
    TooManyQuestionsError,
    asking_user,
)
from scheduler.service.serving import json_body
from scheduler.service.serving.access import (
    ANONYMOUS,
    AccessUnknownError,
    Authenticator,
    Authorizer,
    ClientCredentials,
    ReviewForbiddenError,
    TokenReviewForbiddenError,
    bearer_token,
)
from scheduler.service.serving.connection import RequestProtocol
from scheduler.service.serving.connections import client_of
from scheduler.service.serving.health import ENDPOINTS, HealthChecks
from scheduler.service.serving.readers import (
    FindPod,
    Reader,
    namespace_of,
    own_wants,
    own_words,
    restrict,
    restricted,
)
from scheduler.service.serving.server import Handler

MAX_NUMBER_BYTES: Final = 32

MAX_IN_FLIGHT: Final = 100
"""Concurrent requests, without health checks; the response to further ones is 429."""

MAX_IN_FLIGHT_PER_CLIENT: Final = 25
"""Of one user, or of one address before its user is known: that bounds the invalid tokens of one
client, so that reviews of others remain possible."""

MAX_QUESTION_BYTES: Final = 64 * 1024
"""Body of a POST under `/debug/`: a pod's manifest, and changes."""

ACCESS_TIMEOUT_SECONDS: Final = 10.0
"""For both reviews together; kubelet and Prometheus give up at about that time."""

REVIEW_FAILED: Final = "access could not be reviewed"

_PROBED: Final = frozenset(f"/{endpoint}" for endpoint in ENDPOINTS)

READER: Final = web.RequestKey("kubestow.reader", Reader)
"""Item of a request whose answer is restricted."""

TEXT: Final = "text/plain; charset=utf-8"
BUNDLE: Final = "application/gzip"


Page = Callable[[Mapping[str, str]], object]
"""Return a debug page, encodable as JSON, for a query; LookupError is a 404, ValueError a 400.

Called on the loop; a page that could be long limits itself, or returns an awaitable and works in
slices. A `TooManyQuestionsError` is a 429, a `NotSyncedError` a 503.
"""

Answer = Callable[[bytes], Awaitable[object]]
"""Answer the body of a POST with a debug page; errors as of a `Page`."""


Stream = Callable[[Mapping[str, str]], AsyncGenerator[bytes]]
"""Yield a body for a query, in pieces; errors as of a `Page` before the first.

A piece is made within a slice of the event loop, or awaits in between.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSources:
    """The sources of the endpoints."""

    health: HealthChecks
    metrics: SchedulerMetrics
    #: The body of `/configz`, see `config.configz`.
    configz: Callable[[], object]
    #: Pages under `/debug/`, by name.
    debug: Mapping[str, Page] = field(default_factory=dict)
    #: Answers to POST under `/debug/`, by name.
    questions: Mapping[str, Answer] = field(default_factory=dict)
    #: Streams under `/debug/`, by name.
    streams: Mapping[str, Stream] = field(default_factory=dict)
    #: The body of `/version`.
    version: Mapping[str, str] = field(default_factory=dict)
    #: The pods behind `/metrics/resources`; none while another replica leads.
    pods: Callable[[], tuple[Pod, ...]] = tuple
    #: A pod by its namespace and name; the names in its spec may be shown to who may get it.
    find_pod: FindPod = lambda *_: None
    #: What `PUT /debug/flags/v` does; None switches it off, as without profiling.
    set_verbosity: Callable[[int], None] | None = None


def create_handler(
    sources: EndpointSources, authenticator: Authenticator, authorizer: Authorizer
) -> Handler:
    """Build the handler of all requests."""
    return _Limit(_Access(authenticator, authorizer, _Router(sources)))


class _Router:
    """Calls the method for a path and an HTTP method; both have been authorised by then."""

    def __init__(self, sources: EndpointSources) -> None:
        self._sources = sources
        # A scrape takes tens of milliseconds of CPU in a thread, so one at a time.
        self._scraping = asyncio.Lock()
        self._exact: dict[str, Mapping[str, Handler]] = {
            "/metrics": {**_reading(self._metrics), "DELETE": self._reset_metrics},
            "/metrics/slis": _reading(self._slis),
            "/metrics/resources": _reading(self._resources),
            "/configz": _reading(self._configz),
            "/version": _reading(self._version),
            "/debug": _reading(self._debug_index),
        }
        if sources.set_verbosity is not None:
            self._exact["/debug/flags/v"] = {"PUT": partial(self._verbosity, sources.set_verbosity)}

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        endpoint, slash, check = path[1:].partition("/")
        if endpoint in ENDPOINTS:
            # Whatever the method, as upstream.
            return self._health_check(endpoint, check) if slash else self._health(endpoint, request)
        methods = self._exact.get(path)
        if methods is None and path.startswith("/debug/"):
            asked = self._sources.questions.get(path.removeprefix("/debug/"))
            if asked is None:
                methods = _reading(self._debug_page)
            else:
                methods = {"POST": partial(self._question, asked)}
        if methods is None:
            return _not_found()
        handler = methods.get(request.method)
        if handler is None:
            response = _error(405, "Method Not Allowed")
            response.headers["Allow"] = ", ".join(methods)
            return response
        return await handler(request)

    def _health(self, endpoint: str, request: web.BaseRequest) -> web.Response:
        result = self._sources.health.run(
            endpoint,
            verbose="verbose" in request.query,
            excluded=request.query.getall("exclude", []),
        )
        return _text(result.body.encode(), status=200 if result.healthy else 500)

    def _health_check(self, endpoint: str, check: str) -> web.Response:
        result = self._sources.health.run_one(endpoint, check)
        if result is None:
            return _not_found()
        return _text(result.body.encode(), status=200 if result.healthy else 500)

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        metrics = self._sources.metrics
        async with self._scraping:
            metrics.refresh()
            accept = request.headers.get("Accept", "")
            body, content_type = await asyncio.to_thread(metrics.exposition, accept)
        return _text(body, content_type)

    async def _reset_metrics(self, _: web.BaseRequest) -> web.Response:
        self._sources.metrics.reset()
        return _text(b"metrics reset\n")

    async def _slis(self, request: web.BaseRequest) -> web.Response:
        slis = self._sources.health.slis
        return _text(*slis.exposition(request.headers.get("Accept", "")))

    async def _resources(self, _: web.BaseRequest) -> web.Response:
        # Of one moment, although the text is made in a thread.
        pods = self._sources.pods()
        async with self._scraping:
            body = await asyncio.to_thread(render_pod_resources, pods)
        return _text(body, "text/plain; version=0.0.4; charset=utf-8")

    async def _configz(self, _: web.BaseRequest) -> web.Response:
        return await _json(self._sources.configz())

    async def _version(self, _: web.BaseRequest) -> web.Response:
        return await _json(self._sources.version)

    async def _verbosity(
        self, set_verbosity: Callable[[int], None], request: web.BaseRequest
    ) -> web.Response:
        body = (await request.content.read(MAX_NUMBER_BYTES)).decode("ascii", "replace").strip()
        if not body.isdecimal() or len(body) > 4:
            return _error(400, f'failed to set verbosity: "{body[:40]}" is not a number')
        set_verbosity(int(body))
        return _text(f"successfully set klog.logging.verbosity to {int(body)}".encode())

    async def _debug_index(self, _: web.BaseRequest) -> web.Response:
        sources = self._sources
        names = {*sources.debug, *sources.streams, *sources.questions}
        return await _json(IndexPage(pages=[f"/debug/{name}" for name in sorted(names)]))

    async def _debug_page(self, request: web.BaseRequest) -> web.StreamResponse:
        stream = self._sources.streams.get(request.path.removeprefix("/debug/"))
        if stream is not None:
            return await _streamed(request, stream)
        page = self._sources.debug.get(request.path.removeprefix("/debug/"))
        if page is None:
            return _not_found()
        reader = request.get(READER)
        query = request.query if reader is None else restricted(request.query)
        return await self._answered(lambda: page(query), reader)

    async def _question(self, answer: Answer, request: web.BaseRequest) -> web.Response:
        body = await request.content.read(MAX_QUESTION_BYTES + 1)
        while len(body) <= MAX_QUESTION_BYTES and (more := await request.content.readany()):
            body += more
        if len(body) > MAX_QUESTION_BYTES:
            return _error(413, f"a question may have {MAX_QUESTION_BYTES} bytes")
        return await self._answered(lambda: answer(body))

    async def _answered(
        self, page: Callable[[], object], reader: Reader | None = None
    ) -> web.Response:
        try:
            data = page()
            if isawaitable(data):
                data = await data
        except LookupError as error:
            return _error(404, str(error.args[0]) if error.args else "not found")
        except ValueError as error:
            return _error(400, str(error))
        except QuestionFailedError as error:
            return _error(500, str(error))
        except (NotSyncedError, TooManyQuestionsError) as error:
            response = _error(503 if isinstance(error, NotSyncedError) else 429, str(error))
            response.headers["Retry-After"] = "1"
            return response
        if reader is None:
            return await _json(data)
        return await _restricted_json(data, reader, self._sources.find_pod)


async def _streamed(request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    """Send a stream piece by piece; a reader that takes none for the deadline is cut off."""
    if request.method == "HEAD":
        return _text(b"", BUNDLE)
    async with aclosing(stream(request.query)) as pieces:
        try:
            first = await anext(pieces)
        except LookupError as error:
            return _error(404, str(error.args[0]) if error.args else "not found")
        except ValueError as error:
            return _error(400, str(error))
        except TooManyQuestionsError as error:
            return _error(429, str(error))
        response = web.StreamResponse(headers={"Content-Type": BUNDLE})
        await response.prepare(request)
        await response.write(first)
        async for piece in pieces:
            _progressed(request)
            await response.write(piece)
        await response.write_eof()
        return response


def _progressed(request: web.BaseRequest) -> None:
    """Begin the deadline of the connection anew."""
    protocol = request.protocol
    if isinstance(protocol, RequestProtocol):
        protocol.connection.started()


def _reading(handler: Handler) -> dict[str, Handler]:
    return {"GET": handler, "HEAD": handler}


class _Limit:
    """Bound of concurrent requests, in total and per client: a user, or else an address.

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
            return _too_many()
        place = request[PLACE] = _Place(self._in_flight, client)
        try:
            return await self._handler(request)
        finally:
            place.leave()


class _Place:
    """The place of one request among those in flight: of an address, later of a user."""

    def __init__(self, in_flight: Counter[str], client: str) -> None:
        self._in_flight = in_flight
        self._client = client
        in_flight[client] += 1

    def move(self, user: str) -> bool:
        """Count the request for its user; False if there are too many of that user."""
        client = f"user {user}"
        if self._in_flight[client] >= MAX_IN_FLIGHT_PER_CLIENT:
            return False
        self.leave()
        self._client = client
        self._in_flight[client] += 1
        return True

    def leave(self) -> None:
        """Count the request no more."""
        self._in_flight[self._client] -= 1
        if not self._in_flight[self._client]:
            del self._in_flight[self._client]


PLACE: Final = web.RequestKey("kubestow.place", _Place)


def _identified(request: web.BaseRequest, user: UserInfo) -> bool:
    """Count the request for its user, if known; False if there are too many of that user.

    All who come through a port-forward or the service proxy share one address.
    """
    place = request.get(PLACE)
    return place is None or user.username == ANONYMOUS.username or place.move(user.username)


def _too_many() -> web.Response:
    response = _error(429, "Too many requests, please try again later.")
    response.headers["Retry-After"] = "1"
    return response


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
        token = bearer_token(request.headers.get("Authorization"))
        verb, path = request.method.lower(), request.path
        try:
            async with asyncio.timeout(ACCESS_TIMEOUT_SECONDS):
                user = await self._authenticate(ClientCredentials(token, certificate))
                if user is None:
                    return _status(401, "Unauthorized", "Unauthorized")
                asking_user.set(user.username)
                if not _identified(request, user):
                    return _too_many()
                if await self._authorizer.authorize(user, verb, path):
                    return None
                if await self._reads_one_namespace(request, user):
                    return None
        except (AccessUnknownError, TimeoutError) as error:
            self._log.warning("cannot decide about a request", path=path, error=str(error))
            told = error.told if isinstance(error, ReviewForbiddenError) else REVIEW_FAILED
            if isinstance(error, TokenReviewForbiddenError):
                return _status(401, "Unauthorized", told)
            return _error(500, f'Internal Server Error: "{path}": {told}')
        message = f'forbidden: User "{user.username}" cannot {verb} path "{path}"'
        return _status(403, "Forbidden", message, details=True)

    async def _reads_one_namespace(self, request: web.BaseRequest, user: UserInfo) -> bool:
        """Whether the user gets an answer about one namespace; note it in the request then."""
        # For anonymous clients nothing is reviewed: they could ask for any number of namespaces.
        if request.method not in ("GET", "HEAD") or user.username == ANONYMOUS.username:
            return False
        namespace = namespace_of(request.path, request.query)
        reader = await self._authorizer.reader(user, namespace) if namespace else None
        if reader is None:
            return False
        request[READER] = reader
        return True

    async def _authenticate(self, credentials: ClientCredentials) -> UserInfo | None:
        try:
            return await self._authenticator.authenticate(credentials)
        except ReviewForbiddenError:
            # Otherwise the client would look for the fault in its credentials.
            raise
        except AccessUnknownError as error:
            # As upstream: an unidentified client is refused, whatever the cause.
            self._log.warning("cannot authenticate a request", error=str(error))
            return None


def _not_found() -> web.Response:
    # The text of Go's HTTP server.
    return _error(404, "404 page not found")


def _error(status: int, text: str) -> web.Response:
    return _text(text.rstrip("\n").encode() + b"\n", status=status)


def _text(body: bytes, content_type: str = TEXT, *, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": content_type})


async def _json(data: object) -> web.Response:
    # Encoded at once, so that it shows one moment; the rest runs in a thread.
    body = await asyncio.to_thread(json_body.redact_and_indent, json_body.encode(data))
    return _text(body, "application/json")


async def _restricted_json(data: object, reader: Reader, find_pod: FindPod) -> web.Response:
    own = own_words(data, reader.namespace, find_pod)
    wants = own_wants(data, find_pod)

    # Records of pages are not changed after they were made.
    def restrict_and_indent() -> bytes:
        return json_body.redact_and_indent(json_body.encode(restrict(data, reader, own, wants)))

    return _text(await asyncio.to_thread(restrict_and_indent), "application/json")


def _status(code: int, reason: str, message: str, *, details: bool = False) -> web.Response:
    """Return a metav1.Status as Go prints it, with its field order and final line end."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {}} if details else {}),
        "code": code,
    }
    return _text(json_body.encode(status) + b"\n", "application/json", status=code)
