"""Numbers in the queries of debug pages."""

from __future__ import annotations

from collections.abc import Mapping


def number_in(query: Mapping[str, str], key: str, default: int, low: int, high: int) -> int:
    """Return the number at `key`, from `low` to `high`; `default` without one.

    Raises:
        ValueError: it is no number, or out of range.

    >>> number_in({"limit": "7"}, "limit", 100, 1, 10), number_in({}, "limit", 100, 1, 10)
    (7, 100)
    >>> number_in({"limit": "11"}, "limit", 100, 1, 10)
    Traceback (most recent call last):
    ValueError: limit=11: give a number from 1 to 10
    """
    text = query.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValueError(f"{key}={text[:40]}: not a number")
    if not low <= int(text) <= high:
        raise ValueError(f"{key}={text}: give a number from {low} to {high}")
    return int(text)
