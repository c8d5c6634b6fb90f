"""Checks on a decoded and defaulted configuration, apart from its plugins.

Messages and paths are those of `validation.go: ValidateKubeSchedulerConfiguration`, followed by
checks of the `kubestow` section and of the names that belong to the scheduler of the cluster.
Nothing is changed here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from config import upstream
from config.durations import format_duration
from config.types import (
    API_VERSION,
    KIND,
    POINTS,
    Extender,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeProvisioningBridgeConfiguration,
    Plugins,
)
from scheduler.api.names import is_object_name, is_qualified_name
from scheduler.framework.field_errors import (
    FieldErrors,
    child,
    duplicate,
    forbidden,
    invalid,
    item,
    required,
)

REPLACE_FLAG: Final = "--replace-default-scheduler"

SHORTEST_WATCHDOG: Final = timedelta(seconds=1)
"""The heartbeat comes ten times a second; a busy machine may well lose some."""

MAX_CYCLE_BUDGET_FACTOR: Final = 4
"""How many times `cycleTimeBudget` a cycle may get after others like it used theirs up."""

_CLASSIC_POINTS: Final = tuple(
    point for point in POINTS if point not in {"multiPoint", "placementGenerate", "placementScore"}
)


def validate_header(api_version: object, kind: object, errors: FieldErrors) -> None:
    """Check that the file is of the one version and kind there is."""
    if not api_version:
        errors.add("apiVersion", f"Object 'apiVersion' is missing; write {API_VERSION}")
    if not kind:
        errors.add("kind", f"Object 'Kind' is missing; write {KIND}")
    if kind and kind != KIND:
        group_kind = f"{api_version}, Kind={kind}" if api_version else f"Kind={kind}"
        errors.add("kind", f"couldn't decode as {KIND}, got {group_kind}")
    elif api_version and api_version != API_VERSION:
        errors.add(
            "apiVersion",
            f'no kind "{KIND}" is registered for version "{api_version}"; write {API_VERSION}',
        )


def validate(configuration: KubeSchedulerConfiguration, errors: FieldErrors) -> None:
    """Check everything but plugins and their arguments."""
    _check_top_level(configuration, errors)
    _check_leader_election(configuration.leader_election, errors)
    _check_kubestow(configuration, errors)
    for index, profile in enumerate(configuration.profiles):
        _check_profile(profile, item("profiles", index), errors)
    _check_scheduler_names(configuration.profiles, errors)
    _check_queue_sort(configuration.profiles, errors)
    _check_extenders(configuration.extenders, errors)


def refuse_upstream_names(configuration: KubeSchedulerConfiguration, errors: FieldErrors) -> None:
    """Refuse the names under which the cluster's own scheduler works."""
    for index, profile in enumerate(configuration.profiles):
        if profile.scheduler_name == upstream.DEFAULT_SCHEDULER_NAME:
            detail = (
                f'"{upstream.DEFAULT_SCHEDULER_NAME}" is served by the cluster\'s own scheduler; '
                f'choose another name such as "kubestow", or {_TAKE_ITS_PLACE}'
            )
            errors.add(child(item("profiles", index), "schedulerName"), forbidden(detail))
    if configuration.leader_election.resource_name == upstream.LEASE_NAME:
        detail = (
            f'"{upstream.LEASE_NAME}" is the Lease of the cluster\'s own scheduler; leave the '
            f'field out (then it is "kubestow"), or {_TAKE_ITS_PLACE}'
        )
        errors.add("leaderElection.resourceName", forbidden(detail))


_TAKE_ITS_PLACE: Final = f"start with {REPLACE_FLAG} if kubestow is to take its place"


def _check_top_level(configuration: KubeSchedulerConfiguration, errors: FieldErrors) -> None:
    if configuration.parallelism <= 0:
        errors.add(
            "parallelism",
            invalid(configuration.parallelism, "should be an integer value greater than zero"),
        )
    if configuration.client_connection.burst < 0:
        errors.add(
            "clientConnection.burst",
            invalid(configuration.client_connection.burst, "must be non-negative"),
        )
    _check_percentage(
        configuration.percentage_of_nodes_to_score, "percentageOfNodesToScore", errors
    )
    initial = configuration.pod_initial_backoff_seconds
    if initial <= 0:
        errors.add("podInitialBackoffSeconds", invalid(initial, "must be greater than 0"))
    if configuration.pod_max_backoff_seconds < initial:
        errors.add(
            "podMaxBackoffSeconds",
            invalid(
                configuration.pod_max_backoff_seconds,
                "must be greater than or equal to PodInitialBackoffSeconds",
            ),
        )


