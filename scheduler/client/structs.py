"""Structs that several threads decode."""

from __future__ import annotations

import msgspec


def complete(*structs: type[msgspec.Struct]) -> None:
    """Read the annotations of structs now, and not when the first of each is decoded.

    To be called when their module is imported. If two threads decode the first one at the same
    time, msgspec (0.22) uses what the other thread has not filled in yet, and the process crashes.
    A decoder that a module makes when it is imported does the same.
    """
    for each in structs:
        msgspec.json.Decoder(each)
