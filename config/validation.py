"""Checks on a decoded and defaulted configuration, apart from its plugins.

Messages and paths are those of `validation.go: ValidateKubeSchedulerConfiguration`, followed by
checks of the `kubestow` section and of the names that belong to the scheduler of the cluster.
Nothing is changed here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from config import upstream
from config.migration import version_problem
from config.tracing import MILLION, tracing_url
from config.types import (
    API_VERSION,
    KIND,
    POINTS,
    Extender,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    KubestowConfiguration,
    LeaderElectionConfiguration,
    NodeProvisioningBridgeConfiguration,
    Plugins,
    TracingConfiguration,
)
from scheduler.framework.field_errors import (
    FieldErrors,
    child,
    duplicate,
    forbidden,
    invalid,
    item,
    required,
)
from scheduler.sanitizing.go_values import format_duration
from scheduler.sanitizing.names import is_object_name, is_qualified_name

REPLACE_FLAG: Final = "--replace-default-scheduler"

MIN_WATCHDOG_TIMEOUT: Final = timedelta(seconds=1)
"""The heartbeat comes ten times a second; a busy machine may well lose some."""

MAX_CYCLE_BUDGET_FACTOR: Final = 4
"""How many times `cycleTimeBudget` a cycle may get after others like it used theirs up."""

_CLASSIC_POINTS: Final = [
    point for point in POINTS if point not in {"multiPoint", "placementGenerate", "placementScore"}
]
"""The extension points at which removed plugins are reported."""


_FIND: Final = "; give the file or the ConfigMap that has the configuration"
_INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet", "Pod", "List", "Secret"), _FIND),
    "Policy": (
        "; kube-scheduler reads no Policy since v1.23: write profiles with the plugins that the "
        "predicates and priorities became"
    ),
    "DeschedulerPolicy": "; it is the configuration of the descheduler",
}
"""What to do about kinds that are found beside a scheduler."""


def validate_header(api_version: object, kind: object, errors: FieldErrors) -> None:
    """Check that the file is of the one version and kind there is."""
    if not api_version:
        errors.add("apiVersion", f"Object 'apiVersion' is missing; write {API_VERSION}")
    if not kind:
        errors.add("kind", f"Object 'Kind' is missing; write {KIND}")
    if kind and kind != KIND:
        group_kind = f"{api_version}, Kind={kind}" if api_version else f"Kind={kind}"
        errors.add(
            "kind", f"couldn't decode as {KIND}, got {group_kind}{_INSTEAD.get(str(kind), '')}"
        )
    elif api_version and api_version != API_VERSION:
        errors.add("apiVersion", version_problem(api_version))


def validate(configuration: KubeSchedulerConfiguration, errors: FieldErrors) -> None:
    """Check everything but plugins and their arguments."""
    _check_top_level(configuration, errors)
    _check_leader_election(configuration.leader_election, errors)
    _check_kubestow(configuration.kubestow, errors)
    _check_bind_timeout(configuration.kubestow.bind_timeout, configuration.leader_election, errors)
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


def _reject(errors: FieldErrors, path: str, value: object, detail: str) -> None:
    """Report a value that is well-formed and wrong; durations are shown as Go prints them."""
    shown = format_duration(value) if isinstance(value, timedelta) else value
    errors.add(path, invalid(shown, detail))


def _check_positive(
    errors: FieldErrors, path: str, durations: Mapping[str, timedelta | None]
) -> None:
    for key, value in durations.items():
        if value is not None and value <= timedelta():
            _reject(errors, child(path, key), value, "must be greater than zero")


def _check_top_level(configuration: KubeSchedulerConfiguration, errors: FieldErrors) -> None:
    parallelism = configuration.parallelism
    if parallelism <= 0:
        detail = "should be an integer value greater than zero"
        _reject(errors, "parallelism", parallelism, detail)
    burst = configuration.client_connection.burst
    if burst < 0:
        _reject(errors, "clientConnection.burst", burst, "must be non-negative")
    _check_percentage(
        configuration.percentage_of_nodes_to_score, "percentageOfNodesToScore", errors
    )
    initial, longest = (
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
    )
    if initial <= 0:
        _reject(errors, "podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        _reject(errors, "podMaxBackoffSeconds", longest, detail)


def _check_percentage(value: int | None, path: str, errors: FieldErrors) -> None:
    if value is not None and not 0 <= value <= 100:
        _reject(errors, path, value, "not in valid range [0-100]")


def _check_leader_election(election: LeaderElectionConfiguration, errors: FieldErrors) -> None:
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    _check_positive(errors, "leaderElection", durations)
    if election.lease_duration <= election.renew_deadline:
        detail = "must be greater than `RenewDeadline`"
        _reject(errors, "leaderElection.leaseDuration", election.lease_duration, detail)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        _reject(errors, "leaderElection.resourceLock", election.resource_lock, detail)


def _check_kubestow(options: KubestowConfiguration, errors: FieldErrors) -> None:
    durations = {
        "bindTimeout": options.bind_timeout,
        "watchIdleTimeout": options.watch_idle_timeout,
        "timeBasedHintPeriod": options.time_based_hint_period,
        "pluginTimeBudget": options.plugin_time_budget,
        "schedulingTimeSlice": options.scheduling_time_slice,
    }
    _check_positive(errors, "kubestow", durations)
    watchdog, budget = options.watchdog_timeout, options.cycle_time_budget
    if watchdog < MIN_WATCHDOG_TIMEOUT:
        detail = f"must be {format_duration(MIN_WATCHDOG_TIMEOUT)} or more"
        _reject(errors, "kubestow.watchdogTimeout", watchdog, detail)
    elif budget * MAX_CYCLE_BUDGET_FACTOR >= watchdog:
        detail = (
            "must be less than a quarter of kubestow.watchdogTimeout "
            f"({format_duration(watchdog)}): after overruns a cycle may use four times the budget, "
            "and a leader whose event loop makes no progress for longer gives way"
        )
        _reject(errors, "kubestow.cycleTimeBudget", budget, detail)
    for key, value in (
        ("statusPatchDelay", options.status_patch_delay),
        ("cycleTimeBudget", budget),
    ):
        if value < timedelta():
            _reject(errors, f"kubestow.{key}", value, "must be non-negative")
    _check_bridge(options.node_provisioning_bridge, errors)
    if options.tracing is not None:
        _check_tracing(options.tracing, errors)


def _check_bridge(bridge: NodeProvisioningBridgeConfiguration, errors: FieldErrors) -> None:
    path = "kubestow.nodeProvisioningBridge"
    durations = {
        "suspectWindow": bridge.suspect_window,
        "provisioningDeadline": bridge.provisioning_deadline,
    }
    _check_positive(errors, path, durations)
    for key, name in (
        ("clusterAutoscalerNamespace", bridge.cluster_autoscaler_namespace),
        ("clusterAutoscalerConfigMap", bridge.cluster_autoscaler_config_map),
    ):
        if not is_object_name(name):
            detail = "must be the name of an object: lower case letters, digits, '-' and '.'"
            _reject(errors, child(path, key), name, detail)


def _check_tracing(tracing: TracingConfiguration, errors: FieldErrors) -> None:
    """Check as upstream's `ValidateTracingConfiguration`, but for OTLP over HTTP."""
    rate = tracing.sampling_rate_per_million
    if rate is not None and not 0 <= rate <= MILLION:
        detail = "must be from 0 (nothing is traced) to 1000000 (every scheduling attempt)"
        _reject(errors, "kubestow.tracing.samplingRatePerMillion", rate, detail)
    if tracing.endpoint is not None:
        try:
            tracing_url(tracing.endpoint)
        except ValueError as error:
            shown = "[redacted]" if "@" in tracing.endpoint else tracing.endpoint
            _reject(errors, "kubestow.tracing.endpoint", shown, str(error))


