"""Notes of what was done to one object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]


@dataclass(slots=True)
class Notes:
    """Texts, each once."""

    filled: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def fill(self, text: str) -> None:
        """Note what was filled in or dropped."""
        if text not in self.filled:
            self.filled.append(text)

    def miss(self, text: str) -> None:
        """Note what is not known."""
        if text not in self.unknown:
            self.unknown.append(text)


def part(obj: JsonObject, name: str) -> JsonObject:
    """Return a part of an object that is an object itself; it is made if it is missing."""
    found: JsonObject = obj.setdefault(name, {})
    return found


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    """Yield init containers, then containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()
