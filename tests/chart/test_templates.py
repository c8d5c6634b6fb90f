"""Rendered templates: the kustomize base by default, each switch, and rejected values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from config import TracingConfiguration, load_configuration
from devtools.control_plane.control_plane import Binaries
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.cli.main import program
from scheduler.framework import Registry
from tests.chart.conftest import CHART, NAMESPACE, RENDER, Helm
from tests.unit.repository.tree import ROOT

pytestmark = pytest.mark.chart

MANIFESTS: Final = ROOT / "manifests"
HELM_LABELS: Final = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}

Document = dict[str, Any]
Key = tuple[str, str]


def key(document: Document) -> Key:
    """Return kind and name."""
    return document["kind"], document["metadata"]["name"]


def by_key(documents: list[Document]) -> dict[Key, Document]:
    """Return the objects, without what Helm adds, by kind and name; none may come twice."""
    found = {key(each): neutral(each) for each in documents}
    assert len(found) == len(documents)
    return found


def neutral(document: Document) -> Document:
    """Return the object without the marks of Helm and with its configuration parsed."""
    labels = document["metadata"].get("labels", {})
    document["metadata"]["labels"] = {k: v for k, v in labels.items() if k not in HELM_LABELS}
    if document["kind"] == "Deployment":
        template = document["spec"]["template"]["metadata"]
        annotations = template.pop("annotations", {})
        assert set(annotations) <= {"checksum/config"}
    if key(document) == ("ConfigMap", "kubestow"):
        document["data"] = {name: yaml.safe_load(text) for name, text in document["data"].items()}
    return document


def kustomize(folder: Path) -> list[Document]:
    """Return what `kubectl apply -k` would apply."""
    command = [str(Binaries.find().kubectl), "kustomize", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    return list(yaml.safe_load_all(built))


def base(*components: str) -> dict[Key, Document]:
    """Return the objects of the base, with these components, as kustomize builds them."""
    found = by_key(kustomize(MANIFESTS))
    labels = found["Namespace", NAMESPACE]["metadata"]["labels"]
    added = {name: value for name, value in labels.items() if name.startswith("app.")}
    for component in components:
        folder = MANIFESTS / "components" / component
        for file in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
            for document in yaml.safe_load_all((folder / file).read_text()):
                document["metadata"]["labels"] = document["metadata"].get("labels", {}) | added
                found[key(document)] = document
    # Helm makes it: --create-namespace.
    del found["Namespace", NAMESPACE]
    return found


def switch(path: str) -> Document:
    """Return the values that switch `path` on."""
    values: Any = True
    for name in reversed(f"{path}.enabled".split(".")):
        values = {name: values}
    return dict(values)


SWITCHES: Final = {
    "nodeProvisioningBridge": "node-provisioning-bridge",
    "networkPolicy.egress": "network-policy-egress",
    "deferredQuota.policies": "deferred-quota-policies",
    "topologySpreadFallback.policies": "topology-spread-fallback-policies",
}
MONITORING: Final = ("serviceMonitor", "prometheusRule", "dashboard")


@pytest.mark.envtest
def test_the_defaults_are_the_kustomize_base(helm: Helm) -> None:
    assert by_key(helm.objects()) == base()


@pytest.mark.envtest
@pytest.mark.parametrize("path", SWITCHES)
def test_a_switch_adds_its_component(helm: Helm, path: str) -> None:
    assert by_key(helm.objects(switch(path))) == base(SWITCHES[path])


@pytest.mark.envtest
def test_all_switches_together_add_all_components(helm: Helm) -> None:
    paths = (*SWITCHES, "deferredQuota.mark", "topologySpreadFallback.immutable")
    options = [option for path in paths for option in ("--set", f"{path}.enabled=true")]
    added = ("deferred-quota-mark", "topology-spread-fallback-immutable")
    assert by_key(helm.objects(None, *options)) == base(*SWITCHES.values(), *added)


@pytest.mark.envtest
def test_the_switches_of_monitoring_add_its_component(helm: Helm) -> None:
    values = {"monitoring": {part: {"enabled": True} for part in MONITORING}}
    assert by_key(helm.objects(values)) == base("monitoring")


def test_monitoring_follows_the_name_and_has_the_labels_of_the_values(helm: Helm) -> None:
    parts: dict[str, Any] = {
        part: {"enabled": True, "labels": {"release": part}} for part in MONITORING
    }
    parts["prometheusRule"]["runbookPrefix"] = "https://git.example.com/kubestow/"
    values = {"name": "batch", "monitoring": parts}
    documents = {each["kind"]: each for each in helm.objects(values) if "release" in labels(each)}
    service, monitor = documents["Service"], documents["ServiceMonitor"]
    assert labels(service)["app"] == service["spec"]["selector"]["app"] == "batch"
    assert monitor["spec"]["selector"]["matchLabels"] == {"app": "batch"}
    assert labels(documents["PrometheusRule"])["release"] == "prometheusRule"
    assert labels(documents["ConfigMap"])["grafana_dashboard"] == "1"
    groups = documents["PrometheusRule"]["spec"]["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    assert all('job="batch"' in rule["expr"] or "kubestow:" in rule["expr"] for rule in found)
    assert 'job="kubestow"' not in str(found)
    prefix = "https://git.example.com/kubestow/docs/troubleshooting.md#"
    runbooks = [rule["annotations"]["runbook_url"] for rule in found if "alert" in rule]
    assert [each for each in runbooks if not each.startswith(prefix)] == []
    dashboard = json.loads(documents["ConfigMap"]["data"]["kubestow.json"])
    assert (dashboard["title"], dashboard["uid"]) == ("batch", "batch")
    assert 'job="kubestow"' not in str(dashboard)


def labels(document: Document) -> dict[str, str]:
    """Return the labels of an object."""
    return dict(document["metadata"]["labels"])


def test_lint_finds_nothing(helm: Helm) -> None:
    done = helm.run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_package_holds_the_manifests(helm: Helm, tmp_path: Path) -> None:
    """Helm follows the symbolic link, so that the archive needs no clone."""
    done = helm.run("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("kubestow-*.tgz")
    assert helm.template(chart=archive) == helm.template()


def only(documents: list[Document], kind: str) -> Document:
    """Return the one object of a kind, of those that are not for people."""
    (found,) = [
        each
        for each in documents
        if each["kind"] == kind and not each["metadata"]["name"].endswith("-explainer")
    ]
    return found


def pod_of(documents: list[Document]) -> Document:
    """Return the pod template's spec."""
    return dict(only(documents, "Deployment")["spec"]["template"]["spec"])


