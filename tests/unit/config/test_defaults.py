"""Defaults, and the names that protect the scheduler of the cluster."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from config import ClientConnectionConfiguration, LeaderElectionConfiguration
from config.types import RENAMED_FIELDS, KubestowConfiguration
from scheduler.framework.status import ConfigurationError
from tests.unit.config.doubles import body, load


def test_without_a_file_everything_has_a_value() -> None:
    effective = load(None).effective
    assert effective.parallelism == 16
    assert effective.percentage_of_nodes_to_score == 0
    assert (effective.pod_initial_backoff_seconds, effective.pod_max_backoff_seconds) == (1, 10)
    assert effective.enable_profiling
    assert effective.enable_contention_profiling is True
    assert not effective.delay_cache_until_active
    assert effective.extenders == ()
    assert effective.leader_election == LeaderElectionConfiguration(
        leader_elect=True,
        lease_duration=timedelta(seconds=15),
        renew_deadline=timedelta(seconds=10),
        retry_period=timedelta(seconds=2),
        resource_lock="leases",
        resource_name="kubestow",
        resource_namespace="kubestow-system",
    )
    assert effective.client_connection == ClientConnectionConfiguration(
        content_type="application/vnd.kubernetes.protobuf", qps=50.0, burst=100
    )


def test_an_empty_file_is_the_same_as_none() -> None:
    assert body("").effective == load(None).effective
    assert body("profiles: []\n").effective == load(None).effective


def test_upstreams_names_on_request() -> None:
    effective = load(None, upstream=True).effective
    assert effective.leader_election.resource_name == "kube-scheduler"
    assert effective.leader_election.resource_namespace == "kube-system"
    assert effective.profiles[0].scheduler_name == "default-scheduler"


def test_the_lease_is_kept_in_our_own_namespace() -> None:
    assert load(None, namespace="tools").effective.leader_election.resource_namespace == "tools"
    explicit = body("leaderElection: {resourceNamespace: here}", namespace="tools").effective
    assert explicit.leader_election.resource_namespace == "here"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("leaderElection: {leaseDuration: 0s}", "lease_duration=datetime.timedelta(seconds=15)"),
        ("leaderElection: {leaseDuration: 20s}", "lease_duration=datetime.timedelta(seconds=20)"),
        ("clientConnection: {qps: 0, burst: 0}", "qps=50.0, burst=100"),
        ("clientConnection: {qps: 7, burst: 8}", "qps=7.0, burst=8"),
        ("enableProfiling: false", "enable_contention_profiling=False"),
        (
            "{enableProfiling: false, enableContentionProfiling: true}",
            "enable_profiling=False, enable_contention_profiling=True",
        ),
        (
            "extenders: [{urlPrefix: http://a}]",
            "http_timeout=datetime.timedelta(seconds=5)",
        ),
        (
            "extenders: [{urlPrefix: http://a, httpTimeout: 100ms}]",
            "http_timeout=datetime.timedelta(microseconds=100000)",
        ),
    ],
)
def test_zero_means_unset_as_upstream(text: str, expected: str) -> None:
    if text.startswith("{"):
        text = text.strip("{}").replace(", ", "\n")
    assert expected in repr(body(text).effective)


def test_options_of_our_own() -> None:
    options = load(None).options
    assert options.seed is None
    assert options.bind_concurrency == 100
    assert options.bind_timeout == timedelta(seconds=4)
    assert options.watch_idle_timeout == timedelta(seconds=70)
    assert options.watchdog_timeout == timedelta(minutes=1)
    assert options.time_based_hint_period == timedelta(seconds=30)
    assert options.status_patch_delay == timedelta(seconds=1)
    assert body("kubestow: {statusPatchDelay: 0s}").options.status_patch_delay == timedelta()
    assert load(None).options.cycle_time_budget == timedelta(milliseconds=500)
    assert body("kubestow: {cycleTimeBudget: 0s}").options.cycle_time_budget == timedelta()
    assert body("kubestow: {seed: 7, schedulingTimeSlice: 2ms}").options.seed == 7


@pytest.mark.parametrize(
    ("election", "milliseconds"),
    [
        ("{}", 4000),
        ("{leaseDuration: 60s}", 4000),
        # A kube-scheduler file with a tight lease must go on working.
        ("{leaseDuration: 12s}", 1600),
        ("{leaseDuration: 14s}", 3200),
        ("{leaseDuration: 11s, leaderElect: false}", 4000),
    ],
)
def test_the_bind_timeout_follows_the_lease(election: str, milliseconds: int) -> None:
    options = body(f"leaderElection: {election}").options
    assert options.bind_timeout == timedelta(milliseconds=milliseconds)


def test_the_global_percentage_applies_where_a_profile_has_none() -> None:
    configuration = body(
        "percentageOfNodesToScore: 30\n"
        "profiles:\n"
        "- {schedulerName: a}\n"
        "- {schedulerName: b, percentageOfNodesToScore: 0}\n"
    )
    first, second = configuration.profiles
    assert configuration.percentage_of_nodes_to_score(first) == 30
    assert configuration.percentage_of_nodes_to_score(second) == 0


@pytest.mark.parametrize(("path", "name"), RENAMED_FIELDS.items())
def test_a_renamed_field_is_refused_with_its_present_name(path: str, name: str) -> None:
    section, _, former = path.rpartition(".")
    with pytest.raises(ConfigurationError, match=f'"{former}": it was renamed to "{name}"'):
        body(f"{section}: {{{former}: 1s}}")
    assert name in {each.encode_name for each in msgspec.structs.fields(KubestowConfiguration)}


def test_each_profile_has_its_own_tie_rule_and_ties_are_broken_at_random_without() -> None:
    configuration = body(
        "profiles:\n- {schedulerName: a}\n- {schedulerName: b, kubestow: {tieBreaking: NodeName}}\n"
    )
    assert [each.tie_breaking for each in configuration.profiles] == ["Random", "NodeName"]
