"""Records with a value in every field, made from their types: for tests of what must not get out.

A field that is added later is filled as well, so that no test has to be remembered.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

Text = Callable[[str], str]
"""Returns the text for a field, by its path such as `pods.0.name`."""


def filled(kind: Any, text: Text, *, variant: int = 0, path: str = "") -> Any:
    """Return a value of a type in which every text is made by `text`.

    Collections have one element. `variant` chooses the members of enumerations and of unions;
    optional values are there in even variants.
    """
    if kind is str:
        return text(path)
    if kind in (int, float, bool):
        return kind(variant % 2)
    if kind is msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(text(path)))
    if kind in (Any, object):
        return text(path)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        if len(others) < len(arguments) and variant % 2:
            return None
        return filled(others[variant // 2 % len(others)], text, variant=variant, path=path)
    if origin is Literal:
        return arguments[variant % len(arguments)]
    if origin is not None:
        return _collection(origin, arguments, text, variant, path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = list(kind)
        return members[variant % len(members)]
    return _record(kind, text, variant, path)


def _collection(
    origin: Any, arguments: tuple[Any, ...], text: Text, variant: int, path: str
) -> Any:
    def element(kind: Any, name: str) -> Any:
        return filled(kind, text, variant=variant, path=f"{path}.{name}")

    if issubclass(origin, Mapping):
        return {element(arguments[0], "key"): element(arguments[1], "value")}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(element(each, str(at)) for at, each in enumerate(arguments))
    made = element(arguments[0], "0")
    return (made,) if origin is tuple else frozenset((made,)) if origin is frozenset else [made]


def _record(kind: Any, text: Text, variant: int, path: str) -> Any:
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        names = list(kind.__struct_fields__)
    else:
        raise TypeError(f"{path}: no value can be made of {kind!r}")
    hints = get_type_hints(kind)
    inside = {
        name: filled(hints[name], text, variant=variant, path=f"{path}.{name}".lstrip("."))
        for name in names
    }
    return kind(**inside)
