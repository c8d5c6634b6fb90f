"""Plugins whose calls do not end.

A folder for plugins of worlds: it is on the path while `tests` is.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any


class Endless:
    """Computes for ever, whatever exceptions it meets."""

    name = "example.com/Endless"

    def __init__(self, args: object, handle: object) -> None:
        """Need nothing."""

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Do not return for some pods."""
        while pod.metadata.name == "bad":
            with suppress(Exception):
                self._step()

    def _step(self) -> None:
        """Be called again and again."""


class Stuck(Endless):
    """Waits for ever."""

    name = "example.com/Stuck"

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Do not return for some pods."""
        if pod.metadata.name == "bad":
            threading.Event().wait()
