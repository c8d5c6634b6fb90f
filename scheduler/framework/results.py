"""Checks of the return values of plugins; the error states what was expected.

The engine checks every call of a plugin, and so does the contract suite (`scheduler.testing`).
"""

from __future__ import annotations

import reprlib
from typing import Any, Final

import numpy as np

from scheduler.framework.status import Status, status_or_none


class ResultError(TypeError):
    """A plugin's method returned an invalid value; the text names the method."""


_INTEGERS: Final = frozenset("iub")
"""Kinds of NumPy dtypes (`dtype.kind`) that count as integers."""
_LIMIT: Final = 1 << 63


def status_result(method: str, result: object) -> Status | None:
    """Return the result of a method if it is a Status or None. Raises ResultError."""
    try:
        return status_or_none(result)
    except TypeError as error:
        raise ResultError(
            f"{method} {error}: None accepts, unschedulable(REASON) rejects"
        ) from None


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
    """Return `result` if it is an array with one integer per row. Raises ResultError.

    Args:
        method: name of the method, for the error.
        result: its return value.
        count: number of rows.
        results: a word for the numbers, for the error.
        fractions: whether finite floating-point numbers are allowed as well.
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
