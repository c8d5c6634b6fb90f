"""The kustomize base, as far as its text shows: complete, least privilege, each rule explained.

That the API server accepts it, and that the scheduler needs no more, is shown by envtest.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from plugins.pod_topology_spread.fallback_annotation import ANNOTATION, CRITERIA
from scheduler.controllers.node_provisioning.bridge import COMPONENT
from tests.unit.repository.tree import ROOT

MANIFESTS: Final = ROOT / "manifests"
KUSTOMIZATION: Final[dict[str, Any]] = yaml.safe_load(
    (MANIFESTS / "kustomization.yaml").read_text()
)
Document = dict[str, Any]


def documents() -> list[Document]:
    """Return every object the base applies, in its order."""
    return [
        document
        for name in KUSTOMIZATION["resources"]
        for document in yaml.safe_load_all((MANIFESTS / name).read_text())
    ]


def only(kind: str) -> Document:
    """Return the one object of a kind, of those that are neither for people nor of the cluster."""
    (found,) = [
        each
        for each in documents()
        if each["kind"] == kind
        and not each["metadata"]["name"].endswith(("-explainer", "-authentication-reader"))
    ]
    return found


def container() -> Document:
    """Return the container of the Deployment."""
    (found,) = only("Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_every_file_is_part_of_the_base() -> None:
    files = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


def test_namespaced_objects_stay_in_the_own_namespace() -> None:
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    namespaces: dict[str, set[str]] = {}
    for each in documents():
        if each["kind"] not in cluster_wide:
            found = namespaces.setdefault(each["metadata"]["namespace"], set())
            found.add(each["metadata"]["name"])
    own = only("Namespace")["metadata"]["name"]
    assert own == "kubestow-system"
    assert namespaces.keys() == {own, "kube-system"}
    assert namespaces["kube-system"] == {"kubestow-authentication-reader"}


def test_the_account_gets_the_role_that_each_cluster_has_for_client_authorities() -> None:
    (binding,) = [
        each for each in documents() if each["metadata"].get("namespace") == "kube-system"
    ]
    role = {"kind": "Role", "name": "extension-apiserver-authentication-reader"}
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", **role}
    assert binding["subjects"] == only("RoleBinding")["subjects"]


def test_each_rule_is_preceded_by_a_comment_that_names_who_needs_it() -> None:
    lines = (MANIFESTS / "rbac.yaml").read_text().splitlines()
    begins = ("  - apiGroups:", "  - nonResourceURLs:")
    rules = [number for number, line in enumerate(lines) if line.startswith(begins)]
    assert len(rules) == len(only("ClusterRole")["rules"]) + len(only("Role")["rules"])
    unexplained = [lines[n + 1] for n in rules if not re.match(r"  # [\w, ]+", lines[n - 1])]
    assert not unexplained


def grants() -> list[tuple[str, str]]:
    """Return verb and resource (or path) of every rule that holds for the whole cluster."""
    return [
        (verb, resource)
        for rule in only("ClusterRole")["rules"]
        for verb in rule["verbs"]
        for resource in rule.get("resources", rule.get("nonResourceURLs"))
    ]


def test_the_cluster_role_has_no_wildcard_and_no_secrets() -> None:
    assert "*" not in {word for grant in grants() for word in grant}
    assert not {"secrets", "configmaps", "leases"} & {resource for _, resource in grants()}


def test_the_cluster_role_writes_only_what_scheduling_writes() -> None:
    writes = {grant for grant in grants() if grant[0] not in {"get", "list", "watch"}}
    assert writes == {
        ("create", "pods/binding"),
        ("patch", "pods/status"),
        ("delete", "pods"),
        ("patch", "persistentvolumes"),
        ("patch", "persistentvolumeclaims"),
        ("patch", "resourceclaims"),
        ("create", "resourceclaims"),
        ("delete", "resourceclaims"),
        ("patch", "resourceclaims/status"),
        ("patch", "resourceclaims/binding"),
        ("update", "pods/finalizers"),
        ("patch", "resourcequotas/status"),
        ("create", "events"),
        ("patch", "events"),
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    }


QUOTA_POLICIES: Final = [
    MANIFESTS / "components" / name for name in ("deferred-quota-policies", "deferred-quota-mark")
]


@pytest.mark.parametrize("folder", QUOTA_POLICIES, ids=lambda path: str(path.name))
def test_every_policy_is_part_of_its_component_and_explained(folder: Path) -> None:
    text = (folder / "kustomization.yaml").read_text()
    listed = yaml.safe_load(text)["resources"]
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(listed)
    for name in listed:
        number = name.split("-")[0].upper()
        assert f"  # {number}: " in text, "one line in the list"
        assert (folder / name).read_text().startswith(f"# {number}: "), "and in the file"


def test_policies_know_the_service_account_and_are_bound() -> None:
    account = only("ServiceAccount")["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert user in (QUOTA_POLICIES[0] / "p3-bind.yaml").read_text()
    for path in sorted(path for folder in QUOTA_POLICIES for path in folder.glob("p*.yaml")):
        policy, binding = yaml.safe_load_all(path.read_text())
        assert binding["kind"] == f"{policy['kind']}Binding"
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        labels = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
        assert labels == {"kubestow.io/deferred-quota": "enforced"}


@pytest.mark.parametrize("kind", ["ClusterRoleBinding", "RoleBinding"])
def test_bindings_join_the_service_account_to_a_role_that_exists(kind: str) -> None:
    binding = only(kind)
    role = only(binding["roleRef"]["kind"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (subject,) = binding["subjects"]
    account = only("ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])


def test_the_lease_is_the_one_the_role_allows() -> None:
    configuration = yaml.safe_load(only("ConfigMap")["data"]["config.yaml"])
    election = configuration["leaderElection"]
    (named,) = [rule for rule in only("Role")["rules"] if "resourceNames" in rule]
    assert named["resourceNames"] == [election["resourceName"]]
    assert only("Role")["metadata"]["namespace"] == election["resourceNamespace"]


def test_the_pod_meets_the_restricted_standard() -> None:
    pod = only("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_pod_runs_as_the_user_of_the_image() -> None:
    context = only("Deployment")["spec"]["template"]["spec"]["securityContext"]
    user = f"USER {context['runAsUser']}:{context['runAsGroup']}"
    assert user in (ROOT / "Dockerfile").read_text().splitlines()


def test_the_pod_is_not_placed_by_itself() -> None:
    assert only("Deployment")["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"


def test_selectors_match_the_pods() -> None:
    deployment = only("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels


def test_the_configuration_file_is_where_the_command_looks() -> None:
    mounts = {mount["name"]: mount for mount in container()["volumeMounts"]}
    (argument,) = container()["args"]
    assert argument == f"--config={mounts['config']['mountPath']}/config.yaml"
    assert mounts["config"]["readOnly"] is True


# -- optional components ---------------------------------------------------------------------------

COMPONENTS: Final = sorted(
    path.parent for path in MANIFESTS.glob("components/*/kustomization.yaml")
)


def component(name: str) -> list[Document]:
    """Return every object a component adds."""
    folder = MANIFESTS / "components" / name
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return [
        document
        for file in kustomization["resources"]
        for document in yaml.safe_load_all((folder / file).read_text())
    ]


@pytest.mark.parametrize("folder", COMPONENTS, ids=lambda path: str(path.name))
def test_a_component_is_complete_and_named_in_the_readme(folder: Any) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization["kind"] == "Component"
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(kustomization["resources"])
    assert f"components/{folder.name}" in (MANIFESTS / "README.md").read_text()


def test_only_the_endpoints_accept_connections() -> None:
    policy = only("NetworkPolicy")["spec"]
    assert policy["podSelector"] == {
        "matchLabels": only("Deployment")["spec"]["selector"]["matchLabels"]
    }
    assert policy["policyTypes"] == ["Ingress"], "the port of the API server is not known here"
    (rule,) = policy["ingress"]
    assert [each["port"] for each in rule["ports"]] == [
        each["name"] for each in container()["ports"]
    ]


def test_the_egress_component_selects_the_replicas_too() -> None:
    (policy,) = component("network-policy-egress")
    assert policy["spec"]["podSelector"] == only("NetworkPolicy")["spec"]["podSelector"]
    assert policy["spec"]["policyTypes"] == ["Egress"]
    assert all(rule["ports"] for rule in policy["spec"]["egress"]), "no rule without ports"


def test_the_bridge_may_read_events_and_node_claims_and_nothing_else() -> None:
    role, binding = component("node-provisioning-bridge")
    read = ["get", "list", "watch"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["events"], "verbs": read},
        {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": read},
    ]
    assert binding["kind"] == "ClusterRoleBinding"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == only("ClusterRoleBinding")["subjects"]


def test_what_the_bridge_writes_is_allowed_by_the_base() -> None:
    assert {("patch", "pods/status"), ("get", "pods")} <= set(grants())


def test_the_log_names_the_component_that_exists() -> None:
    assert (ROOT / COMPONENT / "kustomization.yaml").exists()


def test_each_policy_has_a_binding_and_fails_closed_for_annotated_objects_only() -> None:
    for name in ("topology-spread-fallback-policies", "topology-spread-fallback-immutable"):
        objects = component(name)
        policies = [each for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
        bindings = [each for each in objects if each not in policies]
        assert [each["spec"]["policyName"] for each in bindings] == [
            each["metadata"]["name"] for each in policies
        ]
        for policy in policies:
            text = yaml.safe_dump(policy)
            assert ANNOTATION in text
            assert "failurePolicy: Fail" in text


def test_the_policies_check_the_same_wherever_the_template_lies() -> None:
    def rules(policy: Document, where: str, path: str) -> str:
        spec = {key: policy["spec"][key] for key in ("variables", "validations")}
        text = json.dumps(spec).replace(f"'{path}metadata", "'metadata")
        return text.replace(f"{where}.", "object.")

    pods, templates, cron_jobs = (
        each
        for each in component("topology-spread-fallback-policies")
        if each["kind"] == "ValidatingAdmissionPolicy"
    )
    inner, deeper = "spec.template", "spec.jobTemplate.spec.template"
    assert rules(templates, f"object.{inner}", f"{inner}.") == rules(pods, "object", "")
    assert rules(cron_jobs, f"object.{deeper}", f"{deeper}.") == rules(pods, "object", "")


def test_the_policies_know_every_criterion() -> None:
    (policy, *_) = component("topology-spread-fallback-policies")
    expression = policy["spec"]["validations"][0]["expression"]
    assert re.findall(r"'([A-Z]\w+)'", expression) == list(CRITERIA)
