"""Checks the types of a syntax tree and compiles it into nested functions, in one pass.

Type check as cel-go's `checker/checker.go`, with the validators that Kubernetes adds
(`environment/base.go`): elements of a list or map literal have one type, and constant regular
expressions, durations and timestamps are valid. Costs as `interpreter/runtimecost.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.cel import attributes, calls, comprehensions
from scheduler.cel.compiled import NOTHING, Compiled, constant
from scheduler.cel.declarations import Functions, Overload
from scheduler.cel.errors import CompileError, EvaluationError, no_such_overload
from scheduler.cel.evaluation import Code, Evaluation
from scheduler.cel.libraries.formatting import check_format
from scheduler.cel.metering import MAX_COMPILE_WORK, Check, Meter
from scheduler.cel.syntax import (
    Call,
    Comprehension,
    Conditional,
    Has,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    Logical,
    MapLiteral,
    Node,
    Select,
    children,
)
from scheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    Unifier,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from scheduler.cel.values import MAX_INT, NONE, TypeValue, Uint, map_key

_NODE_WORK: Final = 40
"""Units of work to compile a node, without the types that it unifies."""
_ELEMENT_WORK: Final = 5
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_ELEMENT_BYTES: Final = 9
_ENTRY_BYTES: Final = 250
_LITERAL_TYPES: Final = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Environment:
    """Functions, types and variables that expressions may refer to."""

    functions: Functions
    #: Names of types and the types.
    types: Mapping[str, Type]
    #: Variables in the order of their values.
    variables: Mapping[str, Type]
    #: Fields of each object type, by its name.
    objects: Mapping[str, Mapping[str, Type]]
    #: Overloads that fit arguments of types without parameters, and the type of their result.
    resolved: dict[tuple[str, bool, tuple[str, ...]], tuple[list[Overload], Type]] = field(
        default_factory=dict
    )


class Compiler:
    """Compiles one expression."""

    def __init__(self, environment: Environment, check: Check | None = None) -> None:
        """Create a compiler; `check` ends it by an exception of its own."""
        self.environment = environment
        #: Account of the work of compiling.
        self.meter = Meter([], check, MAX_COMPILE_WORK)
        self.unifier = Unifier(self.meter)
        #: Position and type of each variable in scope.
        self.scope = {
            name: (position, kind)
            for position, (name, kind) in enumerate(environment.variables.items())
        }
        #: Positions of variables; comprehensions add theirs.
        self.size = len(self.scope)
        #: Nodes so far.
        self.nodes = 0
        #: Types of nodes by their identity; the tree must live as long.
        self.types: dict[int, Type] = {}
        #: Name, arguments and fitting overloads of each call.
        self.calls: dict[int, tuple[str, list[Node], list[Overload]]] = {}
        #: Types of the variables of each macro.
        self.variables: dict[int, tuple[Type, ...]] = {}
        #: Types of the elements of each literal that must agree, with the offsets.
        self._literals: list[tuple[Sequence[Type], Sequence[int]]] = []
        self._formats = 0
        #: Texts that are formatted, with the literal of the arguments.
        self._formatted: list[tuple[str, ListLiteral]] = []

    def compile(self, node: Node) -> Compiled:
        """Compile a node with all below it; raises `CompileError`."""
        self.nodes += 1
        self.meter.spend(_NODE_WORK)
        compiled = _COMPILERS[type(node)](self, node)
        self.types[id(node)] = compiled.type
        return compiled

    def finish(self) -> None:
        """Check what is known only when all types are."""
        for types, offsets in self._literals:
            self.meter.spend(_ELEMENT_WORK * len(types))
            resolved = [self.unifier.resolve(each) for each in types]
            for each, offset in zip(resolved, offsets, strict=True):
                if not self.unifier.same(each, resolved[0]):
                    message = f"expected type '{resolved[0]}' but found '{each}'"
                    raise CompileError(message, offset)
        for text, arguments in self._formatted:
            check_format(text, [self._type_names(each) for each in arguments.elements])

    def _type_names(self, node: Node) -> set[str]:
        names: set[str] = set()
        pending = [node]
        while pending:
            each = pending.pop()
            names.add(self.unifier.resolve(self.types[id(each)]).name)
            if isinstance(each, ListLiteral | MapLiteral):
                pending += children(each)
        return names

    def literal(self, node: Literal) -> Compiled:
        """Compile a constant."""
        if type(node.value) is int and node.value > MAX_INT:
            raise CompileError("invalid int literal", node.offset)
        return constant(_LITERAL_TYPES[type(node.value)], node.value)

    def identifier(self, node: Identifier) -> Compiled:
        """Compile a reference to a variable, or to a type."""
        found = self.scope.get(node.name)
        if found is not None:
            position, kind = found
            code = attributes.variable(position)
            return Compiled(kind, code, is_attribute=True, path=(position, ()))
        named = self.environment.types.get(node.name)
        if named is not None:
            return constant(type_of(named), TypeValue(named.name))
        raise CompileError(f"undeclared reference to '{node.name}'", node.offset)

    def call(self, node: Call) -> Compiled:
        """Compile a call; the arguments of `format` may be of several types."""
        is_format = node.is_member and node.function == "format"
        self._formats += is_format
        if is_format and len(node.arguments) == 2:
            text, arguments = node.arguments
            if isinstance(text, Literal) and isinstance(arguments, ListLiteral):
                self._formatted.append((str(text.value), arguments))
        try:
            return calls.compile_call(self, node)
        finally:
            self._formats -= is_format

    def logical(self, node: Logical) -> Compiled:
        """Compile a chain of `&&` or `||`."""
        operands = [self.compile(each) for each in node.operands]
        for each, operand in zip(node.operands, operands, strict=True):
            self.require(operand.type, BOOL, node.operator, each.offset)
        codes = [each.code for each in operands]
        return Compiled(BOOL, _logical(codes, decisive=node.operator == "||"))

    def conditional(self, node: Conditional) -> Compiled:
        """Compile a choice between two values of one type."""
        condition, yes, no = map(self.compile, (node.condition, node.yes, node.no))
        self.require(condition.type, BOOL, "_?_:_", node.condition.offset)
        if not self.unifier.assignable(no.type, yes.type):
            raise self.mismatch("_?_:_", (condition.type, yes.type, no.type), node.offset)
        return Compiled(self.unifier.joined(yes.type, no.type), _conditional(condition, yes, no))

    def list_literal(self, node: ListLiteral) -> Compiled:
        """Compile a list."""
        elements = [self.compile(each) for each in node.elements]
        types = self._element_types(elements, node.optional)
        self._must_agree(types, node.elements)
        kind = list_of(self._joined(types))
        codes = [each.code for each in elements]
        if all(each.is_constant for each in elements) and not node.optional:
            return constant(kind, [code(NOTHING) for code in codes])
        if node.optional:
            return Compiled(kind, _optional_list(codes, node.optional))

        def code(evaluation: Evaluation) -> list[Any]:
            evaluation.charge(_LIST_COST)
            evaluation.make(len(codes), _ELEMENT_BYTES)
            return [each(evaluation) for each in codes]

        return Compiled(kind, code)

    def map_literal(self, node: MapLiteral) -> Compiled:
        """Compile a map."""
        keys, values = map(self.compile, node.keys), map(self.compile, node.values)
        entries = list(zip(keys, values, strict=True))
        key_types = [key.type for key, _ in entries]
        value_types = self._element_types([value for _, value in entries], node.optional)
        self._must_agree(key_types, node.keys)
        self._must_agree(value_types, node.values)
        kind = map_of(self._joined(key_types), self._joined(value_types))
        code = _map([(key.code, value.code) for key, value in entries], node.optional)
        if all(key.is_constant and value.is_constant for key, value in entries):
            try:
                return constant(kind, code(Evaluation([])))
            except EvaluationError as error:
                raise CompileError(str(error), node.offset) from None
        return Compiled(kind, code)

    def require(self, found: Type, expected: Type, function: str, offset: int) -> None:
        """Raise `CompileError` if a value of one type does not fit another."""
        if not self.unifier.assignable(found, expected):
            raise self.mismatch(function, (found,), offset)

    def mismatch(
        self, function: str, types: Sequence[Type], offset: int, *, is_member: bool = False
    ) -> CompileError:
        """Return the error of a call with arguments of types that no overload takes."""
        shown = [str(self.unifier.resolve(each)) for each in types]
        target = f"{shown.pop(0)}." if is_member else ""
        return CompileError(
            f"found no matching overload for '{function}' applied to '{target}"
            f"({', '.join(shown)})'",
            offset,
        )

    def _element_types(self, elements: list[Compiled], optional: frozenset[int]) -> list[Type]:
        types = []
        for i, each in enumerate(elements):
            kind = each.type
            if i in optional:
                kind = self.unifier.fresh()
                if not self.unifier.assignable(each.type, optional_of(kind)):
                    raise CompileError(f"expected type 'optional_type' but found '{each.type}'")
            types.append(kind)
        return types

    def _must_agree(self, types: list[Type], nodes: list[Node]) -> None:
        if len(types) > 1 and not self._formats:
            self._literals.append((types, [each.offset for each in nodes]))

    def _joined(self, types: list[Type]) -> Type:
        self.meter.spend(_ELEMENT_WORK * len(types))
        joined = types[0] if types else self.unifier.fresh()
        for each in types[1:]:
            joined = self.unifier.joined(joined, each)
        return joined


def _logical(codes: list[Code], *, decisive: bool) -> Code:
    def code(evaluation: Evaluation) -> bool:
        failure: EvaluationError | None = None
        for each in codes:
            try:
                value = each(evaluation)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive  # type: ignore[no-any-return]
            if type(value) is not bool:
                failure = failure or no_such_overload()
        if failure is not None:
            raise failure
        return not decisive

    return code


def _conditional(condition: Compiled, yes: Compiled, no: Compiled) -> Code:
    test, then, otherwise = condition.code, yes.code, no.code
    # A variable is free there; its fields are not.
    then_discount, otherwise_discount = int(yes.is_attribute), int(no.is_attribute)

    def code(evaluation: Evaluation) -> Any:
        value = test(evaluation)
        if value is True:
            evaluation.cost -= then_discount
            return then(evaluation)
        if value is False:
            evaluation.cost -= otherwise_discount
            return otherwise(evaluation)
        raise no_such_overload()

    return code


def _optional_list(codes: list[Code], optional: frozenset[int]) -> Code:
    def code(evaluation: Evaluation) -> list[Any]:
        evaluation.charge(_LIST_COST)
        evaluation.make(len(codes), _ELEMENT_BYTES)
        values = []
        for i, each in enumerate(codes):
            value = each(evaluation)
            if i in optional:
                if value == NONE:
                    continue
                value = value.value
            values.append(value)
        return values

    return code


def _map(entries: list[tuple[Code, Code]], optional: frozenset[int]) -> Code:
    def code(evaluation: Evaluation) -> dict[Any, Any]:
        evaluation.charge(_MAP_COST)
        evaluation.make(len(entries), _ENTRY_BYTES)
        made: dict[Any, Any] = {}
        for i, (key_code, value_code) in enumerate(entries):
            key, value = map_key(key_code(evaluation)), value_code(evaluation)
            if i in optional:
                if value == NONE:
                    continue
                value = value.value
            if key in made:
                raise EvaluationError("Failed with repeated key")
            made[key] = value
        return made

    return code


_COMPILERS: Final[dict[type[Node], Callable[[Compiler, Any], Compiled]]] = {
    Literal: Compiler.literal,
    Identifier: Compiler.identifier,
    Call: Compiler.call,
    Logical: Compiler.logical,
    Conditional: Compiler.conditional,
    ListLiteral: Compiler.list_literal,
    MapLiteral: Compiler.map_literal,
    Select: attributes.compile_select,
    Index: attributes.compile_index,
    Has: attributes.compile_has,
    Comprehension: comprehensions.compile_comprehension,
}
