"""Tests of the keys that need a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

import plugins
from config import Configuration, load_configuration, needing_restart
from config.restarts import RELOADABLE
from scheduler.framework.registry import Registry

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


DOCS = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_documents_name_all_keys_that_are_taken_over() -> None:
    section = DOCS.read_text().partition("## Reload\n")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("|") and "restart" not in row]
    assert [each for each in RELOADABLE if f"`{each}`" not in "".join(rows)] == []


def read(text: str) -> Configuration:
    return load_configuration(
        HEADER + text,
        registry=Registry(plugins.in_tree()),
        default_plugins=plugins.DEFAULT_PLUGINS,
    )


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("", []),
        ("profiles: [{schedulerName: other}]", []),
        ("profiles: [{schedulerName: kubestow, percentageOfNodesToScore: 5}]", []),
        ("percentageOfNodesToScore: 50", []),
        ("parallelism: 3", []),
        ("kubestow: {pluginTimeBudget: 20ms}", []),
        ("kubestow: {decisionHistory: {pods: 0, attemptsPerPod: 2}}", []),
        ("podInitialBackoffSeconds: 2", []),
        ("kubestow: {seed: 1, pluginTimeBudget: 20ms}", ["kubestow.seed"]),
        ("leaderElection: {leaderElect: false}", ["leaderElection.leaderElect"]),
        ("extenders: [{urlPrefix: http://a}]", []),
    ],
)
def test_keys_that_need_a_restart_are_named(text: str, paths: list[str]) -> None:
    found = needing_restart(read(""), read(text))
    assert [path.partition("[")[0] for path in found[: len(paths) or None]] == paths
