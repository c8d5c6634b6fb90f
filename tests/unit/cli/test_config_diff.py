"""`kubestow config diff`: the difference in force, its table and JSON, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config import API_VERSION, KIND, Difference, redacted_differences
from scheduler.sanitizing.redaction import BLANK
from tests.unit.cli.command_line import Shell

HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


def files(folder: Path, first: str, second: str) -> list[str]:
    (folder / "a.yaml").write_text(HEADER + first)
    (folder / "b.yaml").write_text(HEADER + second)
    return [str(folder / "a.yaml"), str(folder / "b.yaml")]


FIT = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: "


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "parallelism: 16\nleaderElection: {leaseDuration: 0m15s}", {}),
        ("", "profiles: [{schedulerName: kubestow}]", {}),
        ("", "parallelism: 8", {"parallelism": (16, 8)}),
        ("", FIT + "LeastAllocated}}}]}]", {}),
        (
            FIT + "MostAllocated}}}]}]",
            "",
            {
                "profiles.kubestow.pluginConfig.NodeResourcesFit.scoringStrategy.type": (
                    "MostAllocated",
                    "LeastAllocated",
                )
            },
        ),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 5}]}}}]",
            "",
            {"profiles.kubestow.weights.NodeAffinity": (5, 2)},
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b}]",
            "profiles: [{schedulerName: b}, {schedulerName: a}]",
            {},
        ),
    ],
)
def test_what_differs_in_force_and_nothing_else(
    shell: Shell, tmp_path: Path, first: str, second: str, expected: dict[str, object]
) -> None:
    ended = shell("config", "diff", *files(tmp_path, first, second), "-o", "json")
    found = {each["path"]: (each["a"], each["b"]) for each in json.loads(ended.out)}
    merged = "profiles.kubestow.plugins.multiPoint"
    assert {path: pair for path, pair in found.items() if path != merged} == expected
    assert ended.code == (1 if expected else 0)


def test_a_plugin_that_does_not_run_any_more(shell: Shell, tmp_path: Path) -> None:
    text = "profiles: [{plugins: {score: {disabled: [{name: ImageLocality}]}}}]"
    ended = shell("config", "diff", *files(tmp_path, "", text))
    heading, *rows = ended.out.splitlines()
    assert heading.split() == ["PATH", "A", "B"]
    (score,) = [row for row in rows if row.startswith("profiles.kubestow.plugins.score ")]
    assert score.count("ImageLocality") == 1
    assert ended.code == 1


def test_the_same_file_prints_nothing(shell: Shell, tmp_path: Path) -> None:
    path, _ = files(tmp_path, "", "")
    ended = shell("config", "diff", path, path)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_secrets_are_hidden_in_leaves_and_below() -> None:
    (leaf, whole) = redacted_differences(
        [
            Difference("extenders[0].tlsConfig.keyData", "YWFhYWFh", None),
            Difference("extenders[1]", None, {"weight": 1, "tlsConfig": {"keyData": "YmJi"}}),
        ]
    )
    assert (leaf.first, leaf.second) == (BLANK, None)
    assert whole.second == {"weight": 1, "tlsConfig": {"keyData": BLANK}}


def test_an_unusable_side_is_trouble(shell: Shell, tmp_path: Path) -> None:
    good, bad = files(tmp_path, "", "parallelism: 0")
    for pair in ((good, bad), (bad, good), (good, str(tmp_path / "absent"))):
        ended = shell("config", "diff", *pair)
        assert (ended.code, ended.out) == (2, "")
        assert ": 1 problem" in ended.err
    assert "has 2 configurations" in shell("config", "diff", good, str(tmp_path)).err
