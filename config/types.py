"""`KubeSchedulerConfiguration` of kubescheduler.config.k8s.io/v1, and our own `kubestow` section.

One Struct per upstream type, field for field; the defaults in the Structs are upstream's. What
depends on something else (a name, another field, a feature gate) is empty here and filled by
`config.defaults`. Zero means unset where upstream treats it so. No checks are made here.
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

    #: Elect a leader before scheduling. On by default: two active replicas would bind against
    #: each other.
    leader_elect: bool = True
    #: How long others wait after the last renewal before they take over. 15 s.
    lease_duration: timedelta = timedelta(seconds=15)
    #: How long the leader goes on trying to renew before it gives up; less than `lease_duration`.
    #: 10 s.
    renew_deadline: timedelta = timedelta(seconds=10)
    #: Pause between two tries to get or renew the lease. 2 s.
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
    #: Accepted for compatibility; answers are always JSON.
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
    #: Factor of the plugin's scores. 0 or absent: 1.
    weight: Int32 = 0


class PluginSet(Section, frozen=True):
    """Plugins to enable and to disable at one extension point."""

    #: Runs after the defaults, in this order; a default named again keeps its place.
    enabled: tuple[PluginReference, ...] = ()
    #: Defaults not to run here; `*` is all of them.
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
        """The set of a point, by its name in YAML."""
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

    name: str = ""
    #: JSON data as read; the plugin's own args Struct once the configuration is complete.
    args: Any = None


class KubeSchedulerProfile(Section, frozen=True):
    """One set of plugins, used for the pods that name its scheduler."""

    #: `spec.schedulerName` of the pods. None: `kubestow`, if there is one profile only.
    scheduler_name: str | None = None
    #: None: the value of the whole configuration.
    percentage_of_nodes_to_score: Int32 | None = None
    #: None: the default plugins.
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(Section, frozen=True):
    """A resource an extender looks after."""

    name: str = ""
    #: NodeResourcesFit leaves the resource to the extender.
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Section, frozen=True):
    """TLS towards an extender. Data beats files; data is base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class Extender(Section, frozen=True):
    """An HTTP service asked during scheduling."""

    #: Base URL; also the extender's name in messages.
    url_prefix: str = ""
    #: Path below the base URL. Empty: the extender does not take part in this step.
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    #: Factor of the extender's scores.
    weight: Int64 = 0
    #: Selects TLS settings only; the scheme of the URL decides about TLS, as upstream.
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLSConfig | None = None
    #: Limit for one call. 0: 5 s.
    http_timeout: timedelta = msgspec.field(name="httpTimeout", default=timedelta())
    #: Send node names instead of whole nodes.
    node_cache_capable: bool = False
    #: Ask the extender only for pods that mention one of these. Empty: for all pods.
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    #: Go on without the extender when it fails.
    ignorable: bool = False


class NodeProvisioningBridgeConfiguration(Section, frozen=True):
    """Settings of the bridge from autoscalers' Events to a pod condition (KEP-3990)."""

    #: `Auto`: while a pod has the criterion NodeProvisioningFailed and the feature gate
    #: PodTopologySpreadFallbackMode is on; ends where somebody else writes the condition. `On`:
    #: always, whoever else writes. `Off`: never.
    mode: Literal["Auto", "On", "Off"] = "Auto"
    #: `FallbackPods`: only pods with that criterion get the condition. `All`: all pods of our
    #: profiles.
    scope: Literal["FallbackPods", "All"] = "FallbackPods"
    #: How long after the failure of all node groups (or node claims) asked to grow for a pod the
    #: autoscaler may still try again before the condition becomes False. None: 5 min 30 s for
    #: cluster-autoscaler and 3 min for Karpenter, longer than they leave out repeated events.
    suspect_window: timedelta | None = None
    #: How long a pod may wait after nodes were first promised for it. 20 min: more than
    #: cluster-autoscaler's own limit for a node to appear, 15 min.
    provisioning_deadline: timedelta = timedelta(minutes=20)
    #: Where cluster-autoscaler runs and keeps its status ConfigMap, which its events about node
    #: groups name.
    cluster_autoscaler_namespace: str = "kube-system"
    #: Name of that ConfigMap: its flag `--status-config-map-name`.
    cluster_autoscaler_config_map: str = "cluster-autoscaler-status"


