"""PluginOverruns: records plugins that take too long, and switches them off if configured.

There are two sources: the engine reports every plugin that exceeds `kubestow.pluginTimeBudget`, and
the watchdog (`scheduler.process.watchdog`) names a plugin that blocks the event loop for a second
or more, in any method. In a profile with `onOverrun: Disable`, a plugin that overruns too often is
switched off, unless it is an in-tree plugin.

Bounded: one record for each plugin and extension point, and one for each plugin of a profile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

import plugins
from config.loading import OverrunPolicy
from scheduler.api.signal import Signal
from scheduler.engine.measured_plugin import MEASURED
from scheduler.framework import Clock
from scheduler.service.plugin_frames import PluginCall

_log = structlog.get_logger(__name__)

IN_TREE: Final = frozenset(each.name for each in plugins.in_tree())
_MEASURED_POINTS: Final = frozenset((*MEASURED.values(), "Filter", "Score"))

MAX_PLACES: Final = 1000
"""Maximum number of recorded places; blocks at others are only counted in the metric."""


@dataclass(slots=True)
class Blocks:
    """The blocks of the event loop that one plugin caused at one extension point."""

    last: PluginCall
    count: int = 0
    #: Duration of the longest block.
    seconds: float = 0.0

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        point = f" in {self.last.point}" if self.last.point else ""
        return (
            f"blocked all scheduling {times}{point} since the start, for up to "
            f"{self.seconds:.1f}s, last at {self.last.where}"
        )


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """A plugin that is switched off in one profile."""

    profile: str
    plugin: str
    #: Extension point of the last overrun.
    point: str
    #: RFC 3339 time.
    since: str
    #: Number of overruns within `window_seconds`.
    count: int
    window_seconds: float

    def __str__(self) -> str:
        return (
            f"switched off for this profile since {self.since}: it exceeded its time budget "
            f"{self.count} times within {self.window_seconds:g}s, last in {self.point}; a reload "
            "of the configuration switches it on again"
        )


class OverrunMetrics(Protocol):
    """Receiver of measurements."""

    def blocked(self, plugin: str, point: str, seconds: float) -> None:
        """Count the seconds for which a call of a plugin blocked the event loop."""

    def switched_off(self, profile: str, plugin: str, off: bool) -> None:
        """Set whether a plugin is switched off in a profile."""


class PluginOverruns:
    """The overruns of all plugins of one process. Touched from its event loop only."""

    def __init__(
        self,
        metrics: OverrunMetrics,
        clock: Clock,
        policies: Callable[[], Mapping[str, OverrunPolicy]],
        profiles_of: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """Wire it.

        `policies()` returns the policy of each profile in force, `profiles_of` the profiles in
        which a plugin is enabled.
        """
        self._metrics = metrics
        self._clock = clock
        self._policies = policies
        self._blocks: dict[tuple[str, str], Blocks] = {}
        #: Monotonic times of the last overruns of a plugin in a profile, the oldest first.
        self._times: dict[tuple[str, str], deque[float]] = {}
        self._logged: set[tuple[str, str]] = set()
        self._required: set[tuple[str, str]] = set()
        self._off: dict[tuple[str, str], SwitchedOff] = {}
        #: Called once for a plugin to be switched off; the profile uses it until that is done.
        self.on_switch_off = Signal[[SwitchedOff]]()
        self._profiles_of = profiles_of

    def overran(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        """Record that a plugin exceeded its time budget."""
        if (plugin, point) not in self._logged and len(self._logged) < MAX_PLACES:
            self._logged.add((plugin, point))
            _log.warning(
                "plugin over its time budget; further overruns are counted only",
                plugin=plugin,
                where=point,
                profile=profile,
                seconds=round(seconds, 3),
            )
        policy = self._policies().get(profile)
        key, now = (profile, plugin), self._clock.monotonic()
        if policy is None or not policy.disable or plugin in IN_TREE or key in self._required:
            return
        times = self._times.setdefault(key, deque(maxlen=policy.limit))
        times.append(now)
        if len(times) < policy.limit or now - times[0] > policy.window_seconds or key in self._off:
            return
        since = datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="seconds")
        off = SwitchedOff(profile, plugin, point, since, policy.limit, policy.window_seconds)
        self._off[key] = off
        self.on_switch_off(off)

    def stays_on(self, off: SwitchedOff) -> None:
        """Record that the profile cannot do without the plugin, which is not tried again."""
        _log.error(
            "plugin overruns its time budget, and its profile cannot do without it",
            plugin=off.plugin,
            profile=off.profile,
        )
        del self._off[off.profile, off.plugin]
        self._required.add((off.profile, off.plugin))

    def went_off(self, off: SwitchedOff) -> None:
        """Record that the profile continues without the plugin."""
        _log.error(
            "plugin switched off",
            plugin=off.plugin,
            profile=off.profile,
            where=off.point,
            overruns=off.count,
            seconds=off.window_seconds,
        )
        self._metrics.switched_off(off.profile, off.plugin, True)

    def all_on(self) -> None:
        """Record that the plugins were rebuilt, so that all are switched on."""
        for off in self._off.values():
            self._metrics.switched_off(off.profile, off.plugin, False)
        self._off.clear()
        self._required.clear()
        self._times.clear()

    def off(self) -> list[SwitchedOff]:
        """Return the plugins that are switched off, in the order in which they were."""
        return list(self._off.values())

    def blocked(self, call: PluginCall, seconds: float) -> None:
        """Record that a plugin blocked the event loop; its call has ended."""
        self._metrics.blocked(call.plugin, call.point, seconds)
        if call.point not in _MEASURED_POINTS:
            # Queueing hints, callbacks and the like, whose time the engine does not measure.
            for profile in self._profiles_of(call.plugin):
                self.overran(call.plugin, call.point, profile, seconds)
        key = call.plugin, call.point
        blocks = self._blocks.get(key)
        if blocks is None:
            if len(self._blocks) >= MAX_PLACES:
                return
            blocks = self._blocks[key] = Blocks(call)
        blocks.last = call
        blocks.count += 1
        blocks.seconds = max(blocks.seconds, seconds)

    def forget(self) -> None:
        """Forget the blocks and logged overruns, since the plugins were replaced."""
        self._blocks.clear()
        self._logged.clear()

    def of_profile(self, profile: str, plugins: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return, by plugin, lines about a profile's `plugins` and those switched off in it."""
        lines: dict[str, tuple[str, ...]] = {
            off.plugin: (str(off),) for off in self._off.values() if off.profile == profile
        }
        for (plugin, _), blocks in self._blocks.items():
            if plugin in plugins:
                lines[plugin] = (*lines.get(plugin, ()), str(blocks))
        return lines
