"""Sources of the `Authorization` header, and how they renew themselves.

`authorization()` is awaited before each request, so each source answers from memory unless
something is due. A renewal that fails while the old credential may still work is logged and the old
one is used on; the server's 401 decides. Client certificates are no header: they sit in the TLS
context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from scheduler.client.clock import Clock
from scheduler.client.errors import ConfigurationError

_log = structlog.get_logger(__name__)

TOKEN_FILE_SECONDS: Final = 60.0
"""How long a token file's content is trusted; kubelet rotates it long before the old token
expires."""

RENEWAL_TIMEOUT_SECONDS: Final = 30.0
"""For an exec plugin or identity provider to answer."""

EXPIRY_MARGIN_SECONDS: Final = 60.0
"""Renew this long before the expiry, or a tenth of the lifetime before it when that is shorter."""


class Credentials(Protocol):
    """Where the `Authorization` header comes from."""

    async def authorization(self) -> str | None:
        """The header value, or None when the connection itself authenticates (certificates).

        Raises:
            ConfigurationError: there is no usable credential now.
        """
        ...

    async def renew(self) -> None:
        """The server refused the credential: get a new one now, whatever its expiry says.

        Raises:
            ConfigurationError: that failed.
        """
        ...


class StaticCredentials:
    """A header that never changes, or none."""

    __slots__ = ("_header",)

    def __init__(self, header: str | None = None) -> None:
        self._header = header

    async def authorization(self) -> str | None:
        """The header given."""
        return self._header

    async def renew(self) -> None:
        """Nothing to renew."""


class TokenFileCredentials:
    """A bearer token in a file that somebody else rotates (service accounts, `tokenFile`)."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file once.

        Raises:
            ConfigurationError: the file cannot be read or is empty.
        """
        self._path = path
        self._clock = clock
        self._header = self._read()
        self._due = clock.monotonic() + TOKEN_FILE_SECONDS

    def _read(self) -> str:
        try:
            # A few hundred bytes on a local disk: reading here is shorter than handing it to a
            # thread.
            token = self._path.read_text().strip()
        except OSError as error:
            msg = f"token file {self._path}: {error.strerror or error}"
            raise ConfigurationError(msg) from error
        if not token:
            msg = f"token file {self._path} is empty"
            raise ConfigurationError(msg)
        return f"Bearer {token}"

    async def authorization(self) -> str | None:
        """The token, read again when it is older than a minute."""
        if self._clock.monotonic() >= self._due:
            try:
                await self.renew()
            except ConfigurationError as error:
                _log.warning(
                    "token file cannot be read again, using the old token", error=str(error)
                )
                self._due = self._clock.monotonic() + TOKEN_FILE_SECONDS
        return self._header

    async def renew(self) -> None:
        """Read the file now."""
        self._header = self._read()
        self._due = self._clock.monotonic() + TOKEN_FILE_SECONDS


@dataclass(frozen=True, slots=True)
class Issued:
    """A credential as its source issued it; `expires_at` is wall time, None means unknown."""

    header: str | None
    expires_at: float | None = None


class IssuedCredentials:
    """A credential that a coroutine issues: exec plugins and identity providers.

    Only one renewal runs at a time; requests that meet it wait for its result.
    """

    def __init__(self, issue: Callable[[], Awaitable[Issued]], first: Issued, clock: Clock) -> None:
        self._issue = issue
        self._clock = clock
        self._lock = asyncio.Lock()
        self._generation = 0
        self._current = first
        self._due = self._due_time(first)

    def _due_time(self, issued: Issued) -> float | None:
        if issued.expires_at is None:
            return None
        lifetime = issued.expires_at - self._clock.now()
        return issued.expires_at - min(EXPIRY_MARGIN_SECONDS, max(0.0, lifetime) / 10)

    async def authorization(self) -> str | None:
        """The current header, renewed first when its expiry is near."""
        if self._due is not None and self._clock.now() >= self._due:
            try:
                await self.renew()
            except ConfigurationError as error:
                expires = self._current.expires_at
                if expires is not None and self._clock.now() >= expires:
                    raise
                _log.warning("credential cannot be renewed yet", error=str(error))
        return self._current.header

    async def renew(self) -> None:
        """Have a new credential issued, unless another task just did."""
        generation = self._generation
        async with self._lock:
            if generation != self._generation:
                return
            try:
                async with asyncio.timeout(RENEWAL_TIMEOUT_SECONDS):
                    issued = await self._issue()
            except TimeoutError as error:
                msg = f"the provider gave no credential within {RENEWAL_TIMEOUT_SECONDS:.0f} s"
                raise ConfigurationError(msg) from error
            self._current = issued
            self._due = self._due_time(issued)
            self._generation += 1