def test_parts_can_be_left_out(helm: Helm) -> None:
    values = {
        "criticalPodsQuota": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "topologySpreadConstraints": [],
        "priorityClassName": "",
        "restartOnChange": False,
    }
    documents = helm.objects(values)
    kinds = {each["kind"] for each in documents}
    assert not kinds & {"ResourceQuota", "PodDisruptionBudget", "NetworkPolicy"}
    assert not {"topologySpreadConstraints", "priorityClassName"} & set(pod_of(documents))
    assert "annotations" not in only(documents, "Deployment")["spec"]["template"]["metadata"]


def test_values_of_the_pods(helm: Helm) -> None:
    digest = f"sha256:{'a' * 64}"
    values = {
        "replicas": 3,
        "image": {"repository": "registry.example/kubestow", "digest": digest},
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
        "priorityClassName": "high",
        "nodeSelector": {"pool": "control"},
        "extraArgs": ["--v=4"],
    }
    documents = helm.objects(values)
    pod = pod_of(documents)
    (container,) = pod["containers"]
    assert only(documents, "Deployment")["spec"]["replicas"] == 3
    assert container["image"] == f"registry.example/kubestow@{digest}"
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "256Mi"},
        "limits": {"memory": "2Gi"},
    }
    assert container["args"][-1] == "--v=4"
    assert (pod["priorityClassName"], pod["nodeSelector"]) == ("high", {"pool": "control"})
    (scope,) = only(documents, "ResourceQuota")["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == ["high"]


def test_a_shadow_reads_and_is_one_pod(helm: Helm) -> None:
    documents = helm.objects({"mode": "shadow", "shadow": {"of": ["default-scheduler", "batch"]}})
    assert {each["kind"] for each in documents} == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment",
        "NetworkPolicy", "ResourceQuota",
    }  # fmt: skip
    role = only(documents, "ClusterRole")
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    assert only(documents, "Deployment")["spec"]["replicas"] == 1
    (container,) = pod_of(documents)["containers"]
    assert container["command"] == ["kubestow", "shadow"]
    assert container["args"] == [
        "--config=/etc/kubestow/config.yaml",
        "--of=default-scheduler",
        "--of=batch",
        "--listen=:10259",
        "--output=json",
    ]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
    ports = only(documents, "NetworkPolicy")["spec"]["ingress"][0]["ports"]
    assert container["ports"][0]["name"] == ports[0]["port"] == "http"


