"""Loading as a whole: all mistakes at once, overrides from the command line, immutability."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from config import load_configuration
from scheduler.framework.extension_points import (
    EXTENSION_POINTS,
    FILTER,
)
from scheduler.framework.registry import Registry
from scheduler.framework.status import ConfigurationError
from tests.unit.config.doubles import AVAILABLE, DEFAULTS, body, load, problems

BROKEN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: none
podMaxBackoffSeconds: 10
podMaxBackoffSeconds: 20
leaderElection:
  leaseDuration: 15
  resourceName: kube-scheduler
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      enabled:
      - name: NodeResourcesFit
      - name: ImageLocality
      - name: TaintTolerations
        weight: heavy
  pluginConfig:
  - name: DefaultPreemption
    args:
      minCandidateNodesPercentage: 200
      minCandidates: 1
- schedulerName: default-scheduler
kubestow:
  sed: 4
"""


def test_all_mistakes_are_reported_at_once_with_their_lines() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(BROKEN)
    places = [
        (line.partition(": ")[0], line.rpartition("(")[2].rstrip(")"))
        for line in caught.value.problems
    ]
    assert sorted(places) == sorted(
        [
            ("parallelism", "line 3"),
            ("podMaxBackoffSeconds", "line 4"),
            ("leaderElection.leaseDuration", "line 7"),
            ("leaderElection.resourceName", "line 8"),
            ("profiles[0].schedulerName", "line 10"),
            ("profiles[0].plugins.score.enabled[2].name", "line 16"),
            ("profiles[0].plugins.score.enabled[2].weight", "line 17"),
            ("profiles[0].pluginConfig[0].args.minCandidateNodesPercentage", "line 21"),
            ("profiles[0].pluginConfig[0].args.minCandidates", "line 22"),
            ("profiles[1].schedulerName", "line 23"),
            ("profiles[1].schedulerName", "line 23"),
            ("kubestow.sed", "line 25"),
        ]
    )


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(BROKEN)
    text = str(caught.value)
    assert 'did you mean "TaintToleration"?' in text
    assert 'did you mean "seed"?' in text


def test_flags_beat_the_file() -> None:
    configuration = body(
        "leaderElection: {leaseDuration: 20s, leaderElect: true}",
        overrides={"leaderElection.leaseDuration": "60s", "kubestow.seed": 3},
    )
    assert configuration.effective.leader_election.lease_duration == timedelta(seconds=60)
    assert configuration.options.seed == 3
    assert (
        load(None, overrides={"clientConnection.kubeconfig": "/k"}).effective
        == body("clientConnection: {kubeconfig: /k}").effective
    )


def test_mistakes_in_flags_are_marked_as_set_on_the_command_line() -> None:
    assert problems("", overrides={"leaderElection.leaseDuration": "long"}) == (
        (
            'leaderElection.leaseDuration: "long" is not a duration such as "1m30s" or "100ms" '
            "(set on the command line)"
        ),
    )
    (found,) = problems("leaderElection: [1]", overrides={"leaderElection.leaderElect": False})
    assert found.startswith("leaderElection: must be a mapping, not a list")


def test_json_is_read_too() -> None:
    text = (
        '{\t"apiVersion": "kubescheduler.config.k8s.io/v1",\n'
        '\t"kind": "KubeSchedulerConfiguration", "parallelism": 3}'
    )
    assert load(text).effective.parallelism == 3


def test_every_extension_point_has_an_entry_and_nothing_can_be_changed() -> None:
    profile = load(None).profiles[0]
    assert set(profile.points) == {point.yaml for point in EXTENSION_POINTS}
    assert profile.at(FILTER) == profile.points["filter"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.scheduler_name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        profile.points["filter"] = ()  # type: ignore[index]
    with pytest.raises(AttributeError):
        load(None).effective.parallelism = 1  # type: ignore[misc]


def test_a_default_plugin_that_is_not_in_the_registry_is_an_error() -> None:
    defaults = (*DEFAULTS, ("VolumeZone", 0))
    with pytest.raises(ConfigurationError, match='"VolumeZone" is not in the registry'):
        load_configuration(None, registry=Registry(AVAILABLE), default_plugins=defaults)
