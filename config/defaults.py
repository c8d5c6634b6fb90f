"""Filling in what a configuration leaves open.

Upstream's defaults, but for the two that protect the cluster's own scheduler: the scheduler name
and the Lease. `Naming` holds those, so that the conformance runner can ask for upstream's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from config import upstream
from config.types import (
    ClientConnectionConfiguration,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    KubestowConfiguration,
    LeaderElectionConfiguration,
)

DEFAULT_NAMESPACE: Final = "kubestow-system"
"""Where the Lease is kept when the process does not know its own namespace."""

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
EXTENDER_TIMEOUT: Final = timedelta(seconds=5)
BIND_TIMEOUT: Final = timedelta(seconds=4)
#: Of the time between renew deadline and end of the lease, if that is too short for 4 s.
BIND_TIMEOUT_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Naming:
    """The defaults that say who we are."""

    scheduler_name: str
    lease_name: str
    lease_namespace: str


UPSTREAM_NAMING: Final = Naming(
    upstream.DEFAULT_SCHEDULER_NAME, upstream.LEASE_NAME, upstream.LEASE_NAMESPACE
)
"""kube-scheduler's names. Two schedulers under them break each other."""


def own_naming(namespace: str = DEFAULT_NAMESPACE) -> Naming:
    """Our names, with the Lease in `namespace`."""
    return Naming("kubestow", "kubestow", namespace)


def apply_defaults(given: KubeSchedulerConfiguration, naming: Naming) -> KubeSchedulerConfiguration:
    """The configuration with every field filled but the plugins of its profiles."""
    election = _leader_election(given.leader_election, naming)
    contention = given.enable_contention_profiling
    return replace(
        given,
        leader_election=election,
        client_connection=_client_connection(given.client_connection),
        enable_contention_profiling=given.enable_profiling if contention is None else contention,
        profiles=_profiles(given.profiles, naming),
        extenders=tuple(_extender(extender) for extender in given.extenders),
        kubestow=_kubestow(given.kubestow, election),
    )


def _leader_election(
    given: LeaderElectionConfiguration, naming: Naming
) -> LeaderElectionConfiguration:
    standard = LeaderElectionConfiguration()
    return replace(
        given,
        lease_duration=given.lease_duration or standard.lease_duration,
        renew_deadline=given.renew_deadline or standard.renew_deadline,
        retry_period=given.retry_period or standard.retry_period,
        resource_lock=given.resource_lock or standard.resource_lock,
        resource_name=given.resource_name or naming.lease_name,
        resource_namespace=given.resource_namespace or naming.lease_namespace,
    )


def _client_connection(given: ClientConnectionConfiguration) -> ClientConnectionConfiguration:
    return replace(
        given,
        content_type=given.content_type or CONTENT_TYPE,
        qps=given.qps or 50.0,
        burst=given.burst or 100,
    )


def _profiles(
    given: tuple[KubeSchedulerProfile, ...], naming: Naming
) -> tuple[KubeSchedulerProfile, ...]:
    if not given:
        return (KubeSchedulerProfile(scheduler_name=naming.scheduler_name),)
    if len(given) == 1 and given[0].scheduler_name is None:
        return (replace(given[0], scheduler_name=naming.scheduler_name),)
    return given


def _extender(given: Extender) -> Extender:
    return replace(given, http_timeout=given.http_timeout or EXTENDER_TIMEOUT)


def _kubestow(
    given: KubestowConfiguration, election: LeaderElectionConfiguration
) -> KubestowConfiguration:
    if given.bind_timeout is not None:
        return given
    timeout = BIND_TIMEOUT
    margin = election.lease_duration - election.renew_deadline
    if election.leader_elect and timedelta() < margin <= timeout:
        timeout = timedelta(
            milliseconds=int(margin / timedelta(milliseconds=1) * BIND_TIMEOUT_SHARE)
        )
    return replace(given, bind_timeout=timeout)
