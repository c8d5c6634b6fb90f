"""KEP-3990's native field in the API server: kept, validated, dropped while its gate is off.

Rules: docs/topology-spread-fallback.md. What the scheduler makes of the field is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulator.admission import WriteOptions
from simulator.api import STRATEGIC_PATCH, Api
from simulator.errors import ApiError
from simulator.gates import FALLBACK_GATE, ServerGates
from simulator.objects import JsonObject, dig
from simulator.strategies import Surroundings
from tests.unit.simulator.objects import pod

NPF, PF = "NodeProvisioningFailed", "PreemptionFailed"
FIELD = "spec.topologySpreadConstraints[0].fallbackCriteria"


@pytest.fixture
def gates(api: Api) -> ServerGates:
    """A native server, its gates on."""
    made = ServerGates("native")
    api.around = Surroundings(api.store, api.clock, "native", made)
    return made


def constraint(criteria: Any, when: str = "DoNotSchedule") -> JsonObject:
    return {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": when,
            "fallbackCriteria": criteria}  # fmt: skip


def spread_pod(name: str, criteria: Any, when: str = "DoNotSchedule") -> JsonObject:
    return pod(name, topologySpreadConstraints=[constraint(criteria, when)])


def create(api: Api, body: JsonObject, api_version: str = "v1") -> JsonObject:
    row = api.resources.of_kind(api_version, body["kind"])
    return api.create(row, "default", body, WriteOptions(field_validation="Strict")).obj


def workload(kind: str, criteria: Any, when: str = "DoNotSchedule") -> JsonObject:
    template = {"metadata": {"labels": {"app": "a"}},
                "spec": spread_pod("", criteria, when)["spec"]}  # fmt: skip
    spec: JsonObject = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    if kind == "Job":
        del spec["selector"]
    if kind == "CronJob":
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": "w"}, "spec": spec}


VERSIONS = {
    "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
    "ReplicationController": "v1",
}  # fmt: skip
PATHS = dict.fromkeys(VERSIONS, ("spec", "template", "spec")) | {
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec")
}


def criteria_of(obj: JsonObject, *path: str) -> Any:
    return dig(obj, *(path or ("spec",)))["topologySpreadConstraints"][0].get("fallbackCriteria")


@pytest.mark.parametrize("criteria", [[NPF], [PF, NPF], []])
def test_legal_lists_are_kept(api: Api, gates: ServerGates, criteria: list[str]) -> None:
    assert criteria_of(create(api, spread_pod("a", criteria))) == criteria


A13 = [
    (
        [NPF], "ScheduleAnyway",
        (f'{FIELD}: Invalid value: ["{NPF}"]: can only use fallbackCriteria if '
        "whenUnsatisfiable=DoNotSchedule"),
    ),
    (
        ["Nope"], "DoNotSchedule",
        f'{FIELD}[0]: Unsupported value: "Nope": supported values: "{NPF}", "{PF}"',
    ),
    ([PF, NPF, PF], "DoNotSchedule", f'{FIELD}[2]: Duplicate value: "{PF}"'),
]  # fmt: skip


@pytest.mark.parametrize(("criteria", "when", "cause"), A13)
def test_a13_illegal_lists_are_refused_with_their_path(
    api: Api, gates: ServerGates, criteria: list[str], when: str, cause: str
) -> None:
    with pytest.raises(ApiError) as raised:
        create(api, spread_pod("a", criteria, when))
    assert raised.value.code == 422
    assert raised.value.status["message"] == f'Pod "a" is invalid: {cause}'


def test_a13_an_empty_list_is_legal_on_a_soft_constraint(api: Api, gates: ServerGates) -> None:
    create(api, spread_pod("a", [], "ScheduleAnyway"))


def test_every_violation_is_named_at_once(api: Api, gates: ServerGates) -> None:
    with pytest.raises(ApiError) as raised:
        create(api, spread_pod("a", ["x", NPF, NPF], "ScheduleAnyway"))
    causes = [cause["reason"] for cause in raised.value.status["details"]["causes"]]
    assert causes == ["FieldValueInvalid", "FieldValueNotSupported", "FieldValueDuplicate"]


@pytest.mark.parametrize("value", ["NodeProvisioningFailed", 1, [1], {"a": 1}, [[NPF]]])
@pytest.mark.parametrize("on", [True, False])
def test_a_value_that_is_no_list_of_strings_is_a_bad_request(
    api: Api, gates: ServerGates, value: Any, on: bool
) -> None:
    gates.change({FALLBACK_GATE: on})
    with pytest.raises(ApiError) as raised:
        create(api, spread_pod("a", value))
    assert raised.value.code == 400
    assert FIELD in str(raised.value)


@pytest.mark.parametrize("kind", VERSIONS)
def test_a13_templates_are_checked_as_pods_are(api: Api, gates: ServerGates, kind: str) -> None:
    path = ".".join(PATHS[kind])
    with pytest.raises(ApiError) as raised:
        create(api, workload(kind, [NPF], "ScheduleAnyway"), VERSIONS[kind])
    assert f"{path}.topologySpreadConstraints[0].fallbackCriteria: Invalid value" in str(
        raised.value
    )
    assert criteria_of(create(api, workload(kind, [NPF]), VERSIONS[kind]), *PATHS[kind]) == [NPF]


def test_a13_a_template_is_checked_again_when_it_changes(api: Api, gates: ServerGates) -> None:
    create(api, workload("Deployment", [NPF]), "apps/v1")
    row = api.resources.of_kind("apps/v1", "Deployment")
    body = workload("Deployment", ["Nope"])
    with pytest.raises(ApiError, match="Unsupported value"):
        api.update(row, "default", "w", body)


@pytest.mark.parametrize("kind", VERSIONS)
def test_stock_calls_the_field_of_a_template_unknown(api: Api, kind: str) -> None:
    with pytest.raises(ApiError) as raised:
        create(api, workload(kind, [NPF]), VERSIONS[kind])
    path = ".".join(PATHS[kind])
    assert raised.value.status["message"] == (
        f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: '
        f'unknown field "{path}.topologySpreadConstraints[0].fallbackCriteria"'
    )


# --------------------------------------------------------------------------------- A48: the gate


def test_a48_a_gate_that_is_off_clears_the_field_without_a_word(
    api: Api, gates: ServerGates
) -> None:
    gates.change({FALLBACK_GATE: False})
    options = WriteOptions(field_validation="Strict")
    row = api.resources.of_kind("v1", "Pod")
    made = api.create(row, "default", spread_pod("a", [NPF]), options).obj
    assert criteria_of(made) is None
    assert options.warnings == []
    # A value without effect need not be valid.
    create(api, spread_pod("b", ["Nope"], "ScheduleAnyway"))


def _relabelled(api: Api, name: str) -> JsonObject:
    row = api.resources.of_kind("v1", "Pod")
    patch = {"metadata": {"labels": {"touched": "yes"}}}
    return api.patch(row, "default", name, patch, STRATEGIC_PATCH).obj


def _replaced(api: Api, name: str) -> JsonObject:
    row = api.resources.of_kind("v1", "Pod")
    body = spread_pod(name, [NPF])
    stored = api.get(row, "default", name).obj
    body["spec"] = {**stored["spec"], "topologySpreadConstraints": [constraint([NPF])]}
    body["metadata"]["labels"] = {"touched": "yes"}
    return api.update(row, "default", name, body).obj


def _status(api: Api, name: str) -> JsonObject:
    row = api.resources.of_kind("v1", "Pod")
    patch = {"status": {"message": "m"}}
    return api.patch(row, "default", name, patch, STRATEGIC_PATCH, subresource="status").obj


@pytest.mark.parametrize("write", [_relabelled, _replaced, _status])
def test_a48_an_object_that_has_the_field_keeps_it(
    api: Api, gates: ServerGates, write: Callable[[Api, str], JsonObject]
) -> None:
    create(api, spread_pod("a", [NPF]))
    gates.change({FALLBACK_GATE: False})
    assert criteria_of(write(api, "a")) == [NPF]


def test_a48_a_template_gets_the_field_only_if_it_had_it(api: Api, gates: ServerGates) -> None:
    row = api.resources.of_kind("apps/v1", "Deployment")
    gates.change({FALLBACK_GATE: False})
    assert criteria_of(create(api, workload("Deployment", [NPF]), "apps/v1"), *TEMPLATE) is None
    changed = api.update(row, "default", "w", workload("Deployment", [NPF])).obj
    assert criteria_of(changed, *TEMPLATE) is None
    gates.change({FALLBACK_GATE: True})
    changed = api.update(row, "default", "w", workload("Deployment", [NPF])).obj
    assert criteria_of(changed, *TEMPLATE) == [NPF]
    gates.change({FALLBACK_GATE: False})
    changed = api.update(row, "default", "w", workload("Deployment", [NPF, PF])).obj
    assert criteria_of(changed, *TEMPLATE) == [NPF, PF]


TEMPLATE = PATHS["Deployment"]


def test_a48_switched_on_again_new_pods_get_the_field(api: Api, gates: ServerGates) -> None:
    for number, on in enumerate([True, False, True]):
        gates.change({FALLBACK_GATE: on})
        made = create(api, spread_pod(f"p{number}", [NPF]))
        assert criteria_of(made) == ([NPF] if on else None)


SPREAD = "spec.topologySpreadConstraints"


@pytest.mark.parametrize(
    ("entries", "causes"),
    [
        (
            [constraint(None), constraint(None), constraint(None, "ScheduleAnyway")],
            [
                (
                    f"{SPREAD}[0].{{topologyKey, whenUnsatisfiable}}: Duplicate value: "
                    '"{z, DoNotSchedule}"'
                )
            ],
        ),
        (
            [{}],
            [
                f"{SPREAD}[0].maxSkew: Invalid value: 0: must be greater than zero",
                f"{SPREAD}[0].topologyKey: Required value: can not be empty",
                (
                    f'{SPREAD}[0].whenUnsatisfiable: Unsupported value: "": supported values: '
                    '"DoNotSchedule", "ScheduleAnyway"'
                ),
            ],
        ),
        (
            [{**constraint(None), "minDomains": 0}],
            [f"{SPREAD}[0].minDomains: Invalid value: 0: must be greater than zero"],
        ),
        (
            [{**constraint(None, "ScheduleAnyway"), "minDomains": 3}],
            [
                (
                    f"{SPREAD}[0].minDomains: Invalid value: 3: can only use minDomains if "
                    "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
                )
            ],
        ),
    ],
)
def test_constraints_are_held_to_the_rules_of_v1_36(
    api: Api, entries: list[JsonObject], causes: list[str]
) -> None:
    with pytest.raises(ApiError) as raised:
        create(api, pod("a", topologySpreadConstraints=entries))
    assert raised.value.code == 422
    found = raised.value.status["details"]["causes"]
    assert [f"{each['field']}: {each['message']}" for each in found] == causes
