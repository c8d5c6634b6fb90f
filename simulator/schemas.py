"""Objects of custom resources against the schema of their definition (`openAPIV3Schema`).

Fields that the schema does not know are dropped, default values filled in, and values checked, in
the order of kube-apiserver (structural schemas). Rules in CEL are not evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from simulator.errors import FieldCause, invalid_value, required_field, unsupported_value
from simulator.objects import JsonObject, copy_tree, encode_json

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_HEAD: Final = ("apiVersion", "kind", "metadata")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class Unknown(NamedTuple):
    """A field that the schema does not know."""

    holder: JsonObject
    key: str
    path: str


def unknown_fields(obj: JsonObject, schema: Mapping[str, Any]) -> list[Unknown]:
    """Return the fields of an object that its schema does not know."""
    if schema.get(PRESERVE):
        return []
    known = schema.get("properties") or {}
    found: list[Unknown] = []
    for key, value in obj.items():
        if key in _HEAD:
            continue
        if key in known:
            found += _unknown(value, known[key], key)
        else:
            found.append(Unknown(obj, key, key))
    return found


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Unknown]:
    if isinstance(value, list):
        items = schema.get("items") or {}
        for index, each in enumerate(value) if items else ():
            yield from _unknown(each, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, each in value.items():
            if key in known:
                yield from _unknown(each, known[key], f"{path}.{key}")
            elif isinstance(more, dict):
                yield from _unknown(each, more, f"{path}.{key}")
            elif not more and not schema.get(PRESERVE):
                yield Unknown(value, key, f"{path}.{key}")


def fill_defaults(value: Any, schema: Mapping[str, Any]) -> None:
    """Fill in default values in place."""
    if isinstance(value, list):
        for each in value:
            fill_defaults(each, schema.get("items") or {})
    elif isinstance(value, dict):
        for key, inner in (schema.get("properties") or {}).items():
            if key not in value and "default" in inner:
                value[key] = copy_tree({"value": inner["default"]})["value"]
            if key in value:
                fill_defaults(value[key], inner)
        more = schema.get("additionalProperties")
        for key, each in value.items():
            if isinstance(more, dict) and key not in (schema.get("properties") or {}):
                fill_defaults(each, more)


def causes_of(obj: JsonObject, schema: Mapping[str, Any]) -> list[FieldCause]:
    """Return the violated rules of an object."""
    own = {key: each for key, each in obj.items() if key not in _HEAD}
    known = schema.get("properties") or {}
    without = {key: each for key, each in known.items() if key not in _HEAD}
    required = [each for each in schema.get("required") or () if each not in _HEAD]
    return list(_causes(own, {**schema, "properties": without, "required": required}, ""))


def _causes(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    if schema.get(INT_OR_STRING):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield _wrong(path, value, "must be of type integer or string")
        return
    wanted = _TYPES.get(schema.get("type", ""))
    if wanted and (
        not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)
    ):
        yield _wrong(path, value, f"must be of type {schema['type']}")
        return
    yield from _limits(value, schema, path)
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        for name in schema.get("required") or ():
            if name not in value:
                yield required_field(f"{prefix}{name}")
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, each in value.items():
            inner = known.get(key, more)
            if isinstance(inner, dict):
                yield from _causes(each, inner, f"{prefix}{key}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, each in enumerate(value):
            yield from _causes(each, schema["items"], f"{path}[{index}]")


def _limits(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported_value(path, str(value), [str(each) for each in schema["enum"]])
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield _wrong(path, value, f"should be greater than or equal to {schema['minimum']}")
        if value > schema.get("maximum", value):
            yield _wrong(path, value, f"should be less than or equal to {schema['maximum']}")
    if isinstance(value, str):
        yield from _sizes(value, schema, path, "Length", "chars")
        pattern = schema.get("pattern")
        if pattern and not re.search(pattern, value):
            yield _wrong(path, value, f"should match '{pattern}'")
    elif isinstance(value, list):
        yield from _sizes(value, schema, path, "Items", "items")


def _sizes(
    value: str | list[Any], schema: Mapping[str, Any], path: str, of: str, unit: str
) -> Iterator[FieldCause]:
    least, most = schema.get(f"min{of}", 0), schema.get(f"max{of}", len(value))
    if len(value) < least:
        yield _wrong(path, value, f"should have at least {least} {unit}")
    if len(value) > most:
        yield _wrong(path, value, f"should have at most {most} {unit}")


def _wrong(path: str, value: Any, rule: str) -> FieldCause:
    shown = encode_json(value).decode()
    return invalid_value(path or "<root>", shown[:200], f"{path} in body {rule}")
