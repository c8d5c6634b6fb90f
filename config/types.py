"""`KubeSchedulerConfiguration` of kubescheduler.config.k8s.io/v1, and our own `kubestow` section.

One Struct per upstream type, field for field, with upstream's defaults. A default that depends on
something else (a name, another field, a feature gate) is filled in by `config.defaults`. Zero means
unset where upstream treats it so. No checks are made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

import msgspec

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Base of all parts: camelCase in YAML, snake_case in Python, immutable."""


class LeaderElectionConfiguration(Section, frozen=True):
    """Choice of the replica that schedules."""

    #: Elect a leader before scheduling. True: two active replicas would bind against each other.
    leader_elect: bool = True
    #: How long others wait after the last renewal before they take over.
    lease_duration: timedelta = timedelta(seconds=15)
    #: How long the leader tries to renew before it gives up; less than `lease_duration`.
    renew_deadline: timedelta = timedelta(seconds=10)
    #: Pause between two attempts to get or renew the Lease.
    retry_period: timedelta = timedelta(seconds=2)
    #: Only `leases` exists since Kubernetes 1.28.
    resource_lock: str = "leases"
    #: Name of the Lease. Empty: `kubestow`, so that the cluster's own scheduler keeps its Lease.
    resource_name: str = ""
    #: Namespace of the Lease. Empty: the namespace the process runs in.
    resource_namespace: str = ""


class ClientConnectionConfiguration(Section, frozen=True):
    """Connection to the API server."""

    #: Path of a kubeconfig file. Empty: in-cluster configuration.
    kubeconfig: str = ""
    #: Accepted for compatibility; responses are always JSON.
    accept_content_types: str = ""
    #: Accepted for compatibility; requests are always JSON.
    content_type: str = ""
    #: Requests a second to the API server. 0: 50, upstream's default.
    qps: float = 0.0
    #: Requests that may be sent at once above `qps`. 0: 100, upstream's default.
    burst: Int32 = 0


class PluginReference(Section, frozen=True):
    """One entry of `enabled` or `disabled`."""

    #: The plugin's declared name; in `enabled` also `module:Class`; in `disabled` also `*`.
    name: str = ""
    #: Factor of the plugin's scores. 0: 1.
    weight: Int32 = 0


class PluginSet(Section, frozen=True):
    """Plugins to enable and to disable at one extension point."""

    #: Run after the defaults, in this order; a default named again keeps its place.
    enabled: tuple[PluginReference, ...] = ()
    #: Defaults that do not run here; `*` is all of them.
    disabled: tuple[PluginReference, ...] = ()


