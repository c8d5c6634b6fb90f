"""Fillings: what was filled in for many objects, and what was not known, in one line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from scheduler.api.stored.storing import Stored

MAX_NAMED: Final = 12
"""Texts of each sort in the line; those that concern most objects."""


class Fillings:
    """Counts of texts over objects."""

    def __init__(self) -> None:
        #: Objects by what was filled in and what is not known; there are few different ones.
        self._objects = Counter[tuple[tuple[str, ...], tuple[str, ...]]]()

    def note(self, stored: Stored) -> None:
        """Count what was filled in for one object."""
        self._objects[stored.filled, stored.unknown] += 1

    def line(self) -> str:
        """Return the line; empty if every object was complete.

        >>> from scheduler.api.stored import Nothing, as_stored
        >>> fillings = Fillings()
        >>> labels = {"kubernetes.io/hostname": "n1"}
        >>> node = {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": labels}}
        >>> fillings.note(as_stored({**node, "status": {"capacity": {"cpu": "4"}}}, Nothing()))
        >>> fillings.line()
        'filled in as an API server would: allocatable from capacity'
        """
        filled, unknown = Counter[str](), Counter[str]()
        for (own, missing), count in self._objects.items():
            filled.update(dict.fromkeys(own, count))
            unknown.update(dict.fromkeys(missing, count))
        texts = []
        if filled:
            texts.append(f"filled in as an API server would: {_listed(filled)}")
        if unknown:
            texts.append(f"not known: {_listed(unknown)}")
        return "; ".join(texts)


def _listed(counts: Counter[str]) -> str:
    shown = [
        f"{text} ({count} objects)" if count > 1 else text
        for text, count in counts.most_common(MAX_NAMED)
    ]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
