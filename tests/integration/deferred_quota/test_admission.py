"""KEP-5465 acceptance, the API server's part, on the embedded server over HTTP."""

from __future__ import annotations

from typing import Final

import pytest

from simulator.deferral import MARK_CONDITION
from simulator.errors import ApiError
from simulator.objects import JsonObject
from tests.integration.deferred_quota.server import GATES, Server
from tests.integration.simulator.client import PODS, until

MILLIS: Final = "deferred.kubestow.io/requests.cpu-millis"


async def test_b1_a_gated_pod_over_the_limit_is_admitted_and_not_charged(native: Server) -> None:
    await native.quota("q", {"requests.cpu": "2", "pods": "10"})
    assert await native.pod("g", "5", GATES) == (201, "")
    assert native.used("q") == {"requests.cpu": "0", "pods": "1"}


async def test_b1_deferred_keys_do_the_same_on_a_stock_server(stock: Server) -> None:
    await stock.quota("deferred", {MILLIS: "2k"})
    await stock.quota("strict", {"pods": "10"})
    assert await stock.pod("g", "5", GATES) == (201, "")
    assert stock.used("deferred") == {}
    assert stock.used("strict") == {"pods": "1"}


@pytest.mark.parametrize("personality", ["stock", "native"])
async def test_b2_a_pod_without_gates_is_refused_with_all_numbers(
    personality: str, stock: Server, native: Server
) -> None:
    server = {"stock": stock, "native": native}[personality]
    await server.quota("c", {"requests.cpu": "2"})
    code, message = await server.pod("g", "5")
    assert code == 403
    assert message == (
        'pods "g" is forbidden: exceeded quota: c, requested: requests.cpu=5, '
        "used: requests.cpu=0, limited: requests.cpu=2"
    )


async def test_b3_the_number_of_pods_stays_strict_for_gated_ones(native: Server) -> None:
    await native.quota("q", {"pods": "1", "requests.cpu": "1"})
    assert await native.pod("a", "5", GATES) == (201, "")
    code, message = await native.pod("b", "5", GATES)
    assert code == 403
    assert message == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


async def test_b4_so_does_the_number_of_pod_objects(native: Server) -> None:
    await native.quota("q", {"count/pods": "1", "requests.cpu": "1"})
    assert await native.pod("a", "5", GATES) == (201, "")
    code, message = await native.pod("b", "5", GATES)
    assert code == 403
    assert "requested: count/pods=1, used: count/pods=1, limited: count/pods=1" in message


async def test_b5_removing_gates_changes_nothing_until_the_pod_has_a_node(native: Server) -> None:
    await native.quota("q", {"requests.cpu": "2", "pods": "10"})
    await native.pod("g", "5", GATES)
    uncharged = {"requests.cpu": "0", "pods": "1"}
    await native.set_gates("g", GATES[1])
    assert native.used("q") == uncharged
    await native.set_gates("g")
    assert native.used("q") == uncharged
    await native.bind("g")
    await until(lambda: native.used("q") == {"requests.cpu": "5", "pods": "1"})


async def test_b13_a_gated_pod_must_still_say_what_is_limited(native: Server) -> None:
    await native.quota("q", {"requests.cpu": "2"})
    assert await native.pod("g", "", GATES) == (
        403,
        'pods "g" is forbidden: failed quota: q: must specify requests.cpu for: c',
    )


async def test_b13_deferred_keys_ask_for_nothing(stock: Server) -> None:
    await stock.quota("q", {MILLIS: "2k"})
    assert await stock.pod("g", "", GATES) == (201, "")


async def test_b48_a_built_in_compute_key_charges_gated_pods_on_a_stock_server(
    stock: Server,
) -> None:
    await stock.quota("deferred", {MILLIS: "9k"})
    await stock.quota("conflict", {"requests.cpu": "2"})
    code, message = await stock.pod("g", "5", GATES)
    assert code == 403
    assert "exceeded quota: conflict, requested: requests.cpu=5" in message
    assert await stock.pod("h", "1", GATES) == (201, "")
    assert stock.used("conflict") == {"requests.cpu": "1"}


async def test_b49_a_plain_quota_charges_gated_pods_as_ever(stock: Server) -> None:
    await stock.quota("q", {"requests.cpu": "2"})
    assert await stock.pod("g", "2", GATES) == (201, "")
    await stock.set_gates("g")
    await stock.bind("g")
    await stock.client.post("/_kubestow/clock", {"advance": 301})
    assert stock.used("q") == {"requests.cpu": "2"}


