"""Causes why a ServiceAccount may do almost nothing: no such account, no binding, no role."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from scheduler.cli.account_faults import MAX_PAGES, causes, own_account
from scheduler.cli.check import Finding
from scheduler.client import client_authorities
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.framework import Permission
from simulator import EmbeddedCluster, FaultRule, SimClock
from tests.unit.cli.test_hostile_output import HOSTILE, controls
from tests.unit.simulator.objects import START

HOSTILE_JSON: Final = json.dumps(HOSTILE)[1:-1].encode()
SYSTEM: Final = "kubestow-system"
ACCOUNT: Final = (SYSTEM, "kubestow")
BOUND: Final = frozenset({""})
RBAC: Final = "rbac.authorization.k8s.io"


def of_cluster(*denied: str) -> list[Finding]:
    """Return the findings of an account to which these of four permissions are denied."""
    names = ("pods", "nodes", "services", "namespaces")
    needed = [Permission(resource=each, verbs=("list",), purpose="x") for each in names]
    return [Finding(each, ("list",) if each.resource in denied else (), False) for each in needed]


NOTHING: Final = of_cluster("pods", "nodes", "services", "namespaces")
LEASES: Final = [
    Finding(
        Permission(
            group="coordination.k8s.io", resource="leases", verbs=("get", "update"),
            namespace=SYSTEM, names=("kubestow",), purpose="x",
        ),
        ("get", "update"), False,
    )
]  # fmt: skip
AUTHORITIES: Final = [
    Finding(
        Permission(
            resource="configmaps", verbs=("get",), namespace=client_authorities.NAMESPACE,
            names=(client_authorities.NAME,), purpose="x", without="y",
        ),
        ("get",), False,
    )
]  # fmt: skip


def account(name: str) -> dict[str, Any]:
    metadata = {"namespace": SYSTEM, "name": name}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def role(name: str, namespace: str = "") -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": []}


def binding(
    name: str, to: str, *, account: tuple[str, str] = ACCOUNT, namespace: str = ""
) -> dict[str, Any]:
    found = role(name, namespace)
    kind = found["kind"]
    subject = {"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}
    reference = {"apiGroup": RBAC, "kind": kind, "name": to}
    return {**found, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    clock = SimClock(start=START, rate=0.0, source=lambda: 0.0)
    async with EmbeddedCluster(clock=clock, seed=1) as running:
        running.create(account("kubestow"))
        yield running


@pytest.fixture
async def client(cluster: EmbeddedCluster) -> AsyncIterator[ApiClient]:
    async with Transport(ClientConfiguration(cluster.url)) as transport:
        yield ApiClient(transport)


def deployment(name: str, **labels: str) -> dict[str, Any]:
    """Return the Deployment of an installation whose pods run as an account of this name."""
    labels = {"app.kubernetes.io/name": "kubestow"} | {
        f"app.kubernetes.io/{key.replace('_', '-')}": value for key, value in labels.items()
    }
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": SYSTEM, "name": "kubestow", "labels": labels},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pods},
    }


def rbac(*options: str, account: str = "kubestow-system/kubestow") -> str:
    """Return the last lines of the text about an account that nobody installed."""
    words = " ".join(["kubestow config rbac", *options, "--service-account", account])
    return f"  {words} | kubectl apply -f -"


async def test_an_account_whose_name_is_misspelt_is_named(client: ApiClient) -> None:
    (found,) = await causes(client, (SYSTEM, "kubstow"), [*NOTHING, *LEASES])
    said = "There is no ServiceAccount kubestow-system/kubstow; did you mean kubestow?"
    assert found.text == said
    assert found.instead_of == {"", SYSTEM}


async def test_an_account_whose_namespace_is_misspelt_gets_none(client: ApiClient) -> None:
    (found,) = await causes(client, ("kubestow-sytem", "kubestow"), NOTHING)
    said = "There is no namespace kubestow-sytem; did you mean kubestow-system?"
    assert (found.text, found.instead_of) == (said, frozenset({""}))


async def test_an_account_that_nobody_installed_is_created(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    metadata = {"name": "outside"}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    # Another account's.
    cluster.create(deployment("kubestow", managed_by="Helm", instance="mine"))
    (found,) = await causes(client, ("outside", "nope"), NOTHING)
    assert found.text == (
        "There is no ServiceAccount outside/nope.\nAn administrator creates what is missing with\n"
        f"  kubectl -n outside create serviceaccount nope\n{rbac(account='outside/nope')}"
    )
    (found,) = await causes(client, (SYSTEM, "other"), NOTHING)
    assert "  kubectl -n kubestow-system create serviceaccount other\n" in found.text


async def test_an_account_of_no_namespace_gets_one(client: ApiClient) -> None:
    (found,) = await causes(client, ("outside", "nope"), NOTHING)
    assert "  kubectl create namespace outside\n  kubectl -n outside create" in found.text


@pytest.mark.parametrize(
    ("labels", "command"),
    [
        (
            {"managed_by": "Helm", "instance": "mine"},
            "helm -n kubestow-system upgrade mine charts/kubestow --reset-then-reuse-values",
        ),
        ({}, "kubectl apply -k manifests"),
    ],
)
async def test_what_was_installed_is_put_back_by_the_same_tool(
    client: ApiClient, cluster: EmbeddedCluster, labels: dict[str, str], command: str
) -> None:
    cluster.create(deployment("kubestow", **labels))
    (found,) = await causes(client, ACCOUNT, NOTHING)
    assert f"Put it back with\n  {command}" in found.text
    assert "config rbac" not in found.text


async def test_a_binding_that_was_deleted_is_created_again(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(role("kubestow"))
    cluster.create(binding("others", "kubestow", account=("a", "kubestow")))
    (found,) = await causes(client, ACCOUNT, NOTHING, "my config.yaml")
    assert found.instead_of == BOUND
    said = "No ClusterRoleBinding gives a ClusterRole to kubestow-system/kubestow.\n"
    assert found.text.startswith(said)
    assert found.text.endswith(rbac("'my config.yaml'"))


async def test_a_binding_gets_another_name_than_that_of_another_account(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(role("kubestow"))
    cluster.create(binding("kubestow", "kubestow", account=("a", "kubestow")))
    (found,) = await causes(client, ACCOUNT, NOTHING)
    assert found.text.endswith(rbac("--name kubestow-kubestow-system-kubestow"))


async def test_a_role_that_was_deleted_is_created_again(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(binding("kubestow", "mine"))
    cluster.create(role("other"))
    cluster.create(binding("other", "other"))
    (found,) = await causes(client, ACCOUNT, NOTHING)
    assert found.instead_of == BOUND
    assert "gives kubestow-system/kubestow the ClusterRole mine, which does not" in found.text
    assert found.text.endswith(rbac("--name mine"))


@pytest.mark.parametrize(
    "findings", [of_cluster(), of_cluster("pods"), NOTHING], ids=["nothing", "little", "all"]
)
async def test_where_roles_are_bound_only_rules_are_missing(
    client: ApiClient, cluster: EmbeddedCluster, findings: list[Finding]
) -> None:
    cluster.create(role("kubestow"))
    cluster.create(binding("kubestow", "kubestow"))
    assert await causes(client, ACCOUNT, findings) == []


async def test_little_that_is_missing_is_not_explained(client: ApiClient) -> None:
    assert await causes(client, ACCOUNT, of_cluster("pods")) == []


async def test_the_causes_of_all_roles_have_one_command(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(binding("other", "other", namespace="kube-system"))
    (found,) = await causes(client, ACCOUNT, [*NOTHING, *LEASES, *AUTHORITIES])
    assert found.instead_of == {"", SYSTEM, client_authorities.NAMESPACE}
    assert "No RoleBinding in kubestow-system gives a Role to" in found.text
    assert (
        "No RoleBinding in kube-system gives the Role extension-apiserver-authentication-reader to "
        "kubestow-system/kubestow."
    ) in found.text
    assert found.text.count("kubectl") == 1


async def test_the_namespace_of_the_lease_comes_first(client: ApiClient) -> None:
    nowhere = [replace(each, nowhere=True) for each in LEASES]
    namespace, account = await causes(client, ACCOUNT, nowhere)
    assert "  kubectl create namespace kubestow-system\n" in namespace.text
    assert "kubestow run --leader-elect=false" in namespace.text
    assert account.instead_of == {SYSTEM}


async def test_a_user_who_is_no_service_account_gets_bindings_of_the_same_roles(
    client: ApiClient,
) -> None:
    (found,) = await causes(client, "it's me", [*NOTHING, *LEASES, *AUTHORITIES], "c.yaml")
    assert found.instead_of == {"", SYSTEM, client_authorities.NAMESPACE}
    user = """--user='it'"'"'s me'"""
    lease, reader = "kubestow-leader-election", "extension-apiserver-authentication-reader"
    assert found.text.splitlines()[1:] == [
        "  kubestow config rbac c.yaml | kubectl apply -f -",
        f"  kubectl create clusterrolebinding kubestow-user --clusterrole=kubestow {user}",
        f"  kubectl -n {SYSTEM} create rolebinding kubestow-user --role={lease} {user}",
        f"  kubectl -n kube-system create rolebinding kubestow-user --role={reader} {user}",
    ]


@pytest.mark.parametrize(
    ("body", "who"),
    [
        ({"username": "system:serviceaccount:a:b"}, ("a", "b")),
        ({"username": "system:admin"}, "system:admin"),
        ({}, ""),
    ],
)
async def test_the_own_account_is_what_the_server_says(body: object, who: object) -> None:
    class Server:
        async def request(self, method: str, path: str, body: object) -> Any:
            return SimpleNamespace(body=answer)

    answer = json.dumps({"status": {"userInfo": body}}).encode()
    server: Any = Server()
    assert await own_account(server) == who


async def test_who_the_server_does_not_name_gets_rules(client: ApiClient) -> None:
    assert await own_account(client) == ""
    assert await causes(client, "", NOTHING) == []


async def test_who_may_not_read_is_told_what_helps_all_the_same(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    for verb, resource in (
        ("get", "serviceaccounts"),
        ("list", "clusterrolebindings"),
        ("list", "rolebindings"),
    ):
        cluster.faults.add(FaultRule(action="error", verb=verb, resource=resource, code=403))
    (found,) = await causes(client, ACCOUNT, [*NOTHING, *LEASES])
    said = (
        "kubestow-system/kubestow may do almost nothing of this, and bindings were not read: your"
    )
    assert found.text.startswith(said)
    assert found.text.endswith(rbac())
    assert found.instead_of == {"", SYSTEM}


async def test_the_reading_is_bounded(client: ApiClient, cluster: EmbeddedCluster) -> None:
    class Endless(ApiClient):
        pages = 0

        async def list_page(self, *arguments: Any, **options: Any) -> Any:
            self.pages += 1
            page = await super().list_page(*arguments, **{**options, "continue_token": ""})
            page.metadata.continue_token = "more"
            return page

    cluster.create(binding("others", "kubestow", account=("a", "kubestow")))
    endless = Endless(client.transport)
    (found,) = await causes(endless, ACCOUNT, NOTHING)
    assert endless.pages == MAX_PAGES
    assert "bindings were not read: there are too many" in found.text


async def test_hostile_names_control_no_terminal(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    class Hostile(ApiClient):
        async def list_page(self, *arguments: Any, **options: Any) -> Any:
            page = await super().list_page(*arguments, **options)
            hostile = [bytes(each).replace(b"mine", HOSTILE_JSON) for each in page.items or ()]
            page.items = [msgspec.Raw(each) for each in hostile]
            return page

    cluster.create(binding("mine", "mine"))
    (found,) = await causes(Hostile(client.transport), ACCOUNT, NOTHING)
    assert "which does not exist" in found.text
    assert controls(found.text) == set()
