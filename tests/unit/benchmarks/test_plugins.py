"""The benchmark of plugins calls them as it says; its figures are for people."""

from __future__ import annotations

import pytest

from benchmarks import plugins
from benchmarks.engine_world import EngineWorld


@pytest.mark.parametrize(("plugin", "calls"), [(plugins.Scalar, 20), (plugins.Columnar, 0)])
def test_a_cycle_with_the_plugin_calls_it_for_every_node(
    plugin: type[plugins._Plugin], calls: int
) -> None:
    found = plugins.overhead(plugin, nodes=10, pairs=3)
    assert found.calls == calls
    assert (found.own > 0) is (plugin is plugins.Columnar)


def test_the_plugin_with_reuse_rules_is_reused() -> None:
    world = EngineWorld(10, plugin=plugins.Reusing)
    slots = world.engine.algorithms["kubestow"].scoring.slots
    assert [each.reusable for each in slots if each.name == plugins.Reusing.name] == [True]


@pytest.mark.parametrize("in_process", [False, True])
def test_an_isolated_plugin_takes_time_in_the_scheduler_and_in_its_process(
    in_process: bool,
) -> None:
    found = plugins.price(plugins.Columnar, nodes=3, pairs=2, in_process=in_process)
    assert (found.process > 0) is in_process
