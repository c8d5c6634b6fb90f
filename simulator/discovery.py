"""Discovery: /version, /api, /apis, group lists, OpenAPI stubs.

Enough for kubectl and for client libraries to find every row of the resource table, and to learn
that the server validates fields itself (`fieldValidation` on PATCH), so that kubectl requests no
schemas. The OpenAPI documents describe no field, except the one that shows whether the server has
KEP-3990.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from simulator.objects import JsonObject, encode_json
from simulator.resources import Resource, ResourceTable

VERSION: Final[JsonObject] = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0-kubestow",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "python",
    "platform": "any/any",
}
_OTHER_KINDS: Final = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
}
_CRITERIA: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}
_STATUS_VERBS: Final = ("get", "patch", "update")


def versions(address: str) -> JsonObject:
    """/api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _group(name: str, found: list[str]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in found]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def groups(resources: ResourceTable) -> JsonObject:
    """/apis."""
    found: dict[str, list[str]] = {}
    for group, version in resources.group_versions():
        if group:
            found.setdefault(group, []).append(version)
    listed = [_group(name, names) for name, names in sorted(found.items())]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(resources: ResourceTable, name: str) -> JsonObject | None:
    """/apis/{group}; None when there is no such group."""
    for entry in groups(resources)["groups"]:
        if entry["name"] == name:
            return {"kind": "APIGroup", "apiVersion": "v1", **entry}
    return None


def _entry(row: Resource) -> JsonObject:
    entry: JsonObject = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    return entry


def _sub_entry(row: Resource, name: str) -> JsonObject:
    entry: JsonObject = {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(_STATUS_VERBS),
    }
    if name in _OTHER_KINDS:
        other_group, version, kind, verbs = _OTHER_KINDS[name]
        entry["kind"], entry["verbs"] = kind, list(verbs)
        if other_group:
            entry["group"], entry["version"] = other_group, version
    return entry


def resource_list(resources: ResourceTable, group_name: str, version: str) -> JsonObject | None:
    """/api/v1 or /apis/{group}/{version}; None when there is no such version."""
    rows = resources.rows(group_name, version)
    if not rows:
        return None
    entries: list[JsonObject] = []
    for row in rows:
        entries.append(_entry(row))
        entries += [_sub_entry(row, name) for name in row.subresources]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].group_version,
        "resources": entries,
    }


def _path_of(group_name: str, version: str) -> str:
    return f"apis/{group_name}/{version}" if group_name else f"api/{version}"


def openapi_index(resources: ResourceTable, *, fallback: bool = False) -> JsonObject:
    """/openapi/v3."""
    paths: dict[str, Any] = {}
    for group_name, version in resources.group_versions():
        path = _path_of(group_name, version)
        document = openapi(resources, group_name, version, fallback=fallback)
        mark = hashlib.sha256(encode_json(document)).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
    return {"paths": paths}


def _schemas(group_name: str, fallback: bool) -> JsonObject:
    """Return the only schema with content: it shows clients whether the server has KEP-3990."""
    if group_name:
        return {}
    properties: JsonObject = {"fallbackCriteria": _CRITERIA} if fallback else {}
    constraint = {"type": "object", "properties": properties}
    return {"io.k8s.api.core.v1.TopologySpreadConstraint": constraint}


def openapi(
    resources: ResourceTable, group_name: str, version: str, *, fallback: bool = False
) -> JsonObject | None:
    """/openapi/v3/…: one PATCH per kind, which is what kubectl looks at.

    `fallback`: constraints have the field `fallbackCriteria`.
    """
    rows = resources.rows(group_name, version)
    if not rows:
        return None
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    paths: dict[str, Any] = {}
    for row in rows:
        scope = "namespaces/{namespace}/" if row.namespaced else ""
        paths[f"/{_path_of(group_name, version)}/{scope}{row.plural}/{{name}}"] = {
            "patch": {
                "operationId": f"patch{row.kind}",
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {
                    "group": row.group,
                    "version": row.version,
                    "kind": row.kind,
                },
            }
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "kubestow embedded API server", "version": str(VERSION["gitVersion"])},
        "paths": paths,
        "components": {"schemas": _schemas(group_name, fallback)},
    }


def openapi_v2() -> JsonObject:
    """/openapi/v2: a valid document that describes nothing."""
    return {
        "swagger": "2.0",
        "info": {"title": "kubestow embedded API server", "version": str(VERSION["gitVersion"])},
        "paths": {},
        "definitions": {},
    }


def document(
    resources: ResourceTable, segments: list[str], address: str, *, fallback: bool = False
) -> JsonObject | None:
    """Return the document at a path that is no resource; None where there is none."""
    match segments:
        case []:
            return {"paths": ["/api", "/apis", "/openapi/v3", "/version", "/_kubestow"]}
        case ["version"]:
            return VERSION
        case ["api"]:
            return versions(address)
        case ["apis"]:
            return groups(resources)
        case ["api", version]:
            return resource_list(resources, "", version)
        case ["apis", name]:
            return group(resources, name)
        case ["apis", name, version]:
            return resource_list(resources, name, version)
        case ["openapi", "v2"]:
            return openapi_v2()
        case ["openapi", "v3"]:
            return openapi_index(resources, fallback=fallback)
        case ["openapi", "v3", "api", version]:
            return openapi(resources, "", version, fallback=fallback)
        case ["openapi", "v3", "apis", name, version]:
            return openapi(resources, name, version)
    return None
