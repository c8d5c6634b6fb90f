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

    #: Schedule only while holding the Lease. On by default, because two active replicas would bind
    #: pods against each other.
    leader_elect: bool = True
    #: How long other replicas wait, after they see the last renewal, before they take over.
    lease_duration: timedelta = timedelta(seconds=15)
    #: How long the leader tries to renew the Lease before it gives up. Must be less than
    #: `lease_duration`.
    renew_deadline: timedelta = timedelta(seconds=10)
    #: Pause between two attempts to get or renew the Lease.
    retry_period: timedelta = timedelta(seconds=2)
    #: Kind of the lock. Kubernetes has supported only `leases` since 1.28.
    resource_lock: str = "leases"
    #: Name of the Lease. `kube-scheduler`, that of the cluster's own scheduler, is refused without
    #: the flag `--replace-default-scheduler`.
    resource_name: str = ""
    #: Namespace of the Lease. By default, the namespace that the process runs in: `POD_NAMESPACE`,
    #: or that of the service account, or `kubestow-system`.
    resource_namespace: str = ""


class ClientConnectionConfiguration(Section, frozen=True):
    """Connection to the API server."""

    #: Path of a kubeconfig file. By default, the one in the variable KUBECONFIG, then the cluster
    #: that the process runs in, then `~/.kube/config`.
    kubeconfig: str = ""
    #: Accepted for compatibility; responses are always JSON.
    accept_content_types: str = ""
    #: Accepted for compatibility; requests are always JSON.
    content_type: str = ""
    #: Maximum average number of requests to the API server per second. Each binding is one request,
    #: so this limits how many pods are placed per second; raise it for large bursts. 0 means 50.
    qps: float = 0.0
    #: Number of requests that may be sent at once, beyond `qps`; 0 means 100.
    burst: Int32 = 0


class PluginReference(Section, frozen=True):
    """One entry of `enabled` or `disabled`."""

    #: Name that the plugin declares. In `enabled`, `module:Class` loads a plugin of your own; in
    #: `disabled`, `*` stands for all default plugins.
    name: str = ""
    #: Factor by which the plugin's scores are multiplied; 0 means 1.
    weight: Int32 = 0


class PluginSet(Section, frozen=True):
    """Plugins to enable and to disable at one extension point."""

    #: Plugins that run after the default ones, in this order. A default plugin that is named here
    #: keeps its place and takes the weight given here.
    enabled: tuple[PluginReference, ...] = ()
    #: Default plugins that do not run at this extension point.
    disabled: tuple[PluginReference, ...] = ()


class Plugins(Section, frozen=True):
    """Plugin sets by extension point. `multiPoint` stands for every point a plugin implements."""

    #: Plugins that admit a pod to the queue of those to schedule, or gate it.
    pre_enqueue: PluginSet = PluginSet()
    #: The plugin that orders waiting pods: exactly one, the same in all profiles.
    queue_sort: PluginSet = PluginSet()
    #: Plugins that prepare the filtering for a pod; they may reject it, or narrow it to some nodes.
    pre_filter: PluginSet = PluginSet()
    #: Plugins that decide whether a pod can run on a node.
    filter: PluginSet = PluginSet()
    #: Plugins that help a pod for which no node is feasible, as preemption does.
    post_filter: PluginSet = PluginSet()
    #: Plugins that prepare the scoring of the feasible nodes.
    pre_score: PluginSet = PluginSet()
    #: Plugins that score the feasible nodes; `weight` multiplies the scores of each.
    score: PluginSet = PluginSet()
    #: Plugins that reserve something for a pod on its chosen node, and release it after a failure.
    reserve: PluginSet = PluginSet()
    #: Plugins that allow the binding, reject it, or delay it for some time.
    permit: PluginSet = PluginSet()
    #: Plugins that prepare the binding, for instance by binding volumes.
    pre_bind: PluginSet = PluginSet()
    #: Plugins that bind a pod; they are asked in order until one does not skip it.
    bind: PluginSet = PluginSet()
    #: Plugins that are notified when a pod is bound.
    post_bind: PluginSet = PluginSet()
    #: Plugins at every extension point that they implement; the set of a point overrides it there.
    multi_point: PluginSet = PluginSet()
    #: Plugins that propose placements of a whole group of pods in kube-scheduler, where this is off
    #: by default. A plugin named here is refused.
    placement_generate: PluginSet = PluginSet()
    #: Plugins that score such placements. A plugin named here is refused.
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

    #: Name that the plugin declares.
    name: str = ""
    #: The arguments; see the plugin's own section.
    args: Any = None


