"""Checks of what plugins return: nonsense is an error that says what was expected.

The engine makes these checks with every call, and so does the contract suite.
"""

from __future__ import annotations

import reprlib
from typing import Any, Final

import numpy as np

from scheduler.framework.status import Status, status_or_none


class ResultError(TypeError):
    """A method of a plugin returned nothing that it may return; the text names the method."""


_INTEGERS: Final = frozenset("iub")
"""Kinds of NumPy's types that are whole numbers."""
_LIMIT: Final = 1 << 63


def status_result(method: str, result: object) -> Status | None:
    """Return the result of a method if it is a Status or None. Raises ResultError."""
    try:
        return status_or_none(result)
    except TypeError as error:
        raise ResultError(f"{method} {error}") from None


def score_result(result: Any) -> int | Status:
    """Return the result of Score if it is a 64-bit integer or a Status. Raises ResultError."""
    if isinstance(result, int | np.integer) and -_LIMIT <= result < _LIMIT:
        return int(result)
    if isinstance(result, Status):
        return result
    raise ResultError(f"score returned {reprlib.repr(result)}, which is not a 64-bit integer")


def rows_result(
    method: str, result: Any, count: int, results: str = "numbers", *, fractions: bool = False
) -> np.ndarray:
    """Return an array if it has one integer for each of `count` rows. Raises ResultError.

    Args:
        method: its name, for the error.
        result: what it returned.
        count: of rows.
        results: names the numbers in the error.
        fractions: whether finite fractions are allowed.
    """
    if not isinstance(result, np.ndarray):
        raise ResultError(f"{method} returned {reprlib.repr(result)}, which is not a NumPy array")
    kind = result.dtype.kind
    if result.shape == (count,) and kind in _INTEGERS:
        return result
    if result.ndim != 1:
        raise ResultError(f"{method} returned an array of {result.ndim} dimensions, not of one")
    if len(result) != count:
        raise ResultError(f"{method} gave {len(result)} {results} for {count} rows")
    if not fractions:
        raise ResultError(f"{method} returned an array of {result.dtype}, not of integers")
    if kind != "f" or not np.isfinite(result).all():
        raise ResultError(f"{method} returned something that is no number")
    return result
