"""HTTP messages of the embedded API server: bodies of requests, and responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml
from aiohttp import web

from scheduler.sanitizing.yaml_limits import YamlLimitError, check_limits
from simulator import errors
from simulator.api import APPLY_PATCH, PATCH_TYPES
from simulator.errors import ApiError
from simulator.objects import JsonObject, decode_json, encode_json
from simulator.protobuf import PROTOBUF_TYPE, ProtobufError, decode
from simulator.routing import Query, is_true

JSON_TYPE: Final = "application/json"

_MAX_BODY: Final = 3 * 1024 * 1024
_YAML: Final = ("application/yaml", APPLY_PATCH)


def content_type(request: web.BaseRequest) -> str:
    """Return the media type of the body, without parameters."""
    return request.headers.get("Content-Type", JSON_TYPE).partition(";")[0].strip()


async def read_body(request: web.BaseRequest) -> Any:
    """Read and decode the body; return None for an empty one.

    Raises:
        ApiError: 400, 413 or 415: the body cannot be decoded, is too long, or of another type.
    """
    raw = await request.read()
    if not raw:
        return None
    if len(raw) > _MAX_BODY:
        message = f"Request entity too large: limit is {_MAX_BODY}"
        raise ApiError(413, "RequestEntityTooLarge", message)
    media_type = content_type(request)
    if media_type == PROTOBUF_TYPE:
        try:
            return decode(raw)
        except ProtobufError as error:
            raise ApiError(415, "UnsupportedMediaType", str(error)) from error
    if not media_type.endswith("json") and media_type not in _YAML:
        raise errors.unsupported_media_type([JSON_TYPE, "application/yaml", *PATCH_TYPES])
    try:
        # JSON first: apply patches are JSON most of the time.
        return decode_json(raw)
    except ValueError as error:
        if media_type not in _YAML:
            raise errors.bad_request(
                f"couldn't get version/kind; json parse error: {error}"
            ) from error
    try:
        # A real API server takes the last value of a repeated key, too.
        check_limits(raw, unique_keys=False)
        # As JSON text and back, so that dates become what JSON makes of them.
        return decode_json(encode_json(yaml.safe_load(raw)))
    except (yaml.YAMLError, YamlLimitError, TypeError) as error:
        raise errors.bad_request(f"error converting YAML to JSON: {error}") from error


def json_object(body: Any) -> JsonObject:
    """Return `body` if it is an object; raise 400 otherwise."""
    if not isinstance(body, dict):
        raise errors.bad_request("the body of the request is no JSON object")
    return body


def delete_options(query: Query, body: Any) -> JsonObject:
    """Return the DeleteOptions of a request: those of the body, overridden by the query."""
    options = dict(body) if isinstance(body, dict) else {}
    grace = query.get("gracePeriodSeconds", "")
    if grace.isdigit():
        options["gracePeriodSeconds"] = int(grace)
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if is_true(query, "orphanDependents"):
        options["propagationPolicy"] = "Orphan"
    return options


def _warnings(texts: list[str]) -> Mapping[str, str]:
    """Join warnings into one header: aiohttp's Response is fastest with a plain mapping."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return {"Warning": ", ".join(f'299 - "{text}"' for text in quoted)}


def bytes_response(
    body: bytes, status: int = 200, warnings: list[str] | None = None
) -> web.Response:
    """Respond with encoded JSON, and a Warning header for each of `warnings`."""
    headers = _warnings(warnings) if warnings else None
    return web.Response(body=body, status=status, content_type=JSON_TYPE, headers=headers)


def json_response(obj: JsonObject, status: int = 200) -> web.Response:
    """Respond with an object."""
    return bytes_response(encode_json(obj), status)


def status_response(error: ApiError) -> web.Response:
    """Respond with the `Status` of an error."""
    headers: dict[str, str] = {}
    retry = (error.status.get("details") or {}).get("retryAfterSeconds")
    if retry:
        headers["Retry-After"] = str(retry)
    return web.Response(
        body=encode_json(error.status), status=error.code, content_type=JSON_TYPE, headers=headers
    )
