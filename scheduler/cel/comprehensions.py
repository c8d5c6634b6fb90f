"""Compiles macros to loops.

cel-go expands them to folds (`parser/macro.go`); the costs here are those of the expanded form: a
step reads the accumulator, and a loop that may end early tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from scheduler.cel.compiled import Compiled
from scheduler.cel.errors import MAX_QUOTED, CompileError, EvaluationError, no_such_overload
from scheduler.cel.evaluation import Code, Evaluation
from scheduler.cel.libraries.lists import comparisons_cost, sort_by
from scheduler.cel.metering import bounded
from scheduler.cel.syntax import Comprehension, Node
from scheduler.cel.types import BOOL, DYN, INT, Type, list_of, map_of, optional_of
from scheduler.cel.values import LISTS, NONE, Optional, keys, map_key

if TYPE_CHECKING:
    from scheduler.cel.compiler import Compiler

Rows = Callable[[Any], Iterable[tuple[Any, ...]]]
"""Yields the values of the variables for each element of a list or map."""

_APPEND: Final = 12
"""Accumulator, list of one element and concatenation."""
_INSERT: Final = 3
"""Accumulator, key and call."""
_STEPS: Final = 4
"""Units of work of an iteration, without the nodes in it."""
_ELEMENT_BYTES: Final = 110
"""Bytes of a reference in a list, and of a number or optional."""
_ENTRY_BYTES: Final = 250
"""Bytes of an entry of a map, with a number or optional each as its key and value."""


def compile_comprehension(compiler: Compiler, node: Comprehension) -> Compiled:
    """Compile a macro."""
    target = compiler.compile(node.target)
    if node.kind == "bind":
        return _bind(compiler, node, target, target.type)
    if node.kind in {"optMap", "optFlatMap"}:
        return _optional_map(compiler, node, target)
    types = _element_types(compiler, node, target.type)
    first, nodes = compiler.size, compiler.nodes
    predicate, body = _scoped(compiler, node, types)
    codes = (target.code, predicate.code if predicate else None, body.code)
    rows = _pairs if len(types) == 2 else _elements
    positions = (first, first + len(types), compiler.size)
    loop = _Loop(*codes, rows, positions, _STEPS + compiler.nodes - nodes)
    if node.kind in {"all", "exists", "exists_one"}:
        compiler.require(body.type, BOOL, node.kind, node.body.offset)
        code = {"all": loop.all, "exists": loop.exists, "exists_one": loop.exists_one}[node.kind]
        return Compiled(BOOL, code)
    return _collected(compiler, node, loop, target, body)


def _collected(
    compiler: Compiler, node: Comprehension, loop: _Loop, target: Compiled, body: Compiled
) -> Compiled:
    unifier = compiler.unifier
    if node.kind in {"map", "transformList"}:
        return Compiled(list_of(body.type), loop.append)
    if node.kind == "filter":
        return Compiled(list_of(body.type), loop.append)
    if node.kind == "transformMap":
        key, _ = _element_types(compiler, node, target.type)
        return Compiled(map_of(key, body.type), loop.insert)
    if node.kind == "transformMapEntry":
        key, value = unifier.fresh(), unifier.fresh()
        compiler.require(body.type, map_of(key, value), node.kind, node.body.offset)
        return Compiled(map_of(key, value), loop.merge)
    if unifier.resolve(target.type).name == "map":
        raise compiler.mismatch("sortBy", (target.type,), node.offset, is_member=True)
    return Compiled(target.type, loop.sort)


def _element_types(compiler: Compiler, node: Comprehension, target: Type) -> tuple[Type, ...]:
    """Return the types of the variables of a loop over a list or map."""
    resolved = compiler.unifier.resolve(target)
    two = len(node.variables) == 2
    if resolved.is_dynamic:
        return (DYN, DYN) if two else (DYN,)
    if resolved.name == "list":
        element = compiler.unifier.fresh()
        compiler.unifier.assignable(target, list_of(element))
        return (INT, element) if two else (element,)
    if resolved.name == "map":
        return resolved.parameters if two else resolved.parameters[:1]
    raise CompileError(
        f"expression of type '{resolved}' cannot be range of a comprehension "
        "(must be list, map, or dynamic)",
        node.target.offset,
    )


def _scoped(
    compiler: Compiler, node: Comprehension, types: tuple[Type, ...]
) -> tuple[Compiled | None, Compiled]:
    """Compile predicate and body with the variables in scope."""
    compiler.variables[id(node)] = types
    outer = dict(compiler.scope)
    for name, kind in zip(node.variables, types, strict=True):
        compiler.scope[name] = (compiler.size, kind)
        compiler.size += 1
    try:
        predicate = compiler.compile(node.predicate) if node.predicate else None
        if predicate is not None and isinstance(node.predicate, Node):
            compiler.require(predicate.type, BOOL, "_?_:_", node.predicate.offset)
        return (predicate, compiler.compile(node.body))
    finally:
        compiler.scope = outer


def _bind(compiler: Compiler, node: Comprehension, target: Compiled, kind: Type) -> Compiled:
    position = compiler.size
    _, body = _scoped(compiler, node, (kind,))
    read, evaluate = target.code, body.code

    def code(evaluation: Evaluation) -> Any:
        evaluation.variables[position] = read(evaluation)
        return evaluate(evaluation)

    return Compiled(body.type, code)


def _optional_map(compiler: Compiler, node: Comprehension, target: Compiled) -> Compiled:
    kind = compiler.unifier.fresh()
    compiler.require(target.type, optional_of(kind), node.kind, node.target.offset)
    position = compiler.size
    _, body = _scoped(compiler, node, (kind,))
    flat = node.kind == "optFlatMap"
    result = body.type if flat else optional_of(body.type)
    if flat:
        compiler.require(body.type, optional_of(compiler.unifier.fresh()), node.kind, node.offset)
    read, evaluate = target.code, body.code

    def code(evaluation: Evaluation) -> Any:
        before = evaluation.cost
        optional = read(evaluation)
        if type(optional) is not Optional:
            raise no_such_overload()
        if not optional.has_value:
            # `hasValue()` and `optional.none()`.
            evaluation.charge(2)
            return NONE
        # The target is evaluated twice, for `hasValue()` and `value()`.
        evaluation.charge(2 + evaluation.cost - before)
        evaluation.variables[position] = optional.value
        value = evaluate(evaluation)
        if flat:
            return value
        evaluation.charge(1)
        return Optional(value)

    return Compiled(result, code)


def _elements(container: Any) -> Iterable[tuple[Any, ...]]:
    if type(container) in LISTS:
        return ((each,) for each in container)
    if isinstance(container, dict):
        return ((key,) for key in keys(container))
    raise no_such_overload()


def _pairs(container: Any) -> Iterable[tuple[Any, ...]]:
    if type(container) in LISTS:
        return enumerate(container)
    if isinstance(container, dict):
        return zip(keys(container), container.values(), strict=True)
    raise no_such_overload()


class _Loop:
    """The parts of a loop; each method is the code of one kind of macro."""

    def __init__(
        self,
        target: Code,
        predicate: Code | None,
        body: Code,
        rows: Rows,
        positions: tuple[int, int, int],
        work: int,
    ) -> None:
        """Create a loop.

        `positions` are that of the first variable, and those after the loop's own variables and
        after those of all macros within it. `work` is that of one iteration.
        """
        first, end, end_within = positions
        self._target = target
        self._predicate = predicate
        self._body = body
        self._rows = rows
        self._slice = slice(first, end)
        self._all = slice(first, end_within)
        self._nothing = [None] * (end_within - first)
        self._work = work

    def all(self, evaluation: Evaluation) -> bool:
        """Whether the body holds for all; a failure counts only if it is false for none."""
        return self._decided(evaluation, decisive=False, test=2)

    def exists(self, evaluation: Evaluation) -> bool:
        """Whether the body holds for one; a failure counts only if it holds for none."""
        return self._decided(evaluation, decisive=True, test=3)

    def _decided(self, evaluation: Evaluation, *, decisive: bool, test: int) -> bool:
        rows, body = self._rows(self._target(evaluation)), self._body
        failure: EvaluationError | None = None
        decided = False
        memory = evaluation.memory
        for row in rows:
            evaluation.iterate(test, self._work)
            if decided:
                break
            evaluation.variables[self._slice] = row
            evaluation.cost += 1
            try:
                value = body(evaluation)
            except EvaluationError as error:
                # A new one, because the frames of this one's traceback hold values.
                failure = failure or EvaluationError(*error.args)
                value = None
            if value is decisive:
                decided = True
            elif type(value) is not bool:
                failure = failure or no_such_overload()
            if evaluation.memory > memory:
                self._release(evaluation, memory)
        evaluation.charge(1)
        if decided:
            return decisive
        if failure is not None:
            raise failure
        return not decisive

    def _release(self, evaluation: Evaluation, memory: int) -> None:
        """Give back what an iteration made, after it returned nothing of it."""
        evaluation.variables[self._all] = self._nothing
        evaluation.memory = memory

    def exists_one(self, evaluation: Evaluation) -> bool:
        """Whether the body holds for exactly one."""
        number = 0
        rows = self._rows(self._target(evaluation))
        memory = evaluation.memory
        for row in rows:
            evaluation.iterate(0, self._work)
            evaluation.variables[self._slice] = row
            value = self._body(evaluation)
            if value is True:
                number += 1
                evaluation.cost += 2
            elif value is not False:
                raise no_such_overload()
            if evaluation.memory > memory:
                self._release(evaluation, memory)
        evaluation.charge(2)
        return number == 1

    def append(self, evaluation: Evaluation) -> list[Any]:
        """Return the values of the body where the predicate holds."""
        made: list[Any] = []
        for _ in self._accepted(evaluation):
            evaluation.hold(_ELEMENT_BYTES)
            evaluation.charge(_APPEND)
            made.append(self._body(evaluation))
        evaluation.charge(1)
        return made

    def insert(self, evaluation: Evaluation) -> dict[Any, Any]:
        """Return the map with the values of the body by key."""
        made: dict[Any, Any] = {}
        for row in self._accepted(evaluation):
            evaluation.hold(_ENTRY_BYTES)
            evaluation.charge(_INSERT)
            made[map_key(row[0])] = self._body(evaluation)
        evaluation.charge(1)
        return made

    def merge(self, evaluation: Evaluation) -> dict[Any, Any]:
        """Return the entries that the body makes, each under a key of its own."""
        made: dict[Any, Any] = {}
        for _ in self._accepted(evaluation):
            evaluation.charge(2)
            entries = self._body(evaluation)
            if not isinstance(entries, dict):
                raise no_such_overload()
            for key in entries:
                evaluation.spend(1)
                if key in made:
                    shown = str(key)[:MAX_QUOTED]
                    raise EvaluationError(f"insert failed: key '{shown}' already exists")
            bounded(len(made) + len(entries))
            evaluation.hold(_ENTRY_BYTES * len(entries))
            made.update(entries)
        evaluation.charge(1)
        return made

    def sort(self, evaluation: Evaluation) -> list[Any]:
        """Return the elements in the order of the body's values."""
        target = self._target(evaluation)
        if type(target) not in LISTS:
            raise no_such_overload()
        sort_keys = []
        for row in self._rows(target):
            evaluation.iterate(_APPEND, self._work)
            evaluation.hold(_ELEMENT_BYTES)
            evaluation.variables[self._slice] = row
            sort_keys.append(self._body(evaluation))
        evaluation.charge(1 + comparisons_cost(sort_keys))
        return sort_by(evaluation, target, sort_keys)

    def _accepted(self, evaluation: Evaluation) -> Iterable[tuple[Any, ...]]:
        """Yield each row with its variables set, where the predicate holds."""
        predicate = self._predicate
        for row in self._rows(self._target(evaluation)):
            evaluation.iterate(0, self._work)
            evaluation.variables[self._slice] = row
            value = True if predicate is None else predicate(evaluation)
            if value is True:
                yield row
            elif value is not False:
                raise no_such_overload()
