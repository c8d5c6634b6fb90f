"""Wrapper that measures the calls of a plugin, and reports every call over the time budget.

Only out-of-tree plugins are wrapped, so calls of in-tree plugins have no overhead. The scalar
Filter and Score are not measured here, since a cycle calls them for each node; `filtering` and
`scoring` add up their time per cycle.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

MEASURED: Final = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "filter_rows": "Filter",
    "filter_without_victims": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score_rows": "Score",
    "normalize_scores": "NormalizeScores",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
}
"""Methods that are called a few times per cycle, with their extension points in reports."""

_BY_NODE: Final = ("filter", "score")
"""Methods that are called per node: not measured, but copied to avoid `__getattr__`."""

Overran = Callable[[str, str, str, float], None]
"""`overran(plugin, extension point, profile, seconds)` reports a call over the budget."""


class PluginBudget:
    """The time budget of plugin calls. Shared by all profiles."""

    __slots__ = ("monotonic", "overran", "seconds")

    def __init__(self, monotonic: Callable[[], float], seconds: float, overran: Overran) -> None:
        #: Returns the monotonic time in seconds.
        self.monotonic = monotonic
        #: Calls that take longer than this are reported.
        self.seconds = seconds
        self.overran = overran


class MeasuredPlugin:
    """A plugin with measured methods; all other attributes are those of the wrapped plugin."""

    def __init__(self, plugin: Any, profile: str, budget: PluginBudget) -> None:
        """Measure the synchronous methods of `plugin` that are in `MEASURED`."""
        own = self.__dict__
        own["name"], own["plugin"] = plugin.name, plugin
        for method, point in MEASURED.items():
            call = getattr(plugin, method, None)
            if callable(call) and not inspect.iscoroutinefunction(call):
                own[method] = _measured(call, plugin.name, point, profile, budget)
        for method in _BY_NODE:
            if hasattr(plugin, method):
                own[method] = getattr(plugin, method)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped plugin."""
        return getattr(self.__dict__["plugin"], name)


def _measured(
    call: Callable[..., Any], plugin: str, point: str, profile: str, budget: PluginBudget
) -> Callable[..., Any]:
    monotonic = budget.monotonic

    def measured(*arguments: Any) -> Any:
        started = monotonic()
        try:
            return call(*arguments)
        finally:
            seconds = monotonic() - started
            if seconds > budget.seconds:
                budget.overran(plugin, point, profile, seconds)

    return measured
