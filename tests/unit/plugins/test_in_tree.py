"""The list of plugins: names, order, weights, and what each implements."""

from __future__ import annotations

import plugins
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.framework import EXTENSION_POINTS, Registry, plugin_names
from scheduler.framework.registry import args_type

EXPECTED_POINTS = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeName": "preFilter filter",
    "NodeUnschedulable": "preFilter filter",
    "TaintToleration": "preFilter filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "NodeResourcesBalancedAllocation": "preScore score",
    "ImageLocality": "score",
    "DefaultBinder": "bind",
    "NodeDeclaredFeatures": "preFilter filter",
}
"""As the methods that upstream's plugins implement."""


def test_extension_points_are_upstreams() -> None:
    found = {
        plugin.name: " ".join(p.yaml for p in EXTENSION_POINTS if p.implemented_by(plugin))
        for plugin in in_tree()
    }

    assert found.items() >= EXPECTED_POINTS.items()


def test_defaults_are_upstreams_order_and_weights() -> None:
    existing = [plugin.name for plugin in in_tree()]

    assert [name for name, _ in DEFAULT_PLUGINS] == existing
    assert {name: weight for name, weight in DEFAULT_PLUGINS if weight} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_every_name_but_one_is_upstreams() -> None:
    assert len(plugin_names.UPSTREAM_NAMES) == 23
    ours = {plugin_names.RESOURCE_QUOTA}
    assert {name for name, _ in DEFAULT_PLUGINS} - plugin_names.UPSTREAM_NAMES == ours
    assert {plugin.name for plugin in in_tree()} - plugin_names.UPSTREAM_NAMES == ours


def test_plugins_can_be_registered_and_built_from_default_arguments() -> None:
    registry = Registry(in_tree())

    assert list(registry) == [plugin.name for plugin in in_tree()]
    for plugin in in_tree():
        assert list(getattr(plugin, "validate_args", lambda _: ())(args_type(plugin)())) == []


def test_public_names_exist() -> None:
    assert sorted(plugins.__all__) == plugins.__all__
    assert {plugin.__name__ for plugin in in_tree()} <= set(plugins.__all__)
