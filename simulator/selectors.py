"""Label and field selectors as they stand in list, watch and deletecollection requests.

A parsed selector is a predicate over one stored object. Fields that may be selected come from the
row of the resource; any other field is a BadRequest, as on the real server. Selectors inside
objects (a Deployment's, a budget's) are `matches_selector`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from simulator.errors import bad_request
from simulator.objects import JsonObject, dig

Predicate: TypeAlias = Callable[[JsonObject], bool]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"^({_KEY})\s+(in|notin)\s+\(([^()]*)\)$")
_COMPARE: Final = re.compile(rf"^({_KEY})\s*(==|!=|=|<|>)\s*([-A-Za-z0-9_.]*)$")
_EXISTS: Final = re.compile(rf"^(!?)\s*({_KEY})$")
_SPLIT: Final = re.compile(r",(?![^()]*\))")


class FieldRequirement(NamedTuple):
    """One label requirement: `operator` is in, notin, exists, absent, gt or lt."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` satisfy it. As upstream, `notin` holds for an absent key."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        try:
            have, limit = int(value or ""), int(next(iter(self.values)))
        except ValueError:
            return False
        return have > limit if self.operator == "gt" else have < limit


_OPERATORS: Final = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def _requirement(text: str) -> FieldRequirement:
    if found := _SET.match(text):
        values = frozenset(value.strip() for value in found[3].split(","))
        return FieldRequirement(found[1], found[2], values)
    if found := _COMPARE.match(text):
        return FieldRequirement(found[1], _OPERATORS[found[2]], frozenset([found[3]]))
    if found := _EXISTS.match(text):
        return FieldRequirement(found[2], "absent" if found[1] else "exists", frozenset())
    raise bad_request(
        f'unable to parse requirement: "{text}" is none of key, !key, key=value, key!=value, '
        "key in (a,b), key notin (a,b)"
    )


def parse_labels(text: str) -> list[FieldRequirement]:
    """Read the requirements of a `labelSelector` parameter. Raises BadRequest."""
    return [_requirement(part.strip()) for part in _SPLIT.split(text) if part.strip()]


def parse_fields(text: str, selectable: Iterable[str]) -> list[tuple[str, bool, str]]:
    """`(field, equal, value)` for each part of a `fieldSelector` parameter. Raises BadRequest."""
    known = frozenset(selectable)
    parsed: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        field, operator, value = (
            re.split(r"(!=|==|=)", part, maxsplit=1) if "=" in part else (part, "", "")
        )
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if field.strip() not in known:
            raise bad_request(f"field label not supported: {field.strip()}")
        parsed.append((field.strip(), operator != "!=", value.strip()))
    return parsed


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def compile_selectors(
    labels: str, fields: str, selectable: Mapping[str, tuple[str, ...]]
) -> Predicate | None:
    """Build a predicate for both parameters; None when neither restricts anything.

    `selectable` maps each selectable field of the resource to its path in the stored object.
    """
    wanted_labels = parse_labels(labels)
    wanted_fields = [
        (selectable[field], equal, value)
        for field, equal, value in parse_fields(fields, selectable)
    ]
    if not wanted_labels and not wanted_fields:
        return None

    def matches(obj: JsonObject) -> bool:
        for path, equal, value in wanted_fields:
            if (_text(dig(obj, *path)) == value) is not equal:
                return False
        if wanted_labels:
            found = dig(obj, "metadata", "labels") or {}
            return all(requirement.holds(found) for requirement in wanted_labels)
        return True

    return matches


_OBJECT_OPERATORS: Final = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "absent",
}


def matches_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a `metav1.LabelSelector` matches; None matches nothing, the empty one everything."""
    if selector is None:
        return False
    have = labels or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if have.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or []:
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""), "exists")
        values = frozenset(expression.get("values") or [])
        if not FieldRequirement(expression.get("key", ""), operator, values).holds(have):
            return False
    return True


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Write a label selector as tables and `scale` print it."""
    if not selector:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or []:
        key, operator = expression.get("key", ""), expression.get("operator", "")
        if operator in ("In", "NotIn"):
            parts.append(f"{key} {operator.lower()} ({','.join(expression.get('values') or [])})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts) or "<none>"
