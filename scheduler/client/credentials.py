"""Sources of the `Authorization` header, and their renewal.

`authorization()` is awaited before each request, so each source returns a cached header unless a
renewal is due. While the old credential may still work, requests do not wait for a provider, and a
renewal that fails is only logged; the server's 401 decides. Client certificates are part of the TLS
context, not a header.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog

from scheduler.client.clock import Clock
from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.structs import complete
from scheduler.files import read_file

_log = structlog.get_logger(__name__)

TOKEN_FILE_SECONDS: Final = 60.0
"""Seconds between two reads of a token file; kubelet rotates it long before the old token
expires."""

MAX_TOKEN_BYTES: Final = 64 * 1024
"""Limit for a token file: servers reject longer headers."""

RENEWAL_TIMEOUT_SECONDS: Final = 30.0
"""For one run of an exec plugin, or one renewal by an identity provider."""

RENEWAL_RETRY_DELAY: Final = 2.0
"""Between a failed renewal and the next. A leader whose certificate has expired has time for
several before its Lease is lost."""

EXPIRY_MARGIN_SECONDS: Final = 60.0
"""Renewal before the expiry: this long, or a tenth of the lifetime if that is shorter."""


class _Claims(msgspec.Struct):
    exp: float | None = None


complete(_Claims)


def token_expiry(token: str) -> float | None:
    """Return the expiry in a JWT, wall time in seconds; None if it has none.

    Raises:
        ValueError: not a JWT. The text does not contain the token.
    """
    parts = token.split(".")
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except (IndexError, ValueError, RecursionError):
        raise ValueError("no JWT") from None


class Credentials(Protocol):
    """Source of the `Authorization` header."""

    async def authorization(self) -> str | None:
        """Return the header value; None if the connection itself authenticates (certificates).

        Raises:
            ConfigurationError: there is no usable credential now.
        """
        ...

    async def renew(self) -> None:
        """Get a new credential now, whatever the expiry of the current one: the server refused it.

        Raises:
            ConfigurationError: the renewal failed.
        """
        ...

    async def close(self) -> None:
        """Cancel a renewal in progress; may be called again."""
        return


class StaticCredentials(Credentials):
    """A header that never changes, or none."""

    def __init__(self, header: str | None = None) -> None:
        self._header = header

    async def authorization(self) -> str | None:
        """Return the header."""
        return self._header

    async def renew(self) -> None:
        """Do nothing."""

    def expiry(self) -> float | None:
        """Return when the token expires, wall time in seconds; None if it does not say so."""
        try:
            return token_expiry((self._header or "").removeprefix("Bearer "))
        except ValueError:
            return None


class TokenFileCredentials(Credentials):
    """A bearer token in a file that is rotated from outside (service accounts, `tokenFile`)."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file once.

        Raises:
            ConfigurationError: the file cannot be read or is empty.
        """
        self._path = path
        self._clock = clock
        # The error of the last read, so that it is logged once.
        self._failure = ""
        self._header = self._read()
        self._due = clock.monotonic() + TOKEN_FILE_SECONDS

    def _read(self) -> str:
        try:
            # A few hundred bytes on a local disk: reading takes less time than a thread hand-over.
            content = read_file(self._path, MAX_TOKEN_BYTES)
        except OSError as error:
            msg = f"token file {self._path}: {error.strerror or error}"
            raise ConfigurationError(msg) from error
        token = content.decode("ascii", "replace").strip()
        if not token:
            raise ConfigurationError(f"token file {self._path} is empty")
        if not (token.isascii() and token.isprintable()):
            raise ConfigurationError(f"token file {self._path} does not hold exactly one token")
        return f"Bearer {token}"

    async def authorization(self) -> str | None:
        """Return the token, read again after TOKEN_FILE_SECONDS."""
        if self._clock.monotonic() >= self._due:
            try:
                await self.renew()
            except ConfigurationError as error:
                if str(error) != self._failure:
                    self._failure = str(error)
                    _log.warning(
                        "token file cannot be read again, using the old token", error=str(error)
                    )
                self._due = self._clock.monotonic() + TOKEN_FILE_SECONDS
        return self._header

    async def renew(self) -> None:
        """Read the file now."""
        self._header = self._read()
        self._failure = ""
        self._due = self._clock.monotonic() + TOKEN_FILE_SECONDS


@dataclass(frozen=True, slots=True)
class Issued:
    """An issued credential. Times are wall time, seconds; None means unknown."""

    header: str | None
    expires_at: float | None = None
    #: When to renew; None means derived from the expiry.
    due_at: float | None = None


class IssuedCredentials(Credentials):
    """A credential that a coroutine issues: exec plugins and identity providers.

    Only one renewal runs at a time, in a task that `close` cancels. Requests do not wait for it
    while the current credential may still work; all that need a new one share its result.
    """

    def __init__(self, issue: Callable[[], Awaitable[Issued]], first: Issued, clock: Clock) -> None:
        self._issue = issue
        self._clock = clock
        self._current = first
        self._due = self._due_time(first)
        # The last renewal, perhaps finished; returns its error.
        self._renewal: asyncio.Task[ConfigurationError | None] | None = None
        # No new renewal before this monotonic time.
        self._pause_until = clock.monotonic()

    def _due_time(self, issued: Issued) -> float | None:
        if issued.due_at is not None or issued.expires_at is None:
            return issued.due_at
        lifetime = issued.expires_at - self._clock.now()
        return issued.expires_at - min(EXPIRY_MARGIN_SECONDS, max(0.0, lifetime) / 10)

    async def authorization(self) -> str | None:
        """Return the current header; near its expiry start a renewal, after it wait for one."""
        if self._due is not None and self._clock.now() >= self._due:
            expires = self._current.expires_at
            if expires is not None and self._clock.now() >= expires:
                await self.renew()
            else:
                self._begin()
        return self._current.header

    async def renew(self) -> None:
        """Start a renewal, or join the one in progress, and wait for it.

        Shortly after a failure the same failure is raised again.
        """
        renewal = self._begin()
        # Not cancelled together with one waiter: others may wait for it as well.
        await asyncio.wait((renewal,))
        if renewal.cancelled():
            raise ConfigurationError("the client was closed while its credential was renewed")
        if (error := renewal.result()) is not None:
            raise ConfigurationError(str(error)) from error

    async def close(self) -> None:
        """Cancel a renewal in progress."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait((self._renewal,))

    def _begin(self) -> asyncio.Task[ConfigurationError | None]:
        """Return the renewal in progress, or a new one; the last one until a new one is due."""
        renewal = self._renewal
        if renewal is None or (renewal.done() and self._clock.monotonic() >= self._pause_until):
            renewal = asyncio.create_task(self._renew_once(), name="credential renewal")
            self._renewal = renewal
        return renewal

    async def _renew_once(self) -> ConfigurationError | None:
        try:
            async with asyncio.timeout(RENEWAL_TIMEOUT_SECONDS):
                issued = await self._issue()
        except TimeoutError:
            msg = f"the provider gave no credential within {RENEWAL_TIMEOUT_SECONDS:.0f} s"
            return self._failed(ConfigurationError(msg))
        except ConfigurationError as error:
            return self._failed(error)
        self._current = issued
        self._due = self._due_time(issued)
        if self._due is not None and self._clock.now() >= self._due:
            # Already due again: another renewal at once would bring the same.
            self._pause_until = self._clock.monotonic() + RENEWAL_RETRY_DELAY
        return None

    def _failed(self, error: ConfigurationError) -> ConfigurationError:
        self._pause_until = self._clock.monotonic() + RENEWAL_RETRY_DELAY
        _log.warning("credential cannot be renewed yet", error=str(error))
        return error
