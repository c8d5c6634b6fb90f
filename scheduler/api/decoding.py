"""Decoding JSON that others wrote, however deep it nests.

The API server stores values nested up to 10,000 deep where nothing validates them
(`metadata.managedFields[].fieldsV1`), and whoever may write an object may write one. `msgspec`
skips unread fields by recursion, which CPython ends at about 1,000 levels (3.11), 10,000 (3.12) or
where the stack does (3.14). Then, and only then, `nesting` empties what lies deeper than anything
that a record reads, and the rest is decoded.

Whoever decodes bytes of the API server does it with `decode_json`, or catches RecursionError.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode_json(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode `data`.

    Raises:
        ValueError: it is malformed, or not of the decoder's type.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(prune(data))


def prune(data: bytes | msgspec.Raw) -> bytes:
    """Empty the objects and arrays in `data` that are nested too deep to be read."""
    # NumPy is a tenth of a second, which a command of the CLI should not pay for nothing.
    from scheduler.api.nesting import Nesting  # noqa: PLC0415

    return Nesting(bytes(data)).pruned()