def _check_bind_timeout(
    timeout: timedelta | None, election: LeaderElectionConfiguration, errors: FieldErrors
) -> None:
    """Check that no bind of an old leader can arrive after a new one has taken over."""
    margin = election.lease_duration - election.renew_deadline
    if timeout is None or not election.leader_elect or margin <= timedelta():
        return
    if timeout >= margin:
        detail = (
            "bindTimeout plus leaderElection.renewDeadline must be less than "
            f"leaderElection.leaseDuration: use less than {format_duration(margin)} here, or a "
            "longer lease"
        )
        _reject(errors, "kubestow.bindTimeout", timeout, detail)


# -- profiles -------------------------------------------------------------------------------------


def _check_profile(profile: KubeSchedulerProfile, path: str, errors: FieldErrors) -> None:
    _check_percentage(
        profile.percentage_of_nodes_to_score, child(path, "percentageOfNodesToScore"), errors
    )
    window = {"overrunWindow": profile.kubestow.overrun_window}
    _check_positive(errors, child(path, "kubestow"), window)
    names: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        below = child(item(child(path, "pluginConfig"), index), "name")
        if not entry.name:
            errors.add(below, required("the plugin these arguments are for"))
        elif entry.name in names:
            errors.add(below, f"{duplicate(entry.name)}: repeated config for plugin {entry.name}")
        elif entry.name in upstream.REMOVED_PLUGINS:
            _reject(errors, below, entry.name, _REMOVED)
        names.add(entry.name)
    plugins = profile.plugins or Plugins()
    for point in _CLASSIC_POINTS:
        enabled = plugins.at(point).enabled
        for index, reference in enumerate(enabled):
            if reference.name in upstream.REMOVED_PLUGINS:
                below = f"{path}.plugins.{point}.enabled[{index}].name"
                _reject(errors, below, reference.name, _REMOVED)


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
            path = f"profiles[{index}].plugins.queueSort"
            _reject(errors, path, names, "must be the same for all profiles")


# -- extenders ------------------------------------------------------------------------------------


def _check_extenders(extenders: tuple[Extender, ...], errors: FieldErrors) -> None:
    resources: set[str] = set()
    binders = 0
    for index, extender in enumerate(extenders):
        path = item("extenders", index)
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            _reject(errors, child(path, "weight"), extender.weight, detail)
        binders += bool(extender.bind_verb)
        _check_tls(extender.tls_config or ExtenderTLSConfig(), child(path, "tlsConfig"), errors)
        for position, resource in enumerate(extender.managed_resources):
            below = child(item(child(path, "managedResources"), position), "name")
            for message in extended_resource_problems(resource.name):
                _reject(errors, below, resource.name, message)
            if resource.name in resources:
                detail = "duplicate extender managed resource name"
                _reject(errors, below, resource.name, detail)
            resources.add(resource.name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        _reject(errors, "extenders", found, "only one extender can implement bind")


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