class PluginIsolation(Section, frozen=True):
    """The isolation of one plugin of a profile from the event loop."""

    #: Name that the plugin declares.
    plugin: str = ""
    #: Where PreFilter, Filter and Score run, for all nodes at once, while the scheduling cycle is
    #: suspended. `Thread`: in a thread of their own. `Process`: in a process of their own, which
    #: may crash, and is ended if it hangs; only on Linux.
    mode: Literal["Thread", "Process"] = "Thread"
    #: Time for one pod. A call that takes longer is given up, and the attempt fails.
    timeout: timedelta = timedelta(seconds=5)
    #: Address space that the process may use for the plugin and for its copy of the nodes and their
    #: pods, a quantity such as `512Mi`; 2Gi by default. Only with `mode: Process`.
    memory_limit: str | None = None


class KubestowProfile(Section, frozen=True):
    """Options of a profile that kube-scheduler does not have."""

    #: The choice among nodes of equal score. `Random`: one of them at random, so that equal nodes
    #: fill evenly (see `seed`). `NodeName`: the one with the smallest name, so that nodes which
    #: the scores do not distinguish fill one after the other, as some published simulations have
    #: it. Candidates for preemption that nothing distinguishes are chosen at random in any case.
    tie_breaking: Literal["Random", "NodeName"] = "Random"
    #: What follows when a plugin that is not in-tree exceeds `kubestow.pluginTimeBudget` too often.
    #: `Report`: log lines and metrics only. `Disable`: the plugin is switched off for this profile
    #: until the next reload or restart. Nothing replaces what it did: a Filter that is switched
    #: off lets every pod through.
    on_overrun: Literal["Report", "Disable"] = "Report"
    #: Number of overruns within `overrun_window` after which the plugin is switched off.
    overrun_limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    #: See `overrun_limit`.
    overrun_window: timedelta = timedelta(minutes=1)
    #: Plugins that run apart from the event loop, so that they may block.
    isolation: tuple[PluginIsolation, ...] = ()


class KubeSchedulerProfile(Section, frozen=True):
    """One set of plugins, used for the pods that name its scheduler."""

    #: `spec.schedulerName` of the pods. The default is `kubestow`; required if there is more than
    #: one profile. `default-scheduler` is refused without the flag `--replace-default-scheduler`.
    scheduler_name: str | None = None
    #: Overrides the key of the same name at the top of the file for this profile.
    percentage_of_nodes_to_score: Int32 | None = None
    #: Changes to the default plugins, by extension point.
    plugins: Plugins | None = None
    #: Arguments of plugins. A plugin that is not listed has its default arguments.
    plugin_config: tuple[PluginConfig, ...] = ()
    kubestow: KubestowProfile = KubestowProfile()


class ExtenderManagedResource(Section, frozen=True):
    """A resource that an extender manages."""

    #: Name of an extended resource, for example `example.com/gpu`.
    name: str = ""
    #: Whether NodeResourcesFit leaves this resource to the extender, in place of the resources in
    #: its argument `ignoredResources`.
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Section, frozen=True):
    """TLS of calls to an extender. Data, in base64, takes precedence over files."""

    #: Do not verify the extender's certificate. Must not be combined with `ca_file` or `ca_data`.
    insecure: bool = False
    #: Name that the certificate must be issued for. By default, the host of the URL.
    server_name: str = ""
    #: Path of the client certificate, PEM.
    cert_file: str = ""
    #: Path of the client certificate's key, PEM.
    key_file: str = ""
    #: Path of the authorities that may have issued the extender's certificate, PEM.
    ca_file: str = ""
    #: Content of `cert_file`, in base64.
    cert_data: str = ""
    #: Content of `key_file`, in base64.
    key_data: str = ""
    #: Content of `ca_file`, in base64.
    ca_data: str = ""


class Extender(Section, frozen=True):
    """An HTTP service that is called during scheduling."""

    #: Base URL, `http://` or `https://`. It is also the extender's name in messages and metrics.
    url_prefix: str = ""
    #: Path, below the base URL, that selects among the feasible nodes. An extender takes part only
    #: in the steps whose path is set.
    filter_verb: str = ""
    #: Path that selects the victims that may be evicted, before a node is chosen for preemption.
    preempt_verb: str = ""
    #: Path that scores nodes from 0 to 10. Failures are only logged.
    prioritize_verb: str = ""
    #: Path that binds the pod in place of the Bind plugins. Only one extender may have it.
    bind_verb: str = ""
    #: Factor by which the extender's scores are multiplied once they are scaled to 0 to 100. Must
    #: be positive if `prioritize_verb` is set.
    weight: Int64 = 0
    #: Without certificate authorities, do not verify the certificate, as kube-scheduler does.
    #: Whether TLS is used depends on the scheme of the URL.
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    #: TLS settings. By default, the certificate authorities of the system and no client
    #: certificate.
    tls_config: ExtenderTLSConfig | None = None
    #: Timeout of one call; 0 means 5 s.
    http_timeout: timedelta = msgspec.field(name="httpTimeout", default=timedelta())
    #: Send only names of nodes and UIDs of victims. Otherwise whole objects are sent as the API
    #: server has them, which takes memory to keep: nodes and this scheduler's pending pods, and all
    #: pods if `preempt_verb` is set.
    node_cache_capable: bool = False
    #: Call the extender only for pods with one of these resources in their requests or limits. By
    #: default, it is called for all pods.
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    #: Continue without the extender when it fails. Otherwise the attempt fails with its error and
    #: is retried with backoff.
    ignorable: bool = False


