"""`kubestow config rbac`: the permissions of a configuration, and those of the manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from config import API_VERSION, KIND, FeatureGates
from scheduler.cli.permissions import needed_permissions
from scheduler.framework import Permission
from scheduler.permissions.declarations import explainer
from scheduler.permissions.rbac import missing_rules, roles
from scheduler.service.options import RunOptions
from tests.unit.repository.tree import ROOT

MANIFESTS: Final = ROOT / "manifests"
HEADER: Final = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
Grant = tuple[str, str, str, str, str]
ACCOUNT: Final = ("kubestow-system", "kubestow")


def grants(documents: Iterable[Any]) -> Iterator[Grant]:
    """Yield namespace, group, resource (or URL), verb and name of each grant of the roles."""
    for role in documents:
        if role["kind"] not in ("ClusterRole", "Role"):
            continue
        namespace = role["metadata"].get("namespace", "")
        for rule in role["rules"]:
            for group in rule.get("apiGroups", ["url"]):
                for resource in rule.get("resources", rule.get("nonResourceURLs")):
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            yield namespace, group, resource, verb, name


def needed(text: str = "", folder: Path | None = None, **gates: bool) -> tuple[Permission, ...]:
    file = ""
    if text:
        assert folder is not None
        path = folder / "config.yaml"
        path.write_text(HEADER + text)
        file = str(path)
    return needed_permissions(RunOptions(config_file=file, feature_gates=FeatureGates(gates)))


def of(permissions: Iterable[Permission], resource: str, verb: str = "list") -> Permission | None:
    for each in permissions:
        if each.resource == resource and verb in each.verbs:
            return each
    return None


def printed(permissions: Iterable[Permission]) -> set[Grant]:
    return set(grants(yaml.safe_load_all(roles(permissions, "kubestow"))))


def test_the_manifests_have_exactly_what_the_default_configuration_needs() -> None:
    base = yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text())
    component = MANIFESTS / "components" / "node-provisioning-bridge" / "rbac.yaml"
    bridge = yaml.safe_load_all(component.read_text())
    permissions = needed()
    on_demand = [each for each in permissions if each.on_demand]
    always = [each for each in permissions if not each.on_demand]
    assert printed(always) == set(grants(base))
    assert printed(on_demand) == set(grants(bridge))


def test_the_bindings_are_those_of_the_manifests() -> None:
    base = yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text())
    ours = yaml.safe_load_all(roles(needed(), "kubestow", account=ACCOUNT))

    def bindings(documents: Iterable[Any]) -> list[Any]:
        return [each for each in documents if each["kind"].endswith("Binding")]

    assert len(expected := bindings(base)) == 3
    assert bindings(ours) == expected


def test_a_role_is_bound_under_the_name_that_was_given() -> None:
    printed = list(yaml.safe_load_all(roles(needed(), "true", account=("1", "no"))))
    named = {each["metadata"]["name"] for each in printed}
    assert named == {"true", "true-leader-election", "true-authentication-reader"}
    subjects = [subject for each in printed for subject in each.get("subjects", ())]
    assert subjects == 3 * [{"kind": "ServiceAccount", "namespace": "1", "name": "no"}]


def test_the_manifests_have_exactly_what_people_who_ask_need() -> None:
    base = yaml.safe_load_all((MANIFESTS / "explainer.yaml").read_text())
    assert printed(explainer(("kubestow", "kubestow-system"))) == set(grants(base))


def test_every_rule_has_its_reason_and_what_is_off_without_it() -> None:
    lines = roles(needed(), "mine").splitlines()
    assert lines[:4] == [
        "apiVersion: rbac.authorization.k8s.io/v1",
        "kind: ClusterRole",
        "metadata:",
        "  name: mine",
    ]
    for number, line in enumerate(lines):
        if line.startswith("  - "):
            assert lines[number - 1].startswith("  # ")
    assert "  # Optional; without it deferred quotas are not enforced." in lines


def test_without_leader_election_there_is_no_role(tmp_path: Path) -> None:
    permissions = needed("leaderElection: {leaderElect: false}", tmp_path)
    printed = yaml.safe_load_all(roles(permissions, "kubestow"))
    names = [each["metadata"]["name"] for each in printed]
    assert names == ["kubestow"]


def test_what_every_cluster_has_a_role_for_gets_none_beside_the_lease(tmp_path: Path) -> None:
    permissions = needed("leaderElection: {resourceNamespace: kube-system}", tmp_path)
    _, role = yaml.safe_load_all(roles(permissions, "kubestow"))
    assert role["metadata"]["name"] == "kubestow-leader-election"
    assert {each for rule in role["rules"] for each in rule["resources"]} == {"leases"}


def test_the_role_is_for_the_lease_that_is_configured(tmp_path: Path) -> None:
    permissions = needed("leaderElection: {resourceName: l, resourceNamespace: n}", tmp_path)
    update = ("n", "coordination.k8s.io", "leases", "update", "l")
    assert update in printed(permissions)


PROFILE: Final = "profiles: [{schedulerName: a, "


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        (
            PROFILE + "plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]",
            ("poddisruptionbudgets",),
        ),
        (
            PROFILE + "plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]",
            ("namespaces",),
        ),
        ("kubestow: {nodeProvisioningBridge: {mode: 'Off'}}", ("events", "nodeclaims")),
    ],
)
def test_what_is_disabled_needs_nothing(tmp_path: Path, text: str, absent: tuple[str, ...]) -> None:
    permissions = needed(text, tmp_path)
    assert [of(permissions, each) for each in absent] == [None] * len(absent)
    assert all(of(needed(), each) for each in absent)


HARD: Final = (
    PROFILE + "pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, "
    "defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}]}]"
)
SHARED: Final = PROFILE + "pluginConfig: [{name: ResourceQuota, args: {reservation: Api}}]}]"


@pytest.mark.parametrize(
    ("text", "resource", "required"),
    [
        ("", "services", False),
        (HARD, "services", True),
        (HARD, "statefulsets", True),
        ("", "resourcequotas", False),
        (SHARED, "resourcequotas", True),
        ("", "namespaces", True),
        ("", "pods", True),
        ("", "nodes", True),
        ("", "volumeattachments", False),
        ("", "persistentvolumeclaims", False),
    ],
)
def test_a_resource_is_required_where_rules_would_be_broken_without_it(
    tmp_path: Path, text: str, resource: str, required: bool
) -> None:
    found = of(needed(text, tmp_path), resource)
    assert found is not None
    assert found.required is required


def test_shared_reservations_write_quotas(tmp_path: Path) -> None:
    assert of(needed(), "resourcequotas", "patch") is None
    assert of(needed(SHARED, tmp_path), "resourcequotas", "patch")


def test_without_the_gate_quotas_are_read_for_a_report_only() -> None:
    permissions = needed(ResourceQuotaDeferredEnforcement=False)
    assert of(permissions, "resourcequotas", "watch") is None
    assert of(permissions, "resourcequotas/status", "patch") is None
    assert of(permissions, "resourcequotas", "list")


@pytest.mark.parametrize("name", ["1", "true", "No", "1e3", "a.b", "kube-scheduler"])
def test_names_stay_texts_in_yaml(name: str) -> None:
    lease = Permission(
        group="coordination.k8s.io", resource="leases", verbs=("get",), names=(name,),
        namespace=name, purpose="two\nlines", without="x\ny",
    )  # fmt: skip
    (_, role) = yaml.safe_load_all(roles([lease], name))
    assert role["metadata"]["namespace"] == name
    assert role["rules"][0]["resourceNames"] == [name]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource": "pods", "verbs": "list"},
        {"resource": "pods", "verbs": ()},
        {"verbs": ("list",)},
        {"resource": "pods", "urls": ("/x",), "verbs": ("get",)},
    ],
)
def test_a_permission_that_no_rule_can_be_made_of_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Permission"):
        Permission(purpose="x", **wrong)


def test_rules_for_the_log_are_yaml() -> None:
    permissions = needed()
    rules = yaml.safe_load(missing_rules((each, ()) for each in permissions))
    assert len(rules) == len(permissions)
    assert {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]} in rules
