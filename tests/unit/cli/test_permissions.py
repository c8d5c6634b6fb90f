"""`kubestow config rbac` and `kubestow check`: output, and mistakes on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from scheduler.cli.account_faults import Fault
from scheduler.cli.check import Finding
from scheduler.cli.cluster import SelectedCluster
from scheduler.framework import Permission
from tests.unit.cli.command_line import Shell

READ = ("list", "watch")
NODES = Permission(resource="nodes", verbs=READ, purpose="x")
QUOTAS = Permission(resource="resourcequotas", verbs=READ, purpose="x", without="no quotas")
EVENTS = Permission(
    resource="events", verbs=READ, purpose="x", without="no condition", on_demand=True
)


def test_roles_are_printed_under_the_name_that_was_given(shell: Shell) -> None:
    ended = shell("config", "rbac", "--name", "mine")
    assert ended.code == 0, ended.err
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(ended.out)]
    assert names == ["mine", "mine-leader-election"]


def test_the_bindings_to_an_account_are_printed_on_request(shell: Shell) -> None:
    ended = shell("config", "rbac", "--service-account", "a/b")
    assert ended.code == 0, ended.err
    printed = list(yaml.safe_load_all(ended.out))
    assert [each["kind"] for each in printed] == [
        "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "RoleBinding"
    ]  # fmt: skip
    assert printed[-1]["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    # Those of the installed scheduler would be taken from it.
    assert all(each["metadata"]["name"].startswith("kubestow-a-b") for each in printed)
    # An object would be deleted with the roles, and everything in it.
    assert "create it first: kubectl create namespace kubestow-system\n" in ended.err


def test_the_roles_of_people_who_ask_are_for_the_lease_of_the_configuration(
    shell: Shell, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                    "leaderElection: {resourceName: l, resourceNamespace: n}\n")  # fmt: skip
    ended = shell("config", "rbac", "--explainer", str(path))
    assert ended.code == 0, ended.err
    pages, way = yaml.safe_load_all(ended.out)
    assert pages["kind"] == "ClusterRole"
    assert {verb for rule in pages["rules"] for verb in rule["verbs"]} == {"get", "post"}
    assert way["metadata"] == {"name": "kubestow-explainer", "namespace": "n"}
    assert way["rules"][0]["resourceNames"] == ["l"]


def test_for_a_local_scheduler_there_is_a_cluster_role_alone(shell: Shell) -> None:
    ended = shell("config", "rbac", "--explainer", "--local")
    (role,) = yaml.safe_load_all(ended.out)
    assert role["metadata"] == {"name": "kubestow-local-explainer"}
    assert all(set(rule) == {"nonResourceURLs", "verbs"} for rule in role["rules"])
    refused = shell("config", "rbac", "--local")
    assert (refused.code, "--explainer" in refused.err) == (2, True)


def test_an_invalid_file_is_reported_with_every_problem(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                    "parallelism: x\nprofiles: 3\n")  # fmt: skip
    ended = shell("config", "rbac", str(path))
    assert ended.code == 1
    assert "parallelism" in ended.err
    assert "profiles" in ended.err


@pytest.mark.parametrize("account", ["kubestow", "a/b/c", "/kubestow", "kubestow-system/", "a/?"])
@pytest.mark.parametrize("command", [["check"], ["config", "rbac"]])
def test_an_account_is_a_namespace_and_a_name(
    shell: Shell, command: list[str], account: str
) -> None:
    ended = shell(*command, f"--service-account={account}")
    assert ended.code == 2
    assert f'"{account}" is not NAMESPACE/NAME' in ended.err


@pytest.mark.parametrize(
    ("permission", "denied", "absent", "state", "consequence"),
    [
        (NODES, (), False, "ok", ""),
        (NODES, ("watch",), False, "missing", "nothing can be scheduled without watch"),
        (QUOTAS, READ, False, "off", "without list, watch, no quotas"),
        (EVENTS, READ, False, "on-demand", "where pods need it, no condition"),
        (QUOTAS, READ, True, "absent", "the API server has no such resource"),
        (QUOTAS, (), True, "absent", "the API server has no such resource"),
    ],
)
def test_a_finding_has_a_state_and_what_follows(
    permission: Permission, denied: tuple[str, ...], absent: bool, state: str, consequence: str
) -> None:
    found = Finding(permission, denied, absent)
    assert found.state == state
    assert found.consequence.startswith(consequence)


def test_what_has_no_namespace_is_missing_whatever_is_allowed() -> None:
    found = Finding(replace(NODES, namespace="a"), (), absent=False, nowhere=True)
    assert (found.state, found.consequence) == ("missing", "there is no namespace a")


@pytest.mark.parametrize(
    ("denied", "code", "verdict"),
    [
        ((), 0, "Nothing is missing at http://localhost:8080."),
        ((QUOTAS,), 3, "Only optional permissions are missing at http://localhost:8080"),
        ((QUOTAS, NODES), 1, "Something required is missing at http://localhost:8080"),
    ],
)
def test_the_verdict_comes_first_and_what_is_missing_next(
    denied: tuple[Permission, ...],
    code: int,
    verdict: str,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        Finding(each, READ if each in denied else (), absent=False) for each in (QUOTAS, NODES)
    ]
    server = "http://me:secret@localhost:8080"
    monkeypatch.setattr(SelectedCluster, "run", lambda *_: (found, [], ["a leads"], server))
    ended = shell("check")
    first, passed, *rows = ended.out.splitlines()
    assert (ended.code, first.startswith(verdict)) == (code, True)
    assert passed == f"{2 - len(denied)} of 2 checks passed; -v lists them."
    names = [each.split()[0] for each in rows[2:] if "list,watch" in each]
    assert names == [each.resource for each in reversed(denied)]
    every = shell("check", "-v").out.splitlines()
    assert sum("list,watch" in each for each in every) >= 2
    assert every[0] == first


@pytest.mark.parametrize(("denied", "installed"), [((), False), (READ, True)])
def test_before_an_installation_its_namespace_is_all_that_is_missing(
    denied: tuple[str, ...], installed: bool, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Finding(replace(NODES, namespace="a"), denied, absent=False, nowhere=True)
    found = [lease, Finding(NODES, (), absent=False)]
    monkeypatch.setattr(SelectedCluster, "run", lambda *_: (found, [], [], "s"))
    ended = shell("check")
    first = ended.out.splitlines()[0]
    expected = "Not installed yet at s: there is no namespace a (exit code 1)."
    assert ended.code == 1
    assert first == ("Something required is missing at s (exit code 1)." if installed else expected)


def test_a_cause_comes_before_what_it_does_not_explain(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = replace(NODES, namespace="a")
    found = [Finding(each, READ, absent=False) for each in (QUOTAS, NODES, elsewhere)]
    fault = Fault("Nobody may do anything in a.", frozenset({"a"}))
    monkeypatch.setattr(SelectedCluster, "run", lambda *_: (found, [fault], [], "s"))
    lines = shell("check").out.splitlines()
    rows = [at for at, each in enumerate(lines) if "list,watch" in each and "{" not in each]
    assert (len(rows), lines.index(fault.text) < min(rows)) == (2, True)
    assert sum("list,watch" in each for each in shell("check", "-v").out.splitlines()) == 3
