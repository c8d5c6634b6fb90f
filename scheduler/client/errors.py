"""What can go wrong with a request, as types that callers can tell apart.

Every error names verb and path. The important question after a failed write is whether the server
may have acted on it: `RequestError.outcome_unknown` answers it, and `binding` relies on it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Object


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
    """A metav1.Status, the body of every error answer."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


_status_decoder = msgspec.json.Decoder(StatusBody)


class ConfigurationError(Exception):
    """No usable cluster configuration; the message says what is missing."""


class RequestError(Exception):
    """Base of everything a request can raise."""

    def __init__(self, verb: str, path: str, text: str) -> None:
        super().__init__(f"{verb} {path}: {text}")
        self.verb = verb
        self.path = path

    @property
    def outcome_unknown(self) -> bool:
        """Whether the server may have carried the request out although no success was seen."""
        return True


class ApiError(RequestError):
    """The server answered with an error status."""

    def __init__(
        self,
        verb: str,
        path: str,
        *,
        status: int,
        body: StatusBody,
        retry_after: float | None = None,
    ) -> None:
        reason = body.reason or _phrase(status)
        super().__init__(verb, path, f"{status} {reason}: {body.message or 'no message'}")
        self.status = status
        self.reason = reason
        self.message = body.message
        self.details = body.details
        self.retry_after = retry_after

    @property
    def outcome_unknown(self) -> bool:
        """True for 5xx, 408 and 409: a conflict may be with our own earlier, lost success."""
        return self.status >= 500 or self.status in (408, 409)


class ConnectionFailed(RequestError):  # noqa: N818  (says what happened)
    """No connection, or it was lost before a whole answer arrived.

    `sent` is False when the request certainly never left; `refused` when nobody listens there.
    """

    def __init__(
        self, verb: str, path: str, text: str, *, sent: bool, refused: bool = False
    ) -> None:
        super().__init__(verb, path, text)
        self.sent = sent
        self.refused = refused

    @property
    def outcome_unknown(self) -> bool:
        """Unknown once anything was sent."""
        return self.sent


class RequestTimeout(RequestError):  # noqa: N818  (says what happened)
    """No whole answer in time; `sent` is False when not even a connection came about."""

    def __init__(self, verb: str, path: str, text: str, *, sent: bool) -> None:
        super().__init__(verb, path, text)
        self.sent = sent

    @property
    def outcome_unknown(self) -> bool:
        """Unknown once anything was sent."""
        return self.sent


class MalformedAnswer(RequestError):  # noqa: N818  (says what happened)
    """A success whose body is not what it should be."""


class Withdrawn(RequestError):  # noqa: N818  (says what is the case)
    """Its caller did not want the write any more when its turn came, so it was not sent."""

    @property
    def outcome_unknown(self) -> bool:
        """Never sent."""
        return False


class NotLeader(RequestError):  # noqa: N818  (says what is the case)
    """The leader fence is shut, so the write was not sent."""

    def __init__(self, verb: str, path: str) -> None:
        super().__init__(
            verb,
            path,
            "not sent: the lease was not renewed in time, another replica may be leading",
        )

    @property
    def outcome_unknown(self) -> bool:
        """Never sent."""
        return False


def api_error(
    verb: str, path: str, status: int, body: bytes, retry_after: str | None = None
) -> ApiError:
    """Build an ApiError from an error answer; a body that is no Status becomes the message."""
    try:
        parsed = decode_json(_status_decoder, body)
    except ValueError:
        text = body[:200].decode("utf-8", "replace").strip()
        parsed = StatusBody(message=text)
    return ApiError(
        verb, path, status=status, body=parsed, retry_after=_seconds(retry_after, parsed.details)
    )


def _seconds(header: str | None, details: StatusDetails | None) -> float | None:
    if header is not None and header.strip().isdigit():
        return float(header)
    if details is not None and details.retry_after_seconds > 0:
        return float(details.retry_after_seconds)
    return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.title().replace(" ", "")
    except ValueError:
        return "Unknown"


def describe(error: BaseException) -> dict[str, Any]:
    """Fields for a structured log line about `error`."""
    fields: dict[str, Any] = {"error": str(error), "kind": type(error).__name__}
    if isinstance(error, ApiError):
        fields["status"] = error.status
        fields["reason"] = error.reason
    return fields