def _check_percentage(value: int | None, path: str, errors: FieldErrors) -> None:
    if value is not None and not 0 <= value <= 100:
        errors.add(path, invalid(value, "not in valid range [0-100]"))


def _check_leader_election(election: LeaderElectionConfiguration, errors: FieldErrors) -> None:
    if not election.leader_elect:
        return
    for key, value in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if value <= timedelta():
            errors.add(
                f"leaderElection.{key}",
                invalid(format_duration(value), "must be greater than zero"),
            )
    if election.lease_duration <= election.renew_deadline:
        errors.add(
            "leaderElection.leaseDuration",
            invalid(
                format_duration(election.lease_duration), "must be greater than `RenewDeadline`"
            ),
        )
    if election.resource_lock != "leases":
        errors.add(
            "leaderElection.resourceLock",
            invalid(election.resource_lock, 'resourceLock value must be "leases"'),
        )


def _check_kubestow(configuration: KubeSchedulerConfiguration, errors: FieldErrors) -> None:
    options, election = configuration.kubestow, configuration.leader_election
    timeout = options.bind_timeout
    for key, value in (
        ("bindTimeout", timeout),
        ("watchIdleTimeout", options.watch_idle_timeout),
        ("timeBasedHintPeriod", options.time_based_hint_period),
        ("pluginTimeBudget", options.plugin_time_budget),
        ("schedulingTimeSlice", options.scheduling_time_slice),
    ):
        if value is not None and value <= timedelta():
            errors.add(
                f"kubestow.{key}", invalid(format_duration(value), "must be greater than zero")
            )
    if options.watchdog_timeout < SHORTEST_WATCHDOG:
        errors.add(
            "kubestow.watchdogTimeout",
            invalid(
                format_duration(options.watchdog_timeout),
                f"must be {format_duration(SHORTEST_WATCHDOG)} or more",
            ),
        )
    elif options.cycle_time_budget * MAX_CYCLE_BUDGET_FACTOR >= options.watchdog_timeout:
        errors.add(
            "kubestow.cycleTimeBudget",
            invalid(
                format_duration(options.cycle_time_budget),
                "must be less than a quarter of kubestow.watchdogTimeout "
                f"({format_duration(options.watchdog_timeout)}): after overruns a cycle may use "
                "four times the budget, and a leader whose event loop makes no progress for longer "
                "gives way",
            ),
        )
    for key, value in (
        ("statusPatchDelay", options.status_patch_delay),
        ("cycleTimeBudget", options.cycle_time_budget),
    ):
        if value < timedelta():
            errors.add(f"kubestow.{key}", invalid(format_duration(value), "must be non-negative"))
    _check_bridge(options.node_provisioning_bridge, errors)
    # Without a lease that can run out there is nobody who could bind at the same time.
    if not election.leader_elect or election.lease_duration <= election.renew_deadline:
        return
    if timeout is not None and timeout + election.renew_deadline >= election.lease_duration:
        margin = election.lease_duration - election.renew_deadline
        errors.add(
            "kubestow.bindTimeout",
            invalid(
                format_duration(timeout),
                "bindTimeout plus leaderElection.renewDeadline must be less than "
                f"leaderElection.leaseDuration: use less than {format_duration(margin)} here, or a "
                "longer lease",
            ),
        )


def _check_bridge(bridge: NodeProvisioningBridgeConfiguration, errors: FieldErrors) -> None:
    path = "kubestow.nodeProvisioningBridge"
    for key, duration in (
        ("suspectWindow", bridge.suspect_window),
        ("provisioningDeadline", bridge.provisioning_deadline),
    ):
        if duration is not None and duration <= timedelta():
            errors.add(
                child(path, key), invalid(format_duration(duration), "must be greater than zero")
            )
    for key, name in (
        ("clusterAutoscalerNamespace", bridge.cluster_autoscaler_namespace),
        ("clusterAutoscalerConfigMap", bridge.cluster_autoscaler_config_map),
    ):
        if not is_object_name(name):
            detail = "must be the name of an object: lower case letters, digits, '-' and '.'"
            errors.add(child(path, key), invalid(name, detail))