class Plugins(Section, frozen=True):
    """Plugin sets by extension point. `multiPoint` stands for every point a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """Return the set of a point, by its name in YAML."""
        found = getattr(self, POINTS[point])
        assert isinstance(found, PluginSet)
        return found


POINTS: Final[Mapping[str, str]] = dict(
    zip(Plugins.__struct_encode_fields__, Plugins.__struct_fields__, strict=True)
)
"""Every key below `plugins` (preEnqueue ... placementScore) and its attribute."""

MULTI_POINT: Final = "multiPoint"


class PluginConfig(Section, frozen=True):
    """Arguments of one plugin in one profile."""

    #: The plugin's declared name.
    name: str = ""
    #: JSON data as read; the plugin's own args Struct once the configuration is complete.
    args: Any = None


class KubeSchedulerProfile(Section, frozen=True):
    """One set of plugins, used for the pods that name its scheduler."""

    #: `spec.schedulerName` of the pods. None: `kubestow`, if there is one profile only.
    scheduler_name: str | None = None
    #: As the key of that name of the file, for this profile. None: the value there.
    percentage_of_nodes_to_score: Int32 | None = None
    #: Plugins to enable and to disable, by extension point. None: the default plugins.
    plugins: Plugins | None = None
    #: Arguments of plugins; those that are not named here have their defaults.
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(Section, frozen=True):
    """A resource that an extender manages."""

    #: An extended resource, e.g. `example.com/gpu`.
    name: str = ""
    #: NodeResourcesFit leaves the resource to the extender.
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Section, frozen=True):
    """TLS of calls to an extender. Data, in base64, takes precedence over files."""

    #: Do not verify the extender's certificate. Not together with authorities.
    insecure: bool = False
    #: Name that the certificate must be issued for. Empty: the host of the URL.
    server_name: str = ""
    #: Client certificate, PEM.
    cert_file: str = ""
    #: Key of the client certificate, PEM.
    key_file: str = ""
    #: Authorities that may have issued the extender's certificate, PEM.
    ca_file: str = ""
    #: As `cert_file`, in base64.
    cert_data: str = ""
    #: As `key_file`, in base64.
    key_data: str = ""
    #: As `ca_file`, in base64.
    ca_data: str = ""


class Extender(Section, frozen=True):
    """An HTTP service that is called during scheduling."""

    #: Base URL; also the extender's name in messages.
    url_prefix: str = ""
    #: Path below the base URL. Empty: the extender does not take part in this step.
    filter_verb: str = ""
    #: The same for the choice of victims of a preemption.
    preempt_verb: str = ""
    #: The same for scores of nodes, 0 to 10.
    prioritize_verb: str = ""
    #: The same for binding, in place of the Bind plugins; one extender may have it.
    bind_verb: str = ""
    #: Factor of the extender's scores.
    weight: Int64 = 0
    #: Without authorities, do not verify the certificate, as upstream. Whether TLS is used depends
    #: on the scheme of the URL.
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    #: TLS of the calls. None: no client certificate, and the authorities of the system.
    tls_config: ExtenderTLSConfig | None = None
    #: Limit for one call. 0: 5 s.
    http_timeout: timedelta = msgspec.field(name="httpTimeout", default=timedelta())
    #: Send node names instead of whole nodes.
    node_cache_capable: bool = False
    #: Call the extender only for pods that request one of these. Empty: for all pods.
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    #: Go on without the extender when it fails.
    ignorable: bool = False


class NodeProvisioningBridgeConfiguration(Section, frozen=True):
    """Settings of the bridge from autoscalers' Events to a pod condition (KEP-3990)."""

    #: `Auto`: run while a pod has the criterion NodeProvisioningFailed and the feature gate
    #: PodTopologySpreadFallbackMode is on, unless another manager writes the condition. `On`:
    #: always, even beside another manager. `Off`: never.
    mode: Literal["Auto", "On", "Off"] = "Auto"
    #: Pods that get the condition. `FallbackPods`: those with that criterion. `All`: all pods of
    #: our profiles.
    scope: Literal["FallbackPods", "All"] = "FallbackPods"
    #: How long the condition stays True after all node groups (or node claims) that were to grow
    #: for a pod failed, because the autoscaler may try again. None: 5 min 30 s for
    #: cluster-autoscaler and 3 min for Karpenter, longer than they suppress repeated events.
    suspect_window: timedelta | None = None
    #: How long a pod waits after the first promise of nodes. 20 min: more than
    #: cluster-autoscaler's own limit for a node to appear, 15 min.
    provisioning_deadline: timedelta = timedelta(minutes=20)
    #: Namespace of cluster-autoscaler and its status ConfigMap, to which its events about node
    #: groups refer.
    cluster_autoscaler_namespace: str = "kube-system"
    #: Name of that ConfigMap (cluster-autoscaler's flag `--status-config-map-name`).
    cluster_autoscaler_config_map: str = "cluster-autoscaler-status"


class TracingConfiguration(Section, frozen=True):
    """Export of OpenTelemetry traces, with the fields of component-base's TracingConfiguration."""

    #: Address of the collector, OTLP over HTTP: a URL, or `host:port` for http. Without a path
    #: `/v1/traces` is used. None: the variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and
    #: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.
    endpoint: str | None = None
    #: How many of a million scheduling attempts are traced. None: none, as in other components of
    #: Kubernetes, unless the variable OTEL_TRACES_SAMPLER chooses a sampler.
    sampling_rate_per_million: Int32 | None = None


