"""Errors about files of former versions name what to change, each where it stands."""

from __future__ import annotations

import pytest

from config.migration import FORMER_FIELDS, FORMER_PLUGINS, FORMER_VERSIONS, version_problem
from scheduler.framework.status import ConfigurationError
from tests.unit.config.doubles import HEADER, load


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return tuple(caught.value.problems)


@pytest.mark.parametrize("version", FORMER_VERSIONS)
def test_the_error_about_a_former_version_names_the_present_one(version: str) -> None:
    text = version_problem(f"kubescheduler.config.k8s.io/{version}")
    assert "write kubescheduler.config.k8s.io/v1. " in text
    assert ("TaintToleration (1, now 3)" in text) is (version != "v1beta3")
    assert ("enableHTTPS" in text) is version.startswith("v1alpha")


@pytest.mark.parametrize("version", ["example.com/v1beta3", "kubescheduler.config.k8s.io/v2", 1])
def test_no_advice_about_versions_that_never_existed(version: object) -> None:
    assert version_problem(version).endswith("; write kubescheduler.config.k8s.io/v1")


@pytest.mark.parametrize("name", FORMER_PLUGINS)
@pytest.mark.parametrize("place", ["enabled", "disabled"])
def test_a_former_plugin_is_reported_once_with_its_replacement(name: str, place: str) -> None:
    (found,) = problems(
        f"{HEADER}profiles: [{{plugins: {{score: {{{place}: [{{name: {name}}}]}}}}}}]"
    )
    assert found.startswith(f'profiles[0].plugins.score.{place}[0].name: plugin "{name}" was')
    assert FORMER_PLUGINS[name] in found


def test_arguments_of_a_former_plugin_are_reported_as_well() -> None:
    (found,) = problems(f"{HEADER}profiles: [{{pluginConfig: [{{name: NodeLabel, args: {{}}}}]}}]")
    assert found.startswith('profiles[0].pluginConfig[0].name: plugin "NodeLabel" was removed')
    assert "use NodeAffinity" in found


@pytest.mark.parametrize("field", FORMER_FIELDS)
def test_a_former_field_is_reported_once_with_its_replacement(field: str) -> None:
    (found,) = problems(f"{HEADER}{field}: 1")
    assert found == f"{field}: was removed before v1: {FORMER_FIELDS[field]} (line 3)"


def test_a_former_extension_point() -> None:
    (found,) = problems(f"{HEADER}profiles: [{{plugins: {{unreserve: {{}}}}}}]")
    assert found.startswith(
        "profiles[0].plugins.unreserve: was removed before v1: name the plugins"
    )


@pytest.mark.parametrize("body", ["profiles: {}", "profiles: [1]", "profiles: [{plugins: []}]"])
def test_misshapen_files_are_left_to_the_decoder(body: str) -> None:
    assert "must be a" in problems(HEADER + body)[0]
