"""Errors of the API server: `Status` objects with upstream's texts.

Each constructor gives one kind of refusal, observed from kube-apiserver v1.37. Nothing here decides
when to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulator.objects import JsonObject


class FieldCause(NamedTuple):
    """One violated field rule. `reason` is a `metav1.CauseType` such as `FieldValueForbidden`."""

    reason: str
    field: str
    message: str


def invalid_value(field: str, value: str, why: str) -> FieldCause:
    """Describe a field whose value is wrong; `value` is printed as it is."""
    return FieldCause("FieldValueInvalid", field, f"Invalid value: {value}: {why}")


def forbidden_field(field: str, why: str) -> FieldCause:
    """Describe a field that may not be set, or not be changed."""
    return FieldCause("FieldValueForbidden", field, f"Forbidden: {why}")


def required_field(field: str, why: str = "") -> FieldCause:
    """Describe a field that is missing."""
    return FieldCause("FieldValueRequired", field, "Required value" + (f": {why}" if why else ""))


def duplicate_value(field: str, value: str) -> FieldCause:
    """Describe a list member that may occur only once."""
    return FieldCause("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def unsupported_value(field: str, value: str, supported: Sequence[str]) -> FieldCause:
    """Describe a value outside an enumeration."""
    listed = ", ".join(f'"{name}"' for name in supported)
    return FieldCause(
        "FieldValueNotSupported", field, f'Unsupported value: "{value}": supported values: {listed}'
    )


class ApiError(Exception):
    """A refusal: HTTP `code`, machine-readable `reason`, and the `Status` body in `status`."""

    def __init__(
        self, code: int, reason: str, message: str, details: JsonObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


def _details(name: str, group: str, kind: str) -> JsonObject:
    details: JsonObject = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404: no object of that name."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(name, group, plural))


def no_such_resource() -> ApiError:
    """404: the path names no resource this server has."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409 on create."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """409 on anything else."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(name, group, plural))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def forbidden(plural: str, group: str, name: str, why: str) -> ApiError:
    """403: admission rejected the write."""
    message = f'{_qualified(plural, group)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(name, group, plural))


def invalid(kind: str, group: str, name: str, causes: Sequence[FieldCause]) -> ApiError:
    """422: validation failed; all causes at once."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(name, group, kind)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    message = f'{_qualified(kind, group)} "{name}" is invalid: {listed}'
    return ApiError(422, "Invalid", message, details)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the requested resourceVersion is no longer in history."""
    return ApiError(410, "Expired", message)


def too_large_resource_version(requested: int, current: int) -> ApiError:
    """504: a list requested a version that does not exist yet."""
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def too_many_requests(message: str, retry_after: int, causes: list[JsonObject]) -> ApiError:
    """429 with a time to wait, in seconds."""
    details: JsonObject = {"retryAfterSeconds": retry_after}
    if causes:
        details["causes"] = causes
    return ApiError(429, "TooManyRequests", message, details)


def method_not_allowed() -> ApiError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: the body is in a form this server does not read (protobuf, for one)."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiError(415, "UnsupportedMediaType", message, {})


def rejected_patch() -> ApiError:
    """422: a JSON patch that does not fit the object."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, {})


FAULT_REASONS: dict[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The reason that goes with an HTTP code when a fault rule names only the code."""
