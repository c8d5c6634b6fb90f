"""`kubestow apiserver`: what its options read. Serving itself is tested over HTTP elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scheduler.cli.apiserver import command, parse_gates, read_autoscaler

GROUPS = """\
backoff: 60
groups:
  - name: zone-b
    zone: eu-1b
    state: stockout
    template: {allocatable: {cpu: 4, memory: 16Gi, pods: "110"}}
"""


def test_a_file_gives_the_node_groups(tmp_path: Path) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text(GROUPS, encoding="utf-8")
    found = read_autoscaler(path)
    assert found is not None
    assert (found.backoff, found.groups[0].zone, found.groups[0].state) == (60, "eu-1b", "stockout")


def test_no_file_means_no_autoscaler() -> None:
    assert read_autoscaler(None) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [{name: a, state: broken}]", "groups[0].state: Invalid enum value 'broken'"),
        ("grops: []", "grops: no such field"),
        ("[1]", "settings: want an object"),
        ("a: b: c", "mapping values are not allowed"),
    ],
)
def test_a_mistake_names_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(command, ["--autoscaler", str(path)])
    assert done.exit_code == 1
    assert f"Error: --autoscaler {path}: " in done.output
    assert message in done.output


def test_gates_of_the_controllers_are_named_by_their_flag() -> None:
    with pytest.raises(click.UsageError, match='"A" for "--controller-feature-gates"'):
        parse_gates(("A",), "--controller-feature-gates")


def test_help_shows_how_to_describe_groups() -> None:
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    assert re.search(r"\n +state: stockout\n", done.output), "the example keeps its lines"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate; leave it out, or set one of"),
        ("DynamicResourceAllocation=false", "DynamicResourceAllocation has no effect on this"),
        ("ContainerRestartRules=true", "ContainerRestartRules has no effect on this server"),
        ("AllAlpha=true", "unrecognized feature gate: AllAlpha"),
    ],
)
def test_gates_without_effect_are_refused(text: str, message: str) -> None:
    done = CliRunner().invoke(command, ["--feature-gates", text])
    assert done.exit_code == 2
    assert message in done.output


def test_a_gate_of_the_server_is_none_of_its_controllers() -> None:
    assert parse_gates(("GenericWorkload=true",)) == {"GenericWorkload": True}
    with pytest.raises(click.UsageError, match="GenericWorkload has no effect"):
        parse_gates(("GenericWorkload=true",), "--controller-feature-gates", "controllers")
