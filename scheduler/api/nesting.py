"""The nesting of a JSON text, found in one linear pass without recursion.

Texts that nest too deep for a decoder (see `decoding`) are cut to a depth that it can follow, or
taken apart. Nothing here runs for other texts.

Well-formed JSON stays well-formed, and unchanged down to the depth that is kept. Malformed JSON
stays malformed where a decoder reads it: up to the first fault, levels are what a decoder counts.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

MAX_DEPTH: Final = 64
"""Levels that are kept. No record reads a field below level 20, and a decoder follows some 900
levels even on Python 3.11."""

_QUOTE, _OPEN, _CLOSE = 1, 2, 3
_MARKS: Final = {'"': _QUOTE, "[": _OPEN, "{": _OPEN, "]": _CLOSE, "}": _CLOSE}
_KINDS: Final = bytes(_MARKS.get(chr(byte), 0) for byte in range(256))


class Nesting:
    """The containers (objects and arrays) of one JSON text, each with its level.

    The outermost container is at level 1.
    """

    __slots__ = ("_at", "_data", "_levels")

    def __init__(self, data: bytes) -> None:
        """Index `data`: some 20 ns, and up to 40 bytes of memory, for each bracket and quote."""
        self._data = data
        # Escapes become dots, so that every quote that is left begins or ends a string. A pair of
        # backslashes goes first: the quote after it is not escaped.
        plain = data.replace(b"\\\\", b"..").replace(b'\\"', b"..").translate(_KINDS)
        kinds = np.frombuffer(plain, np.uint8)
        at = np.flatnonzero(kinds)
        kinds = kinds[at]
        in_string = np.bitwise_xor.accumulate(kinds == _QUOTE)
        brackets = ~in_string & (kinds != _QUOTE)
        closing = kinds[brackets] == _CLOSE
        self._at = at[brackets]
        # Both brackets of a container get its level: the closing one counts as still within.
        self._levels = np.cumsum(np.where(closing, -1, 1)) + closing

    def pruned(self, max_depth: int = MAX_DEPTH) -> bytes:
        """Return the text with every container below level `max_depth` emptied."""
        opens, closes = self._containers(max_depth + 1)
        filled = opens + 1 < closes
        edges = np.zeros(len(self._data) + 1, np.bool_)
        edges[opens[filled] + 1] = True
        edges[closes[filled]] = True
        dropped = np.bitwise_xor.accumulate(edges)[:-1]
        return np.frombuffer(self._data, np.uint8)[~dropped].tobytes()

    def member(self, name: str) -> bytes:
        """Return the JSON of the object or array that is member `name` of the outermost object.

        Raises:
            ValueError: there is none, or two members have one name.
        """
        start, end = self._member(name)
        return self._data[start:end]

    def elements(self, name: str) -> list[bytes]:
        """Return the JSON of the objects and arrays in the array that is member `name`.

        Raises:
            ValueError: as `member`.
        """
        start, end = self._member(name)
        inside = (each for each in self._spans(3) if start < each[0] < end)
        return [self._data[first:last] for first, last in inside]

    def _member(self, name: str) -> tuple[int, int]:
        flat = msgspec.json.decode(self.pruned(1), type=dict[str, Any])
        names = [each for each, value in flat.items() if isinstance(value, (dict, list))]
        spans = dict(zip(names, self._spans(2), strict=True))
        if name not in spans:
            raise ValueError(f"no object or array {name!r}")
        return spans[name]

    def _spans(self, level: int) -> list[tuple[int, int]]:
        opens, closes = self._containers(level)
        return list(zip(opens.tolist(), (closes + 1).tolist(), strict=True))

    def _containers(self, level: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the positions of the opening and closing brackets of the containers at `level`."""
        at = self._at[self._levels == level]
        if at.size % 2:
            # Truncated: the last one goes to the end of the text.
            at = np.append(at, len(self._data))
        return at[0::2], at[1::2]
