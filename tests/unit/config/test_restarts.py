"""Tests of the keys that need a restart."""

from __future__ import annotations

import pytest

import plugins
from config import Configuration, load_configuration, needing_restart
from scheduler.framework.registry import Registry

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


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