class KubestowConfiguration(Section, frozen=True):
    """Options of the process that kube-scheduler does not have (the `kubestow` key)."""

    #: Seed of every random choice, ties above all. None: from the operating system, as equal nodes
    #: should not be picked in the same order by every process. Set it to replay a run.
    seed: int | None = None
    #: Bind and PreBind requests in flight at once. 100: keeps an API server busy and stays far
    #: below its own limit for mutating requests (200).
    bind_concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    #: Limit for one bind request. With the renew deadline it must stay below the lease duration,
    #: so that no bind of an old leader arrives after a new one took over. None: 4 s, or 80 % of
    #: what the lease leaves if that is less.
    bind_timeout: timedelta | None = None
    #: Reconnect a watch that delivered nothing, not even a bookmark, for this long. 70 s:
    #: bookmarks come about every minute.
    watch_idle_timeout: timedelta = timedelta(seconds=70)
    #: How often plugins that wait for time to pass are asked. 30 s, as KEP-3990 proposes.
    time_based_hint_period: timedelta = timedelta(seconds=30)
    #: How long a PodScheduled condition with a plugin's own reason waits before it is written, so
    #: that what has passed by then is never written. 1 s: people do not notice, and a gate's answer
    #: is rarely its last one.
    status_patch_delay: timedelta = timedelta(seconds=1)
    #: Kubernetes Events written a second at most, averaged; more wait, then are dropped and
    #: counted. None: `clientConnection.qps`, which events have to themselves, apart from binds, as
    #: upstream.
    events_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Filter the chosen node again just before the bind if others changed it meanwhile: a secondary
    #: scheduler shares its nodes. True; it costs nothing while nobody else changes nodes.
    recheck_before_bind: bool = True
    #: Pending pods of other schedulers that these nominated to a node (`status.nominatedNodeName`)
    #: hold their place there, for our pods of at most their priority. True: victims were evicted
    #: for them.
    honor_foreign_nominations: bool = True
    #: How long a node is passed over for pods of a signature after its kubelet rejected one of
    #: them. 5 min: several tries of whatever made the kubelet refuse, and no tight loop of pods
    #: that are created, bound, rejected and replaced. 0: not at all.
    kubelet_rejection_backoff: timedelta = timedelta(minutes=5)
    #: What one scalar plugin may use of one scheduling cycle before it is logged and counted. 10
    #: ms: longer is felt by everything else on the event loop.
    plugin_time_budget: timedelta = timedelta(milliseconds=10)
    #: CPU time that one scheduling cycle may use. A cycle that uses more is given up, and no pod of
    #: its template is tried for a pause (10 s, doubling up to 5 min); the budget of the next
    #: attempt doubles as well (up to 4 times). Attempts that use more than 2 % of it are charged to
    #: their namespace, whose pods go behind others once they used half of it lately. 500 ms:
    #: hundreds of times an ordinary cycle on 5,000 nodes, and half of what other pods can be asked
    #: to wait. 0: no limit, and nobody is charged. Less than a quarter of `watchdogTimeout`.
    cycle_time_budget: timedelta = timedelta(milliseconds=500)
    #: Failed calls in a row after which an extender's verb is not called for a while. 3: one slow
    #: answer is no outage, yet a dead extender costs few time-outs.
    extender_failures: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    #: How long it is not called then; one call tries afterwards. 30 s: long against a time-out of
    #: 5 s, short against an outage.
    extender_circuit_open_duration: timedelta = timedelta(seconds=30)
    #: How long the event loop of a leader may make no progress before the Lease is renewed no
    #: longer. 1 min: longer than any cycle takes, and as long as the liveness probe of our
    #: manifests waits before it ends a process that does not answer.
    watchdog_timeout: timedelta = timedelta(minutes=1)
    #: How long pods are scheduled back to back before watches and binds get their turn. 5 ms:
    #: several pods, yet well below what delays a health check. The work for waiting pods that one
    #: event brings is done in pieces of this length as well.
    scheduling_time_slice: timedelta = timedelta(milliseconds=5)
    node_provisioning_bridge: NodeProvisioningBridgeConfiguration = (
        NodeProvisioningBridgeConfiguration()
    )


class KubeSchedulerConfiguration(Section, frozen=True):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    #: Accepted and checked for compatibility; a cycle works on whole columns, not on goroutines.
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    #: Serve `/debug/pprof` and `/debug/flags`.
    enable_profiling: bool = True
    #: None: as `enable_profiling`. There is no lock to contend for; accepted for compatibility.
    enable_contention_profiling: bool | None = None
    #: Percent of nodes to look at before scoring. 0: all where all plugins are columnar, else
    #: upstream's number.
    percentage_of_nodes_to_score: Int32 = 0
    #: Seconds a pod waits after its first failed attempt; doubles with each further one. 1 s.
    pod_initial_backoff_seconds: Int64 = 1
    #: Where the doubling ends. 10 s.
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    #: Fill caches only once elected: saves memory in standbys, delays a take-over.
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
