"""Compiles calls: finds the overloads that fit, and chooses among them at run time if need be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from scheduler.cel.compiled import NOTHING, Compiled
from scheduler.cel.declarations import STRING_FACTOR, Overload, covered, shared
from scheduler.cel.errors import (
    CompileError,
    EvaluationCancelledError,
    EvaluationError,
    no_such_overload,
)
from scheduler.cel.evaluation import Code, Evaluation
from scheduler.cel.libraries.regular_expressions import compiled as compiled_pattern
from scheduler.cel.libraries.standard import CONVERSIONS
from scheduler.cel.syntax import Call, Identifier, Node
from scheduler.cel.types import DYN, Type, may_fit
from scheduler.cel.values import LISTS, Optional, type_name

if TYPE_CHECKING:
    from scheduler.cel.compiler import Compiler

_LAZY: Final = frozenset({"or", "orValue"})
"""Methods that evaluate their argument only if the target has no value."""


_PARSERS: Final = frozenset({"quantity", "semver", "ip", "cidr"})
"""Functions of texts that selectors compare attributes with; their values are small."""


def compile_call(compiler: Compiler, node: Call) -> Compiled:
    """Compile a call of a function, method or operator."""
    name, nodes, is_member = _callee(compiler, node)
    if name not in compiler.environment.functions:
        raise CompileError(f"undeclared reference to '{node.function}'", node.offset)
    arguments = [compiler.compile(each) for each in nodes]
    overloads, result, is_static = _resolve(compiler, node, name, arguments, is_member)
    compiler.calls[id(node)] = name, nodes, overloads
    _validate_constants(compiler, name, arguments, node)
    if name in _LAZY and is_member:
        return Compiled(result, _or(arguments[0].code, arguments[1].code, unwrap=name == "orValue"))
    codes = [each.code for each in arguments]
    if name == "_in_" and arguments[1].is_constant and type(_value(arguments[1])) is list:
        return Compiled(result, _membership(codes, overloads[0]))
    if name == "_==_" and arguments[1].is_constant:
        text = _value(arguments[1])
        if type(text) is str:
            return Compiled(result, _equals_text(codes[0], text, _direct(overloads[0], codes)))
    # Operators look at the types of their operands themselves.
    chosen = overloads[0] if is_static or name.startswith(("_", "-", "!")) else None
    code = _direct(chosen, codes) if chosen else _dispatched(name, overloads, codes)
    if name in CONVERSIONS and len(arguments) == 1 and arguments[0].is_constant:
        return _folded(result, code, node)
    if name in _PARSERS and all(each.is_constant for each in arguments):
        return Compiled(result, _parsed_once(code))
    return Compiled(result, code)


def _value(argument: Compiled) -> Any:
    return argument.code(NOTHING)


def _callee(compiler: Compiler, node: Call) -> tuple[str, list[Node], bool]:
    """Return name and arguments; `lists.range(3)` is a function although it looks like a method."""
    if node.is_member:
        target = node.arguments[0]
        if isinstance(target, Identifier) and target.name not in compiler.scope:
            qualified = f"{target.name}.{node.function}"
            if qualified in compiler.environment.functions:
                return (qualified, node.arguments[1:], False)
    return (node.function, node.arguments, node.is_member)


def _resolve(
    compiler: Compiler, node: Call, name: str, arguments: list[Compiled], is_member: bool
) -> tuple[list[Overload], Type, bool]:
    """Return the overloads that fit, the type of the result, and whether no type is dynamic."""
    unifier = compiler.unifier
    types = [each.type for each in arguments]
    known, key = (
        compiler.environment.resolved,
        (name, is_member, tuple(each.name for each in types)),
    )
    is_simple = all(each.is_ground and not each.parameters for each in types)
    found = known.get(key) if is_simple else None
    if found is None:
        found = _fitting(compiler, name, types, is_member)
        if not found[0]:
            raise compiler.mismatch(name, types, node.offset, is_member=is_member)
        if is_simple and found[1].is_ground:
            known[key] = found
    matched, result = found
    is_static = len(matched) == 1 and not any(unifier.resolve(each).is_dynamic for each in types)
    return (matched, result, is_static)


def _fitting(
    compiler: Compiler, name: str, types: list[Type], is_member: bool
) -> tuple[list[Overload], Type]:
    unifier = compiler.unifier
    matched: list[Overload] = []
    results: list[Type] = []
    for each in compiler.environment.functions[name]:
        if each.is_member != is_member or len(each.parameters) != len(types):
            continue
        compiler.meter.spend(_OVERLOAD_WORK)
        if not all(map(may_fit, types, each.parameters)):
            continue
        *parameters, result = unifier.instantiate((*each.parameters, each.result))
        if unifier.all_assignable(types, parameters):
            matched.append(each)
            results.append(result)
    resolved = [unifier.resolve(each) for each in results]
    is_one = all(unifier.same(each, resolved[0]) for each in resolved)
    return (matched, results[0] if matched and is_one else DYN)


_OVERLOAD_WORK: Final = 20
"""Units of work to try an overload, without the types that it unifies."""


def _validate_constants(
    compiler: Compiler, name: str, arguments: list[Compiled], node: Call
) -> None:
    if name == "matches" and len(arguments) == 2 and arguments[1].is_constant:
        pattern = _value(arguments[1])
        try:
            if type(pattern) is str:
                compiled_pattern(compiler.meter, pattern)
        except EvaluationError as error:
            raise CompileError(f"invalid matches argument: {error}", node.offset) from None


def _folded(result: Type, code: Code, node: Call) -> Compiled:
    try:
        value = code(Evaluation([]))
    except (EvaluationError, EvaluationCancelledError) as error:
        raise CompileError(f"invalid {node.function} argument: {error}", node.offset) from None
    return Compiled(result, lambda evaluation: value, is_constant=True)


def _parsed_once(code: Code) -> Code:
    """Return code that has the value of a call with constant arguments, and charges its cost."""
    first = Evaluation([])
    try:
        value = code(first)
    except (EvaluationError, EvaluationCancelledError):
        # Every evaluation fails alike.
        return code
    cost = first.cost

    def known(evaluation: Evaluation) -> Any:
        evaluation.charge(cost)
        return value

    return known


def _direct(overload: Overload, codes: list[Code]) -> Code:
    body, cost = overload.body, overload.cost
    if overload.work not in _NO_WORK or overload.result_bytes or overload.takes_messages:
        applied = application(overload)
        return lambda evaluation: applied(evaluation, [each(evaluation) for each in codes])
    if len(codes) == 2 and cost is not None:
        left_code, right_code = codes
        is_metered = overload.is_metered

        def binary(evaluation: Evaluation) -> Any:
            try:
                left = left_code(evaluation)
                right = right_code(evaluation)
                value = body(evaluation, left, right) if is_metered else body(left, right)
            except EvaluationError:
                evaluation.cost += 1
                raise
            evaluation.charge(cost((left, right), value))
            return value

        return binary
    if overload.is_metered:
        applied = application(overload)
        return lambda evaluation: applied(evaluation, [each(evaluation) for each in codes])

    def code(evaluation: Evaluation) -> Any:
        values = [each(evaluation) for each in codes]
        value = body(*values)
        evaluation.charge(1 if cost is None else cost(values, value))
        return value

    return code


_NO_WORK: Final = (None, shared, covered)


def application(overload: Overload) -> Callable[[Evaluation, list[Any]], Any]:
    """Return a call that accounts for its work before, and for its result after it."""
    body, cost = overload.body, overload.cost
    work = None if overload.work in _NO_WORK else overload.work
    is_metered, result_bytes = overload.is_metered, overload.result_bytes
    takes_messages = overload.takes_messages

    def applied(evaluation: Evaluation, values: list[Any]) -> Any:
        if takes_messages and None in values:
            raise no_such_overload()
        if work is not None:
            evaluation.spend(work(*values))
        value = body(evaluation, *values) if is_metered else body(*values)
        if result_bytes is not None:
            evaluation.hold(result_bytes(value))
        evaluation.charge(1 if cost is None else cost(values, value))
        return value

    return applied


def _equals_text(read: Code, text: str, otherwise: Code) -> Code:
    """Return code for what most selectors do: compare an attribute with a constant."""
    size = len(text)

    def code(evaluation: Evaluation) -> Any:
        before = evaluation.cost
        try:
            value = read(evaluation)
        except EvaluationError:
            evaluation.cost += 1
            raise
        if type(value) is str:
            evaluation.charge(math.ceil(min(len(value), size) * STRING_FACTOR))
            return value == text
        evaluation.cost = before
        return otherwise(evaluation)

    return code


def _membership(codes: list[Code], overload: Overload) -> Code:
    """`in` a constant list, which costs nothing as cel-go makes it a set."""
    element, container = codes
    body, values = overload.body, container(NOTHING)
    texts = frozenset(each for each in values if type(each) is str)

    def code(evaluation: Evaluation) -> Any:
        value = element(evaluation)
        return value in texts if type(value) is str else body(evaluation, value, values)

    return code


def _or(target: Code, alternative: Code, *, unwrap: bool) -> Code:
    def code(evaluation: Evaluation) -> Any:
        optional = target(evaluation)
        if type(optional) is not Optional:
            raise no_such_overload()
        if not optional.has_value:
            return alternative(evaluation)
        return optional.value if unwrap else optional

    return code


def _dispatched(name: str, overloads: list[Overload], codes: list[Code]) -> Code:
    accepting = [(tuple(map(_acceptor, each.parameters)), application(each)) for each in overloads]

    def code(evaluation: Evaluation) -> Any:
        values = [each(evaluation) for each in codes]
        for acceptors, applied in accepting:
            if all(accepts(value) for accepts, value in zip(acceptors, values, strict=True)):
                return applied(evaluation, values)
        shown = ", ".join(map(type_name, values))
        raise EvaluationError(f"no such overload: {name}({shown})")

    return code


def _acceptor(parameter: Type) -> Callable[[Any], bool]:
    if parameter.is_dynamic or parameter.is_variable:
        return lambda value: True
    name = parameter.name
    if name == "list" and not (
        parameter.parameters[0].is_variable or parameter.parameters[0] == DYN
    ):
        element = _acceptor(parameter.parameters[0])
        return lambda value: type(value) in LISTS and (not value or element(value[0]))
    return lambda value: type_name(value) == name
