"""JSON bodies of responses."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.sanitizing.escaping import escaped_json
from scheduler.sanitizing.redaction import redact


def redact_and_indent(encoded: bytes) -> bytes:
    """Return indented JSON without credentials and controls, with a final newline.

    May be called in a thread, since it takes long for long pages.
    """
    shown = redact(msgspec.json.decode(encoded), max_values=len(encoded))
    return escaped_json(msgspec.json.format(msgspec.json.encode(shown), indent=2)) + b"\n"


def encode(data: object) -> bytes:
    """Return JSON in one line, of Structs, dataclasses, NumPy values and what msgspec encodes."""
    return msgspec.json.encode(data, enc_hook=_plain)


def _plain(value: Any) -> object:
    """Convert what msgspec cannot: NumPy scalars and arrays to numbers, the rest to text."""
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    return str(value)
