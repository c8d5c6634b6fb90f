"""Estimates, by sampling, of the memory that objects take.

For accounting only. Walking over all of a pod of 1 MB would take longer than scheduling it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import msgspec

_CONSTANTS: Final = range(-5, 257)
_SAMPLE: Final = 48
"""Elements of a collection that are measured; the others count as their average."""


def deep_size(value: Any, *, texts: bool = True) -> int:
    """Estimate the bytes of a value: containers, structs and slotted objects with contents.

    A string that is referenced several times counts once, other objects each time. Without `texts`
    strings count nothing: for values that share them with another one.
    """
    return _size(value, set() if texts else None)


def _size(value: Any, seen: set[int] | None) -> int:
    kind = type(value)
    if kind is str:
        if seen is None or id(value) in seen or len(value) < 2:
            return 0
        seen.add(id(value))
        return sys.getsizeof(value)
    if kind is int or kind is bytes or kind is float:
        # Python has each small integer once.
        return 0 if value in _CONSTANTS else sys.getsizeof(value)
    if kind is dict:
        return sys.getsizeof(value) + _sum(value.items(), len(value), seen, in_pairs=True)
    if kind is list or kind is set or kind is frozenset or isinstance(value, tuple):
        if not value:
            return 0
        return sys.getsizeof(value) + _sum(value, len(value), seen)
    if isinstance(value, msgspec.Struct):
        return sys.getsizeof(value) + sum(
            _size(getattr(value, name), seen) for name in value.__struct_fields__
        )
    slots = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
    return (sys.getsizeof(value) if slots else 0) + sum(
        _size(getattr(value, name), seen) for name in slots if hasattr(value, name)
    )


def _sum(
    elements: Iterable[Any], count: int, seen: set[int] | None, *, in_pairs: bool = False
) -> int:
    if not count:
        return 0
    step = max(1, count // _SAMPLE)
    looked_at: list[Any] = list(elements)[::step] if step > 1 else list(elements)
    flat = chain.from_iterable(looked_at) if in_pairs else looked_at
    return sum(_size(each, seen) for each in flat) * count // len(looked_at)