class NodeProvisioningBridgeConfiguration(Section, frozen=True):
    """Settings of the bridge from autoscalers' Events to a pod condition (KEP-3990)."""

    #: When the bridge runs. `Auto`: while a pod has the criterion `NodeProvisioningFailed` and the
    #: feature gate `PodTopologySpreadFallbackMode` is on, unless another manager writes the
    #: condition. `On`: always, even beside another manager. `Off`: never.
    mode: Literal["Auto", "On", "Off"] = "Auto"
    #: Pods that get the condition. `FallbackPods`: those with that criterion. `All`: all pods of
    #: the configured profiles.
    scope: Literal["FallbackPods", "All"] = "FallbackPods"
    #: How long the condition stays `True` after every node group or NodeClaim that was tried for a
    #: pod has failed, since the autoscaler may try again. By default, 5m30s for cluster-autoscaler
    #: and 3m for Karpenter: longer than they suppress repeated Events. Shorter values are safe only
    #: with cluster-autoscaler's flag `--record-duplicated-events`.
    suspect_window: timedelta | None = None
    #: How long nodes may take to register after the autoscaler first announced them. The default is
    #: longer than cluster-autoscaler's own limit of 15 minutes.
    provisioning_deadline: timedelta = timedelta(minutes=20)
    #: Namespace of cluster-autoscaler and of its status ConfigMap, to which its Events about node
    #: groups refer.
    cluster_autoscaler_namespace: str = "kube-system"
    #: Name of that ConfigMap (cluster-autoscaler's flag `--status-config-map-name`).
    cluster_autoscaler_config_map: str = "cluster-autoscaler-status"


class TracingConfiguration(Section, frozen=True):
    """Export of OpenTelemetry traces, with the same fields as in kubelet and kube-apiserver."""

    #: Address of the collector: a URL such as `http://collector:4318`, or `host:port`. Spans are
    #: sent by OTLP over HTTP, not gRPC, and to the path `/v1/traces` if the URL has none. By
    #: default, the address is that in the variable `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or
    #: `OTEL_EXPORTER_OTLP_ENDPOINT`, otherwise `http://localhost:4318`.
    endpoint: str | None = None
    #: How many of a million scheduling attempts are traced. If it is not set, none is traced, as in
    #: other components of Kubernetes, unless the variable `OTEL_TRACES_SAMPLER` names a sampler.
    sampling_rate_per_million: Int32 | None = None


class DecisionHistoryConfiguration(Section, frozen=True):
    """Decisions that are remembered, for `kubestow explain` and `/debug/decisions`."""

    #: Number of pods whose decisions are remembered, those decided about last; 0 remembers nothing.
    #: Together they use at most 2 KiB for each, 39 MiB by default; where texts are long, fewer pods
    #: are remembered.
    pods: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 20_000
    #: Number of decisions that are remembered of one pod, the last ones.
    attempts_per_pod: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