class KubestowConfiguration(Section, frozen=True):
    """Options of the process that kube-scheduler does not have (the `kubestow` key)."""

    #: Seed of every random choice, such as between equal nodes. None: from the operating system, so
    #: that not all processes choose alike. Set it to replay a run.
    seed: int | None = None
    #: Bind and PreBind requests in flight at once. 100: keeps an API server busy, with half of its
    #: own limit for mutating requests.
    bind_concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    #: Limit for one bind request. Together with `renewDeadline` it must stay below `leaseDuration`,
    #: so that no bind of an old leader arrives after a new one took over. None: 4 s, or 80 % of
    #: their difference if that is less.
    bind_timeout: timedelta | None = None
    #: Reconnect a watch without any data, even bookmarks, for this long. 70 s: bookmarks come about
    #: every minute.
    watch_idle_timeout: timedelta = timedelta(seconds=70)
    #: How often hints of plugins that wait for time to pass are called. 30 s, as in KEP-3990.
    time_based_hint_period: timedelta = timedelta(seconds=30)
    #: How long a PodScheduled condition with a plugin's own reason waits before it is written, so
    #: that one that is obsolete by then is never written. 1 s: hardly noticed, and the first answer
    #: of a gate is rarely the last.
    status_patch_delay: timedelta = timedelta(seconds=1)
    #: Average limit of Kubernetes Events written per second; more wait, then are dropped and
    #: counted. None: as `clientConnection.qps`; binds have a limit of their own, as upstream.
    events_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Filter the chosen node again just before the bind if it was changed from outside meanwhile: a
    #: secondary scheduler shares its nodes. True: free while no other scheduler changes nodes.
    recheck_before_bind: bool = True
    #: Keep room on nodes for pending pods of other schedulers with a `status.nominatedNodeName`,
    #: against our pods of at most their priority. True: victims were evicted for them.
    honor_foreign_nominations: bool = True
    #: How long a node is skipped for pods of a signature after its kubelet rejected one of them.
    #: 5 min: several retries of whatever failed on the node, and no tight loop of pods that are
    #: created, bound, rejected and replaced. 0: not at all.
    kubelet_rejection_backoff: timedelta = timedelta(minutes=5)
    #: Time that one scalar plugin may use in one scheduling cycle before it is logged and counted.
    #: 10 ms: longer delays everything else on the event loop.
    plugin_time_budget: timedelta = timedelta(milliseconds=10)
    #: CPU time that one scheduling cycle may use. A cycle that uses more is aborted, and no pod of
    #: its template is tried for a pause (10 s, doubling up to 5 min); the budget of the next
    #: attempt doubles as well (up to 4 times). Attempts that use more than 2 % of it are charged to
    #: their namespace, whose pods go behind others after recent charges of half of it. 500 ms:
    #: hundreds of times an ordinary cycle on 5,000 nodes, and a delay of less than 1 s for other
    #: pods. 0: no limit and no charges. Less than a quarter of `watchdogTimeout`.
    cycle_time_budget: timedelta = timedelta(milliseconds=500)
    #: Failed calls in a row that open the circuit of an extender's verb. 3: one slow response is
    #: no outage, and a dead extender costs few timeouts.
    extender_failures: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    #: How long an open circuit blocks calls; then one call probes. 30 s: long compared with a
    #: timeout of 5 s, short compared with an outage.
    extender_circuit_open_duration: timedelta = timedelta(seconds=30)
    #: How long the event loop of a leader may make no progress before the Lease is not renewed any
    #: more. 1 min: longer than any cycle, and as long as the liveness probe of our manifests waits.
    watchdog_timeout: timedelta = timedelta(minutes=1)
    #: How long pods are scheduled back to back before the event loop runs watches and binds. 5 ms:
    #: several pods, and no delay for a health check. Requeueing after one cluster event is done in
    #: slices of this length as well.
    scheduling_time_slice: timedelta = timedelta(milliseconds=5)
    node_provisioning_bridge: NodeProvisioningBridgeConfiguration = (
        NodeProvisioningBridgeConfiguration()
    )
    #: Traces of scheduling attempts; needs the optional dependencies `kubestow[otel]`. None: off.
    tracing: TracingConfiguration | None = None


class KubeSchedulerConfiguration(Section, frozen=True):
    """The whole file."""

    #: Version of the format; must be given.
    api_version: str = API_VERSION
    #: Kind of the file; must be given.
    kind: str = KIND
    #: Accepted and checked for compatibility; a cycle works on whole columns, not on goroutines.
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    #: Let `PUT /debug/flags/v` change the log level. There is no `/debug/pprof`.
    enable_profiling: bool = True
    #: Accepted for compatibility: there are no locks to profile. None: as `enable_profiling`.
    enable_contention_profiling: bool | None = None
    #: Percentage of nodes to find feasible before scoring. 0: all if all plugins are columnar, else
    #: upstream's number.
    percentage_of_nodes_to_score: Int32 = 0
    #: How long a pod waits after its first failed attempt; doubles with each further one.
    pod_initial_backoff_seconds: Int64 = 1
    #: Limit of the doubling.
    pod_max_backoff_seconds: Int64 = 10
    #: One for each scheduler name. Empty: one with the default plugins.
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    #: HTTP services that are called during scheduling, by all profiles, in this order.
    extenders: tuple[Extender, ...] = ()
    #: Fill caches only after election: saves memory in standbys, delays failover.
    delay_cache_until_active: bool = False
    kubestow: KubestowConfiguration = KubestowConfiguration()


RENAMED_FIELDS: Final[Mapping[str, str]] = {
    "kubestow.heedForeignNominations": "honorForeignNominations",
    "kubestow.rejectingNodeAvoidance": "kubeletRejectionBackoff",
    "kubestow.watchSilenceTimeout": "watchIdleTimeout",
    "kubestow.slice": "schedulingTimeSlice",
    "kubestow.extenderCoolDown": "extenderCircuitOpenDuration",
    "kubestow.statusDelay": "statusPatchDelay",
}
"""The present name of each field that had another one, by its former path."""
