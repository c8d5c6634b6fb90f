"""Plugin arguments: types, the plugin's own checks, gates, extenders, `module:Class`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import msgspec
import pytest

from config import FeatureGates
from scheduler.framework.registry import Registry
from tests.unit.config.doubles import (
    AVAILABLE,
    DynamicArgs,
    FitArgs,
    PreemptionArgs,
    body,
    load,
    plugin,
    problems,
)


def configured(name: str, args: str) -> str:
    return f"profiles: [{{schedulerName: s, pluginConfig: [{{name: {name}, args: {args}}}]}}]"


def test_enabled_plugins_have_default_arguments() -> None:
    args = load(None).profiles[0].args
    assert args["NodeResourcesFit"] == FitArgs()
    assert args["DefaultPreemption"] == PreemptionArgs()
    assert set(args) == set(load(None).profiles[0].plugins)


@pytest.mark.parametrize("extra", ["", "kind: DefaultPreemptionArgs, "])
@pytest.mark.parametrize("version", ["", "apiVersion: kubescheduler.config.k8s.io/v1, "])
def test_arguments_are_decoded_with_or_without_their_type(extra: str, version: str) -> None:
    text = configured("DefaultPreemption", f"{{{version}{extra}minCandidateNodesAbsolute: 5}}")
    args = body(text).profiles[0].args["DefaultPreemption"]
    assert args == PreemptionArgs(min_candidate_nodes_absolute=5)


@pytest.mark.parametrize("args", ["null", "{}"])
def test_empty_arguments_are_the_defaults(args: str) -> None:
    assert body(configured("NodeResourcesFit", args)).profiles[0].args["NodeResourcesFit"] == (
        FitArgs()
    )


def test_durations_in_arguments_are_gos() -> None:
    args = body(configured("DynamicResources", "{filterTimeout: 1m30s}")).profiles[0].args
    assert args["DynamicResources"] == DynamicArgs(filter_timeout=timedelta(seconds=90))


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        (
            "DefaultPreemption",
            "{kind: InterPodAffinityArgs}",
            [
                (
                    "args.kind: args for plugin DefaultPreemption were not of type "
                    "DefaultPreemptionArgs.kubescheduler.config.k8s.io, got "
                    "InterPodAffinityArgs.kubescheduler.config.k8s.io: has to match plugin args"
                )
            ],
        ),
        (
            "DefaultPreemption",
            "{apiVersion: v1}",
            ['args.apiVersion: Invalid value: "v1": must be kubescheduler.config.k8s.io/v1'],
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 200}",
            ["args.minCandidateNodesPercentage: Invalid value: 200: not in valid range [0, 100]"],
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            [
                "args.minCandidateNodesPercentage: cannot be zero at the same time as absolute",
                "args.minCandidateNodesAbsolute: cannot be zero at the same time as percentage",
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {requestedToCapacityRatio: {shape: [{Utilization: 1, Score: 1}]}}}",
            [
                (
                    "args.scoringStrategy.requestedToCapacityRatio.shape[0].Utilization: unknown "
                    'field "Utilization"; did you mean "utilization"?'
                ),
                (
                    "args.scoringStrategy.requestedToCapacityRatio.shape[0].Score: unknown field "
                    '"Score"; did you mean "score"?'
                ),
            ],
        ),
        ("NodeResourcesFit", "[1]", ["args: must be a mapping, not a list"]),
        ("NodeName", "{x: 1}", ['args.x: unknown field "x"']),
        ("NodeResourceFit", "{}", ['name: plugin "NodeResourceFit" does not exist; did you mean']),
        (
            "NodeResourceFit",
            "{scoringStrategie: {}}",
            [
                'name: plugin "NodeResourceFit" does not exist; did you mean "NodeResourcesFit"?',
                'args.scoringStrategie: unknown field "scoringStrategie"; did you mean',
            ],
        ),
        ("example.com/Fit", "{a: 1}", ['name: plugin "example.com/Fit" does not exist']),
        ("''", "{}", ["name: Required value"]),
        ("EBSLimits", "{}", ['name: Invalid value: "EBSLimits": was invalid in version']),
    ],
)
def test_mistakes_are_reported_with_their_path(name: str, args: str, expected: list[str]) -> None:
    found = problems(configured(name, args))
    assert len(found) == len(expected), found
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(f"profiles[0].pluginConfig[0].{start}")


def test_arguments_of_unavailable_plugins_stay_as_they_are() -> None:
    text = configured("PodTopologySpread", "{defaultingType: List, defaultConstraints: []}")
    assert body(text).profiles[0].args["PodTopologySpread"] == {
        "defaultingType": "List",
        "defaultConstraints": [],
    }


@pytest.mark.parametrize(
    ("gate", "args", "problem"),
    [
        ("DRASchedulerFilterTimeout", "{filterTimeout: 1s}", "filterTimeout"),
        ("DRADeviceBindingConditions", "{bindingTimeout: 1s}", "bindingTimeout"),
    ],
)
def test_arguments_of_a_gate_that_is_off_are_forbidden(gate: str, args: str, problem: str) -> None:
    text = configured("DynamicResources", args)
    assert problems(text) == ()
    (found,) = problems(text, feature_gates=FeatureGates({gate: False}))
    assert found == (
        f"profiles[0].pluginConfig[0].args.{problem}: Forbidden: unexpected field `{problem}`, "
        f"remove it or turn on the feature gate {gate} (line 3)"
    )


# -- extenders ------------------------------------------------------------------------------------

IGNORING = (
    "extenders:\n"
    "- urlPrefix: http://a\n"
    "  managedResources: [{name: a.com/x, ignoredByScheduler: true}, {name: a.com/y}]\n"
    "- urlPrefix: http://b\n"
    "  managedResources: [{name: b.com/x, ignoredByScheduler: true}]\n"
)


def test_resources_of_extenders_replace_the_ignored_ones_of_every_profile() -> None:
    profiles = (
        "profiles:\n- schedulerName: a\n- schedulerName: b\n  pluginConfig:\n"
        "  - {name: NodeResourcesFit, args: {ignoredResources: [c.com/z]}}\n"
    )
    for profile in body(IGNORING + profiles).profiles:
        args = profile.args["NodeResourcesFit"]
        assert isinstance(args, FitArgs)
        assert args.ignored_resources == ("a.com/x", "b.com/x")


def test_resources_of_extenders_need_node_resources_fit() -> None:
    off = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}"
    (found,) = problems(f"{IGNORING}profiles: [{{schedulerName: s, {off}}}]")
    assert "can't find NodeResourcesFitArgs in plugin config" in found


# -- third-party plugins --------------------------------------------------------------------------


class RackArgs(msgspec.Struct, forbid_unknown_fields=True):
    label: str
    timeout: timedelta = timedelta(seconds=1)


@pytest.fixture
def racks() -> Iterator[ModuleType]:
    """An importable module with a plugin class."""
    module: Any = ModuleType("racks_for_test")
    module.Rack = plugin("example.com/Rack", "filter", RackArgs)
    module.Lines = plugin("example.com/Rows", "filter")
    module.Lines.__name__ = "Lines"
    module.Nameless = plugin("", "filter")
    del module.Nameless.name
    module.Impostor = plugin("NodePorts", "filter")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


ENABLED = "plugins: {multiPoint: {enabled: [{name: 'racks_for_test:Rack'}]}}"


@pytest.mark.usefixtures("racks")
def test_a_reference_is_loaded_and_goes_by_its_declared_name() -> None:
    arguments = "pluginConfig: [{name: example.com/Rack, args: {label: rack, timeout: 2s}}]"
    configuration = body(f"profiles: [{{{ENABLED}, {arguments}}}]")
    profile = configuration.profiles[0]
    assert profile.points["filter"][-1] == "example.com/Rack"
    assert profile.args["example.com/Rack"] == RackArgs("rack", timedelta(seconds=2))


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize(
    ("loaded", "written", "meant"),
    [
        ("Rack", "Rack", "example.com/Rack"),
        # The class of the declared name example.com/Rows.
        ("Lines", "Lines", "example.com/Rows"),
        ("Lines", "Rows", "example.com/Rows"),
    ],
)
@pytest.mark.parametrize("place", ["pluginConfig", "disabled", "enabled"])
def test_a_class_name_in_place_of_the_declared_name_is_understood(
    loaded: str, written: str, meant: str, place: str
) -> None:
    multi_point = f"multiPoint: {{enabled: [{{name: 'racks_for_test:{loaded}'}}]}}"
    profile = (
        f"plugins: {{{multi_point}}}, pluginConfig: [{{name: {written}, args: {{}}}}]"
        if place == "pluginConfig"
        else f"plugins: {{{multi_point}, filter: {{{place}: [{{name: {written}}}]}}}}"
    )
    found = problems(f"profiles: [{{{profile}}}]")
    assert any(f'"{written}" does not exist; did you mean "{meant}"?' in each for each in found)


@pytest.mark.usefixtures("racks")
def test_needed_arguments_must_be_there() -> None:
    (found,) = problems(f"profiles: [{{{ENABLED}}}]")
    assert found.startswith(
        'profiles[0].pluginConfig: plugin "example.com/Rack" is enabled and has no entry here, but '
        "needs the arguments label"
    )


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("racks_for_test:Rak", 'has no attribute "Rak"; did you mean "Rack"?'),
        ("no_such_module:Rack", 'no module named "no_such_module"; put its directory on the path'),
        (":Rack", 'is not of the form "module:Class"'),
        ("racks_for_test:Nameless", "declares no name"),
        ("racks_for_test:Impostor", "a plugin named NodePorts already exists"),
    ],
)
def test_references_that_cannot_be_loaded(reference: str, message: str) -> None:
    enabled = f"[{{name: '{reference}'}}, {{name: NoSuch}}]"
    found = problems(f"profiles: [{{plugins: {{filter: {{enabled: {enabled}}}}}}}]")
    assert len(found) == 2, "the other mistake is reported too"
    assert found[0].startswith("profiles[0].plugins.filter.enabled[0].name: ")
    assert message in found[0]


def test_a_check_of_a_plugin_that_raises_is_a_problem_of_its_arguments() -> None:
    def broken(args: object) -> Iterator[tuple[str, str]]:
        raise KeyError("oops")

    bad = plugin("Bad", "filter", RackArgs, validate_args=staticmethod(broken))
    text = configured("Bad", "{label: x}")
    (found,) = problems(text, bad)
    assert found.startswith(
        "profiles[0].pluginConfig[0].args: validate_args of plugin \"Bad\" raised KeyError: 'oops'"
    )


def test_arguments_may_be_configured_for_a_plugin_that_is_off() -> None:
    registry = Registry(AVAILABLE)
    text = (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}, "
        "pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesAbsolute: 1}}]}]"
    )
    profile = body(text, registry=registry).profiles[0]
    assert "DefaultPreemption" not in profile.plugins
    assert profile.args["DefaultPreemption"] == PreemptionArgs(min_candidate_nodes_absolute=1)
