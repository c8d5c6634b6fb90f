"""Collects the faults of files, so that all are reported at once and one correction is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.offline.editing import WorldError

MAX_FAULTS: Final = 100
"""Faults that an error lists; the others are counted."""


class Faults:
    """The faults that were found up to now."""

    def __init__(self) -> None:
        self._listed: list[str] = []
        #: The number of faults up to now.
        self.count = 0

    def note(self, text: str, where: Callable[[], str] | None = None) -> None:
        """Note a fault; `text` says what is wrong, after the place, which takes time to find."""
        self.count += 1
        if self.count <= MAX_FAULTS:
            self._listed.append(text if where is None else f"{where()}: {text}")

    def report(self) -> None:
        """Raise WorldError with all faults, if there are any."""
        more = self.count - len(self._listed)
        if self.count:
            raise WorldError("\n".join([*self._listed, *([f"and {more} more"] if more else [])]))
