"""The objects that exist already, as far as those are known who would store another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

DECIDING: Final = frozenset(["limitranges", "priorityclasses", "runtimeclasses", "storageclasses"])
"""The plurals of the resources that decide how other objects are stored."""


class Existing(Protocol):
    """Typed objects by the plural of their resource: `priorityclasses`, `limitranges`, ..."""

    def get(self, plural: str, name: str, namespace: str = "") -> Any | None:
        """Return an object; None if there is none, or if none of the resource are known."""

    def every(self, plural: str) -> Iterable[Any]:
        """Return all objects of a resource; none if they are not known."""

    def known(self, plural: str) -> bool:
        """Return whether the objects of a resource are known, so that a missing one is none."""

    def enabled(self, gate: str) -> bool:
        """Return whether the API server has a feature gate on."""

    def version(self) -> int:
        """Return a number that is another one after any change of `DECIDING` objects."""


class Nothing:
    """Knows no objects, and has only those gates on that are named."""

    def __init__(self, *gates: str) -> None:
        self._gates = frozenset(gates)

    def get(self, plural: str, name: str, namespace: str = "") -> None:
        """Return None."""

    def every(self, plural: str) -> Iterable[Any]:
        """Return nothing."""
        return ()

    def known(self, plural: str) -> bool:
        """Return False."""
        return False

    def enabled(self, gate: str) -> bool:
        """Return whether the gate was named."""
        return gate in self._gates

    def version(self) -> int:
        """Return 0."""
        return 0
