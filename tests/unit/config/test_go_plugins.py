"""Errors about plugins of other schedulers name what to use instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.go_plugins import COSCHEDULING_ARGS, GO_PLUGINS, OTHER_PLUGINS, advice
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.framework.status import ConfigurationError
from scheduler.service.options import RunOptions, read_configuration
from tests.unit.config.doubles import HEADER, load


def problems(profile: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(f"{HEADER}profiles: [{{{profile}}}]")
    return tuple(caught.value.problems)


@pytest.mark.parametrize("name", GO_PLUGINS)
def test_a_plugin_that_is_enabled_is_reported_once_with_what_to_use(name: str) -> None:
    (found,) = problems(f"plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}")
    start = f'profiles[0].plugins.multiPoint.enabled[0].name: plugin "{name}" does not exist'
    assert found.startswith(f"{start}: it is a Go plugin of scheduler-plugins; {GO_PLUGINS[name]}")
    assert "write it in Python" in found
    assert "did you mean" not in found


@pytest.mark.parametrize(
    "profile",
    [
        "plugins: {score: {disabled: [{name: CapacityScheduling}]}}",
        "pluginConfig: [{name: CapacityScheduling, args: {some: 10}}]",
    ],
)
def test_the_same_where_it_is_disabled_or_has_arguments(profile: str) -> None:
    (found,) = problems(profile)
    assert "share capacity between them with Kueue" in found


def options_with(directory: Path, profile: str) -> RunOptions:
    """Return options with a configuration file."""
    file = directory / "config.yaml"
    file.write_text(f"{HEADER}profiles: [{{schedulerName: kubestow, {profile}}}]")
    return RunOptions(config_file=str(file))


def test_coscheduling_is_another_name_of_gang_scheduling(tmp_path: Path) -> None:
    enabled = "plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}"
    args = "pluginConfig: [{name: Coscheduling, args: {kind: CoschedulingArgs, reserveAfter: 1m}}]"
    (profile,) = read_configuration(options_with(tmp_path, f"{enabled}, {args}")).profiles
    assert "GangScheduling" in profile.plugins
    assert profile.args["GangScheduling"].reserve_after.total_seconds() == 60  # type: ignore[union-attr]
    assert profile.points["queueSort"] == ("PrioritySort",)


@pytest.mark.parametrize("argument", COSCHEDULING_ARGS)
def test_each_argument_of_coscheduling_is_refused_with_the_reason(
    argument: str, tmp_path: Path
) -> None:
    profile = f"pluginConfig: [{{name: Coscheduling, args: {{{argument}: 10}}}}]"
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(options_with(tmp_path, profile))
    (found,) = caught.value.problems
    assert found.startswith(f"profiles[0].pluginConfig[0].args.{argument}: ")
    assert COSCHEDULING_ARGS[argument] in found


@pytest.mark.parametrize(
    ("point", "advised"),
    [("queueSort", "enable PrioritySort instead"), ("permit", "remove the entry")],
)
def test_coscheduling_at_a_single_point_is_refused_with_what_to_do(
    point: str, advised: str, tmp_path: Path
) -> None:
    profile = f"plugins: {{{point}: {{enabled: [{{name: Coscheduling}}]}}}}"
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(options_with(tmp_path, profile))
    (found,) = caught.value.problems
    assert found.startswith(f"profiles[0].plugins.{point}.enabled[0].name: ")
    assert advised in found


def test_the_migration_page_has_every_argument_of_coscheduling() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gang-scheduling.md").read_text()
    _, _, section = page.partition("\n## From Coscheduling\n")
    assert [each for each in COSCHEDULING_ARGS if f"`{each}`" not in section] == []


def test_a_plugin_that_nobody_knows() -> None:
    (found,) = problems("plugins: {score: {enabled: [{name: Zyx}]}}")
    assert 'ScorePlugin "Zyx" does not exist; a plugin written in Go cannot be loaded' in found


def test_arguments_of_a_plugin_that_cannot_be_loaded_are_not_those_of_a_go_plugin() -> None:
    profile = (
        "plugins: {multiPoint: {enabled: [{name: absent_module:Mine}]}}, "
        "pluginConfig: [{name: example.com/Mine, args: {}}, {name: NodeReosurcesFit}]"
    )
    unloaded, unknown, misspelt = problems(profile)
    assert "absent_module" in unloaded
    assert (
        '"example.com/Mine" does not exist: it may be the one that could not be loaded' in unknown
    )
    assert "did you mean" in misspelt


@pytest.mark.parametrize("name", OTHER_PLUGINS)
def test_plugins_of_other_distributions_are_never_taken_for_one_of_ours(name: str) -> None:
    (found,) = problems(f"plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}")
    kind, instead = OTHER_PLUGINS[name]
    assert f'plugin "{name}" does not exist: it is {kind}; {instead}, or write it' in found
    assert "did you mean" not in found


@pytest.mark.parametrize(
    "name",
    [
        "AcmeNodeFit", "NodeLoad", "ResourceScheduling", "DynamicScheduling", "GpuScheduling",
        "NodePriority", "PodPriority", "VolumeZoning", "ImageCache",
    ],
)  # fmt: skip
def test_an_unrelated_plugin_is_not_suggested(name: str) -> None:
    assert "did you mean" not in advice(name, UPSTREAM_NAMES)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NodePort", "NodePorts"),
        ("nodeports", "NodePorts"),
        ("NodeResourceFit", "NodeResourcesFit"),
        ("NodeAffinty", "NodeAffinity"),
        ("InterpodAffinity", "InterPodAffinity"),
        ("TaintTolerations", "TaintToleration"),
        ("PodTopologySpreading", "PodTopologySpread"),
        ("NodeNmae", "NodeName"),
    ],
)
def test_a_misspelt_name_is_corrected_instead(name: str, meant: str) -> None:
    assert advice(name, UPSTREAM_NAMES) == f'; did you mean "{meant}"?'


def test_no_plugin_of_kube_scheduler_is_among_them() -> None:
    assert not GO_PLUGINS.keys() & UPSTREAM_NAMES
    assert not OTHER_PLUGINS.keys() & (UPSTREAM_NAMES | GO_PLUGINS.keys())


def test_the_documentation_has_all_of_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "launchers.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    names = {name.strip() for row in rows for name in row.split(",")}
    assert GO_PLUGINS.keys() <= names
