"""The authorities that sign certificates of clients: those of a file, or of the API server.

`ClientAuthorities` reads them again and again and passes each change to the server. Invariant: what
cannot be read or used leaves the former authorities in force, is logged once, and stops neither the
endpoints nor clients that have tokens. An authority that is no longer published is no longer
trusted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final, NoReturn

import structlog

from scheduler.client.backoff import Backoff
from scheduler.client.client_authorities import NAME, NAMESPACE, published_authorities
from scheduler.client.clock import Clock
from scheduler.client.errors import NO_RESPONSE, RequestError
from scheduler.client.rest import ApiClient
from scheduler.files import read_file

_log = structlog.get_logger(__name__)

REPEAT_SECONDS: Final = 60.0
"""Between two reads. A new authority is published long before it signs, and one GET a minute costs
less than a watch."""

FIRST_RETRY_SECONDS: Final = 1.0

MAX_CHARACTERS: Final = 1024 * 1024
"""The limit of a ConfigMap; a certificate has about two thousand."""


class NoAuthoritiesError(Exception):
    """There are no authorities to be read now; the message says why."""


class NoServerError(NoAuthoritiesError):
    """The API server that publishes them cannot be reached."""


Source = Callable[[], Awaitable[str]]
"""Returns the authorities in PEM, empty for none; raises NoAuthoritiesError."""


def of_file(path: str) -> Source:
    """Return a source that reads a file (`--client-ca-file`)."""

    async def read() -> str:
        # Small and on a local disk: reading here is shorter than handing it to a thread.
        return _content(Path(path))

    return read


def of_cluster(client: ApiClient) -> Source:
    """Return a source that reads what the API server of this client publishes."""

    async def read() -> str:
        try:
            found = await published_authorities(client)
        except RequestError as error:
            known = NoServerError if isinstance(error, NO_RESPONSE) else NoAuthoritiesError
            raise known(str(error)) from error
        if found is None:
            raise NoAuthoritiesError(f"there is no ConfigMap {NAMESPACE}/{NAME}")
        return found

    return read


def _content(path: Path) -> str:
    try:
        found = read_file(path, MAX_CHARACTERS).decode("utf-8", "replace").strip()
    except OSError as error:
        raise NoAuthoritiesError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise NoAuthoritiesError(f"{path}: the file is empty")
    return found


class ClientAuthorities:
    """The authorities that are in force; `run` in a task of its own."""

    def __init__(
        self, source: Source, trust: Callable[[str], None], clock: Clock, random: Random
    ) -> None:
        """Prepare; `trust` puts authorities in force (`ServingTls.trust_clients`)."""
        self._source = source
        self._trust = trust
        self._clock = clock
        self._backoff = Backoff(random, FIRST_RETRY_SECONDS, REPEAT_SECONDS)
        #: None before the first read that succeeded.
        self._trusted: str | None = None
        # Whether the last read failed, which is logged once.
        self._failed = False

    async def run(self) -> NoReturn:
        """Read until cancelled; sooner again while that fails."""
        while True:
            try:
                await self.refresh()
            except NoAuthoritiesError as error:
                self._fail(error)
                await self._clock.sleep(self._backoff.next())
            else:
                self._failed = False
                self._backoff.reset()
                await self._clock.sleep(REPEAT_SECONDS)

    async def refresh(self) -> None:
        """Read once, and put a change in force.

        Raises:
            NoAuthoritiesError: they could not be read or used; the former ones stay in force.
        """
        found = await self._source()
        if found != self._trusted:
            self._use(found)

    def _use(self, authorities: str) -> None:
        if len(authorities) > MAX_CHARACTERS:
            raise NoAuthoritiesError(f"more than {MAX_CHARACTERS} characters")
        try:
            self._trust(authorities)
        except OSError as error:
            raise NoAuthoritiesError(f"they cannot be used: {error}") from error
        self._trusted = authorities
        if authorities:
            _log.info("client certificates are accepted")
        else:
            _log.info("client certificates are not accepted: no authority is published")

    def _fail(self, error: NoAuthoritiesError) -> None:
        if self._failed:
            return
        if self._trusted is None and isinstance(error, NoServerError):
            # Nobody is known before it responds; that it does not is logged elsewhere.
            return
        self._failed = True
        if self._trusted is None:
            _log.info("client certificates are not accepted, tokens are", error=str(error))
        else:
            _log.info("authorities of client certificates stay as they were", error=str(error))
