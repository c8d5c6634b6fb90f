"""Objects with a field that nests deeper than any decoder follows, as an API server stores them."""

from __future__ import annotations

import json
from typing import Any

DEPTH = 9_990
"""The real API server accepts 10,000 levels in all."""

_MARK = "@deep@"


def deep_json(item: Any, levels: int = DEPTH) -> bytes:
    """The JSON of `item`, in which `deep_fields()` are nested `levels` deep."""
    nested = b'{"f:a":' * levels + b"{}" + b"}" * levels
    return json.dumps(item, separators=(",", ":")).encode().replace(f'"{_MARK}"'.encode(), nested)


def deep_fields() -> list[Any]:
    """`metadata.managedFields` of a hostile object."""
    return [{"manager": "hostile", "fieldsType": "FieldsV1", "fieldsV1": _MARK}]


def deep_line(kind: str, item: Any, levels: int = DEPTH) -> bytes:
    """A watch line, without its end."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), deep_json(item, levels))
