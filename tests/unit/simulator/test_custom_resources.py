"""CustomResourceDefinitions: names, schemas and columns, as kube-apiserver serves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator import discovery
from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH, Api
from simulator.custom_resources import at_path
from simulator.errors import ApiError
from simulator.objects import JsonObject, copy_tree
from simulator.printing import table

CRD = Path(__file__).parents[3] / "examples" / "gang" / "crd.yaml"
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
                "amounts": {
                    "type": "object",
                    "additionalProperties": {"x-kubernetes-int-or-string": True},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "properties": {"on": {"type": "boolean", "default": True}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def _definition(**changes: Any) -> JsonObject:
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Rack", "plural": "racks", "shortNames": ["rk"]},
        "versions": [{**version, "schema": {"openAPIV3Schema": SCHEMA}}],
        **changes,
    }
    return {"metadata": {"name": "racks.example.com"}, "spec": spec}


def _define(api: Api, definition: JsonObject) -> JsonObject:
    row = api.resources.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    return api.create(row, "", copy_tree(definition)).obj


def _create(api: Api, spec: Any, *, strict: bool = False, **more: Any) -> JsonObject:
    row = api.resources.of_kind("example.com/v1", "Rack")
    body = {"metadata": {"name": "r"}, "spec": copy_tree(spec), **more}
    options = WriteOptions(field_validation="Strict" if strict else "Warn")
    return api.create(row, "default", body, options).obj


def test_the_definition_of_pod_groups_is_served(api: Api) -> None:
    made = _define(api, yaml.safe_load(CRD.read_text(encoding="utf-8")))
    assert [each["type"] for each in made["status"]["conditions"]] == [
        "NamesAccepted",
        "Established",
    ]
    row = api.resources.of_kind("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert row.short_names == ("pg", "pgs")
    found = discovery.document(
        api.resources, ["apis", "scheduling.x-k8s.io", "v1alpha1"], "127.0.0.1:1"
    )
    assert found is not None
    assert [each["name"] for each in found["resources"]] == ["podgroups", "podgroups/status"]
    body = {"metadata": {"name": "g"}, "spec": {"minMember": 3}}
    group = api.create(row, "default", body).obj
    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    api.patch(
        row, "default", "g", {"status": {"phase": "Running", "running": 2}}, MERGE_PATCH,
        subresource="status",
    )  # fmt: skip
    stored = api.get(row, "default", "g").obj
    shown = table(row.table, [stored], api.clock.now() + 5, columns=row.columns)
    names = [each["name"] for each in shown["columnDefinitions"]]
    assert names == ["Name", "Phase", "MinMember", "Running", "Succeeded", "Failed", "Age"]
    assert shown["rows"][0]["cells"] == ["g", "Running", 3, 2, "", "", "5s"]


def test_unknown_fields_are_dropped_or_refused_and_defaults_filled_in(api: Api) -> None:
    _define(api, _definition())
    spec = {"size": 1, "wrong": 1, "parts": [{"x": 1}], "free": {"y": 1}, "amounts": {"cpu": "1"}}
    with pytest.raises(
        ApiError, match=r'unknown field "spec.wrong", unknown field "spec.parts\[0\].x"'
    ):
        _create(api, spec, strict=True)
    made = _create(api, spec, status={"phase": "Running"})
    assert made["spec"] == {
        "size": 1,
        "mode": "A",
        "parts": [{"on": True}],
        "free": {"y": 1},
        "amounts": {"cpu": "1"},
    }
    assert "status" not in made


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "spec.size: Required value"),
        ({"size": 0}, "spec.size in body should be greater than or equal to 1"),
        ({"size": 10}, "spec.size in body should be less than or equal to 9"),
        ({"size": True}, "spec.size in body must be of type integer"),
        ({"size": "1"}, "spec.size in body must be of type integer"),
        ({"size": 1, "mode": "C"}, 'Unsupported value: "C": supported values: "A", "B"'),
        ({"size": 1, "name": "x"}, "spec.name in body should have at least 2 chars"),
        ({"size": 1, "name": "X1"}, r"spec.name in body should match '\^\[a-z\]\+\$'"),
        ({"size": 1, "parts": [{}, {}, {}]}, "spec.parts in body should have at most 2 items"),
        ({"size": 1, "parts": [{"on": 1}]}, r"spec.parts\[0\].on in body must be of type boolean"),
        ({"size": 1, "amounts": {"cpu": []}}, "must be of type integer or string"),
    ],
)
def test_values_are_checked(api: Api, spec: JsonObject, text: str) -> None:
    _define(api, _definition())
    with pytest.raises(ApiError, match=text) as raised:
        _create(api, spec)
    assert raised.value.code == 422


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"group": "other.com"}, "metadata.name: Invalid value"),
        ({"scope": "Anywhere"}, "spec.scope: Unsupported value"),
        ({"versions": []}, "spec.versions: Required value"),
        ({"names": {"plural": "racks"}}, "spec.names.kind: Required value"),
        ({"conversion": {"strategy": "Webhook"}}, "this server calls no webhooks"),
    ],
)
def test_a_definition_that_cannot_be_served_is_refused(
    api: Api, changes: JsonObject, text: str
) -> None:
    with pytest.raises(ApiError, match=text):
        _define(api, _definition(**changes))
    assert api.resources.find("example.com", "v1", "racks") is None


def test_what_is_defined_ends_with_its_definition(api: Api) -> None:
    _define(api, _definition())
    _create(api, {"size": 1})
    row = api.resources.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    patch = {"spec": {"versions": [{**_definition()["spec"]["versions"][0], "name": "v2"}]}}
    api.patch(row, "", "racks.example.com", patch, MERGE_PATCH)
    assert api.resources.find("example.com", "v1", "racks") is None
    newer = api.resources.of_kind("example.com/v2", "Rack")
    assert newer.view is not None
    assert newer.view.show(api.get(newer, "default", "r").obj)["apiVersion"] == "example.com/v2"
    api.delete(row, "", "racks.example.com")
    assert api.resources.find("example.com", "v2", "racks") is None
    assert not api.store.count("racks.example.com")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", 1),
        (".list[1].x", 3),
        ('.list[?(@.x=="two")].y', 4),
        (".labels['k.io/x']", 5),
        (".list[9].x", None),
        (".a.b.c", None),
        ("{nonsense", None),
    ],
)
def test_a_column_shows_what_its_path_leads_to(path: str, found: Any) -> None:
    obj = {
        "a": {"b": 1},
        "list": [{"x": "two", "y": 4}, {"x": 3}],
        "labels": {"k.io/x": 5},
    }
    assert at_path(obj, path) == found
