"""OutageLog: a line now and then about a server that is of no use now, for all its clients.

It cannot be reached, is no API server, speaks HTTPS only, or does not accept the credentials. A
dozen reflectors that retry would write hundreds of equal lines. Other error responses are about one
resource, and not outages.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import structlog

from scheduler.client.clock import Clock
from scheduler.client.errors import NO_RESPONSE, ApiError, RequestError, describe

_log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 10.0
"""Time between the first two lines about the same outage; the next one comes at twice its age."""

MAX_PERIOD_SECONDS: Final = 300.0

UNREACHED: Final = (
    "the API server cannot be reached, retrying; does {kubectl} version work? A proxy is used only "
    "if the kubeconfig names it (proxy-url)"
)
NO_API: Final = (
    "this server has no Kubernetes API, retrying; is it the right address, or does a proxy answer? "
    "Does {kubectl} version work?"
)
HTTPS_ONLY: Final = (
    "the API server speaks HTTPS, retrying; the address must begin with https://. Does {kubectl} "
    "version work?"
)
REACHED: Final = "the API server can be reached now"
UNACCEPTED: Final = (
    "the API server does not accept the credentials, retrying; does {kubectl} auth whoami work "
    "with them?"
)
ACCEPTED: Final = "the API server accepts the credentials now"

_OF_EACH_SERVER: Final = frozenset({"/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces"})


def is_outage(error: RequestError) -> bool:
    """Whether no request to the server can succeed now."""
    no_response = isinstance(error, NO_RESPONSE)
    return no_response or _is_unaccepted(error) or _has_no_api(error) or _wants_https(error)


def _is_unaccepted(error: RequestError) -> bool:
    return isinstance(error, ApiError) and error.status == HTTPStatus.UNAUTHORIZED


def _has_no_api(error: RequestError) -> bool:
    absent = isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND
    return absent and error.path in _OF_EACH_SERVER


def _wants_https(error: RequestError) -> bool:
    """Whether it is what servers written in Go respond to HTTP at a port for HTTPS."""
    refused = isinstance(error, ApiError) and error.status == HTTPStatus.BAD_REQUEST
    return refused and "HTTP request to an HTTPS server" in str(error)


def _text(error: RequestError) -> str:
    if _is_unaccepted(error):
        return UNACCEPTED
    if _has_no_api(error):
        return NO_API
    return HTTPS_ONLY if _wants_https(error) else UNREACHED


class OutageLog:
    """Collects failures and successes of the users of one server. Belongs to one event loop."""

    def __init__(
        self, clock: Clock, server: str, configuration: str, kubectl: str = "kubectl"
    ) -> None:
        """Prepare; `configuration` says where address and credentials are from.

        `kubectl` is the command that uses the same.
        """
        self._kubectl = kubectl
        self._clock = clock
        self._server = server
        self._configuration = configuration
        self._over = REACHED
        # Users without connection, in order of their first failure.
        self._affected: dict[str, None] = {}
        self._failures = 0
        self._since = 0.0
        self._due = 0.0

    def failed(self, user: str, error: RequestError) -> None:
        """Note that a request of `user` failed; it will retry."""
        now = self._clock.monotonic()
        if not self._affected:
            self._failures, self._since, self._due = 0, now, now
        self._affected[user] = None
        self._failures += 1
        if now < self._due:
            return
        self._due = now + min(max(PERIOD_SECONDS, now - self._since), MAX_PERIOD_SECONDS)
        unaccepted = _is_unaccepted(error)
        self._over = ACCEPTED if unaccepted else REACHED
        (_log.error if unaccepted else _log.warning)(
            _text(error).format(kubectl=self._kubectl),
            server=self._server,
            configuration=self._configuration,
            affected=list(self._affected),
            failures=self._failures,
            seconds=round(now - self._since, 1),
            **describe(error),
        )

    def recovered(self, user: str) -> None:
        """Note that `user` received a response."""
        if user not in self._affected:
            return
        del self._affected[user]
        if not self._affected:
            _log.info(
                self._over,
                server=self._server,
                failures=self._failures,
                seconds=round(self._clock.monotonic() - self._since, 1),
            )
