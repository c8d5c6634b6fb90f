"""Strict decoding of a document tree into msgspec Structs, with every mistake reported.

`msgspec.convert` would stop at the first one. This walks the tree along with msgspec's description
of the Struct, so plugin arguments need no second schema. Rules: unknown fields are rejected even if
the Struct allows them; null is the same as absent, as in Go; numbers and texts are never converted
into each other; a `timedelta` is written as a Go duration. A field with a mistake takes its
default, so that the rest can still be checked.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect as mi

from config.document import Entries, Items, Node, Scalar, plain
from config.types import RENAMED_FIELDS
from scheduler.framework.field_errors import (
    FieldErrors,
    below,
    child,
    did_you_mean,
    invalid,
    item,
    required,
    unsupported,
)
from scheduler.sanitizing.go_values import parse_duration

S = TypeVar("S", bound=msgspec.Struct)


class _Invalid(Enum):
    INVALID = "a value that could not be decoded"


INVALID: Final = _Invalid.INVALID
"""Stands for a value whose mistakes have been reported."""

_SEQUENCES: Final = (mi.ListType, mi.VarTupleType, mi.SetType, mi.FrozenSetType)

#: Types without a rule of their own here: msgspec decodes them from JSON data.
_CONVERTED: Final[dict[type[mi.Type], Any]] = {
    mi.BytesType: bytes,
    mi.DateType: dt.date,
    mi.DateTimeType: dt.datetime,
}


@lru_cache(maxsize=256)
def described(struct: type[msgspec.Struct]) -> mi.StructType:
    """Return msgspec's description of a Struct."""
    info = mi.type_info(struct)
    assert isinstance(info, mi.StructType)
    return info


