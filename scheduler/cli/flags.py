"""Every flag of `kubestow run`: all of kube-scheduler v1.37, and two of kubestow.

Tables and nothing else. Upstream's flags are accepted without exception, so that a command line
written for kube-scheduler starts kubestow; those in `IGNORED` can have no effect and state why,
those in `REMOVED` belong to former versions and are rejected with what to do instead.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from scheduler.cli.go_flags import Flag, FlagGroup, FlagKind

TEN_SECONDS: Final = timedelta(seconds=10)

_PROXY: Final = "requests authenticated by a proxy in front are not supported"
_LOOKUP: Final = "a failed lookup is repeated, and until it succeeds tokens are accepted"
_HTTP1: Final = "only HTTP/1.1 is served"
_ONE_VERSION: Final = "kubestow behaves like v1.37 only"
_ONE_STREAM: Final = "logs are one unbuffered stream to standard error"
_FEW_LABEL_VALUES: Final = "labels of kubestow's metrics have few values by design"

KUBESTOW: Final = FlagGroup(
    "Kubestow",
    (
        Flag(
            "replace-default-scheduler",
            FlagKind.BOOL,
            "Allow a configuration that schedules as default-scheduler or holds the Lease "
            "kube-scheduler. Two schedulers under one name bind against each other: stop the "
            "cluster's own first.",
        ),
        Flag(
            "plugin-dir",
            FlagKind.REPEATED,
            "Folder with plugins, which profiles name as module:Class. Appended to the import "
            "path. May be repeated.",
        ),
    ),
)

MISC: Final = FlagGroup(
    "Misc",
    (
        Flag("config", FlagKind.STRING, "A KubeSchedulerConfiguration file, YAML or JSON."),
        Flag(
            "master",
            FlagKind.STRING,
            "Address of the API server, in place of the one in the kubeconfig.",
        ),
        Flag(
            "write-config-to",
            FlagKind.STRING,
            "Write the effective configuration to this file and exit.",
        ),
    ),
)

LEADER_ELECTION: Final = FlagGroup(
    "Leader election",
    (
        Flag(
            "leader-elect",
            FlagKind.BOOL,
            "Schedule only while holding the Lease, so that replicas can stand by.",
            default=True,
            path="leaderElection.leaderElect",
        ),
        Flag(
            "leader-elect-lease-duration",
            FlagKind.DURATION,
            "How long others wait after the last renewal before they take over.",
            default=timedelta(seconds=15),
            path="leaderElection.leaseDuration",
        ),
        Flag(
            "leader-elect-renew-deadline",
            FlagKind.DURATION,
            "How long the leader tries to renew before it gives up.",
            default=TEN_SECONDS,
            path="leaderElection.renewDeadline",
        ),
        Flag(
            "leader-elect-retry-period",
            FlagKind.DURATION,
            "Pause between two attempts to get or renew the Lease.",
            default=timedelta(seconds=2),
            path="leaderElection.retryPeriod",
        ),
        Flag(
            "leader-elect-resource-lock",
            FlagKind.STRING,
            "Kind of the lock; only leases is supported.",
            default="leases",
            path="leaderElection.resourceLock",
        ),
        Flag(
            "leader-elect-resource-name",
            FlagKind.STRING,
            "Name of the Lease; upstream's default is kube-scheduler.",
            default="kubestow",
            path="leaderElection.resourceName",
        ),
        Flag(
            "leader-elect-resource-namespace",
            FlagKind.STRING,
            "Namespace of the Lease. Default: the namespace kubestow runs in; upstream's is "
            "kube-system.",
            path="leaderElection.resourceNamespace",
        ),
    ),
)

SERVING: Final = FlagGroup(
    "Secure serving",
    (
        Flag("bind-address", FlagKind.STRING, "Address to serve HTTPS on.", default="0.0.0.0"),  # noqa: S104
        Flag(
            "secure-port",
            FlagKind.INT,
            "Port of the HTTPS endpoints (health, metrics, debugging); 0 disables them.",
            default=10259,
            bounds=(0, 65535),
        ),
        Flag(
            "cert-dir",
            FlagKind.STRING,
            "Folder of the serving certificate, which is created there if absent. Ignored if "
            "certificate and key are given. Without any of these flags, a self-signed certificate "
            "is kept in memory.",
        ),
        Flag("tls-cert-file", FlagKind.STRING, "Serving certificate, PEM; reloaded when renewed."),
        Flag("tls-private-key-file", FlagKind.STRING, "Key of the serving certificate, PEM."),
        Flag(
            "tls-min-version",
            FlagKind.STRING,
            "VersionTLS12 or VersionTLS13. Older names are accepted and mean VersionTLS12.",
        ),
        Flag(
            "tls-cipher-suites",
            FlagKind.LIST,
            "Cipher suites for TLS 1.2, by their IANA names. Default: OpenSSL's choice.",
        ),
        Flag(
            "permit-port-sharing",
            FlagKind.BOOL,
            "Let several processes listen on the same port (SO_REUSEPORT).",
        ),
    ),
)

AUTHENTICATION: Final = FlagGroup(
    "Authentication",
    (
        Flag(
            "authentication-kubeconfig",
            FlagKind.STRING,
            "Cluster that reviews the tokens of clients. Default: the one whose pods are "
            "scheduled.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            FlagKind.DURATION,
            "How long the review of a token is cached.",
            default=TEN_SECONDS,
        ),
        Flag(
            "client-ca-file",
            FlagKind.STRING,
            "Authorities of client certificates; common name and organisations become user and "
            "groups. Default: those of the API server, which publishes them in the ConfigMap "
            "kube-system/extension-apiserver-authentication.",
        ),
        Flag(
            "authentication-skip-lookup",
            FlagKind.BOOL,
            "Leave that ConfigMap unread: without --client-ca-file no client certificate is "
            "accepted.",
        ),
    ),
)

AUTHORIZATION: Final = FlagGroup(
    "Authorization",
    (
        Flag(
            "authorization-kubeconfig",
            FlagKind.STRING,
            "Cluster that reviews what clients may access. Default: the one whose pods are "
            "scheduled.",
        ),
        Flag(
            "authorization-always-allow-paths",
            FlagKind.LIST,
            "Paths that need no authorization; a trailing * matches any path that begins so.",
            default=("/healthz", "/readyz", "/livez"),
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            FlagKind.DURATION,
            "How long an access review that allows is cached.",
            default=TEN_SECONDS,
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            FlagKind.DURATION,
            "How long an access review that denies is cached.",
            default=TEN_SECONDS,
        ),
    ),
)

FEATURES: Final = FlagGroup(
    "Feature gates",
    (
        Flag(
            "feature-gates",
            FlagKind.REPEATED,
            "Name=true or Name=false, comma-separated. `kubestow config gates` lists them.",
        ),
    ),
)

METRICS: Final = FlagGroup(
    "Metrics",
    (Flag("disabled-metrics", FlagKind.LIST, "Full names of metrics that are not exposed."),),
)

LOGS: Final = FlagGroup(
    "Logs",
    (
        Flag(
            "logging-format",
            FlagKind.STRING,
            "text or json. Default: text on a terminal, json elsewhere.",
        ),
        Flag(
            "v",
            FlagKind.INT,
            "Verbosity: 0 to 3 for informational messages, 4 and above for details of single pods.",
            bounds=(0, 100),
            short="-v",
        ),
    ),
)

DEPRECATED: Final = FlagGroup(
    "Deprecated",
    (
        Flag(
            "kubeconfig",
            FlagKind.STRING,
            "Kubeconfig of the cluster; in the configuration file clientConnection.kubeconfig.",
            path="clientConnection.kubeconfig",
            deprecated=True,
            beside_config="used if the file names no cluster and an error if it names another one,",
        ),
        Flag(
            "kube-api-qps",
            FlagKind.FLOAT,
            "Requests to the API server per second.",
            default=50.0,
            path="clientConnection.qps",
            deprecated=True,
        ),
        Flag(
            "kube-api-burst",
            FlagKind.INT,
            "Requests that may be sent at once, beyond --kube-api-qps.",
            default=100,
            path="clientConnection.burst",
            deprecated=True,
        ),
        Flag(
            "profiling",
            FlagKind.BOOL,
            "Allow the log level to be changed at /debug/flags/v.",
            default=True,
            path="enableProfiling",
            deprecated=True,
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            FlagKind.DURATION,
            "An unschedulable pod is tried again after this time, even if no event concerned it. "
            "Also applies with --config.",
            default=timedelta(minutes=5),
        ),
    ),
)

IGNORED: Final = FlagGroup(
    "Accepted for compatibility with kube-scheduler, without effect",
    (
        Flag(
            "permit-address-sharing",
            FlagKind.BOOL,
            no_effect="address sharing is always permitted",
            moot=True,
        ),
        Flag("disable-http2-serving", FlagKind.BOOL, no_effect=_HTTP1, moot=True),
        Flag("http2-max-streams-per-connection", FlagKind.INT, no_effect=_HTTP1),
        Flag(
            "tls-sni-cert-key",
            FlagKind.REPEATED,
            no_effect="one certificate is served, whatever the server name of the request",
        ),
        Flag("tls-curve-preferences", FlagKind.LIST, no_effect="OpenSSL chooses the curves"),
        Flag(
            "authentication-tolerate-lookup-failure",
            FlagKind.BOOL,
            default=True,
            no_effect=_LOOKUP,
            moot=True,
        ),
        Flag("requestheader-allowed-names", FlagKind.LIST, no_effect=_PROXY),
        Flag("requestheader-client-ca-file", FlagKind.STRING, no_effect=_PROXY),
        Flag(
            "requestheader-extra-headers-prefix",
            FlagKind.LIST,
            default=("x-remote-extra-",),
            no_effect=_PROXY,
        ),
        Flag(
            "requestheader-group-headers",
            FlagKind.LIST,
            default=("x-remote-group",),
            no_effect=_PROXY,
        ),
        Flag("requestheader-uid-headers", FlagKind.LIST, no_effect=_PROXY),
        Flag(
            "requestheader-username-headers",
            FlagKind.LIST,
            default=("x-remote-user",),
            no_effect=_PROXY,
        ),
        Flag("emulated-version", FlagKind.LIST, no_effect=_ONE_VERSION, moot=("1.37",)),
        Flag("min-compatibility-version", FlagKind.LIST, no_effect=_ONE_VERSION, moot=("1.36",)),
        Flag("allow-metric-labels", FlagKind.REPEATED, no_effect=_FEW_LABEL_VALUES),
        Flag("allow-metric-labels-manifest", FlagKind.STRING, no_effect=_FEW_LABEL_VALUES),
        Flag("show-hidden-metrics-for-version", FlagKind.STRING, no_effect="no metric is hidden"),
        Flag(
            "vmodule",
            FlagKind.STRING,
            no_effect="use -v, or raise it while running at /debug/flags/v",
        ),
        Flag(
            "log-flush-frequency",
            FlagKind.DURATION,
            default=timedelta(seconds=5),
            no_effect=_ONE_STREAM,
        ),
        Flag("log-text-split-stream", FlagKind.BOOL, no_effect=_ONE_STREAM, moot=False),
        Flag("log-json-split-stream", FlagKind.BOOL, no_effect=_ONE_STREAM, moot=False),
        Flag("log-text-info-buffer-size", FlagKind.STRING, no_effect=_ONE_STREAM, moot="0"),
        Flag("log-json-info-buffer-size", FlagKind.STRING, no_effect=_ONE_STREAM, moot="0"),
        Flag(
            "kube-api-content-type",
            FlagKind.STRING,
            default="application/vnd.kubernetes.protobuf",
            path="clientConnection.contentType",
            deprecated=True,
            no_effect="requests are always JSON",
            moot="application/json",
        ),
        Flag(
            "contention-profiling",
            FlagKind.BOOL,
            default=True,
            path="enableContentionProfiling",
            deprecated=True,
            no_effect="there are no locks to profile",
            moot=False,
        ),
    ),
)

GROUPS: Final = (
    KUBESTOW,
    MISC,
    LEADER_ELECTION,
    SERVING,
    AUTHENTICATION,
    AUTHORIZATION,
    FEATURES,
    METRICS,
    LOGS,
    DEPRECATED,
)
"""In the order of the help: what most people need comes first."""

_HTTPS_ONLY: Final = "remove it; only HTTPS is served, at --bind-address and --secure-port"
_PROFILES: Final = "list plugins under profiles[].plugins of a file, and give it with --config"
_ONE_LOG: Final = "remove it; the log is one stream to standard error, see --logging-format and -v"

REMOVED: Final = {
    **dict.fromkeys(("address", "port"), _HTTPS_ONLY),
    **dict.fromkeys(
        (
            "algorithm-provider",
            "policy-config-file",
            "policy-configmap",
            "policy-configmap-namespace",
            "use-legacy-policy-config",
        ),
        _PROFILES,
    ),
    "hard-pod-affinity-symmetric-weight": (
        "it is hardPodAffinityWeight of InterPodAffinity's arguments, in the file of --config"
    ),
    "lock-object-name": "use --leader-elect-resource-name",
    "lock-object-namespace": "use --leader-elect-resource-namespace",
    "scheduler-name": "write profiles[].schedulerName into the file of --config",
    **dict.fromkeys(
        (
            "add-dir-header",
            "alsologtostderr",
            "experimental-logging-sanitization",
            "log-backtrace-at",
            "log-dir",
            "log-file",
            "log-file-max-size",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "stderrthreshold",
        ),
        _ONE_LOG,
    ),
}
"""Flags that kube-scheduler had before v1.27, and what to do instead."""

FLAGS: Final = tuple(flag for group in (*GROUPS, IGNORED) for flag in group.flags)
