"""Escaping of characters that control a terminal, hide text, or change its direction.

Names, messages and annotations are written by others. Line ends stay; every other character that
`str.isprintable` excludes is escaped: controls (C0, DEL, C1), bidirectional and invisible formats,
and halves of surrogate pairs. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Final

_NOT_PLAIN: Final = re.compile(r"[^\n\x20-\x7e]")
"""What needs a closer look; letters of other scripts are among it."""

_PLAIN_BYTES: Final = re.compile(rb"[\n\x20-\x7e]*+")


def escaped(text: str) -> str:
    r"""Write characters that are not printable as Python does.

    >>> escaped("caf\u00e9\n\x1b[31m\u202e")
    'café\n\\x1b[31m\\u202e'
    """
    return text if text.isprintable() else _NOT_PLAIN.sub(_as_python, text)


def escaped_json(encoded: bytes) -> bytes:
    r"""Write characters that are not printable as JSON does; the value remains the same.

    >>> escaped_json('{"name": "café\x9b\u202e"}'.encode()).decode()
    '{"name": "café\\u009b\\u202e"}'
    """
    if _PLAIN_BYTES.fullmatch(encoded):
        return encoded
    return _NOT_PLAIN.sub(_as_json, encoded.decode("utf-8", "replace")).encode()


def _as_python(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _as_json(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
