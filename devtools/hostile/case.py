"""HostileCase: how to generate objects of one kind that are extreme along one dimension.

Nothing is stored: an object is made from a size and a serial number. Two objects of one case differ
in their serial only, so thousands of them can be alive at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

JsonObject = dict[str, Any]
"""An object as JSON. A `msgspec.Raw` within it is JSON text that Python values cannot express:
nesting beyond the recursion limit, lone surrogates, numbers with an exponent."""

Make = Callable[[int, int], JsonObject]
"""An object by its size and its serial number."""

SCHEDULER_NAME: Final = "kubestow"


class Dimension(StrEnum):
    """The way in which an object is extreme."""

    DEPTH = "depth"
    COUNT = "count"
    SIZE = "size"
    UNIQUENESS = "uniqueness"
    NUMBERS = "numbers"
    TEXT = "text"
    TYPES = "types"


class Verdict(StrEnum):
    """Reaction of the real API server to an object at full size."""

    #: 201, and what it stores is what was sent, but for its own canonical forms.
    STORED = "stored"
    #: A 4xx. Such objects matter only where an older server or a hand-written etcd entry has them.
    REFUSED = "refused"


def nothing(_size: int, _serial: int) -> Iterable[JsonObject]:
    """No other objects."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileCase:
    """Objects of one kind, extreme in one dimension.

    `unit` defines what `size` counts: elements, bytes or levels. A case with the unit "" has no
    size: its object is always odd.
    """

    name: str
    #: Plural, as in `scheduler.client.resources.RESOURCES`.
    plural: str
    dimension: Dimension
    make: Make
    unit: str = ""
    #: For a run in process.
    small: int = 1
    #: The largest that the real API server stores, nearly (1.5 MiB is etcd's limit).
    full: int = 1
    verdict: Verdict = Verdict.STORED
    #: What must exist for the object to cost what it can cost.
    beside: Callable[[int, int], Iterable[JsonObject]] = nothing

    def __str__(self) -> str:
        return self.name

    @property
    def grows(self) -> bool:
        """Whether it can be made larger."""
        return bool(self.unit)

    def object(self, size: int | None = None, serial: int = 0) -> JsonObject:
        """One object, at its small size by default."""
        return self.make(self.small if size is None else size, serial)

    def objects(self, count: int, size: int | None = None) -> Iterator[JsonObject]:
        """`count` objects with different names."""
        return (self.object(size, serial) for serial in range(count))


def encode(obj: JsonObject) -> bytes:
    """The JSON of an object from the catalogue."""
    return msgspec.json.encode(obj)


def name_of(obj: JsonObject) -> str:
    """`metadata.name`."""
    return str(obj["metadata"]["name"])
