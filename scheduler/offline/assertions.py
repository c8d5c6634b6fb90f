"""Assertions: expressions over the figures of a run, such as `waiting == 0 and wait_p90 < 60`.

The syntax is Python's for numbers, names, `+ - * /`, comparisons, `and`, `or`, `not` and
parentheses. Nothing else is allowed and nothing is evaluated by Python: a tree of a few kinds of
nodes is walked, whose values are all numbers.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

MAX_LENGTH: Final = 500
"""Characters of an expression: its depth is bounded by this."""

_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[float, float], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class AssertionSyntaxError(ValueError):
    """An expression that is not allowed; the text says what is."""


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion about one run, or about a pair of runs of one seed."""

    text: str
    run: str
    seed: int
    holds: bool


@dataclass(frozen=True, slots=True)
class Assertion:
    """An expression that holds for figures, or does not.

    >>> Assertion.parse("2 * placed > 5 and not waiting").holds({"placed": 3.0, "waiting": 0.0})
    True
    """

    text: str
    _tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Assertion:
        """Read an expression. Raises AssertionSyntaxError."""
        if len(text) > MAX_LENGTH:
            raise AssertionSyntaxError(f"longer than {MAX_LENGTH} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            what = error.msg if isinstance(error, SyntaxError) else str(error)
            raise AssertionSyntaxError(
                f"{text[:80]!r}: {what}; write, say, waiting == 0"
            ) from error
        _check(tree, text)
        if not isinstance(tree, ast.Compare | ast.BoolOp) and not _is_not(tree):
            raise AssertionSyntaxError(f"{text[:80]!r}: no comparison; write, say, waiting == 0")
        return cls(text.strip(), tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The figures that it reads; `base.waiting` is one name."""
        found: dict[str, None] = {}
        for each in ast.walk(self._tree):
            if isinstance(each, ast.Attribute):
                found[_name(each)] = None
        inner = {id(each.value) for each in ast.walk(self._tree) if isinstance(each, ast.Attribute)}
        for each in ast.walk(self._tree):
            if isinstance(each, ast.Name) and id(each) not in inner:
                found[each.id] = None
        return tuple(found)

    def check(self, known: Iterable[str]) -> None:
        """Raise AssertionSyntaxError if it names a figure that does not exist."""
        known = tuple(known)
        for name in self.names:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise AssertionSyntaxError(
                    f"{self.text!r}: there is no figure {name}; {hint}Known are {', '.join(known)}"
                )

    def holds(self, figures: Mapping[str, float]) -> bool:
        """Return whether it holds. Raises AssertionSyntaxError for a figure that is not known."""
        self.check(figures)
        return bool(_value(self._tree, figures))


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _name(node: ast.Attribute) -> str:
    assert isinstance(node.value, ast.Name)
    return f"{node.value.id}.{node.attr}"


def _check(node: ast.expr, text: str) -> None:
    """Refuse every kind of node that has no meaning here."""
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number) if abs(number) < 1e18:
            return None
        case ast.Name() | ast.Attribute(value=ast.Name()):
            return None
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _check_all(text, left, right)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
            return _check(operand, text)
        case ast.BoolOp(values=values):
            return _check_all(text, *values)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(each) in _COMPARISONS for each in ops
        ):
            return _check_all(text, left, *others)
        case _:
            pass
    raise AssertionSyntaxError(
        f"{text[:80]!r}: column {node.col_offset + 1} is not allowed; use figures, numbers, "
        "+ - * /, comparisons, and, or, not, and parentheses"
    )


def _check_all(text: str, *nodes: ast.expr) -> None:
    for each in nodes:
        _check(each, text)


def _value(node: ast.expr, figures: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return figures[name]
        case ast.Attribute():
            return figures[_name(node)]
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, figures)
            return not value if isinstance(op, ast.Not) else _signed(op, value)
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _value(left, figures), _value(right, figures))
        case ast.BoolOp(op=op, values=values):
            each = (bool(_value(value, figures)) for value in values)
            return all(each) if isinstance(op, ast.And) else any(each)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(one, figures) for one in (left, *others)]
            pairs = zip(ops, sides, sides[1:], strict=False)
            return all(_COMPARISONS[type(op)](one, other) for op, one, other in pairs)
    raise AssertionError(ast.dump(node))


def _signed(op: ast.unaryop, value: float) -> float:
    return -value if isinstance(op, ast.USub) else value


def _computed(op: ast.operator, left: float, right: float) -> float:
    """Compute; a division by zero is not a number, which makes every comparison but `!=` fail."""
    if isinstance(op, ast.Div) and not right:
        return math.nan
    return _ARITHMETIC[type(op)](left, right)
