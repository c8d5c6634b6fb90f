"""PluginExceptions: exceptions of plugins, logged once per place and counted.

A faulty plugin may raise for every pod and on every node; a log line for each would add nothing. So
only the first exception of each plugin at each extension point is logged, with the plugin's frames,
and all are counted in `kubestow_plugin_exceptions_total`.

Bounded: one record for each place, of which a configuration has few. No exception is kept, since
its frames would keep pods and nodes alive. Conditions and Events of the pods are written elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

import config
import scheduler
from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.sanitizing.exceptions import error_text, frames

_log = structlog.get_logger(__name__)

MAX_PLACES: Final = 1000
"""Maximum number of recorded places; exceptions at others are only counted."""
MAX_LOGGED: Final = 1000
"""Maximum number of characters of an exception's text in the log."""

OURS: Final = tuple(str(Path(str(each.__file__)).parent) for each in (scheduler, config))
"""Folders whose frames are left out: those that call the plugin."""


@dataclass(slots=True)
class Place:
    """The exceptions of one plugin at one extension point."""

    plugin: str
    point: str
    #: Class of the first exception.
    kind: str
    #: `file:line in function` of the innermost frame of the plugin; empty if there is none.
    where: str
    #: Text of the first exception, at most `MAX_LOGGED` characters; it may name anything.
    text: str = ""
    count: int = 0

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        where = f" at {self.where}" if self.where else ""
        return f"raised {times} in {self.point} since the start, first {self.kind}{where}"


class PluginExceptions:
    """The exceptions of all plugins of one process. Touched from its event loop only."""

    def __init__(self, count: Callable[[str, str], None]) -> None:
        """`count(plugin, extension point)` is called for each exception."""
        self._count = count
        #: Is called after each exception, with the plugin.
        self.on_raised = Signal[[str]]()
        self._places: dict[tuple[str, str], Place] = {}

    def raised(self, plugin: str, point: str, pod: Pod, error: BaseException) -> None:
        """Count an exception; log it if it is the first of its place."""
        self._count(plugin, point)
        key = plugin, point
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= MAX_PLACES:
                return
            own = frames(error, OURS)
            kind = type(error).__name__
            text = error_text(error)[:MAX_LOGGED]
            place = self._places[key] = Place(plugin, point, kind, own[-1] if own else "", text)
            _log.error(
                "plugin raised",
                plugin=plugin,
                where=point,
                pod=pod.key,
                error=f"{kind}: {text}",
                frames=own,
            )
        place.count += 1
        self.on_raised(plugin)

    def forget(self) -> None:
        """Forget all places; for replaced plugins, whose exceptions must be logged again."""
        self._places.clear()

    def places(self, plugins: Collection[str]) -> list[Place]:
        """Return the places of some plugins, in the order of their first exceptions."""
        return [each for each in self._places.values() if each.plugin in plugins]

    def of_plugins(self, plugins: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return a line for each place of some plugins, by plugin.

        Without the text of the exception, which may name anything.
        """
        lines: dict[str, tuple[str, ...]] = {}
        for place in self.places(plugins):
            lines[place.plugin] = (*lines.get(place.plugin, ()), str(place))
        return lines
