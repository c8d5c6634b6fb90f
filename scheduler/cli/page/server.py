"""The local web server of `kubestow ui`.

It listens on loopback and answers GET only. Three things keep other pages and users of the machine
out, which can reach loopback as well:

- every path begins with a secret of this run, of 256 bits. It is in the address that is printed,
  and in a file for the browser (`address_file`);
- `Host` must be the address itself, so that no name of another site can be made to lead here (DNS
  rebinding), and `Origin` and `Sec-Fetch-Site`, if sent, must be of this page;
- the Content-Security-Policy lets the page load from here only and run no text as code, and Trusted
  Types turn an assignment of HTML into an error: whatever a tenant wrote remains text.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Final, Self

import msgspec
from aiohttp import web

from scheduler.cli.page.questions import QuestionError, checked
from scheduler.cli.page.sources import PageSource

LOOPBACK: Final = "127.0.0.1"

MAX_CONCURRENT: Final = 4
"""Questions asked at a time; further ones wait."""
MAX_WAITING: Final = 64

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Files with another ending are not served."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return content and type of every file of the page, by its path."""
    found: dict[str, tuple[bytes, str]] = {}
    root = files("scheduler.cli.page") / "static"
    for folder, prefix in ((root, ""), (root / "vendor", "vendor/")):
        for entry in folder.iterdir():
            content_type = TYPES.get(entry.name[entry.name.rfind(".") :])
            if entry.is_file() and content_type:
                found[prefix + entry.name] = entry.read_bytes(), content_type
    return found


class PageServer:
    """Serves the page about one source. An async context manager; `url` is the address to open."""

    def __init__(self, source: PageSource, *, port: int = 0) -> None:
        """Prepare; port 0 takes any that is free."""
        self._source = source
        self._wanted = port
        self._secret = secrets.token_urlsafe(32)
        self._files = static_files()
        self._hosts: frozenset[str] = frozenset()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._waiting = 0
        self._runner = web.AppRunner(self._application(), access_log=None, handle_signals=False)
        #: The port listened on.
        self.port = 0

    @property
    def url(self) -> str:
        """The address of the page, with the secret."""
        return f"http://{LOOPBACK}:{self.port}/{self._secret}/"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: the port is taken, or may not be used.
        """
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, LOOPBACK, self._wanted)
            await site.start()
        except BaseException:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        names = (LOOPBACK, "localhost")
        self._hosts = frozenset(f"{name}:{self.port}" for name in names)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._protect])
        application.router.add_get("/{secret}/api/{question}", self._answer)
        application.router.add_get("/{secret}/{path:.*}", self._file)
        return application

    @web.middleware
    async def _protect(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests of others, and set the headers of all responses."""
        response: web.StreamResponse
        try:
            self._check(request)
            response = await handler(request)
        except QuestionError as error:
            response = _error(error.status, str(error))
        except web.HTTPException as error:
            response = _error(error.status, error.reason)
        response.headers.update(HEADERS)
        return response

    def _check(self, request: web.Request) -> None:
        if request.headers.getall("Host", []) not in ([host] for host in self._hosts):
            raise QuestionError(403, f"open {LOOPBACK}: this address is another host's")
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{request.host}":
            raise QuestionError(403, "another page asked")
        opened = request.headers.get("Sec-Fetch-Mode") == "navigate"
        if not opened and request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
            raise QuestionError(403, "another page asked")
        secret = request.match_info.get("secret")
        if secret is not None and not _equal(secret, self._secret):
            raise QuestionError(404, "not found; the address changes with each run of kubestow ui")

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["path"] or "index.html")
        if found is None:
            raise QuestionError(404, "there is no such file")
        body, content_type = found
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _answer(self, request: web.Request) -> web.Response:
        name = request.match_info["question"]
        if name == "source":
            return _json(msgspec.json.encode(self._source.describe().json()))
        pairs = [(key, value) for key, value in request.query.items() if key != "at"]
        path, query = checked(name, pairs)
        at = _moment(request.query.getall("at", []))
        if self._waiting >= MAX_WAITING:
            raise QuestionError(429, "too many questions at a time")
        self._waiting += 1
        try:
            async with self._slots:
                body = await asyncio.to_thread(self._source.ask, path, query, at)
        finally:
            self._waiting -= 1
        return _json(body)


_OWN_SITES: Final = frozenset({"same-origin", "none"})


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _moment(values: list[str]) -> float | None:
    """Return the moment in the last `at`, in wall clock seconds."""
    if not values:
        return None
    text = values[-1]
    if not (len(text) < 20 and text.isascii() and text.replace(".", "", 1).isdecimal()):
        raise QuestionError(400, "at: give wall clock seconds")
    return float(text)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json"})


def _error(status: int, message: str) -> web.Response:
    response = _json(msgspec.json.encode({"kind": "Error", "status": status, "message": message}))
    response.set_status(status)
    return response
