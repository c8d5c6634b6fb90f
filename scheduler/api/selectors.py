"""Label selectors, compiled once into canonical, hashable form.

Invariant: two selectors that state the same requirements, in whatever order or spelling, compile to
equal values, so a compiled selector can be the key of an index or cache. Node selectors are in
`node_selectors`.

Requirement records are public so that a columnar evaluator elsewhere can walk them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.api.meta import LabelSelector
from scheduler.sanitizing.names import are_label_values, is_qualified_name, label_value_faults

IN: Final = "In"
"""The operator of a requirement whose values are alternatives."""
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER: Final = "Gt"
LESS: Final = "Lt"

_LABEL_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, GREATER, LESS)
_COMPARISONS: Final = (GREATER, LESS)
_COUNTS: Final = {
    IN: range(1, sys.maxsize),
    NOT_IN: range(1, sys.maxsize),
    EXISTS: range(1),
    DOES_NOT_EXIST: range(1),
    GREATER: range(1, 2),
    LESS: range(1, 2),
}
"""Valid numbers of values by operator."""
_NO_INTEGER: Final = "for 'Gt', 'Lt' operators, the value must be an integer"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_INT64: Final = range(-(1 << 63), 1 << 63)


class SelectorError(ValueError):
    """A selector that cannot be evaluated. Errors with the same text are equal.

    `path`, `value` and `reason` are about the first offending field; the text, and `parts`, are
    about all of them.
    """

    def __init__(self, path: str, value: object, reason: str) -> None:
        self.path = path
        self.value = value
        self.reason = reason
        self.parts: tuple[SelectorError, ...] = (self,)
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        super().__init__(f"{path}: Invalid value: {shown}: {reason}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SelectorError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)

    @classmethod
    def of(cls, errors: Iterable[SelectorError]) -> SelectorError:
        """Merge at least one error into a new one to be raised."""
        parts = tuple(part for error in errors for part in error.parts)
        made = cls(parts[0].path, parts[0].value, parts[0].reason)
        texts = dict.fromkeys(part.args[0] for part in parts)
        if len(texts) > 1:
            made.parts = parts
            made.args = (f"[{', '.join(texts)}]",)
        return made


class Requirement:
    """One immutable condition on one key.

    `values` is sorted and without duplicates; `number` is the threshold of `Gt` and `Lt`, else
    None.
    """

    __slots__ = ("_hash", "_set", "key", "number", "operator", "values")

    key: str
    operator: str
    values: tuple[str, ...]
    number: int | None

    def __init__(self, key: str, operator: str, values: Iterable[str] = ()) -> None:
        """Build from parts known to be valid; use `checked` for others."""
        self.key = key
        # Interned, so that comparisons with the constants above compare identities.
        self.operator = sys.intern(operator)
        self._set = frozenset(values)
        # A pod may have thousands of requirements, most with one value or none.
        self.values = tuple(self._set) if len(self._set) < 2 else tuple(sorted(self._set))
        self.number = None
        if operator in _COMPARISONS and len(self.values) == 1:
            self.number = parse_label_integer(self.values[0])
        self._hash = hash((key, operator, self.values))

    @classmethod
    def valid(
        cls, key: str, operator: str, values: tuple[str, ...], *, node: bool = False
    ) -> Requirement | None:
        """Return the requirement, or None if it is invalid; `checked` raises the reason."""
        counts, compares = _COUNTS.get(operator), operator in _COMPARISONS
        if counts is None or len(values) not in counts or (compares and not node):
            return None
        if not is_qualified_name(key) or not are_label_values(values):
            return None
        made = cls(key, operator, values)
        return None if compares and made.number is None else made

    @classmethod
    def checked(
        cls, key: str, operator: str, values: tuple[str, ...], path: str, *, node: bool = False
    ) -> Requirement:
        """Validate and build; raises `SelectorError` with `path`. `node` allows `Gt` and `Lt`."""
        if operator not in (_NODE_OPERATORS if node else _LABEL_OPERATORS):
            raise SelectorError(f"{path}.operator", operator, "not a valid selector operator")
        if not is_qualified_name(key):
            raise SelectorError(f"{path}.key", key, "must be a name or a DNS subdomain / a name")
        if len(values) not in _COUNTS[operator]:
            raise _count_error(operator, values, path)
        errors = [
            SelectorError(f"{path}.values[{index}][{key}]", value, "; ".join(faults))
            for index, value in enumerate(values)
            if (faults := label_value_faults(value))
        ]
        made = cls(key, operator, values)
        if operator in _COMPARISONS and made.number is None:
            errors.insert(0, SelectorError(f"{path}.values[0]", values[0], _NO_INTEGER))
        if errors:
            raise SelectorError.of(errors)
        return made

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy the condition; `NotIn` and `DoesNotExist` accept absence."""
        return self.accepts(labels.get(self.key))

    def accepts(self, value: str | None) -> bool:
        """Whether one label value (None: the label is absent) satisfies the condition."""
        operator = self.operator
        if operator == IN:
            return value in self._set
        if operator == NOT_IN:
            return value not in self._set
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        actual = None if value is None else parse_label_integer(value)
        if actual is None or self.number is None:
            return False
        return actual > self.number if operator == GREATER else actual < self.number

    def sort_key(self) -> tuple[str, str, tuple[str, ...]]:
        """Return key, operator and values, which order requirements totally."""
        return self.key, self.operator, self.values

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Requirement):
            return NotImplemented
        return self._hash == other._hash and self.sort_key() == other.sort_key()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.key} {self.operator} [{' '.join(self.values)}]"