async def test_b51_a_name_too_long_for_a_key_goes_by_an_alias(stock: Server) -> None:
    long_name = f"vendor.example.com/{'n' * 63}"
    body = {
        "metadata": {
            "name": "q",
            "annotations": {
                "kubestow.io/deferred-keys": f'{{"long": "requests.{long_name}"}}',
            },
        },
        "spec": {"hard": {"deferred.kubestow.io/long": "8"}},
    }
    code, made = await stock.client.post("/api/v1/namespaces/default/resourcequotas", body)
    assert (code, made["spec"]["hard"]) == (201, {"deferred.kubestow.io/long": "8"})
    key = f"deferred.kubestow.io/requests.{long_name.replace('/', '_')}"
    body = {"metadata": {"name": "r"}, "spec": {"hard": {key: "8"}}}
    code, refusal = await stock.client.post("/api/v1/namespaces/default/resourcequotas", body)
    assert code == 422
    assert "name part must be no more than 63 bytes" in refusal["message"]


async def test_b52_a_controller_without_the_gate_counts_what_the_server_deferred(
    native: Server,
) -> None:
    await native.quota("q", {"requests.cpu": "2"})
    await native.pod("g", "5", GATES)
    gate = "ResourceQuotaDeferredEnforcement"
    code, _ = await native.client.post("/_kubestow/gates/controllers", {gate: False})
    assert code == 200
    await until(lambda: native.used("q") == {"requests.cpu": "5"})
    assert await native.pod("h", "9", GATES) == (201, "")
    code, message = await native.pod("strict", "1")
    assert code == 403
    assert "used: requests.cpu=5" in message


async def test_the_mark_outlives_what_a_scheduler_writes(native: Server) -> None:
    await native.pod("g", "5", GATES)
    await native.set_gates("g")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await native.client.patch(f"{PODS}/g/status", {"status": {"conditions": [condition]}})
    _, pod = await native.client.get(f"{PODS}/g")
    marks = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
    assert marks == {"PodScheduled": "False", MARK_CONDITION: "True"}


async def test_kueue_and_resync_are_reached_through_the_control_endpoint(stock: Server) -> None:
    client = stock.client
    _, answer = await client.post("/_kubestow/settings/kueue", {"addGate": True, "batch": 5})
    assert (answer["kueue"]["addGate"], answer["kueue"]["batch"]) == (True, 5)
    await client.post("/_kubestow/controllers", {"kueue": True})
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    _, made = await client.post(PODS, {"metadata": {"name": "p", "labels": labels}, "spec": spec})
    assert made["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    await until(lambda: "schedulingGates" not in stock.cluster.get("v1", "Pod", "p")["spec"])
    code, refusal = await client.post("/_kubestow/settings/quota", {"resyncSeconds": "soon"})
    assert code == 400
    assert "want resyncSeconds, a number above 0" in refusal["message"]
    code, refusal = await client.post("/_kubestow/settings/kubelet", {})
    assert code == 400
    assert "quota, kueue" in refusal["message"]


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [5_000, pytest.param(50_000, marks=pytest.mark.soak)])
async def test_b55_a_flood_of_gated_pods_ends_at_the_number_of_pods(
    stock: Server, attempts: int
) -> None:
    """By way of the API without HTTP; what is refused leaves nothing behind."""
    await stock.quota("q", {"pods": "1000", MILLIS: "8k"})
    cluster = stock.cluster
    spec = {
        "schedulingGates": [{"name": GATES[0]}],
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}],
    }
    writes = cluster.store.statistics().writes
    admitted = 0
    for number in range(attempts):
        meta = {"name": f"p{number}"}
        pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        admitted += _is_let_in(stock, pod)
    assert admitted == cluster.store.count("pods") == 1000
    assert cluster.store.statistics().writes - writes == 2 * 1000, "each a pod and its charge"
    assert stock.used("q") == {"pods": "1k"}


def _is_let_in(server: Server, pod: JsonObject) -> bool:
    try:
        server.cluster.create(pod)
    except ApiError as error:
        if "exceeded quota: q, requested: pods=1" not in str(error):
            raise
        return False
    return True