def test_a_shadow_may_read_what_it_needs(helm: Helm) -> None:
    documents = helm.objects({"mode": "shadow"})
    (text,) = only(documents, "ConfigMap")["data"].values()
    shown = CliRunner().invoke(program, ["config", "rbac", "--shadow"])
    assert shown.exit_code == 0, shown.output
    (needed,) = yaml.safe_load_all(shown.stdout)
    assert "schedulerName: kubestow" in text
    assert rights(needed["rules"]) <= rights(only(documents, "ClusterRole")["rules"])


def rights(rules: Sequence[Document]) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of everything that rules allow."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_image_is_chosen_by_tag(helm: Helm) -> None:
    (container,) = pod_of(helm.objects({"image": {"tag": "1.2.3"}}))["containers"]
    assert container["image"] == "kubestow:1.2.3"


def test_rules_are_added_to_the_cluster_role(helm: Helm) -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["racks"], "verbs": ["list", "watch"]}
    role = only(helm.objects({"rbac": {"extraRules": [rule]}}), "ClusterRole")
    assert role["rules"][-1] == rule
    assert len(role["rules"]) == len(only(helm.objects(), "ClusterRole")["rules"]) + 1


def test_another_name_and_namespace_are_used_everywhere(helm: Helm) -> None:
    values = {"name": "batch", "config": {"profiles": [{"schedulerName": "batch"}]}}
    options = ("--set", "deferredQuota.policies.enabled=true")
    text = helm.template(values, *options, namespace="other")
    documents = [each for each in yaml.safe_load_all(text) if each]
    assert NAMESPACE not in text
    names = {name for kind, name in map(key, documents) if "Policy" not in kind}
    assert names == {
        "batch",
        "batch-authentication-reader",
        "batch-critical-pods",
        "batch-explainer",
        "batch-leader-election",
    }
    assert "'system:serviceaccount:other:batch'" in text
    assert "object.spec.schedulerName in ['batch']" in text
    lease = only(documents, "Role")["rules"][1]["resourceNames"]
    assert lease == ["batch"]


def test_configuration_and_plugins_are_mounted_and_valid(helm: Helm, tmp_path: Path) -> None:
    source = (ROOT / "examples" / "gate_until" / "not_before.py").read_text()
    config = yaml.safe_load((ROOT / "examples" / "gate_until" / "config.yaml").read_text())
    values = {
        "config": {"profiles": config["profiles"], "podMaxBackoffSeconds": 30},
        "plugins": {"not_before.py": source},
    }
    documents = helm.objects(values)
    maps = {
        each["metadata"]["name"]: each["data"] for each in documents if each["kind"] == "ConfigMap"
    }
    assert maps["kubestow-plugins"] == {"not_before.py": source}
    pod = pod_of(documents)
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert f"--plugin-dir={mounts['plugins']['mountPath']}" in pod["containers"][0]["args"]
    assert yaml.safe_load(maps["kubestow"]["config.yaml"])["podMaxBackoffSeconds"] == 30
    file = tmp_path / "config.yaml"
    file.write_text(maps["kubestow"]["config.yaml"])
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "not_before.py").write_text(source)
    arguments = ["config", "validate", str(file), "--plugin-dir", str(tmp_path / "plugins")]
    result = CliRunner().invoke(program, arguments)
    assert result.exit_code == 0, result.output


