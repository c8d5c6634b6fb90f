"""Ends of lists and watches: their causes, and whether the watch can be resumed."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from scheduler.client.errors import ApiError, RequestError, RequestTimeout, retry_delay
from scheduler.client.watch_decoding import DecodingFailure


class EndCause(StrEnum):
    """Cause of the end of a list or watch, for metrics and statistics."""

    CLOSED = "closed"
    """The server ended the watch at its time limit: the normal end."""
    DISCONNECTED = "disconnected"
    IDLE_TIMEOUT = "idle_timeout"
    EXPIRED = "expired"
    DECODE_ERROR = "decode_error"
    THROTTLED = "throttled"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    SERVER_ERROR = "server_error"


_CAUSES: Final = {
    401: EndCause.UNAUTHORIZED,
    403: EndCause.FORBIDDEN,
    404: EndCause.NOT_FOUND,
    410: EndCause.EXPIRED,
    429: EndCause.THROTTLED,
}


class WatchEnded(Exception):  # noqa: N818  (says what happened)
    """A watch cannot go on; with `relist` it cannot be resumed either."""

    def __init__(
        self, cause: EndCause, text: str, *, relist: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(text)
        self.cause = cause
        self.relist = relist
        self.retry_after = retry_after


def cause_of(error: RequestError) -> EndCause:
    """Return the cause to report for a list or watch request that raised `error`."""
    if isinstance(error, ApiError):
        return _CAUSES.get(error.status, EndCause.SERVER_ERROR)
    is_timeout = isinstance(error, RequestTimeout)
    return EndCause.IDLE_TIMEOUT if is_timeout else EndCause.DISCONNECTED


def watch_ended(failure: DecodingFailure) -> WatchEnded:
    """Return the end that an ERROR event announces."""
    status = failure.status
    expired = status.code == 410 or status.reason in ("Expired", "Gone")
    return WatchEnded(
        EndCause.EXPIRED if expired else _CAUSES.get(status.code, EndCause.SERVER_ERROR),
        f"{status.code} {status.reason}: {status.message}",
        # Statuses other than "retry later" may mean that the resourceVersion cannot be resumed.
        relist=expired or status.code not in (429, 500, 503, 504),
        retry_after=None if status.details is None else retry_delay(status.details),
    )
