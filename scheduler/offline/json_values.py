"""JSON values of a file: one, or several as streams, NDJSON and appended outputs of kubectl have.

Repeated keys are an error (RFC 8259, section 4, leaves open which value counts). Tools repeat none,
so only files that a person may have written are searched as a whole; of larger ones the text around
the items of a list.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
import yaml

from scheduler.sanitizing.yaml_limits import YamlLimitError, check_limits

MAX_SEARCHED: Final = 4 << 20
"""Bytes of a value of which all objects are searched for repeated keys."""

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)").search
"""The text of msgspec's error for something that follows a value."""
_PLACE: Final = re.compile(r"\(byte (\d+)\)").search
"""Where msgspec's text of a syntax error says the place."""
_BETWEEN: Final = re.compile(
    rb"(?:\s+|---(?=\s)|==== START logs for (.{1,400}) ====\n"
    rb"(?:[\s\S]*?\n)??==== END logs for \1 ====)*"
)
"""What may stand between values: white space, separators of YAML, and the logs that `kubectl
cluster-info dump` prints."""
_SEPARATOR: Final = re.compile(rb"\s*,\s*")
_KEY: Final = re.compile(rb'"\s*:')
"""The end of each key, and what looks like one within strings."""
_BY_NUMBER: Final = re.compile(rb"\\u00(?:0[9aAdD]|2[02]|3[aA])")


class JsonError(ValueError):
    """A file that is no JSON, or has a repeated key."""

    def __init__(self, message: str, line: int, *, repeated_key: bool = False) -> None:
        super().__init__(message)
        #: From 1; 0: unknown.
        self.line, self.repeated_key = line, repeated_key


def values(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Iterator[tuple[bytes, Any]]:
    """Yield the text of each value of a file, and what `decoder` makes of it.

    Raises:
        JsonError: the rest of the file is no JSON, or not what the decoder expects; or it has a
            repeated key.
    """
    start = 0
    while start < len(data) or not start:
        end = len(data)
        try:
            try:
                found = decoder.decode(memoryview(data)[start:] if start else data)
            except msgspec.DecodeError as error:
                follows = _TRAILING(str(error))
                if follows is None:
                    raise
                end = start + int(follows[1]) - 1
                found = decoder.decode(data[start:end])
        except (msgspec.DecodeError, RecursionError) as error:
            raise JsonError(str(error), _line(data, start, error)) from error
        value = data[start:end]
        _refuse_repeated_keys(value, found, data, start)
        yield value, found
        between = _BETWEEN.match(data, end)
        start = max(end if between is None else between.end(), 1)


def _line(data: bytes, start: int, error: Exception) -> int:
    """Return the line of a syntax error as msgspec locates it; the last without a place."""
    found = _PLACE(str(error))
    end = len(data.rstrip()) if found is None else start + int(found[1])
    return data.count(10, 0, end) + 1


def _refuse_repeated_keys(value: bytes, found: Any, data: bytes, start: int) -> None:
    thorough = len(data) <= MAX_SEARCHED
    if thorough and _keeps_keys(value):
        return
    key = _repeated(value) if thorough else _repeated_at_top(value, found)
    if key is None:
        return
    line = 0
    if thorough:
        try:
            check_limits(value)  # JSON is YAML, mostly, and this knows the line.
        except YamlLimitError as error:
            line = data.count(10, 0, start) + error.line
        except yaml.YAMLError:
            line = 0
    text = f'the key "{key:.60}" is repeated, so that its first value would be lost'
    raise JsonError(text, line, repeated_key=True)


def _keeps_keys(value: bytes) -> bool:
    """Return whether decoding a value surely loses no key; it takes a tenth of looking for one.

    A repeated key is lost, so that fewer are written again. Strings that look like keys are written
    as they were, unless their quotes, blanks or colons are escaped by number.
    """
    if _BY_NUMBER.search(value) is not None:
        return False
    try:
        again = msgspec.json.encode(msgspec.json.decode(value))
    except (ValueError, RecursionError):
        return False
    return len(_KEY.findall(value)) == len(_KEY.findall(again))


def _repeated(value: bytes) -> str | None:
    """Return a key that is there twice in an object. Raises JsonError."""
    found: str | None = None

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        if found is None and len({key for key, _ in pairs}) != len(pairs):
            found = Counter(key for key, _ in pairs).most_common(1)[0][0]

    try:
        json.loads(value, object_pairs_hook=look, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise JsonError(f"JSON is malformed, or nests too deeply: {error}", 0) from error
    return found


def _repeated_at_top(value: bytes, found: Any) -> str | None:
    """Return a key that is there twice outside of the items of a list."""
    items = found if isinstance(found, list) else getattr(found, "items", ())
    if isinstance(items, list) and items:
        first, last = bytes(items[0]), bytes(items[-1])
        end = value.rindex(last) + len(last)
        separator = _SEPARATOR.match(value, value.index(first) + len(first))
        between = 0 if separator is None else separator.end() - separator.start()
        begin = end - sum(map(len, items)) - between * (len(items) - 1)
        if begin >= 0 and value.startswith(first, begin):
            # Items of an earlier list are not among these, so they are in the rest.
            with suppress(JsonError):
                return _repeated(value[:begin] + value[end:])
    return _repeated(value)
