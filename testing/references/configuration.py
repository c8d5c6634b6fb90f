"""The page `docs/configuration-reference.md`: every key of the file, from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from config.schema import Schema, configuration_schema
from plugins import in_tree
from scheduler.framework import Registry
from testing.references.markdown import cell, prose, table

_INTRODUCTION: Final = """\
# Configuration reference

Generated from the definitions that decode the file by `make references`; do not edit.
[Configuration](configuration.md) explains how the parts work together;
[kubestow.schema.json](kubestow.schema.json) is the same for editors.

Durations are written as in Go: `15s`, `1m30s`, `250ms`. A key that is absent or null has its
default. Arguments of plugins may also have the keys `apiVersion` and `kind`, as kube-scheduler
allows. Relations between keys are checked by `kubestow config validate`.
"""

_TOP: Final = "KubeSchedulerConfiguration"
_REFERENCE: Final = "#/$defs/"
_MANY: Final = 2


def page() -> str:
    """Return the text of the page."""
    return "\n".join(
        [_INTRODUCTION, *_sections(configuration_schema(Registry(in_tree()))["$defs"])]
    )


def schema() -> str:
    """Return the text of the schema, as `kubestow config schema` prints it."""
    return json.dumps(configuration_schema(Registry(in_tree())), indent=2) + "\n"


def _sections(definitions: Mapping[str, Schema]) -> Iterator[str]:
    arguments = {
        rule["if"]["properties"]["name"]["const"]: _struct(rule["then"]["properties"]["args"])
        for rule in definitions["PluginConfig"]["allOf"]
    }
    file = _paths(definitions, {_TOP: [""]})
    yield "## The file\n"
    for name, paths in file.items():
        yield from _section(name, definitions, paths)
    yield "## Arguments of plugins\n\nValues of `profiles[].pluginConfig[].args`, by `name`.\n"
    without = [f"`{plugin}`" for plugin, name in arguments.items() if name == "NoArgs"]
    yield prose(f"These plugins have none: {', '.join(without)}.") + "\n"
    named: dict[str, list[str]] = {}
    for plugin, name in arguments.items():
        if name != "NoArgs":
            named.setdefault(name, []).append(f"{plugin}: ")
    for name, paths in _paths(definitions, named).items():
        yield from _section(name, definitions, paths)


def _paths(definitions: Mapping[str, Schema], begin: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return where each definition is used, in the order in which the keys come, depth first."""
    found: dict[str, list[str]] = {}

    def visit(name: str, path: str) -> None:
        found.setdefault(name, []).append(path)
        for key, field in definitions[name].get("properties", {}).items():
            below = _struct(field)
            if below:
                many = "[]" if _plain(field).get("type") == "array" else ""
                separator = "." if path and not path.endswith(" ") else ""
                visit(below, f"{path}{separator}{key}{many}")

    for name, paths in begin.items():
        for path in paths:
            visit(name, path)
    return found


def _section(name: str, definitions: Mapping[str, Schema], paths: list[str]) -> Iterator[str]:
    definition = definitions[name]
    yield f"### {name}\n"
    yield prose(" ".join(definition.get("description", "").split())) + "\n"
    shown = [f"`{path.removesuffix(': ')}`" for path in paths[:_MANY] if path]
    if shown and not (len(paths) == 1 and paths[0].endswith(": ")):
        more = f" and {len(paths) - _MANY} other places" if len(paths) > _MANY else ""
        yield f"At {', '.join(shown)}{more}.\n"
    rows = [
        (f"`{key}`", _type(field), _default(field), cell(_meaning(field, definitions)))
        for key, field in definition.get("properties", {}).items()
        if name == _TOP or key not in {"apiVersion", "kind"}
    ]
    yield table(("key", "type", "default", "meaning"), rows)


def _plain(field: Schema) -> Schema:
    """Return a field without the null that it may be."""
    members: list[Schema] = [
        each for each in field.get("anyOf", [field]) if each.get("type") != "null"
    ]
    return members[-1] if members else {}


def _struct(field: Schema) -> str:
    """Return the name of the definition that a field or its elements have; empty for others."""
    plain = _plain(field)
    if plain.get("type") == "array":
        plain = plain["items"]
    name = str(plain.get("$ref", "")).removeprefix(_REFERENCE)
    return "" if name == "Duration" else name


def _type(field: Schema) -> str:
    plain = _plain(field)
    match plain:
        case {"$ref": "#/$defs/Duration"}:
            return "duration"
        case {"$ref": reference}:
            name = reference.removeprefix(_REFERENCE)
            return f"[{name}](#{name.lower()})"
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": values}:
            return f"map of {_type(values)}"
        case {"const": value}:
            return f"`{value}`"
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values if value)
        case {"type": "integer" | "number" as kind}:
            return f"{kind}{_range(plain)}"
        case {"type": kind}:
            return str(kind)
        case _:
            return "any"


def _range(plain: Schema) -> str:
    """Return the limits of a number; those of its machine type are none."""
    low, high = plain.get("minimum"), plain.get("maximum")
    low = None if low is not None and low <= -(2**31) else low
    high = None if high is not None and high >= 2**31 - 1 else high
    if low is None and high is None:
        return ""
    if high is None:
        return f", {low} or more"
    return f", up to {high}" if low is None else f", {low} to {high}"


def _default(field: Schema) -> str:
    value: Any = field.get("default")
    if value is None:
        return "-"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _meaning(field: Schema, definitions: Mapping[str, Schema]) -> str:
    """Return the description of a field, or that of the definition it refers to."""
    return str(
        field.get("description") or definitions.get(_struct(field), {}).get("description", "")
    )
