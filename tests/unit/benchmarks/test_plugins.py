"""The benchmark of plugins calls them as it says; its figures are for people."""

from __future__ import annotations

import pytest

from benchmarks import measured_plugins, plugins
from benchmarks.engine_world import EngineWorld


@pytest.mark.parametrize(
    ("plugin", "calls"), [(measured_plugins.Scalar, 20), (measured_plugins.Columnar, 0)]
)
def test_a_cycle_with_the_plugin_calls_it_for_every_node(
    plugin: type[measured_plugins.MeasuredPlugin], calls: int
) -> None:
    found = plugins.overhead(plugin, nodes=10, pairs=3)
    assert found.calls == calls
    assert (found.own > 0) is (plugin is measured_plugins.Columnar)


def test_the_plugin_with_reuse_rules_is_reused() -> None:
    world = EngineWorld(10, plugin=measured_plugins.Reusing)
    slots = world.engine.algorithms["kubestow"].scoring.slots
    assert [each.reusable for each in slots if each.name == measured_plugins.Reusing.name] == [True]


@pytest.mark.parametrize("in_process", [False, True])
def test_an_isolated_plugin_takes_time_in_the_scheduler_and_in_its_process(
    in_process: bool,
) -> None:
    found = plugins.price(measured_plugins.Columnar, nodes=3, pairs=2, in_process=in_process)
    assert (found.process > 0) is in_process
