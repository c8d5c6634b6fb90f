"""Validation of the configuration, with upstream's messages."""

from __future__ import annotations

import pytest

from config import API_VERSION
from config.validation import extended_resource_problems
from scheduler.framework.status import ConfigurationError
from tests.unit.config.doubles import body, load, problems

# Each pair: text below the header, and the start of the one problem it has.
ONE_MISTAKE = [
    (
        "parallelism: 0",
        "parallelism: Invalid value: 0: should be an integer value greater than zero (line 3)",
    ),
    ("parallelism: 9999999999", "parallelism: Invalid value: 9999999999: must be at most"),
    (
        "leaderElection: {renewDeadline: -1s}",
        'leaderElection.renewDeadline: Invalid value: "-1s": must be greater than zero (line 3)',
    ),
    (
        "leaderElection: {leaseDuration: 5s}",
        'leaderElection.leaseDuration: Invalid value: "5s": must be greater than `RenewDeadline`',
    ),
    (
        "leaderElection: {renewDeadline: 15s}",
        'leaderElection.leaseDuration: Invalid value: "15s": must be greater than `RenewDeadline`',
    ),
    (
        "leaderElection: {retryPeriod: -2s}",
        'leaderElection.retryPeriod: Invalid value: "-2s": must be greater than zero',
    ),
    (
        "leaderElection: {resourceLock: configmap}",
        (
            'leaderElection.resourceLock: Invalid value: "configmap": '
            'resourceLock value must be "leases"'
        ),
    ),
    (
        "leaderElection: {leaseDuration: 15}",
        'leaderElection.leaseDuration: must be a duration such as "1m30s", not 15',
    ),
    (
        "clientConnection: {burst: -1}",
        "clientConnection.burst: Invalid value: -1: must be non-negative",
    ),
    (
        "percentageOfNodesToScore: 101",
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ),
    (
        "podInitialBackoffSeconds: 0",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
    ),
    (
        "podMaxBackoffSeconds: 0",
        (
            "podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to "
            "PodInitialBackoffSeconds"
        ),
    ),
    (
        "leaderElect: true",
        'leaderElect: unknown field "leaderElect"; did you mean "leaderElection"',
    ),
    (
        "leaderElection: {leaderElect: true, leaderElect: true}",
        'leaderElection.leaderElect: key "leaderElect" already set',
    ),
    (
        "profiles: [{schedulerName: a, percentageOfNodesToScore: -1}]",
        "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
    ),
    ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName: Required value"),
    ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"),
    (
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        'profiles[1].schedulerName: Duplicate value: "a"',
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
        (
            'profiles[0].pluginConfig[1].name: Duplicate value: "NodeAffinity": '
            "repeated config for plugin NodeAffinity"
        ),
    ),
    (
        "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        (
            'profiles[0].plugins.filter.enabled[0].name: Invalid value: "EBSLimits": '
            'was invalid in version "v1" (KubeSchedulerConfiguration is version '
            '"kubescheduler.config.k8s.io/v1")'
        ),
    ),
    (
        "profiles: [{plugins: {queuSort: {}}}]",
        'profiles[0].plugins.queuSort: unknown field "queuSort"; did you mean "queueSort"?',
    ),
    (
        "extenders: [{urlPrefix: http://a, prioritizeVerb: p}]",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ),
    (
        "extenders: [{bindVerb: b}, {bindVerb: c}]",
        (
            'extenders: Invalid value: "found 2 extenders implementing bind": '
            "only one extender can implement bind"
        ),
    ),
    (
        "extenders: [{tlsConfig: {keyData: '!!'}}]",
        "extenders[0].tlsConfig.keyData: illegal base64 data",
    ),
    (
        "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -5}]}}}]",
        "profiles[0].plugins.score.enabled[0].weight: Invalid value: -5: must not be negative",
    ),
    (
        "extenders: [{managedResources: [{name: cpu}]}]",
        (
            'extenders[0].managedResources[0].name: Invalid value: "cpu": '
            "is an invalid extended resource name"
        ),
    ),
    (
        "extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]",
        (
            'extenders[1].managedResources[0].name: Invalid value: "a.b/c": '
            "duplicate extender managed resource name"
        ),
    ),
    (
        "kubestow: {bindTimeout: 5s}",
        (
            'kubestow.bindTimeout: Invalid value: "5s": bindTimeout plus '
            "leaderElection.renewDeadline must be less than leaderElection.leaseDuration: "
            "use less than 5s here, or a longer lease"
        ),
    ),
    (
        "kubestow: {bindTimeout: 0s}",
        'kubestow.bindTimeout: Invalid value: "0s": must be greater than zero',
    ),
    (
        "kubestow: {watchdogTimeout: 500ms}",
        'kubestow.watchdogTimeout: Invalid value: "500ms": must be 1s or more',
    ),
    (
        "kubestow: {schedulingTimeSlice: -1ms}",
        'kubestow.schedulingTimeSlice: Invalid value: "-1ms": must be greater than zero',
    ),
    (
        "kubestow: {statusPatchDelay: -1s}",
        'kubestow.statusPatchDelay: Invalid value: "-1s": must be non-negative',
    ),
    (
        "kubestow: {cycleTimeBudget: -1s}",
        'kubestow.cycleTimeBudget: Invalid value: "-1s": must be non-negative',
    ),
    (
        "kubestow: {cycleTimeBudget: 15s}",
        (
            'kubestow.cycleTimeBudget: Invalid value: "15s": must be less than a quarter of '
            "kubestow.watchdogTimeout (1m0s)"
        ),
    ),
    (
        "kubestow: {watchdogTimeout: 2s}",
        'kubestow.cycleTimeBudget: Invalid value: "500ms": must be less than a quarter of',
    ),
    (
        "kubestow: {tracing: {samplingRatePerMillion: 1000001}}",
        (
            "kubestow.tracing.samplingRatePerMillion: Invalid value: 1000001: must be from 0 "
            "(nothing is traced) to 1000000 (every scheduling attempt)"
        ),
    ),
    (
        'kubestow: {tracing: {endpoint: "dns://collector:4317"}}',
        (
            'kubestow.tracing.endpoint: Invalid value: "dns://collector:4317": the scheme "dns" is '
            "not supported; write a URL such as http://collector:4318 (OTLP over HTTP, not gRPC)"
        ),
    ),
    (
        'kubestow: {tracing: {endpoint: ""}}',
        'kubestow.tracing.endpoint: Invalid value: "": it names no host',
    ),
    (
        'kubestow: {tracing: {endpoint: "https://me:secret@collector:4318"}}',
        (
            'kubestow.tracing.endpoint: Invalid value: "[redacted]": it holds a user name or a '
            "password; put credentials into the environment variable OTEL_EXPORTER_OTLP_HEADERS"
        ),
    ),
    (
        "kubestow: {nodeProvisioningBridge: {suspectWindow: 0s}}",
        'kubestow.nodeProvisioningBridge.suspectWindow: Invalid value: "0s": must be greater than',
    ),
    (
        "kubestow: {nodeProvisioningBridge: {provisioningDeadline: -20m}}",
        'kubestow.nodeProvisioningBridge.provisioningDeadline: Invalid value: "-20m0s": must be',
    ),
    (
        "kubestow: {nodeProvisioningBridge: {clusterAutoscalerNamespace: 'Kube System'}}",
        (
            "kubestow.nodeProvisioningBridge.clusterAutoscalerNamespace: Invalid value: "
            '"Kube System": must be the name of an object'
        ),
    ),
    (
        "kubestow: {nodeProvisioningBridge: {clusterAutoscalerConfigMap: ''}}",
        (
            "kubestow.nodeProvisioningBridge.clusterAutoscalerConfigMap: Invalid value: "
            '"": must be the name of an object'
        ),
    ),
    (
        "profiles: [{kubestow: {tieBreaking: nodeName}}]",
        "profiles[0].kubestow.tieBreaking: ",
    ),
    (
        "kubestow: {nodeProvisioningBridge: {mode: Sometimes}}",
        "kubestow.nodeProvisioningBridge.mode: ",
    ),
    (
        "kubestow: {nodeProvisioningBridge: {scope: Some}}",
        "kubestow.nodeProvisioningBridge.scope: ",
    ),
    ("kubestow: {bindConcurrency: 0}", "kubestow.bindConcurrency: Invalid value: 0: must be at"),
    ("kubestow: {eventsPerSecond: 0}", "kubestow.eventsPerSecond: Invalid value: 0: must be gr"),
    ("kubestow: {sead: 1}", 'kubestow.sead: unknown field "sead"; did you mean "seed"?'),
]


