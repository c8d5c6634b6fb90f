"""Calls of plugins are measured; all else is the plugin's own."""

from __future__ import annotations

import inspect

import pytest

from scheduler.engine.measured_plugin import MeasuredPlugin, PluginBudget
from tests.unit.client.virtual_clock import ManualClock


class Slow:
    """A plugin whose calls take as long as they are told, in virtual time."""

    name = "Slow"
    filter_reuse = None

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.kept = "as it is"

    def reserve(self, seconds: float) -> str:
        self._clock.jump(seconds)
        return "reserved"

    def permit(self, seconds: float) -> None:
        self._clock.jump(seconds)
        raise ValueError("no licence")

    def filter(self, seconds: float) -> None:
        self._clock.jump(seconds)

    async def pre_filter(self) -> None: ...


def test_calls_over_the_budget_are_reported_and_the_rest_is_untouched() -> None:
    clock = ManualClock()
    reports: list[tuple[str, str, str, float]] = []
    budget = PluginBudget(clock.monotonic, 0.25, lambda *report: reports.append(report))
    slow = Slow(clock)
    plugin = MeasuredPlugin(slow, "kubestow", budget)
    assert plugin.reserve(0.25) == "reserved"
    assert not reports
    assert plugin.reserve(0.5) == "reserved"
    with pytest.raises(ValueError, match="no licence"):
        plugin.permit(1.0)
    plugin.filter(5.0)
    assert reports == [
        ("Slow", "Reserve", "kubestow", 0.5),
        ("Slow", "Permit", "kubestow", 1.0),
    ]
    budget.seconds = 2.0
    plugin.reserve(1.0)
    assert len(reports) == 2, "the budget may change"
    assert (plugin.name, plugin.kept, plugin.filter_reuse) == ("Slow", "as it is", None)
    assert plugin.filter == slow.filter
    assert inspect.iscoroutinefunction(plugin.pre_filter)
    assert not hasattr(plugin, "score_rows")
