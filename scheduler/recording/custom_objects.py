"""Encoding of custom objects for a bundle.

Built-in objects have only the fields that the scheduler declares, and so do custom objects of a
type that a plugin declares (`resource_types`). Of other custom objects only numbers, booleans,
amounts and times are kept, since their strings may contain anything. Fields whose names suggest
credentials are always dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from scheduler.api.custom import CustomObject
from scheduler.client.resources import Resource
from scheduler.recording.objects import kept_metadata
from scheduler.recording.redaction_words import AMOUNT_OR_TIME
from scheduler.sanitizing.redaction import is_secret_name, redact_message

MAX_BYTES: Final = 64 * 1024
"""Maximum JSON of a custom object; checking every value of it then takes milliseconds."""

TEXTS_LEFT_OUT: Final = (
    "of {resource} texts are left out, but for amounts and times, because no plugin declares their "
    "type: a plugin that reads others decides differently"
)
LARGE_LEFT_OUT: Final = (
    f"custom objects of more than {MAX_BYTES // 1024} KiB, and fields of custom objects with names "
    "of credentials, are left out: a plugin that reads them decides differently"
)


def left_out(resources: Iterable[Resource[Any]]) -> list[str]:
    """Return sentences about what a bundle omits from objects of these custom resources."""
    chosen = list(resources)
    found = [TEXTS_LEFT_OUT.format(resource=each.plural) for each in chosen if _plain(each)]
    return [*found, LARGE_LEFT_OUT] if chosen else []


def encode_custom(
    resource: Resource[Any], item: Any, kept_annotations: Collection[str] = ()
) -> bytes | None:
    """Return the JSON of a custom object without content that must not leave the cluster.

    None if the object cannot be encoded or is too large, and so must be omitted.
    """
    metadata = msgspec.to_builtins(kept_metadata(item.metadata, kept_annotations))
    try:
        whole = msgspec.json.encode(item)
        if len(whole) > MAX_BYTES:
            return None
        fields = msgspec.json.decode(whole)
        del fields["metadata"]
        kept = _without_secrets(fields, texts=not _plain(resource))
    except (TypeError, ValueError, RecursionError, KeyError):
        return None
    return msgspec.json.encode(_head(resource) | kept | {"metadata": metadata})


def encode_identity(resource: Resource[Any], item: Any) -> bytes:
    """Return JSON with only the name, namespace and UID of a custom object."""
    metadata = item.metadata
    names = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
    return msgspec.json.encode(_head(resource) | {"metadata": names})


def _head(resource: Resource[Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


def _plain(resource: Resource[Any]) -> bool:
    return resource.type is CustomObject


def _without_secrets(value: Any, *, texts: bool) -> Any:
    """Return JSON without credential fields; without `texts`, strings stay only if amounts."""
    if isinstance(value, dict):
        return {
            key: _without_secrets(each, texts=texts)
            for key, each in value.items()
            if not is_secret_name(key) and _stays(each, texts)
        }
    if isinstance(value, list):
        return [_without_secrets(each, texts=texts) for each in value if _stays(each, texts)]
    return redact_message(value) if isinstance(value, str) else value


def _stays(value: Any, texts: bool) -> bool:
    return texts or not isinstance(value, str) or bool(AMOUNT_OR_TIME.fullmatch(value))
