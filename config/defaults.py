"""Defaults of fields that a configuration leaves open.

They are upstream's except the two that protect the cluster's own scheduler: the scheduler name and
the Lease. `Naming` holds those, so that the conformance runner can choose upstream's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from config import upstream
from config.types import (
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
BIND_TIMEOUT_SHARE: Final = 0.8
"""Of the time between renew deadline and end of the lease, if that is too short for 4 s."""


@dataclass(frozen=True, slots=True)
class Naming:
    """The default names of the scheduler and its Lease."""

    scheduler_name: str
    lease_name: str
    lease_namespace: str


UPSTREAM_NAMING: Final = Naming(
    upstream.DEFAULT_SCHEDULER_NAME, upstream.LEASE_NAME, upstream.LEASE_NAMESPACE
)
"""kube-scheduler's names. Two schedulers under them break each other."""


def own_naming(namespace: str = DEFAULT_NAMESPACE) -> Naming:
    """Return kubestow's names, with the Lease in `namespace`."""
    return Naming("kubestow", "kubestow", namespace)


def apply_defaults(given: KubeSchedulerConfiguration, naming: Naming) -> KubeSchedulerConfiguration:
    """Fill every field except the plugins of the profiles."""
    election = _leader_election(given.leader_election, naming)
    connection = given.client_connection
    contention = given.enable_contention_profiling
    return replace(
        given,
        leader_election=election,
        client_connection=replace(
            connection,
            content_type=connection.content_type or CONTENT_TYPE,
            qps=connection.qps or 50.0,
            burst=connection.burst or 100,
        ),
        enable_contention_profiling=given.enable_profiling if contention is None else contention,
        profiles=_profiles(given.profiles, naming),
        extenders=tuple(
            replace(extender, http_timeout=extender.http_timeout or EXTENDER_TIMEOUT)
            for extender in given.extenders
        ),
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


def _profiles(
    given: tuple[KubeSchedulerProfile, ...], naming: Naming
) -> tuple[KubeSchedulerProfile, ...]:
    if not given:
        return (KubeSchedulerProfile(scheduler_name=naming.scheduler_name),)
    if len(given) == 1 and given[0].scheduler_name is None:
        return (replace(given[0], scheduler_name=naming.scheduler_name),)
    return given


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
