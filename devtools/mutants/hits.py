"""Notes which tests reach which places, in the process of the test or in one that it started.

Calls of `hit` are written into a copy of the product, and this module lies beside it. It imports
nothing of the product, costs little, and never fails: the tests must run as they do without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

FILE_VARIABLE: Final = "MUTANTS_HITS_FILE"
_Value = TypeVar("_Value")
_seen: Final[set[tuple[int, str]]] = set()


def hit(place: int, value: _Value, mutated: Callable[[], object] | None = None) -> _Value:
    """Return `value`, and note the test unless the mutant would have the same value here."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")  # pytest sets it; child processes inherit it
    if (place, test) in _seen or (mutated is not None and _is_same(value, mutated)):
        return value
    _seen.add((place, test))
    try:
        with Path(os.environ[FILE_VARIABLE]).open("a") as file:
            file.write(json.dumps([place, test]) + "\n")
    except (OSError, KeyError):
        pass  # a test may start a process with few rights or without its environment
    return value


def _is_same(value: object, mutated: Callable[[], object]) -> bool:
    """Compare what surely has no more to it than its value: numbers, texts and NumPy's arrays."""
    try:
        other = mutated()
        if type(value) is not type(other):
            return False
        if isinstance(value, bool | int | float | str):
            return value == other
        return _array(value) == _array(other)
    except Exception:  # noqa: BLE001 - boundary: the mutant may raise anything, as the test may notice
        return False


def _array(value: Any) -> tuple[object, object, bytes]:
    return value.dtype, value.shape, value.tobytes()
