"""The profile that decides about the pods of a name."""

from __future__ import annotations

import pytest

from config import Configuration
from scheduler.framework import ConfigurationError
from scheduler.service.options import RunOptions, read_configuration
from scheduler.shadow.profiles import following

TWO = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: one}, {schedulerName: two}]
"""


def read(text: str | None = None) -> Configuration:
    return read_configuration(RunOptions(replace_default_scheduler=True), text=text)


def test_the_only_profile_serves_for_every_name() -> None:
    found = following(read(), ["default-scheduler", "batch", "batch"])
    assert [each.scheduler_name for each in found.profiles] == ["default-scheduler", "batch"]
    assert found.profiles[0].plugins == found.profiles[1].plugins
    assert not found.effective.leader_election.leader_elect


def test_a_profile_serves_for_its_own_name() -> None:
    assert [each.scheduler_name for each in following(read(TWO), ["two"]).profiles] == ["two"]


def test_several_profiles_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match="none is named default-scheduler, and there are"):
        following(read(TWO), ["default-scheduler"])
