"""Errors of requests, as types that callers can tell apart.

Every error names method and path. After a failed write, `RequestError.outcome_unknown` tells
whether the server may have acted on it; `binding` relies on it.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Object
from scheduler.client.configuration_error import (
    ConfigurationError as ConfigurationError,  # noqa: PLC0414 - exported from here as well
)

MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""Limit for delays that a server demands. kube-apiserver demands one second, at most a minute; a
wrong number must not stop a scheduler."""

MAX_REASON: Final = 256
MAX_MESSAGE: Final = 4096
"""Characters of a Status that an error keeps for logs, conditions and Events."""


class StatusCause(Object):
    """One entry of `details.causes` in a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Object):
    """`details` of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class StatusBody(Object):
    """A metav1.Status, the body of every error response."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


_status_decoder = msgspec.json.Decoder(StatusBody)


class RequestError(Exception):
    """Base class of the errors of requests."""

    outcome_unknown = True
    """Whether the server may have executed the request although no success was received."""
    temporary = False
    """Whether the same request may succeed a moment later (`utils.go: Retriable`)."""

    def __init__(self, method: str, path: str, text: str) -> None:
        super().__init__(f"{method} {path}: {text}")
        self.method = method
        self.path = path


class ApiError(RequestError):
    """The server responded with an error status."""

    def __init__(
        self,
        method: str,
        path: str,
        *,
        status: int,
        body: StatusBody,
        retry_after: float | None = None,
    ) -> None:
        reason = body.reason[:MAX_REASON] or _phrase(status)
        message = body.message[:MAX_MESSAGE]
        super().__init__(method, path, f"{status} {reason}: {message or 'no message'}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = body.details
        self.retry_after = retry_after
        # 409: a conflict may be with our own earlier, lost success.
        self.outcome_unknown = status >= 500 or status in (408, 409)
        self.temporary = status in (500, 503)


class ConnectionFailed(RequestError):  # noqa: N818  (says what happened)
    """No connection, or it was lost before the whole response arrived.

    `sent` is False when the request was certainly not sent; `refused` is True when the connection
    was refused.
    """

    def __init__(
        self, method: str, path: str, text: str, *, sent: bool, refused: bool = False
    ) -> None:
        super().__init__(method, path, text)
        self.sent = self.outcome_unknown = sent
        self.refused = self.temporary = refused


class ResponseTooLarge(ConnectionFailed):
    """The response body exceeded the limit of its request; the connection was closed."""


class RequestTimeout(RequestError):  # noqa: N818  (says what happened)
    """No complete response in time; `sent` is False when there was not even a connection."""

    def __init__(self, method: str, path: str, text: str, *, sent: bool) -> None:
        super().__init__(method, path, text)
        self.sent = self.outcome_unknown = sent


NO_RESPONSE: Final = (ConnectionFailed, RequestTimeout)
"""Errors of a server that cannot be reached."""


class MalformedResponse(RequestError):  # noqa: N818  (says what happened)
    """A success status whose body cannot be decoded."""


class PreconditionFailed(RequestError):  # noqa: N818  (says what is the case)
    """The write was not sent: its `PreSendCheck` returned a reason."""

    outcome_unknown = False


class NotLeader(RequestError):  # noqa: N818  (says what is the case)
    """The leader fence is shut, so the write was not sent."""

    outcome_unknown = False

    def __init__(self, method: str, path: str) -> None:
        super().__init__(
            method,
            path,
            "not sent: the lease was not renewed in time, another replica may be leading",
        )


def api_error(
    method: str,
    path: str,
    status: int,
    body: bytes,
    retry_after: str | None = None,
    *,
    now: float | None = None,
) -> ApiError:
    """Build an ApiError from an error response; a body that is not a Status becomes the message.

    `now` is the wall time, needed for a `Retry-After` that is a date.
    """
    try:
        parsed = decode_json(_status_decoder, body)
    except ValueError:
        text = body[:200].decode("utf-8", "replace").strip()
        parsed = StatusBody(message=text)
    seconds = None if retry_after is None else retry_seconds(retry_after.strip(), now)
    if seconds is None and parsed.details is not None:
        seconds = retry_delay(parsed.details)
    return ApiError(method, path, status=status, body=parsed, retry_after=seconds)


def retry_seconds(header: str, now: float | None = None) -> float | None:
    """Return the delay of a `Retry-After`, at most MAX_RETRY_AFTER_SECONDS; None if invalid.

    >>> retry_seconds("3"), retry_seconds("999999999"), retry_seconds("soon")
    (3.0, 60.0, None)
    >>> retry_seconds("Tue, 14 Nov 2023 22:13:25 GMT", now=1700000000.0)
    5.0
    """
    # Not isdigit() alone, which is true for what float() refuses.
    if header.isascii() and header.isdigit():
        return min(float(header), MAX_RETRY_AFTER_SECONDS)
    if now is None:
        return None
    try:
        when = parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(0.0, when - now), MAX_RETRY_AFTER_SECONDS)


def retry_delay(details: StatusDetails) -> float | None:
    """Return the delay that a Status demands, at most MAX_RETRY_AFTER_SECONDS, or None."""
    seconds = details.retry_after_seconds
    return min(float(seconds), MAX_RETRY_AFTER_SECONDS) if seconds > 0 else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.title().replace(" ", "")
    except ValueError:
        return "Unknown"


def describe(error: BaseException) -> dict[str, Any]:
    """Return fields for a structured log line about `error`."""
    fields: dict[str, Any] = {"error": str(error), "kind": type(error).__name__}
    if isinstance(error, ApiError):
        fields["status"] = error.status
        fields["reason"] = error.reason
    return fields
