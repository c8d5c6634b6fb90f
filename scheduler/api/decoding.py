"""Decoding of untrusted JSON, however deep it nests.

The API server stores values nested up to 10,000 deep where nothing validates them
(`metadata.managedFields[].fieldsV1`), and any writer of an object can write one. `msgspec` skips
unread fields by recursion, which CPython ends at about 1,000 levels (3.11), 10,000 (3.12) or at the
end of the stack (3.14). Only then `nesting` empties containers deeper than any field that a record
reads, and the rest is decoded.

Decode bytes of the API server with `decode_json`, or catch RecursionError.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode_json(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode `data`.

    Raises:
        ValueError: `data` is malformed, or not of the decoder's type.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(prune(data))


def prune(data: bytes | msgspec.Raw) -> bytes:
    """Empty the objects and arrays in `data` that are nested too deep to be read."""
    # Importing NumPy takes 0.1 s, which most CLI commands need not pay.
    from scheduler.api.nesting import Nesting  # noqa: PLC0415

    return Nesting(bytes(data)).pruned()
