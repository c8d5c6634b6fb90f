"""`fallbackCriteria` over HTTP: responses to each kind of client, gates switched from outside.

The texts of a stock server are those of kube-apiserver v1.37; tests/envtest compares them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from simulator import EmbeddedCluster, SimClock
from simulator.objects import JsonObject
from tests.integration.simulator.client import PODS, Client
from tests.unit.simulator.objects import START, pod
from tests.unit.simulator.test_fallback_criteria import NPF, constraint, spread_pod, workload

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GATE = "PodTopologySpreadFallbackMode"


@pytest.fixture
async def native() -> AsyncIterator[Client]:
    clock = SimClock(start=START, rate=0.0, source=lambda: 0.0)
    async with (
        EmbeddedCluster(clock=clock, seed=1, personality="native") as cluster,
        aiohttp.ClientSession(cluster.url, timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        yield Client(session)


def kept(made: JsonObject) -> object:
    return made["spec"]["topologySpreadConstraints"][0].get("fallbackCriteria")


async def test_a42_a_strict_client_is_refused(client: Client) -> None:
    status, response = await client.post(f"{PODS}?fieldValidation=Strict", spread_pod("a", [NPF]))
    assert (status, response["reason"]) == (400, "BadRequest")
    assert response["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.topologySpreadConstraints[0].fallbackCriteria"'
    )
    status, response = await client.post(
        f"{DEPLOYMENTS}?fieldValidation=Strict", workload("Deployment", [NPF])
    )
    assert (status, response["message"]) == (
        400,
        (
            'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
            'unknown field "spec.template.spec.topologySpreadConstraints[0].fallbackCriteria"'
        ),
    )


async def test_a42_a_plain_client_is_warned_and_the_field_is_gone(client: Client) -> None:
    status, made = await client.post(PODS, spread_pod("a", [NPF]))
    assert (status, kept(made)) == (201, None)
    assert client.headers["Warning"] == (
        r'299 - "unknown field \"spec.topologySpreadConstraints[0].fallbackCriteria\""'
    )


async def test_a42_server_side_apply_knows_no_such_field(client: Client) -> None:
    path = f"{PODS}/a?fieldManager=me&force=true"
    status, response = await client.patch(path, spread_pod("a", [NPF]), "apply-patch+yaml")
    assert (status, response["message"]) == (
        500,
        (
            "failed to create typed patch object (default/a; /v1, Kind=Pod): "
            '.spec.topologySpreadConstraints[topologyKey="z",whenUnsatisfiable="DoNotSchedule"]'
            ".fallbackCriteria: field not declared in schema"
        ),
    )


async def test_a13_native_refuses_criteria_on_a_soft_constraint(native: Client) -> None:
    status, response = await native.post(PODS, spread_pod("a", [NPF], "ScheduleAnyway"))
    assert (status, response["reason"]) == (422, "Invalid")
    assert response["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "field": "spec.topologySpreadConstraints[0].fallbackCriteria",
            "message": f'Invalid value: ["{NPF}"]: can only use fallbackCriteria if '
            "whenUnsatisfiable=DoNotSchedule",
        }
    ]


async def test_a48_the_gate_is_switched_while_the_server_runs(native: Client) -> None:
    status, gates = await native.post("/_kubestow/gates", {GATE: False})
    assert status == 200
    assert (gates["apiserver"][GATE], gates["controllers"][GATE]) == (False, True)
    _, made = await native.post(f"{PODS}?fieldValidation=Strict", spread_pod("off", [NPF]))
    assert kept(made) is None
    await native.post("/_kubestow/gates", {GATE: True})
    _, made = await native.post(PODS, spread_pod("on", [NPF]))
    assert kept(made) == [NPF]
    await native.post("/_kubestow/gates/controllers", {GATE: False})
    _, gates = await native.get("/_kubestow/gates")
    assert (gates["apiserver"][GATE], gates["controllers"][GATE]) == (True, False)


async def test_a_stock_server_learns_the_field_with_the_gate(client: Client) -> None:
    await client.post("/_kubestow/gates", {GATE: True})
    _, made = await client.post(PODS, spread_pod("a", [NPF]))
    assert kept(made) == [NPF]


@pytest.mark.parametrize(
    ("path", "body", "code", "told"),
    [
        ("gates", {GATE: "no"}, 400, f"gates: {GATE}: 'no'; want true or false"),
        ("gates", {"Typo": True}, 400, "gates: Typo: True; want true or false for one of"),
        ("gates/scheduler", {GATE: True}, 404, "want one of apiserver, controllers"),
    ],
)
async def test_bad_gates_are_named(
    client: Client, path: str, body: JsonObject, code: int, told: str
) -> None:
    status, response = await client.post(f"/_kubestow/{path}", body)
    assert status == code
    assert told in response["message"]


async def test_fields_beside_it_stay(native: Client) -> None:
    entries = [constraint([NPF]), {**constraint([]), "topologyKey": "host", "minDomains": 2}]
    _, made = await native.post(PODS, pod("a", topologySpreadConstraints=entries))
    assert made["spec"]["topologySpreadConstraints"] == entries


async def test_openapi_tells_whether_the_server_has_the_field(
    client: Client, native: Client
) -> None:
    name = "io.k8s.api.core.v1.TopologySpreadConstraint"
    for each, has in ((client, False), (native, True)):
        _, found = await each.get("/openapi/v3/api/v1")
        properties = found["components"]["schemas"][name]["properties"]
        assert ("fallbackCriteria" in properties) is has