class CompiledLabelSelector:
    """Immutable requirements that must all hold, or the selector that matches nothing."""

    __slots__ = ("_hash", "needed_labels", "nothing", "requirements")

    requirements: tuple[Requirement, ...]
    nothing: bool
    needed_labels: frozenset[tuple[str, str]] | None
    """A minimal set of (key, value) such that every matching label set has at least one of them.

    For indexes; None if there is no such set, or only one beyond `_MAX_NEEDED_LABELS`.
    """

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        """Bring `requirements` into canonical order; `nothing` matches no labels."""
        self.requirements = () if nothing else in_order(requirements)
        self.nothing = nothing
        self._hash = hash((nothing, self.requirements))
        self.needed_labels = frozenset() if nothing else _needed_labels(self.requirements)

    @property
    def empty(self) -> bool:
        """Whether it has no requirements and matches everything; False for `NOTHING`."""
        return not self.nothing and not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels satisfies every requirement."""
        if self.nothing:
            return False
        for each in self.requirements:  # noqa: SIM110 - a generator would double the cost
            if not each.matches(labels):
                return False
        return True

    def also(self, requirements: Iterable[Requirement]) -> CompiledLabelSelector:
        """Return this selector with further requirements; `NOTHING` stays `NOTHING`."""
        if self.nothing:
            return self
        return CompiledLabelSelector((*self.requirements, *requirements))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CompiledLabelSelector):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.nothing == other.nothing
            and self.requirements == other.requirements
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.nothing:
            return "<nothing>"
        return " and ".join(map(repr, self.requirements)) or "<everything>"


def in_order(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the distinct requirements in canonical order."""
    given = tuple(requirements)
    if len(given) < 2:
        return given
    return tuple(sorted(dict.fromkeys(given), key=Requirement.sort_key))


def _needed_labels(requirements: Sequence[Requirement]) -> frozenset[tuple[str, str]] | None:
    fewest = None
    for each in requirements:
        if each.operator == IN and (fewest is None or len(each.values) < len(fewest.values)):
            fewest = each
    if fewest is None or len(fewest.values) > _MAX_NEEDED_LABELS:
        return None
    return frozenset([(fewest.key, value) for value in fewest.values])


_MAX_NEEDED_LABELS: Final = 1_000
"""Beyond this looking each of them up costs more than the index saves."""

NOTHING: Final = CompiledLabelSelector(nothing=True)
"""The meaning of an absent (null) label selector."""

EVERYTHING: Final = CompiledLabelSelector()
"""The meaning of the label selector `{}`."""


def compile_label_selector(selector: LabelSelector | None, path: str = "") -> CompiledLabelSelector:
    """Compile a `metav1.LabelSelector`; None matches nothing and `{}` matches everything.

    Raises `SelectorError` for a bad key, operator, value or number of values; `path` is put before
    the field that it names.
    """
    if selector is None:
        return NOTHING
    # A pod may have thousands of terms: paths are built only for invalid ones.
    requirements = [
        Requirement.valid(key, IN, (value,))
        or Requirement.checked(key, IN, (value,), f"{path}matchLabels[{key}]")
        for key, value in selector.match_labels.items()
    ]
    requirements += [
        Requirement.valid(each.key, each.operator, each.values)
        or Requirement.checked(
            each.key, each.operator, each.values, f"{path}matchExpressions[{index}]"
        )
        for index, each in enumerate(selector.match_expressions)
    ]
    return CompiledLabelSelector(requirements) if requirements else EVERYTHING


def compile_map_selector(selector: Mapping[str, str] | None) -> CompiledLabelSelector:
    """Compile a plain map (`nodeSelector`, a Service's selector), unchecked; None is `{}`."""
    if not selector:
        return EVERYTHING
    return CompiledLabelSelector(Requirement(key, IN, (value,)) for key, value in selector.items())


def parse_label_integer(text: str) -> int | None:
    """Parse a label value as int64; None if it is not one. `+5` and `007` are valid."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None


def _count_error(operator: str, values: tuple[str, ...], path: str) -> SelectorError:
    path, shown = f"{path}.values", f"[{' '.join(values)}]"
    if operator in {IN, NOT_IN}:
        return SelectorError(path, shown, f"for {operator!r} at least one value is needed")
    if operator in {EXISTS, DOES_NOT_EXIST}:
        return SelectorError(path, shown, f"for {operator!r} no value is allowed")
    return SelectorError(path, shown, f"for {operator!r} exactly one value is needed")
