"""Every flag of `kubestow run`: all of kube-scheduler v1.36, and three of ours.

A table and nothing else: what a flag is called, what it defaults to, what it does here. Upstream's
flags are accepted without exception, so that a command line written for kube-scheduler starts
kubestow; those that can have no effect say why.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from scheduler.cli.go_flags import Flag, Group, Kind

TEN_SECONDS: Final = timedelta(seconds=10)

_PROXY: Final = "requests authenticated by a proxy in front are not supported"
_LOOKUP: Final = "kubestow never looks up authentication settings in the cluster"
_HTTP1: Final = "only HTTP/1.1 is served"
_ONE_VERSION: Final = "kubestow behaves like v1.36 only"
_ONE_STREAM: Final = "logs are one unbuffered stream to standard error"

KUBESTOW: Final = Group(
    "Kubestow",
    (
        Flag(
            "replace-default-scheduler",
            Kind.BOOL,
            False,
            "Allow a configuration that schedules as default-scheduler or holds the Lease "
            "kube-scheduler. Two schedulers under one name bind against each other: stop the "
            "cluster's own first.",
        ),
        Flag(
            "plugin-dir",
            Kind.REPEATED,
            None,
            "Folder with plugins, which profiles name as module:Class. Appended to the import "
            "path. May be repeated.",
        ),
    ),
)

MISC: Final = Group(
    "Misc",
    (
        Flag("config", Kind.STRING, "", "A KubeSchedulerConfiguration file, YAML or JSON."),
        Flag(
            "master",
            Kind.STRING,
            "",
            "Address of the API server; beats the one in the kubeconfig.",
        ),
        Flag(
            "write-config-to",
            Kind.STRING,
            "",
            "Write the effective configuration to this file and exit.",
        ),
    ),
)

SERVING: Final = Group(
    "Secure serving",
    (
        Flag("bind-address", Kind.STRING, "0.0.0.0", "Address to serve HTTPS on."),  # noqa: S104
        Flag(
            "secure-port",
            Kind.INT,
            10259,
            "Port of the HTTPS endpoints (health, metrics, debugging); 0 serves nothing.",
            bounds=(0, 65535),
        ),
        Flag(
            "cert-dir",
            Kind.STRING,
            "",
            "Folder of the serving certificate, made there if absent. Ignored when certificate and "
            "key are given. Without any of them a self-signed certificate is kept in memory.",
        ),
        Flag("tls-cert-file", Kind.STRING, "", "Serving certificate, PEM; reloaded when renewed."),
        Flag("tls-private-key-file", Kind.STRING, "", "Key of the serving certificate, PEM."),
        Flag(
            "tls-min-version",
            Kind.STRING,
            "",
            "VersionTLS12 or VersionTLS13. Older names are accepted and mean VersionTLS12.",
        ),
        Flag(
            "tls-cipher-suites",
            Kind.LIST,
            None,
            "Cipher suites for TLS 1.2, by their IANA names. Default: OpenSSL's choice.",
        ),
        Flag(
            "permit-port-sharing",
            Kind.BOOL,
            False,
            "Let several processes listen on the same port (SO_REUSEPORT).",
        ),
        Flag(
            "permit-address-sharing",
            Kind.BOOL,
            False,
            "Listen although old connections linger (SO_REUSEADDR).",
            no_effect="it is always so",
            moot=True,
        ),
        Flag(
            "disable-http2-serving",
            Kind.BOOL,
            False,
            "Serve no HTTP/2.",
            no_effect=_HTTP1,
            moot=True,
        ),
        Flag(
            "http2-max-streams-per-connection",
            Kind.INT,
            0,
            "Streams on one connection.",
            no_effect=_HTTP1,
        ),
        Flag(
            "tls-sni-cert-key",
            Kind.REPEATED,
            None,
            "More certificates, by server name.",
            no_effect="one certificate is served, whatever the server name of the request",
        ),
        Flag(
            "tls-curve-preferences",
            Kind.LIST,
            None,
            "Key exchange mechanisms, by Go's numbers.",
            no_effect="OpenSSL chooses",
        ),
    ),
)

AUTHENTICATION: Final = Group(
    "Authentication",
    (
        Flag(
            "authentication-kubeconfig",
            Kind.STRING,
            "",
            "Cluster that reviews the tokens of clients. Default: the one that is scheduled.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            Kind.DURATION,
            TEN_SECONDS,
            "How long the review of a token is remembered.",
        ),
        Flag(
            "client-ca-file",
            Kind.STRING,
            "",
            "Authorities of client certificates; common name and organisations become user and "
            "groups.",
        ),
        Flag(
            "authentication-skip-lookup",
            Kind.BOOL,
            False,
            "Do not look up authentication settings in the cluster.",
            no_effect=_LOOKUP,
            moot=True,
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            Kind.BOOL,
            True,
            "Start although that look-up failed.",
            no_effect=_LOOKUP,
            moot=True,
        ),
        Flag("requestheader-allowed-names", Kind.LIST, None, "Proxies.", no_effect=_PROXY),
        Flag(
            "requestheader-client-ca-file",
            Kind.STRING,
            "",
            "Authorities of proxies.",
            no_effect=_PROXY,
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            Kind.LIST,
            ("x-remote-extra-",),
            "Headers of a proxy.",
            no_effect=_PROXY,
        ),
        Flag(
            "requestheader-group-headers",
            Kind.LIST,
            ("x-remote-group",),
            "Headers of a proxy.",
            no_effect=_PROXY,
        ),
        Flag("requestheader-uid-headers", Kind.LIST, None, "Headers of a proxy.", no_effect=_PROXY),
        Flag(
            "requestheader-username-headers",
            Kind.LIST,
            ("x-remote-user",),
            "Headers of a proxy.",
            no_effect=_PROXY,
        ),
    ),
)

AUTHORIZATION: Final = Group(
    "Authorization",
    (
        Flag(
            "authorization-kubeconfig",
            Kind.STRING,
            "",
            "Cluster that reviews what clients may access. Default: the one that is scheduled.",
        ),
        Flag(
            "authorization-always-allow-paths",
            Kind.LIST,
            ("/healthz", "/readyz", "/livez"),
            "Paths open to everybody; a trailing * opens what begins so.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            Kind.DURATION,
            TEN_SECONDS,
            "How long a permission is remembered.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            Kind.DURATION,
            TEN_SECONDS,
            "How long a refusal is remembered.",
        ),
    ),
)

LEADER_ELECTION: Final = Group(
    "Leader election",
    (
        Flag(
            "leader-elect",
            Kind.BOOL,
            True,
            "Schedule only while holding the Lease, so that replicas can stand by.",
            path="leaderElection.leaderElect",
        ),
        Flag(
            "leader-elect-lease-duration",
            Kind.DURATION,
            timedelta(seconds=15),
            "How long others wait after the last renewal before they take over.",
            path="leaderElection.leaseDuration",
        ),
        Flag(
            "leader-elect-renew-deadline",
            Kind.DURATION,
            TEN_SECONDS,
            "How long the leader tries to renew before it gives up.",
            path="leaderElection.renewDeadline",
        ),
        Flag(
            "leader-elect-retry-period",
            Kind.DURATION,
            timedelta(seconds=2),
            "Pause between two tries.",
            path="leaderElection.retryPeriod",
        ),
        Flag(
            "leader-elect-resource-lock",
            Kind.STRING,
            "leases",
            "Only leases.",
            path="leaderElection.resourceLock",
        ),
        Flag(
            "leader-elect-resource-name",
            Kind.STRING,
            "kubestow",
            "Name of the Lease; upstream's default is kube-scheduler.",
            path="leaderElection.resourceName",
        ),
        Flag(
            "leader-elect-resource-namespace",
            Kind.STRING,
            "",
            "Namespace of the Lease. Default: the namespace kubestow runs in; upstream's is "
            "kube-system.",
            path="leaderElection.resourceNamespace",
        ),
    ),
)

DEPRECATED: Final = Group(
    "Deprecated",
    (
        Flag(
            "kubeconfig",
            Kind.STRING,
            "",
            "Kubeconfig of the cluster; in the configuration file clientConnection.kubeconfig.",
            path="clientConnection.kubeconfig",
            deprecated=True,
        ),
        Flag(
            "kube-api-qps",
            Kind.FLOAT,
            50.0,
            "Requests a second to the API server.",
            path="clientConnection.qps",
            deprecated=True,
        ),
        Flag(
            "kube-api-burst",
            Kind.INT,
            100,
            "Requests that may be sent at once above that.",
            path="clientConnection.burst",
            deprecated=True,
        ),
        Flag(
            "kube-api-content-type",
            Kind.STRING,
            "application/vnd.kubernetes.protobuf",
            "Content type of requests.",
            path="clientConnection.contentType",
            deprecated=True,
            no_effect="requests are always JSON",
            moot="application/json",
        ),
        Flag(
            "profiling",
            Kind.BOOL,
            True,
            "Allow the log level to be changed at /debug/flags/v.",
            path="enableProfiling",
            deprecated=True,
        ),
        Flag(
            "contention-profiling",
            Kind.BOOL,
            True,
            "Profile locks.",
            path="enableContentionProfiling",
            deprecated=True,
            no_effect="there are no locks to profile",
            moot=False,
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            Kind.DURATION,
            timedelta(minutes=5),
            "A pod is tried again after so long even if nothing seems to have changed for it. Has "
            "an effect with --config too.",
        ),
    ),
)

FEATURES: Final = Group(
    "Feature gates",
    (
        Flag(
            "feature-gates",
            Kind.REPEATED,
            None,
            "Name=true or Name=false, comma-separated. `kubestow config gates` lists them.",
        ),
        Flag(
            "emulated-version",
            Kind.LIST,
            None,
            "Version to behave like.",
            no_effect=_ONE_VERSION,
            moot=("1.36",),
        ),
        Flag(
            "min-compatibility-version",
            Kind.LIST,
            None,
            "Oldest version of peers.",
            no_effect=_ONE_VERSION,
            moot=("1.36",),
        ),
    ),
)

METRICS: Final = Group(
    "Metrics",
    (
        Flag("disabled-metrics", Kind.LIST, None, "Whole names of metrics not to expose."),
        Flag(
            "allow-metric-labels",
            Kind.REPEATED,
            None,
            "Label values to keep, by metric and label.",
            no_effect="labels of kubestow's metrics have few values by design",
        ),
        Flag(
            "allow-metric-labels-manifest",
            Kind.STRING,
            "",
            "The same as a file.",
            no_effect="labels of kubestow's metrics have few values by design",
        ),
        Flag(
            "show-hidden-metrics-for-version",
            Kind.STRING,
            "",
            "Show metrics hidden since then.",
            no_effect="no metric is hidden",
        ),
    ),
)

LOGS: Final = Group(
    "Logs",
    (
        Flag(
            "logging-format",
            Kind.STRING,
            "",
            "text or json. Default: text on a terminal, json elsewhere.",
        ),
        Flag(
            "v",
            Kind.INT,
            0,
            "Verbosity: 0 to 3 for what happens, 4 and above for details of single pods.",
            bounds=(0, 100),
            short="-v",
        ),
        Flag(
            "vmodule",
            Kind.STRING,
            "",
            "Verbosity by file.",
            no_effect="use -v, or raise it while running at /debug/flags/v",
        ),
        Flag(
            "log-flush-frequency",
            Kind.DURATION,
            timedelta(seconds=5),
            "Pause between two writes of the log.",
            no_effect=_ONE_STREAM,
        ),
        Flag(
            "log-text-split-stream",
            Kind.BOOL,
            False,
            "Two streams.",
            no_effect=_ONE_STREAM,
            moot=False,
        ),
        Flag(
            "log-json-split-stream",
            Kind.BOOL,
            False,
            "Two streams.",
            no_effect=_ONE_STREAM,
            moot=False,
        ),
        Flag(
            "log-text-info-buffer-size",
            Kind.STRING,
            "",
            "A buffer.",
            no_effect=_ONE_STREAM,
            moot="0",
        ),
        Flag(
            "log-json-info-buffer-size",
            Kind.STRING,
            "",
            "A buffer.",
            no_effect=_ONE_STREAM,
            moot="0",
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

FLAGS: Final = tuple(flag for group in GROUPS for flag in group.flags)
