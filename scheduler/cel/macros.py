"""Recognition of macros among the calls of an expression.

Source: the CEL language definition ("Macros"); cel-go's `ext/bindings.go`,
`ext/comprehensions.go`, `ext/lists.go` and `cel/library.go: OptionalTypes`.
"""

from __future__ import annotations

from typing import Final

from scheduler.cel.errors import CompileError
from scheduler.cel.syntax import Call, Comprehension, Has, Identifier, Literal, Node, Select

ONE_VARIABLE: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
"""Macros of one variable; of maps it takes the keys."""

TWO_VARIABLES: Final = frozenset(
    {"all", "exists", "existsOne", "transformList", "transformMap", "transformMapEntry"}
)
"""Macros of two variables: index and element, or key and value."""

_WITH_PREDICATE: Final = frozenset({"transformList", "transformMap", "transformMapEntry"})
_ON_VALUE: Final = frozenset({"optMap", "optFlatMap", "sortBy"})

MACROS: Final = ONE_VARIABLE | TWO_VARIABLES | _ON_VALUE | {"bind", "has"}
"""Names of all macros."""


def expand(call: Call) -> Node:
    """Return the macro that a call is, else the call itself.

    Raises `CompileError` if the arguments of a macro are not names and expressions as it demands.
    """
    if call.is_member:
        return _member(call)
    if call.function == "has" and len(call.arguments) == 1:
        (operand,) = call.arguments
        if not isinstance(operand, Select) or operand.optional:
            raise CompileError("invalid argument to has() macro", operand.offset)
        return Has(operand.operand, operand.name, offset=call.offset)
    return call


def _member(call: Call) -> Node:
    target, *arguments = call.arguments
    name, number = call.function, len(arguments)
    if name == "bind" and isinstance(target, Identifier) and target.name == "cel" and number == 3:
        value = arguments.pop(1)
        return _comprehension(call, value, 1, arguments)
    if (name in ONE_VARIABLE or name in _ON_VALUE) and number == 2:
        return _comprehension(call, target, 1, arguments)
    if name == "map" and number == 3:
        return _comprehension(call, target, 1, arguments)
    if name in TWO_VARIABLES and (number == 3 or (number == 4 and name in _WITH_PREDICATE)):
        return _comprehension(call, target, 2, arguments)
    return call


def _comprehension(call: Call, target: Node, variables: int, arguments: list[Node]) -> Node:
    names: list[str] = []
    for each in arguments[:variables]:
        if not isinstance(each, Identifier) or each.name.startswith("."):
            raise CompileError(f"argument to {call.function}() must be a simple name", each.offset)
        if each.name == "__result__" or each.name in names:
            raise CompileError(f"variable {each.name} overwrites another", each.offset)
        names.append(each.name)
    *predicates, body = arguments[variables:]
    predicate = predicates[0] if predicates else None
    kind = "exists_one" if call.function == "existsOne" else call.function
    if kind == "filter":
        predicate, body = body, Identifier(names[0], offset=body.offset)
    if kind == "transformMapEntry" and isinstance(body, Literal):
        raise CompileError("transformMapEntry needs a map of one entry", body.offset)
    return Comprehension(kind, target, names, predicate, body, offset=call.offset)