class Decoder:
    """Decoder of trees; mistakes go to `errors`."""

    def __init__(self, errors: FieldErrors) -> None:
        self._errors = errors

    def struct(self, struct: type[S], node: Node, path: str) -> S | None:
        """Decode a Struct; None when a required field is missing or wrong."""
        value = self._struct(described(struct), node, path)
        if value is INVALID:
            return None
        assert isinstance(value, struct)
        return value

    def _value(self, info: mi.Type, node: Node, path: str) -> Any:
        if isinstance(info, mi.Metadata):
            return self._value(info.type, node, path)
        if isinstance(info, mi.AnyType):
            return plain(node)
        if isinstance(info, mi.UnionType):
            return self._union(info, node, path)
        if isinstance(info, mi.StructType):
            return self._struct(info, node, path)
        if isinstance(info, mi.DictType):
            return self._dict(info, node, path)
        if isinstance(info, _SEQUENCES):
            return self._sequence(info, node, path)
        if isinstance(info, mi.TupleType):
            return self._tuple(info, node, path)
        if not isinstance(node, Scalar):
            return self._wrong_type(info, node, path)
        return self._scalar(info, node, path)

    # -- mappings ---------------------------------------------------------------------------------

    def _struct(self, info: mi.StructType, node: Node, path: str) -> Any:
        if not isinstance(node, Entries):
            return self._wrong_type(info, node, path)
        fields = {field.encode_name: field for field in info.fields}
        known = [*fields, info.tag_field] if info.tag_field else list(fields)
        for key in node.nodes:
            if key not in known:
                where = child(path, key)
                if not self._errors.has(where):
                    self._errors.add(where, _unknown_field(where, key, known))
        values: dict[str, Any] = {}
        complete = True
        for name, field in fields.items():
            value = self._field(field, node.nodes.get(name), child(path, name))
            if value is not INVALID:
                values[field.name] = value
            elif field.required:
                complete = False
        if not complete:
            return INVALID
        try:
            return info.cls(**values)
        except (ValueError, TypeError) as error:  # from a Struct's own __post_init__
            self._errors.add(path, str(error))
            return INVALID

    def _field(self, field: mi.Field, node: Node | None, path: str) -> Any:
        """Decode a field; INVALID also stands for the default of the Struct."""
        if node is not None and not (isinstance(node, Scalar) and node.value is None):
            return self._value(field.type, node, path)
        if field.required:
            if node is not None and _nullable(field.type):
                return None
            self._errors.add(path, required())
        return INVALID

    def _dict(self, info: mi.DictType, node: Node, path: str) -> Any:
        if not isinstance(node, Entries):
            return self._wrong_type(info, node, path)
        decoded: dict[Any, Any] = {}
        for key, inner in node.nodes.items():
            name = self._value(info.key_type, Scalar(key), child(path, key))
            value = self._value(info.value_type, inner, child(path, key))
            if name is not INVALID and value is not INVALID:
                decoded[name] = value
        return decoded

    # -- lists ------------------------------------------------------------------------------------

    def _sequence(
        self,
        info: mi.ListType | mi.VarTupleType | mi.SetType | mi.FrozenSetType,
        node: Node,
        path: str,
    ) -> Any:
        if not isinstance(node, Items):
            return self._wrong_type(info, node, path)
        decoded = [
            self._value(info.item_type, inner, item(path, index))
            for index, inner in enumerate(node.nodes)
        ]
        self._length(info, len(decoded), path)
        valid = [value for value in decoded if value is not INVALID]
        if isinstance(info, mi.ListType):
            return valid
        if isinstance(info, mi.VarTupleType):
            return tuple(valid)
        return frozenset(valid) if isinstance(info, mi.FrozenSetType) else set(valid)

    def _tuple(self, info: mi.TupleType, node: Node, path: str) -> Any:
        if not isinstance(node, Items):
            return self._wrong_type(info, node, path)
        if len(node.nodes) != len(info.item_types):
            self._errors.add(path, f"must have exactly {len(info.item_types)} entries")
            return INVALID
        pairs = zip(info.item_types, node.nodes, strict=True)
        decoded = tuple(
            self._value(one, inner, item(path, index)) for index, (one, inner) in enumerate(pairs)
        )
        return INVALID if INVALID in decoded else decoded

    def _length(self, info: Any, length: int, path: str) -> None:
        if info.min_length is not None and length < info.min_length:
            self._errors.add(path, f"must have at least {info.min_length} entries")
        if info.max_length is not None and length > info.max_length:
            self._errors.add(path, f"must have at most {info.max_length} entries")

    # -- unions -----------------------------------------------------------------------------------

    def _union(self, info: mi.UnionType, node: Node, path: str) -> Any:
        if isinstance(node, Scalar) and node.value is None and _nullable(info):
            return None
        members = [one for one in info.types if not isinstance(one, mi.NoneType)]
        if len(members) == 1:
            return self._value(members[0], node, path)
        fitting = [one for one in members if _fits(one, node)]
        if not fitting:
            return self._wrong_type(info, node, path)
        return self._value(_tagged(fitting, node), node, path)

    # -- leaves -----------------------------------------------------------------------------------

    def _scalar(self, info: mi.Type, node: Scalar, path: str) -> Any:
        value = node.value
        if isinstance(info, mi.TimeDeltaType):
            return self._duration(info, node, path)
        if isinstance(info, mi.EnumType):
            return self._one_of({member.value: member for member in info.cls}, node, path)
        if isinstance(info, mi.LiteralType):
            return self._one_of({literal: literal for literal in info.values}, node, path)
        if isinstance(info, mi.BoolType) and isinstance(value, bool):
            return value
        if isinstance(info, mi.IntType | mi.FloatType) and _is_number(value, info):
            return self._number(info, value, path)
        if isinstance(info, mi.StrType) and isinstance(value, str):
            return self._text(info, value, path)
        if isinstance(info, mi.CustomType) or type(info) in _CONVERTED:
            return self._convert(info, node, path)
        return self._wrong_type(info, node, path)

    def _duration(self, info: mi.Type, node: Scalar, path: str) -> Any:
        if not isinstance(node.value, str):
            return self._wrong_type(info, node, path)
        try:
            return parse_duration(node.value)
        except ValueError as error:
            self._errors.add(path, str(error))
            return INVALID

    def _one_of(self, members: dict[Any, Any], node: Scalar, path: str) -> Any:
        for value, member in members.items():
            if type(value) is type(node.value) and value == node.value:
                return member
        self._errors.add(path, unsupported(node.value, members))
        return INVALID

    def _number(self, info: mi.IntType | mi.FloatType, value: Any, path: str) -> Any:
        checks: tuple[tuple[float | None, Callable[[float], bool], str], ...] = (
            (info.ge, lambda limit: value >= limit, f"must be at least {info.ge}"),
            (info.gt, lambda limit: value > limit, f"must be greater than {info.gt}"),
            (info.le, lambda limit: value <= limit, f"must be at most {info.le}"),
            (info.lt, lambda limit: value < limit, f"must be less than {info.lt}"),
            (
                info.multiple_of,
                lambda limit: value % limit == 0,
                f"must be a multiple of {info.multiple_of}",
            ),
        )
        broken = [text for limit, holds, text in checks if limit is not None and not holds(limit)]
        if broken:
            for text in broken:
                self._errors.add(path, invalid(value, text))
            return INVALID
        return float(value) if isinstance(info, mi.FloatType) else int(value)

    def _text(self, info: mi.StrType, value: str, path: str) -> Any:
        if info.min_length is not None and len(value) < info.min_length:
            detail = f"must have at least {info.min_length} characters"
            self._errors.add(path, invalid(value, detail) if value else required())
            return INVALID
        if info.max_length is not None and len(value) > info.max_length:
            detail = f"must have at most {info.max_length} characters"
            self._errors.add(path, invalid(value, detail))
            return INVALID
        if info.pattern is not None and not re.search(info.pattern, value):
            self._errors.add(path, invalid(value, f"must match {info.pattern}"))
            return INVALID
        return value

    def _convert(self, info: mi.Type, node: Node, path: str) -> Any:
        wanted = info.cls if isinstance(info, mi.CustomType) else _CONVERTED[type(info)]
        try:
            return msgspec.convert(plain(node), wanted)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `$")
            self._errors.add(below(path, where.rstrip("`").lstrip(".")), text)
            return INVALID

    def _wrong_type(self, info: mi.Type, node: Node, path: str) -> Any:
        expected = _expected(info)
        hint = ""
        if isinstance(node, Scalar) and isinstance(node.value, bool | int | float):
            if isinstance(info, mi.TimeDeltaType):
                hint = "; add a unit"
            elif "text" in expected:
                hint = "; put quotes around it if it is meant as text"
        self._errors.add(path, f"must be {expected}, not {_seen(node)}{hint}")
        return INVALID


