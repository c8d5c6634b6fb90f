"""A validator of the part of JSON Schema 2020-12 that our schema uses.

Any other keyword is an error, so that nothing in the schema goes unchecked.
"""

from __future__ import annotations

import re
from typing import Any, Final

TYPES: Final[dict[str, Any]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}
ANNOTATIONS: Final = {"$schema", "$defs", "title", "description", "default", "examples", "then"}


class Validator:
    """Reports the paths at which a value breaks a schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = schema

    def problems(self, value: Any) -> list[str]:
        """Return one line for each broken keyword; none for a valid value."""
        return self._check(self._root, value, "")

    def _check(self, schema: dict[str, Any], value: Any, path: str) -> list[str]:
        found: list[str] = []
        for keyword, expected in schema.items():
            if keyword in ANNOTATIONS:
                continue
            check = getattr(self, "_" + keyword.lstrip("$"), None)
            assert check is not None, f"keyword {keyword} is not implemented here"
            result = check(expected, value, path, schema)
            found += (
                result if isinstance(result, list) else [] if result else [f"{path}: {keyword}"]
            )
        return found

    def _ref(self, expected: str, value: Any, path: str, _: Any) -> list[str]:
        return self._check(self._root["$defs"][expected.removeprefix("#/$defs/")], value, path)

    def _type(self, expected: str, value: Any, _: str, __: Any) -> bool:
        if expected in {"integer", "number"}:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and (expected == "number" or value == int(value))
        return isinstance(value, TYPES[expected])

    def _enum(self, expected: list[Any], value: Any, _: str, __: Any) -> bool:
        return any(type(one) is type(value) and one == value for one in expected)

    def _const(self, expected: Any, value: Any, _: str, __: Any) -> bool:
        return type(expected) is type(value) and bool(expected == value)

    def _minimum(self, expected: float, value: Any, _: str, __: Any) -> bool:
        return not isinstance(value, int | float) or value >= expected

    def _maximum(self, expected: float, value: Any, _: str, __: Any) -> bool:
        return not isinstance(value, int | float) or value <= expected

    def _exclusiveMinimum(self, expected: float, value: Any, _: str, __: Any) -> bool:  # noqa: N802
        return not isinstance(value, int | float) or value > expected

    def _minLength(self, expected: int, value: Any, _: str, __: Any) -> bool:  # noqa: N802
        return not isinstance(value, str) or len(value) >= expected

    def _pattern(self, expected: str, value: Any, _: str, __: Any) -> bool:
        return not isinstance(value, str) or re.search(expected, value) is not None

    def _required(self, expected: list[str], value: Any, _: str, __: Any) -> bool:
        return not isinstance(value, dict) or set(expected) <= set(value)

    def _properties(self, expected: dict[str, Any], value: Any, path: str, _: Any) -> list[str]:
        present = [key for key in expected if isinstance(value, dict) and key in value]
        return [
            line
            for key in present
            for line in self._check(expected[key], value[key], f"{path}.{key}")
        ]

    def _additionalProperties(  # noqa: N802
        self, expected: Any, value: Any, path: str, schema: dict[str, Any]
    ) -> list[str]:
        if not isinstance(value, dict):
            return []
        extra = [key for key in value if key not in schema.get("properties", {})]
        if expected is False:
            return [f"{path}.{key}: unknown" for key in extra]
        return [
            line for key in extra for line in self._check(expected, value[key], f"{path}.{key}")
        ]

    def _minItems(self, expected: int, value: Any, _: str, __: Any) -> bool:  # noqa: N802
        return not isinstance(value, list) or len(value) >= expected

    def _maxItems(self, expected: int, value: Any, _: str, __: Any) -> bool:  # noqa: N802
        return not isinstance(value, list) or len(value) <= expected

    def _prefixItems(  # noqa: N802
        self, expected: list[dict[str, Any]], value: Any, path: str, _: Any
    ) -> list[str]:
        pairs = enumerate(zip(expected, value, strict=False)) if isinstance(value, list) else ()
        return [line for i, (one, item) in pairs for line in self._check(one, item, f"{path}[{i}]")]

    def _items(self, expected: Any, value: Any, path: str, schema: dict[str, Any]) -> list[str]:
        first = len(schema.get("prefixItems", ()))
        rest = value[first:] if isinstance(value, list) else []
        if expected is False:
            return [f"{path}: items"] if rest else []
        return [
            line
            for i, one in enumerate(rest, first)
            for line in self._check(expected, one, f"{path}[{i}]")
        ]

    def _anyOf(self, expected: list[Any], value: Any, path: str, _: Any) -> list[str]:  # noqa: N802
        tries = [self._check(one, value, path) for one in expected]
        return [] if not all(tries) else max(tries, key=len)

    def _allOf(self, expected: list[Any], value: Any, path: str, _: Any) -> list[str]:  # noqa: N802
        return [line for one in expected for line in self._check(one, value, path)]

    def _not(self, expected: dict[str, Any], value: Any, path: str, _: Any) -> bool:
        return bool(self._check(expected, value, path))

    def _if(self, expected: dict[str, Any], value: Any, path: str, schema: Any) -> list[str]:
        applies = not self._check(expected, value, path)
        return self._check(schema["then"], value, path) if applies else []