@pytest.mark.parametrize(("text", "problem"), ONE_MISTAKE)
def test_one_mistake_gives_one_problem(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1, found
    assert found[0].startswith(problem)


def test_a_negative_lease_breaks_two_rules() -> None:
    path = 'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than'
    assert problems("leaderElection: {leaseDuration: -1s}") == (
        f"{path} zero (line 3)",
        f"{path} `RenewDeadline` (line 3)",
    )


@pytest.mark.parametrize(
    "text",
    [
        "leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: none}",
        "enableProfiling: false\nenableContentionProfiling: true",
        "percentageOfNodesToScore: 100",
        "extenders: [{urlPrefix: http://a, filterVerb: f, enableHTTPS: true, httpTimeout: 1s}]",
        "extenders: [{managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]}]",
        "extenders: [{prioritizeVerb: p, weight: 1, bindVerb: b, tlsConfig: {insecure: true}}]",
        "leaderElection: {leaderElect: false}\nkubestow: {bindTimeout: 60s}",
        "leaderElection: {leaseDuration: 60s}\nkubestow: {bindTimeout: 40s}",
        # Removed plugins may still be switched off.
        "profiles: [{plugins: {filter: {disabled: [{name: EBSLimits}]}}}]",
    ],
)
def test_good_configurations(text: str) -> None:
    assert problems(text) == ()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("kind: KubeSchedulerConfiguration", ["apiVersion: Object 'apiVersion' is missing"]),
        (f"apiVersion: {API_VERSION}", ["kind: Object 'Kind' is missing"]),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
            [
                (
                    'apiVersion: no kind "KubeSchedulerConfiguration" is registered for version '
                    '"kubescheduler.config.k8s.io/v1beta3"'
                )
            ],
        ),
        (
            "apiVersion: v1\nkind: Pod",
            ["kind: couldn't decode as KubeSchedulerConfiguration, got v1, Kind=Pod"],
        ),
        ("a: b", ["apiVersion: Object", "kind: Object", 'a: unknown field "a"']),
    ],
)
def test_header(header: str, expected: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(header)
    found = caught.value.problems
    assert len(found) == len(expected), found
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


# -- the cluster's own scheduler ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("profiles: [{schedulerName: default-scheduler}]", "profiles[0].schedulerName"),
        ("leaderElection: {resourceName: kube-scheduler}", "leaderElection.resourceName"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: default-scheduler}]",
            "profiles[1].schedulerName",
        ),
    ],
)
def test_names_of_the_clusters_scheduler_are_refused_unless_allowed(text: str, path: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"{path}: Forbidden: ")
    assert "--replace-default-scheduler" in found
    assert problems(text, allow_default_scheduler=True) == ()
    assert problems(text, upstream=True) == ()


def test_a_kube_scheduler_file_that_names_its_own_scheduler_works_unchanged() -> None:
    configuration = body(
        "leaderElection: {leaderElect: true}\n"
        "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n"
        "profiles: [{schedulerName: my-scheduler}]\n"
    )
    assert configuration.profiles[0].scheduler_name == "my-scheduler"
    assert configuration.effective.leader_election.resource_name == "kubestow"


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("example.com/gpu", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("a.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("example.com/", False),
        ("", False),
    ],
)
def test_extended_resource_names(name: str, good: bool) -> None:
    assert (not list(extended_resource_problems(name))) is good