def test_traces_are_configured_and_their_port_is_open(helm: Helm) -> None:
    variable = {"name": "OTEL_SERVICE_NAME", "value": "batch"}
    values = {
        "tracing": {
            "enabled": True,
            "endpoint": "http://collector.monitoring:4318",
            "samplingRatePerMillion": 1_000_000,
        },
        "config": {"kubestow": {"seed": 1}},
        "networkPolicy": {"egress": {"enabled": True}},
        "extraEnv": [variable],
    }
    documents = helm.objects(values)
    text = only(documents, "ConfigMap")["data"]["config.yaml"]
    loaded = load_configuration(text, registry=Registry(in_tree()), default_plugins=DEFAULT_PLUGINS)
    assert loaded.options.tracing == TracingConfiguration(
        endpoint="http://collector.monitoring:4318", sampling_rate_per_million=1_000_000
    )
    assert loaded.options.seed == 1
    assert pod_of(documents)["containers"][0]["env"][-1] == variable
    assert egress_ports(documents) == [443, 6443, 4318]


TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
ALL_SIGNALS = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("endpoint", "variables", "port"),
    [
        ("http://collector:9999/team", {}, 9999),
        ("collector:9999", {}, 9999),
        ("http://[::1]:9999", {}, 9999),
        ("http://[::1]/v1/traces", {}, 80),
        ("http://collector/v1/traces", {}, 80),
        ("https://collector", {}, 443),
        ("", {}, 4318),
        ("", {ALL_SIGNALS: None}, 4318),
        ("", {ALL_SIGNALS: "http://collector:9999"}, 9999),
        ("", {ALL_SIGNALS: "http://collector:1", TRACES: "http://collector:9999"}, 9999),
        ("collector:9999", {TRACES: "http://collector:1"}, 9999),
    ],
)
def test_egress_to_the_collector_is_allowed_at_the_port_that_is_used(
    helm: Helm, endpoint: str, variables: dict[str, str | None], port: int
) -> None:
    source = {"secretKeyRef": {"name": "collector", "key": "url"}}
    values = {
        "tracing": {"enabled": True, "endpoint": endpoint},
        "networkPolicy": {"egress": {"enabled": True, "ports": [6443]}},
        "extraEnv": [
            {"name": name, **({"value": value} if value else {"valueFrom": source})}
            for name, value in variables.items()
        ],
    }
    assert egress_ports(helm.objects(values)) == [6443, port]
    without = {**values, "tracing": {"enabled": False, "endpoint": endpoint}}
    assert egress_ports(helm.objects(without)) == [6443]


def egress_ports(documents: Sequence[Document]) -> list[int]:
    """Return the ports of the first rule of the policy that limits egress."""
    (egress,) = [
        each["spec"]["egress"]
        for each in documents
        if each["kind"] == "NetworkPolicy" and "egress" in each["spec"]
    ]
    return [port["port"] for port in egress[0]["ports"]]


def test_a_change_replaces_the_pods(helm: Helm) -> None:
    def checksum(values: Document) -> str:
        objects = helm.objects({"restartOnChange": True, **values})
        template = only(objects, "Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    sums = {
        checksum({}),
        checksum({"config": {"podMaxBackoffSeconds": 30}}),
        checksum({"plugins": {"a.py": ""}}),
    }
    assert len(sums) == 3


def test_the_pod_of_helm_test_asks_for_the_first_profile(helm: Helm) -> None:
    done = helm.run(
        *(*RENDER, "--show-only", "templates/tests/placed-pod.yaml"),
        values={"config": {"profiles": [{"schedulerName": "batch"}]}},
    )
    pod = yaml.safe_load(done.stdout)
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["schedulerName"] == "batch"
    assert pod["spec"]["containers"][0]["command"] == ["kubestow", "--version"]
