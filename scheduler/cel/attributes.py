"""Compiles variables, fields and indexes.

The cost is one unit for a variable, and for each field or index; a field of anything else than a
variable costs one more (`interpreter/runtimecost.go: CostObserver`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.cel.compiled import NOTHING, Compiled, constant
from scheduler.cel.errors import CompileError, EvaluationError, no_such_key, no_such_overload
from scheduler.cel.evaluation import Code, Evaluation, is_present, list_index, lookup
from scheduler.cel.syntax import Has, Index, Select
from scheduler.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of, optional_of
from scheduler.cel.values import LISTS, NONE, Optional, map_key

if TYPE_CHECKING:
    from scheduler.cel.compiler import Compiler


def variable(position: int) -> Code:
    """Return the code that reads a variable."""

    def code(evaluation: Evaluation) -> Any:
        evaluation.cost += 1
        return evaluation.variables[position]

    return code


def compile_select(compiler: Compiler, node: Select) -> Compiled:
    """Compile `operand.name` and `operand.?name`."""
    operand = compiler.compile(node.operand)
    kind, is_optional = _field_type(compiler, operand.type, node.name, node.offset)
    key = constant(STRING, node.name)
    return _compiled(operand, kind, key, is_optional, node.optional)


def compile_index(compiler: Compiler, node: Index) -> Compiled:
    """Compile `operand[key]` and `operand[?key]`."""
    operand, key = compiler.compile(node.operand), compiler.compile(node.key)
    kind, is_optional = _element_type(compiler, operand.type, key.type, node.offset)
    return _compiled(operand, kind, key, is_optional, node.optional)


def compile_has(compiler: Compiler, node: Has) -> Compiled:
    """Compile `has(operand.name)`."""
    operand = compiler.compile(node.operand)
    _field_type(compiler, operand.type, node.name, node.offset)
    read, name = operand.code, node.name

    def code(evaluation: Evaluation) -> bool:
        value = read(evaluation)
        if type(value) is Optional:
            return value.has_value and is_present(value.value, name)
        return is_present(value, name)

    return Compiled(BOOL, code)


def _compiled(
    operand: Compiled, kind: Type, key: Compiled, chained: bool, optional: bool
) -> Compiled:
    units = 1 if operand.is_attribute else 2
    if optional or chained:
        code = _optional_lookup(operand.code, key.code, units)
        return Compiled(optional_of(kind), code, is_attribute=True)
    code = _plain_lookup(operand.code, key.code, units)
    name = key.code(NOTHING) if key.is_constant else None
    if operand.path is None or type(name) is not str:
        return Compiled(kind, code, is_attribute=True)
    position, names = operand.path
    path = (position, (*names, name))
    return Compiled(kind, _followed(*path, code), is_attribute=True, path=path)


def _followed(position: int, names: tuple[str, ...], step_by_step: Code) -> Code:
    """Return code that reads a path at once, and step by step where that fails."""
    units = len(names) + 1

    def code(evaluation: Evaluation) -> Any:
        value = evaluation.variables[position]
        try:
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            # Gives the right error, or the value if an optional is on the way.
            return step_by_step(evaluation)
        evaluation.cost += units
        return value

    return code


def _plain_lookup(read: Code, key: Code, units: int) -> Code:
    def code(evaluation: Evaluation) -> Any:
        container = read(evaluation)
        found = key(evaluation)
        evaluation.cost += units
        if isinstance(container, dict) and type(found) is str:
            try:
                return container[found]
            except KeyError:
                raise no_such_key(found) from None
        if type(container) is Optional:
            # Of a dynamic type: fields of an optional are optional, whatever holds it.
            return optional_lookup(container, found)
        return lookup(container, found)

    return code


def _optional_lookup(read: Code, key: Code, units: int) -> Code:
    def code(evaluation: Evaluation) -> Optional:
        container = read(evaluation)
        found = optional_lookup(container, key(evaluation))
        # An absent value costs nothing.
        evaluation.cost += units if found.has_value else units - 1
        return found

    return code


def optional_lookup(container: Any, key: Any) -> Optional:
    """Return the value of a key as an optional; absent if the container is an absent optional."""
    if type(container) is Optional:
        if not container.has_value:
            return NONE
        container = container.value
    if isinstance(container, dict):
        try:
            return Optional(container[map_key(key)])
        except KeyError:
            return NONE
    if type(container) in LISTS:
        try:
            return Optional(container[list_index(container, key)])
        except EvaluationError:
            return NONE
    raise no_such_overload()


def _field_type(compiler: Compiler, operand: Type, name: str, offset: int) -> tuple[Type, bool]:
    """Return the type of a field, and whether the operand is an optional."""
    resolved = compiler.unifier.resolve(operand)
    is_optional = resolved.name == "optional_type"
    if is_optional:
        resolved = resolved.parameters[0]
    if resolved.is_dynamic:
        return (resolved, is_optional)
    fields = compiler.environment.objects.get(resolved.name)
    if fields is not None:
        if name not in fields:
            raise CompileError(f"undefined field '{name}'", offset)
        return (fields[name], is_optional)
    if resolved.name == "map" and compiler.unifier.assignable(STRING, resolved.parameters[0]):
        return (resolved.parameters[1], is_optional)
    raise CompileError(f"type '{resolved}' does not support field selection", offset)


def _element_type(compiler: Compiler, operand: Type, key: Type, offset: int) -> tuple[Type, bool]:
    """Return the type of an element, and whether the operand is an optional."""
    unifier = compiler.unifier
    resolved = unifier.resolve(operand)
    is_optional = resolved.name == "optional_type"
    container = resolved.parameters[0] if is_optional else operand
    if unifier.resolve(container).is_dynamic:
        return (DYN, is_optional)
    element, key_type = unifier.fresh(), unifier.fresh()
    if unifier.all_assignable((container, key), (list_of(element), INT)):
        return (element, is_optional)
    if unifier.all_assignable((container, key), (map_of(key_type, element), key_type)):
        return (element, is_optional)
    raise compiler.mismatch("_[_]", (operand, key), offset)