# -- profiles -------------------------------------------------------------------------------------


def _check_profile(profile: KubeSchedulerProfile, path: str, errors: FieldErrors) -> None:
    _check_percentage(
        profile.percentage_of_nodes_to_score, child(path, "percentageOfNodesToScore"), errors
    )
    names: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        below = child(item(child(path, "pluginConfig"), index), "name")
        if not entry.name:
            errors.add(below, required("the plugin these arguments are for"))
        elif entry.name in names:
            errors.add(below, f"{duplicate(entry.name)}: repeated config for plugin {entry.name}")
        elif entry.name in upstream.REMOVED_PLUGINS:
            errors.add(below, invalid(entry.name, _REMOVED))
        names.add(entry.name)
    plugins = profile.plugins or Plugins()
    for point in _CLASSIC_POINTS:
        enabled = plugins.at(point).enabled
        for index, reference in enumerate(enabled):
            if reference.name in upstream.REMOVED_PLUGINS:
                below = f"{path}.plugins.{point}.enabled[{index}].name"
                errors.add(below, invalid(reference.name, _REMOVED))


_REMOVED: Final = f'was invalid in version "v1" ({KIND} is version "{API_VERSION}")'


def _check_scheduler_names(profiles: Iterable[KubeSchedulerProfile], errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, profile in enumerate(profiles):
        path = child(item("profiles", index), "schedulerName")
        name = profile.scheduler_name
        if not name:
            if not errors.has(path):
                errors.add(path, required("the schedulerName of the pods this profile is for"))
        elif name in seen:
            errors.add(path, duplicate(name))
        else:
            seen.add(name)


def _check_queue_sort(profiles: tuple[KubeSchedulerProfile, ...], errors: FieldErrors) -> None:
    sets = [(profile.plugins or Plugins()).queue_sort for profile in profiles]
    if len(sets[0].enabled) > 1:
        errors.add(
            "profiles[0].plugins.queueSort.enabled", "only one queue sort plugin can be enabled"
        )
    for index, one in enumerate(sets[1:], start=1):
        if one != sets[0]:
            names = [reference.name for reference in one.enabled]
            errors.add(
                f"profiles[{index}].plugins.queueSort",
                invalid(names, "must be the same for all profiles"),
            )


# -- extenders ------------------------------------------------------------------------------------


def _check_extenders(extenders: tuple[Extender, ...], errors: FieldErrors) -> None:
    resources: set[str] = set()
    binders = 0
    for index, extender in enumerate(extenders):
        path = item("extenders", index)
        if extender.prioritize_verb and extender.weight <= 0:
            errors.add(
                child(path, "weight"),
                invalid(extender.weight, "must have a positive weight applied to it"),
            )
        binders += bool(extender.bind_verb)
        _check_tls(extender.tls_config or ExtenderTLSConfig(), child(path, "tlsConfig"), errors)
        for position, resource in enumerate(extender.managed_resources):
            below = child(item(child(path, "managedResources"), position), "name")
            for message in extended_resource_problems(resource.name):
                errors.add(below, invalid(resource.name, message))
            if resource.name in resources:
                errors.add(
                    below, invalid(resource.name, "duplicate extender managed resource name")
                )
            resources.add(resource.name)
    if binders > 1:
        errors.add(
            "extenders",
            invalid(
                f"found {binders} extenders implementing bind",
                "only one extender can implement bind",
            ),
        )


def _check_tls(tls: ExtenderTLSConfig, path: str, errors: FieldErrors) -> None:
    for key, data in (
        ("certData", tls.cert_data),
        ("keyData", tls.key_data),
        ("caData", tls.ca_data),
    ):
        try:
            base64.b64decode(data.replace("\n", ""), validate=True)
        except ValueError as error:
            # The value may be a private key, so it is not shown.
            errors.add(child(path, key), f"illegal base64 data: {error}")


def extended_resource_problems(name: str) -> Iterable[str]:
    """Return why `name` is not an extended resource such as `example.com/gpu`."""
    if not is_qualified_name(name):
        yield (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character, with an optional DNS subdomain prefix and '/'"
        )
    elif "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        yield "is an invalid extended resource name"
