"""Helpers for the indexes of the cache: counts and sets that are removed when empty."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
M = TypeVar("M", bound=Hashable)


def add_count(counts: dict[K, int], key: K, by: int) -> int:
    """Add `by` to a count, and remove it if it becomes zero; return the new count."""
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        del counts[key]
    return left


def remove_member(index: dict[K, dict[M, Any]], key: K, member: M) -> None:
    """Remove `member` from the group `key` of an inverted index, and the group if it is empty."""
    group = index[key]
    del group[member]
    if not group:
        del index[key]
