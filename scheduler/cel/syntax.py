"""The syntax tree of an expression.

Macros are nodes of their own (`Has`, `Comprehension`), not expanded: their evaluation is a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_DEPTH: Final = 150
"""Levels of nesting; cel-go ends at 250 levels of its own grammar (`parser.go:
defaultMaxRecursionDepth`). Each takes up to three frames of the interpreter's 1,000."""


@dataclass(slots=True, kw_only=True)
class Node:
    """Base of all nodes."""

    #: Offset of the first character.
    offset: int = -1
    #: Levels of nodes and parentheses, this one included.
    depth: int = field(default=1, compare=False)


@dataclass(slots=True)
class Literal(Node):
    """A constant of a scalar type."""

    value: object


@dataclass(slots=True)
class Identifier(Node):
    """The name of a variable or type."""

    name: str


@dataclass(slots=True)
class Select(Node):
    """`operand.name`, or `operand.?name`."""

    operand: Node
    name: str
    optional: bool = False


@dataclass(slots=True)
class Index(Node):
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    optional: bool = False


@dataclass(slots=True)
class Call(Node):
    """A function or operator; the target of a method is the first argument."""

    function: str
    arguments: list[Node]
    is_member: bool = False


@dataclass(slots=True)
class ListLiteral(Node):
    """`[a, b, ?c]`; `optional` has the positions that are left out if they hold nothing."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True)
class MapLiteral(Node):
    """`{k: v, ?k: v}`."""

    keys: list[Node]
    values: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True)
class Logical(Node):
    """A chain of `&&` or `||`."""

    operator: str
    operands: list[Node]


@dataclass(slots=True)
class Conditional(Node):
    """`condition ? yes : no`."""

    condition: Node
    yes: Node
    no: Node


@dataclass(slots=True)
class Has(Node):
    """`has(operand.name)`."""

    operand: Node
    name: str


@dataclass(slots=True)
class Comprehension(Node):
    """A macro that evaluates expressions with variables of its own, often for each element.

    `kind` is the macro's name; `target` the list, map, optional or bound value.
    """

    kind: str
    target: Node
    variables: list[str]
    #: The predicate of `filter` and of `map` with three arguments, else None.
    predicate: Node | None
    body: Node


def children(node: Node) -> list[Node]:
    """Return the nodes directly below a node."""
    match node:
        case Select(operand=operand) | Has(operand=operand):
            return [operand]
        case Index(operand=operand, key=key):
            return [operand, key]
        case Call(arguments=found) | ListLiteral(elements=found) | Logical(operands=found):
            return list(found)
        case MapLiteral(keys=keys, values=values):
            return [*keys, *values]
        case Conditional(condition=condition, yes=yes, no=no):
            return [condition, yes, no]
        case Comprehension(target=target, predicate=predicate, body=body):
            return [target, body] if predicate is None else [target, predicate, body]
        case _:
            return []
