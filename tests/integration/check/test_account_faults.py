"""Causes why a ServiceAccount may do almost nothing: no such account, no binding, no role."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from scheduler.cli.account_faults import AGAIN, MAX_PAGES, Fault, faults
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
CREATE: Final = (
    "kubectl create clusterrolebinding kubestow --clusterrole=kubestow "
    "--serviceaccount=kubestow-system:kubestow"
)


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


async def test_an_account_whose_name_is_misspelt_is_named(client: ApiClient) -> None:
    (found,) = await faults(client, (SYSTEM, "kubstow"), [*NOTHING, *LEASES])
    text = "There is no ServiceAccount kubestow-system/kubstow; did you mean kubestow?"
    assert found == Fault(text, frozenset({"", SYSTEM}))


async def test_an_account_with_no_near_name_is_put_back(client: ApiClient) -> None:
    (found,) = await faults(client, (SYSTEM, "other"), NOTHING)
    assert found.text == f"There is no ServiceAccount kubestow-system/other.\n{AGAIN}"


async def test_a_binding_that_was_deleted_is_created_again(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(role("kubestow"))
    cluster.create(binding("others", "kubestow", account=("a", "kubestow")))
    (found,) = await faults(client, ACCOUNT, NOTHING)
    said = f"No ClusterRoleBinding gives a ClusterRole to kubestow-system/kubestow:\n  {CREATE}"
    assert found == Fault(f"{said}\n{AGAIN}", BOUND)


async def test_a_binding_gets_another_name_than_that_of_another_account(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(role("kubestow"))
    cluster.create(binding("kubestow", "kubestow", account=("a", "kubestow")))
    (found,) = await faults(client, ACCOUNT, NOTHING)
    assert "create clusterrolebinding kubestow-kubestow-system-kubestow --clus" in found.text


async def test_without_the_role_both_are_created(client: ApiClient) -> None:
    (found,) = await faults(client, ACCOUNT, NOTHING, "my config.yaml")
    assert "and there is no ClusterRole kubestow:" in found.text
    command = "  kubestow config rbac 'my config.yaml' --service-account kubestow-system/kubestow"
    assert f"{command} | kubectl apply -f -" in found.text


async def test_a_role_that_was_deleted_is_created_again(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(binding("kubestow", "mine"))
    (found,) = await faults(client, ACCOUNT, NOTHING)
    assert found.instead_of == BOUND
    assert "gives kubestow-system/kubestow the ClusterRole mine, which does not" in found.text
    assert "config rbac --name mine --service-account kubestow-system/kubestow |" in found.text


async def test_rules_may_be_added_to_a_role_that_exists_beside_it(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(binding("kubestow", "mine"))
    cluster.create(role("other"))
    cluster.create(binding("other", "other"))
    (found,) = await faults(client, ACCOUNT, NOTHING)
    assert "the ClusterRole mine, which does not exist" in found.text
    assert found.instead_of == frozenset()


@pytest.mark.parametrize(
    "findings", [of_cluster(), of_cluster("pods"), NOTHING], ids=["nothing", "little", "all"]
)
async def test_where_roles_are_bound_only_rules_are_missing(
    client: ApiClient, cluster: EmbeddedCluster, findings: list[Finding]
) -> None:
    cluster.create(role("kubestow"))
    cluster.create(binding("kubestow", "kubestow"))
    assert await faults(client, ACCOUNT, findings) == []


async def test_little_that_is_missing_is_not_explained(client: ApiClient) -> None:
    assert await faults(client, ACCOUNT, of_cluster("pods")) == []


async def test_the_binding_of_the_lease_has_its_own_command(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(role("kubestow-leader-election", SYSTEM))
    (found,) = await faults(client, ACCOUNT, LEASES)
    assert found.instead_of == {SYSTEM}
    assert (
        "kubectl -n kubestow-system create rolebinding kubestow-leader-election "
        "--role=kubestow-leader-election --serviceaccount=kubestow-system:kubestow"
    ) in found.text


async def test_the_authorities_of_certificates_need_the_role_of_the_cluster(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    cluster.create(binding("other", "other", namespace="kube-system"))
    (found,) = await faults(client, ACCOUNT, AUTHORITIES)
    assert (
        "kubectl -n kube-system create rolebinding kubestow-authentication-reader "
        "--role=extension-apiserver-authentication-reader "
        "--serviceaccount=kubestow-system:kubestow"
    ) in found.text


async def test_who_may_not_read_is_told_what_may_be(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    for verb, resource in (("get", "serviceaccounts"), ("list", "clusterrolebindings")):
        cluster.faults.add(FaultRule(action="error", verb=verb, resource=resource, code=403))
    (found,) = await faults(client, ACCOUNT, [*NOTHING, *LEASES])
    assert "Maybe there is no ServiceAccount kubestow-system/kubestow, or no" in found.text
    assert "kubectl get clusterrolebindings -o wide" in found.text
    # The rules follow all the same.
    assert found.instead_of == frozenset()


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
    (found,) = await faults(endless, ACCOUNT, NOTHING)
    assert endless.pages == MAX_PAGES
    assert "there are too many to read them all" in found.text
    assert found.instead_of == frozenset()


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
    (found,) = await faults(Hostile(client.transport), ACCOUNT, NOTHING)
    assert "which does not exist" in found.text
    assert controls(found.text) == set()