class KubestowConfiguration(Section, frozen=True):
    """Options that kube-scheduler does not have."""

    #: Seed of all random choices, such as the one between nodes with equal scores. By default, it
    #: comes from the operating system. Set it to make the choices of a run repeatable.
    seed: int | None = None
    #: Maximum number of concurrent Bind and PreBind requests. The default keeps an API server busy
    #: with half of its own limit for mutating requests.
    bind_concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    #: Timeout of one bind request. Together, it and `renewDeadline` must stay below
    #: `leaseDuration`, so that no bind of a former leader arrives after another replica took over.
    #: By default, 4 s, or 80 % of the difference of those two if that is less.
    bind_timeout: timedelta | None = None
    #: Reopen a watch that has delivered nothing for this long, not even a bookmark. API servers
    #: send bookmarks about once a minute, except for Events, whose watches last one to two minutes.
    watch_idle_timeout: timedelta = timedelta(seconds=70)
    #: How often queueing hints for the event `Time` are called. The default is that of KEP-3990.
    time_based_hint_period: timedelta = timedelta(seconds=30)
    #: How long a `PodScheduled` condition with a plugin's own reason waits before it is written. It
    #: is dropped if the state of the pod has changed by then.
    status_patch_delay: timedelta = timedelta(seconds=1)
    #: Maximum average number of Kubernetes Events written per second. More than that wait in a
    #: queue of limited length; when it is full, the oldest are dropped and counted. By default, the
    #: value of `clientConnection.qps`, as a limit of its own beside that of other requests.
    events_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Filter the chosen node again just before the bind if another scheduler changed it in the
    #: meantime. It costs nothing while no other scheduler changes nodes.
    recheck_before_bind: bool = True
    #: Keep room on nodes for pending pods of other schedulers that have a
    #: `status.nominatedNodeName`, against pods of the same or a lower priority. On by default,
    #: because pods may have been evicted to make that room.
    honor_foreign_nominations: bool = True
    #: How long pods of one template avoid a node after its kubelet rejected one of them, so that a
    #: controller does not keep replacing rejected pods in a tight loop; 0 disables this.
    kubelet_rejection_backoff: timedelta = timedelta(minutes=5)
    #: Time that one plugin may use in a call before it is logged and counted, or in a scheduling
    #: cycle for a Filter or Score that is not columnar. While it runs, nothing else does. Of the
    #: in-tree plugins, only those that are not columnar are measured. See also `onOverrun` of a
    #: profile.
    plugin_time_budget: timedelta = timedelta(milliseconds=10)
    #: CPU time that one scheduling cycle may use; 0 means no limit. A cycle that uses more is
    #: aborted, and no pod of its template is tried for a pause of 10 s, which doubles up to 5 min;
    #: the budget of the next attempt doubles as well, up to four times the value. An attempt that
    #: uses more than 2 % of the budget is charged to its namespace; pods of a namespace whose
    #: recent charges reach 50 % of the budget go behind others. The default is hundreds of times
    #: what an ordinary cycle on 5,000 nodes uses. Must be less than a quarter of `watchdogTimeout`.
    cycle_time_budget: timedelta = timedelta(milliseconds=500)
    #: Number of consecutive calls without a response that open the circuit breaker of an extender's
    #: verb: timeouts, broken connections, and the statuses 502 to 504. Any other status counts as a
    #: response, errors included.
    extender_failures: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    #: How long the circuit breaker stays open before one call probes the extender.
    extender_circuit_open_duration: timedelta = timedelta(seconds=30)
    #: How long the event loop of a leader may make no progress before it stops renewing the Lease;
    #: 1 s or more. The default is as long as the liveness probe in the manifests waits.
    watchdog_timeout: timedelta = timedelta(minutes=1)
    #: How long pods are scheduled back to back before watches and binds are processed. Requeueing
    #: after a cluster event is done in slices of this length as well.
    scheduling_time_slice: timedelta = timedelta(milliseconds=5)
    node_provisioning_bridge: NodeProvisioningBridgeConfiguration = (
        NodeProvisioningBridgeConfiguration()
    )
    decision_history: DecisionHistoryConfiguration = DecisionHistoryConfiguration()
    #: Traces of scheduling attempts, which need the optional dependencies `kubestow[otel]`. By
    #: default, nothing is traced.
    tracing: TracingConfiguration | None = None


class KubeSchedulerConfiguration(Section, frozen=True):
    """The whole file."""

    #: Version of the format; required.
    api_version: str = API_VERSION
    #: Kind of the file; required.
    kind: str = KIND
    #: Checked, without effect: a scheduling cycle works on whole columns, not on threads.
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    #: Whether `PUT /debug/flags/v` may change the log level. There is no `/debug/pprof`.
    enable_profiling: bool = True
    #: Without effect: there are no locks to profile. By default, the value of `enable_profiling`.
    enable_contention_profiling: bool | None = None
    #: Percentage of the nodes that must be found feasible before scoring begins. 0 means all nodes
    #: while every Filter and Score plugin of the profile is columnar and no extender filters for
    #: the pod, otherwise kube-scheduler's adaptive number.
    percentage_of_nodes_to_score: Int32 = 0
    #: How long a pod waits after its first failed attempt. The time doubles with each further one.
    pod_initial_backoff_seconds: Int64 = 1
    #: Maximum time that a pod waits after a failed attempt.
    pod_max_backoff_seconds: Int64 = 10
    #: One profile for each scheduler name. By default, there is one with the default plugins.
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    #: HTTP services that all profiles call during scheduling, in this order, ignorable ones last.
    extenders: tuple[Extender, ...] = ()
    #: Let replicas that stand by keep no caches. They need less memory and fewer watches and count
    #: as ready, but a take-over takes as long as a full list.
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
