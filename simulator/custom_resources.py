"""CustomResourceDefinitions: what they define is served as long as they exist.

Versions of one definition are shown as they are stored, under the version that was asked for: a
definition with conversion webhooks is refused. What is enough for schedulers and kubectl is here:
names, scope, status and scale, printer columns, schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from simulator.errors import FieldCause, invalid_value, required_field, unsupported_value
from simulator.objects import JsonObject, dig, format_time, parse_time
from simulator.printing import NAME, Cell, Column, human_duration
from simulator.resources import RESOURCES, Resource, ResourceTable, View
from simulator.store import Store, StoreChange
from simulator.strategies import Strategy, Surroundings, validate_metadata

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_STEP: Final = re.compile(
    r"""\.([A-Za-z0-9_-]+)|\['([^']+)'\]|\[(\d+)\]|\[\?\(@\.(\w+)==["']([^"']*)["']\)\]"""
)
"""A step of a JSONPath: a name, a quoted name, an index, or the first entry with a value."""


_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions are established at once."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in names and conversion."""
        super().default(obj, around)
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = str(names.get("kind", ""))
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Accept the names."""
        now = format_time(around.clock.now())
        told = (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
        versions = obj["spec"].get("versions") or ()
        stored = [each.get("name", "") for each in versions if each.get("storage")]
        obj["status"] = {
            "acceptedNames": obj["spec"]["names"],
            "storedVersions": stored,
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": reason,
                    "lastTransitionTime": now,
                    "message": "",
                }
                for kind, reason in told
            ],
        }

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check names and versions."""
        return validate_metadata(obj) + _definition_causes(obj)

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check names and versions."""
        return super().validate_update(obj, old, around) + _definition_causes(obj)


def _definition_causes(obj: JsonObject) -> list[FieldCause]:
    spec = obj["spec"]
    group, plural = str(spec.get("group", "")), str(dig(spec, "names", "plural") or "")
    causes = [
        required_field(f"spec.{path}")
        for path, value in (
            ("group", group),
            ("names.plural", plural),
            ("names.kind", dig(spec, "names", "kind")),
            ("versions", spec.get("versions")),
        )
        if not value
    ]
    if obj["metadata"]["name"] != f"{plural}.{group}":
        why = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid_value("metadata.name", f'"{obj["metadata"]["name"]}"', why))
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        scope = str(spec.get("scope", ""))
        causes.append(unsupported_value("spec.scope", scope, ("Cluster", "Namespaced")))
    if sum(bool(each.get("storage")) for each in spec.get("versions") or ()) != 1:
        why = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", "[]", why))
    if dig(spec, "conversion", "strategy") != "None":
        why = "this server calls no webhooks: give None"
        causes.append(invalid_value("spec.conversion.strategy", '"Webhook"', why))
    if any(row.group == group and row.plural == plural for row in RESOURCES):
        causes.append(invalid_value("spec.names.plural", f'"{plural}"', "is built in"))
    return causes


class CustomResources:
    """Keeps the resource table in step with the definitions in the store."""

    def __init__(self, store: Store, resources: ResourceTable) -> None:
        self._store, self._resources = store, resources
        store.subscribe(DEFINITIONS, self._changed)

    def _changed(self, _table: str, change: StoreChange) -> None:
        before = change.version if change.type == "DELETED" else change.previous
        for row in () if before is None else rows_of(before.obj):
            self._resources.remove(row)
        if change.type != "DELETED":
            for row in rows_of(change.version.obj):
                self._resources.add(row)
            return
        table = change.version.name
        for found in list(self._store.items(table)):
            self._store.delete(table, found.namespace, found.name)


def rows_of(definition: JsonObject) -> Iterator[Resource]:
    """Yield a row for each version that is served."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if version.get("served"):
            group_version = f"{spec['group']}/{version['name']}"
            show = partial(_as_version, group_version)
            yield Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec.get("scope") == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                subresources=tuple(sorted(version.get("subresources") or {})),
                categories=tuple(names.get("categories") or ()),
                generation=True,
                view=View(show, show),
                schema=dig(version, "schema", "openAPIV3Schema") or {},
                columns=tuple(_columns(version)),
            )


def _as_version(group_version: str, obj: JsonObject) -> JsonObject:
    return {**obj, "apiVersion": group_version}


def _columns(version: JsonObject) -> Iterator[Column]:
    yield NAME
    for each in version.get("additionalPrinterColumns") or (_AGE,):
        path, kind = str(each.get("jsonPath", "")), str(each.get("type", "string"))
        yield Column(
            str(each.get("name", "")),
            partial(_cell, path, kind),
            type=kind,
            format=str(each.get("format", "")),
            priority=int(each.get("priority", 0)),
        )


def _cell(path: str, kind: str, obj: JsonObject, now: float) -> Cell:
    found = at_path(obj, path)
    if found is None:
        return ""
    if kind == "date":
        moment = parse_time(str(found))
        return "<unknown>" if moment is None else human_duration(now - moment)
    return found if isinstance(found, int | bool) else str(found)


def at_path(obj: Any, path: str) -> Any:
    """Return what a JSONPath of names, indexes and equalities leads to; None: nothing.

    >>> ready = '.status.conditions[?(@.type=="Ready")].status'
    >>> at_path({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, ready)
    'True'
    """
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        at = step.end()
        name, quoted, index, key, value = step.groups()
        if name or quoted:
            obj = obj.get(name or quoted) if isinstance(obj, dict) else None
        elif not isinstance(obj, list):
            return None
        elif index:
            obj = obj[int(index)] if int(index) < len(obj) else None
        else:
            matching = (each for each in obj if isinstance(each, dict) and each.get(key) == value)
            obj = next(matching, None)
    return obj
