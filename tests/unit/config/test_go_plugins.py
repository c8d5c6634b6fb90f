"""Errors about plugins of other schedulers name what to use instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.go_plugins import GO_PLUGINS, advice
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.framework.status import ConfigurationError
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
        "plugins: {score: {disabled: [{name: Coscheduling}]}}",
        "pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}]",
    ],
)
def test_the_same_where_it_is_disabled_or_has_arguments(profile: str) -> None:
    (found,) = problems(profile)
    assert "let Kueue admit pods" in found


def test_a_plugin_that_nobody_knows() -> None:
    (found,) = problems("plugins: {score: {enabled: [{name: Zyx}]}}")
    assert 'ScorePlugin "Zyx" does not exist; a plugin written in Go cannot be loaded' in found


def test_a_misspelt_name_is_corrected_instead() -> None:
    assert advice("NodePort", ["NodePorts"]) == '; did you mean "NodePorts"?'


def test_no_plugin_of_kube_scheduler_is_among_them() -> None:
    assert not GO_PLUGINS.keys() & UPSTREAM_NAMES


def test_the_documentation_has_all_of_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "launchers.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    names = {name.strip() for row in rows for name in row.split(",")}
    assert GO_PLUGINS.keys() <= names