def _unknown_field(path: str, key: str, known: Iterable[str]) -> str:
    """Describe a field that does not exist, with its present or the nearest existing name."""
    if path in RENAMED_FIELDS:
        return f'unknown field "{key}": it was renamed to "{RENAMED_FIELDS[path]}"'
    return f'unknown field "{key}"{did_you_mean(key, known)}'


def _nullable(info: mi.Type) -> bool:
    if isinstance(info, mi.UnionType):
        return any(isinstance(one, mi.NoneType) for one in info.types)
    return isinstance(info, mi.AnyType | mi.NoneType)


def _is_number(value: object, info: mi.IntType | mi.FloatType) -> bool:
    """Whether a number fits; `1.0` is a whole number, as for upstream."""
    if isinstance(value, bool):
        return False
    if isinstance(info, mi.IntType) and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int | float)


def _fits(info: mi.Type, node: Node) -> bool:
    """Whether a value in a file is meant for a member of a union."""
    if isinstance(info, mi.Metadata):
        return _fits(info.type, node)
    if isinstance(info, mi.AnyType):
        return True
    if isinstance(node, Entries):
        return isinstance(info, mi.StructType | mi.DictType | mi.CustomType)
    if isinstance(node, Items):
        return isinstance(info, (*_SEQUENCES, mi.TupleType, mi.CustomType))
    if isinstance(info, mi.LiteralType):
        return node.value in info.values
    if isinstance(info, mi.EnumType):
        return node.value in {member.value for member in info.cls}
    if isinstance(info, mi.IntType | mi.FloatType):
        return _is_number(node.value, info)
    if isinstance(info, mi.BoolType):
        return isinstance(node.value, bool)
    return isinstance(node.value, str) and isinstance(
        info, (mi.StrType, mi.TimeDeltaType, mi.CustomType, *_CONVERTED)
    )


def _tagged(members: list[mi.Type], node: Node) -> mi.Type:
    """Return the Struct whose tag is written; else the first member."""
    for one in members:
        if isinstance(one, mi.StructType) and one.tag_field and isinstance(node, Entries):
            tag = node.nodes.get(one.tag_field)
            if isinstance(tag, Scalar) and tag.value == one.tag:
                return one
    return members[0]


_EXPECTED: Final[Mapping[Any, str]] = {
    mi.BoolType: "true or false",
    mi.IntType: "a whole number",
    mi.FloatType: "a number",
    mi.StrType: "text",
    mi.TimeDeltaType: 'a duration such as "1m30s"',
    mi.StructType: "a mapping",
    mi.DictType: "a mapping",
    mi.NoneType: "null",
} | dict.fromkeys((*_SEQUENCES, mi.TupleType), "a list")


def _expected(info: mi.Type) -> str:
    if isinstance(info, mi.UnionType):
        members: Iterable[mi.Type] = (one for one in info.types if not isinstance(one, mi.NoneType))
        return " or ".join(dict.fromkeys(_expected(one) for one in members))
    return _EXPECTED.get(type(info), f"of type {type(info).__name__.removesuffix('Type')}")


def _seen(node: Node) -> str:
    if isinstance(node, Entries):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    value = node.value
    if value is None:
        return "null"
    if isinstance(value, str):
        return f'the text "{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
