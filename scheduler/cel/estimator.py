"""Estimates the cost of a compiled expression, as an API server does before it stores one.

Macros are estimated as the folds that cel-go expands them to, with a variable that accumulates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.cel import call_estimates
from scheduler.cel.compiler import Compiler
from scheduler.cel.estimates import (
    MAX,
    ONE,
    Bound,
    Entries,
    Estimate,
    Size,
    exactly,
    size_of,
)
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
)
from scheduler.cel.types import BOOL, STRING, Type

_LIST_COST: Final = 10
_MAP_COST: Final = 30
_NOTHING: Final = Size(MAX, 0)
"""The union of no sizes."""


class Estimator:
    """Estimates the nodes of one expression, which was compiled."""

    def __init__(self, compiler: Compiler, bounds: Mapping[str, Bound]) -> None:
        """Create an estimator; `bounds` are those of the variables."""
        self._compiler = compiler
        self._bounds = bounds
        # Estimates of the variables that macros bind, by name: that of a read.
        self._scope: dict[str, Estimate] = {}

    def estimate(self, node: Node) -> Estimate:
        """Return the estimate of a node with all below it."""
        return _ESTIMATORS[type(node)](self, node)

    def literal(self, node: Literal) -> Estimate:
        """Estimate a constant."""
        value = node.value
        size = exactly(len(value)) if isinstance(value, str | bytes) else ONE
        return Estimate(0, self._type(node), size, value=value)

    def identifier(self, node: Identifier) -> Estimate:
        """Estimate a variable, or the name of a type."""
        found = self._scope.get(node.name)
        if found is not None:
            return found
        kind, bound = self._type(node), self._bounds.get(node.name)
        return Estimate(1, kind, size_of(kind, bound), bound=bound)

    def select(self, node: Select) -> Estimate:
        """Estimate `operand.name` and `operand.?name`."""
        operand, kind = self.estimate(node.operand), self._type(node)
        if node.optional:
            return Estimate(_sum(operand.cost, 1), kind, size_of(kind))
        bound = operand.bound.named(node.name) if operand.bound is not None else None
        has_fields = operand.type.name == "map" or operand.type.name.startswith("kubernetes.")
        return Estimate(_sum(operand.cost, has_fields), kind, size_of(kind, bound), bound=bound)

    def index(self, node: Index) -> Estimate:
        """Estimate `operand[key]` and `operand[?key]`."""
        operand, key, kind = self.estimate(node.operand), self.estimate(node.key), self._type(node)
        cost = _sum(operand.cost, key.cost, 1)
        if node.optional or operand.type.name == "optional_type":
            return Estimate(cost, kind, size_of(kind))
        bound = operand.bound.element if operand.bound is not None else None
        if operand.entries is not None:
            return Estimate(cost, kind, operand.entries.value, bound=bound)
        return Estimate(cost, kind, size_of(kind, bound), bound=bound)

    def has(self, node: Has) -> Estimate:
        """Estimate `has(operand.name)`."""
        return Estimate(self.estimate(node.operand).cost, BOOL, ONE)

    def logical(self, node: Logical) -> Estimate:
        """Estimate a chain of `&&` or `||`."""
        return Estimate(_sum(*(self.estimate(each).cost for each in node.operands)), BOOL, ONE)

    def conditional(self, node: Conditional) -> Estimate:
        """Estimate a choice."""
        condition, yes, no = map(self.estimate, (node.condition, node.yes, node.no))
        return _choice(condition, yes, no, self._type(node))

    def list_literal(self, node: ListLiteral) -> Estimate:
        """Estimate a list."""
        elements = [self.estimate(each) for each in node.elements]
        cost = _sum(_LIST_COST, *(each.cost for each in elements))
        entries = Entries(True, ONE, _covering(elements))
        return Estimate(cost, self._type(node), exactly(len(elements)), entries)

    def map_literal(self, node: MapLiteral) -> Estimate:
        """Estimate a map."""
        pairs = [
            (self.estimate(key), self.estimate(value))
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        cost = _sum(_MAP_COST, *(key.cost + value.cost for key, value in pairs))
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
        entries = Entries(False, _covering(keys), _covering(values))
        return Estimate(cost, self._type(node), exactly(len(pairs)), entries)

    def call(self, node: Call) -> Estimate:
        """Estimate a call, by the overload that costs most."""
        name, nodes, overloads = self._compiler.calls[id(node)]
        arguments = [self.estimate(each) for each in nodes]
        kind, cost = self._type(node), _sum(*(each.cost for each in arguments))
        if name == "dyn":
            (value,) = arguments
            return Estimate(_sum(cost, 1), kind, value.size, value.entries)
        size: Size | None = None
        most = 0
        for each in overloads:
            call_cost, call_size = call_estimates.estimated(name, each, arguments)
            most = max(most, call_cost)
            if size is None:
                size = call_size
            elif call_size is not None:
                size = size.union(call_size)
            if size is None:
                size = size_of(kind)
        entries: Entries | None = None
        if name == "_+_" and arguments[0].entries is not None:
            entries = arguments[0].entries.union(arguments[1].entries)
        return Estimate(_sum(cost, most), kind, size, entries)

    def comprehension(self, node: Comprehension) -> Estimate:
        """Estimate a macro with variables."""
        target = self.estimate(node.target)
        if node.kind == "bind":
            return self._bound(node.variables[0], target, node.body)
        if node.kind in {"optMap", "optFlatMap"}:
            return self._optional_map(node, target)
        outer = self._scope
        if node.kind == "sortBy":
            # The list is bound to a variable first, of which there are two more reads.
            read = target._replace(cost=1, value=None)
            self._scope = outer | self._variables(node, read)
            body = self.estimate(node.body)
            self._scope = outer
            return self._sorted(node, target, read, body)
        self._scope = outer | self._variables(node, target)
        predicate = self.estimate(node.predicate) if node.predicate is not None else None
        body = self.estimate(node.body)
        self._scope = outer
        if node.kind in {"all", "exists"}:
            return _quantified(target, body, test=2 if node.kind == "all" else 3)
        if node.kind == "exists_one":
            return _counted(target, body)
        is_map = node.kind in {"transformMap", "transformMapEntry"}
        make = self._inserted if is_map else self._mapped
        return make(node, target, predicate, body)

    def _type(self, node: Node) -> Type:
        return self._compiler.unifier.resolve(self._compiler.types[id(node)])

    def _variables(self, node: Comprehension, target: Estimate) -> dict[str, Estimate]:
        """Return the estimates of the variables of a loop."""
        entries, bound = target.entries, target.bound
        is_list = target.type.name == "list" if entries is None else entries.is_list
        key_size, value_size = (None, None) if entries is None else entries[1:]
        element = bound.element if bound is not None else None
        key = bound.key if bound is not None and not is_list else None
        parts = [(key, key_size), (element, value_size)]
        if len(node.variables) == 1:
            parts = parts[is_list : is_list + 1]
        types = map(self._compiler.unifier.resolve, self._compiler.variables[id(node)])
        return {
            name: _read(kind, *part)
            for name, kind, part in zip(node.variables, types, parts, strict=True)
        }

    def _bound(self, name: str, value: Estimate, node: Node) -> Estimate:
        outer = self._scope
        self._scope = outer | {name: value._replace(cost=1, value=None)}
        body = self.estimate(node)
        self._scope = outer
        # A bound value is a loop over an empty list.
        cost = _sum(_LIST_COST, value.cost, body.cost)
        return Estimate(cost, body.type, body.size, body.entries)

    def _optional_map(self, node: Comprehension, target: Estimate) -> Estimate:
        (held,) = target.type.parameters or (target.type,)
        value = Estimate(_sum(target.cost, 1), held, size_of(held))
        kind = self._type(node)
        body = self._bound(node.variables[0], value, node.body)
        if node.kind == "optMap":
            body = Estimate(_sum(body.cost, 1), kind, size_of(kind))
        condition = Estimate(_sum(target.cost, 1), BOOL, ONE)
        return _choice(condition, body, Estimate(1, kind, size_of(kind)), kind)

    def _sorted(
        self, node: Comprehension, target: Estimate, read: Estimate, body: Estimate
    ) -> Estimate:
        keys = self._mapped(node, read, None, body)
        # Keys of a dynamic type may be texts.
        kind = STRING.name if body.type.is_dynamic else body.type.name
        cost, size = call_estimates.sorting(keys, kind)
        return Estimate(_sum(_LIST_COST, target.cost, 1, keys.cost, cost), self._type(node), size)

    def _mapped(
        self, node: Comprehension, target: Estimate, predicate: Estimate | None, body: Estimate
    ) -> Estimate:
        element = Entries(True, ONE, body.range)
        entries = Entries(True, ONE, exactly(0)).union(element)
        # Call, accumulator and a list of one element; or the accumulator alone.
        step = _sum(2 + _LIST_COST, body.cost)
        if predicate is not None:
            step = _sum(predicate.cost, step)
        cost = _sum(target.cost, _LIST_COST, _repeated(target, step), 1)
        return Estimate(cost, self._type(node), target.range, entries)

    def _inserted(
        self, node: Comprehension, target: Estimate, predicate: Estimate | None, body: Estimate
    ) -> Estimate:
        # Call, accumulator and, with a key of its own, the variable of the key.
        step = _sum(3 if node.kind == "transformMap" else 2, body.cost)
        if predicate is not None:
            step = _sum(predicate.cost, step)
        cost = _sum(target.cost, _MAP_COST, _repeated(target, step), 1)
        return Estimate(cost, self._type(node), target.range)


def _quantified(target: Estimate, body: Estimate, test: int) -> Estimate:
    loop = _repeated(target, _sum(test, 1, body.cost))
    return Estimate(_sum(target.cost, loop, 1), BOOL, ONE)


def _counted(target: Estimate, body: Estimate) -> Estimate:
    loop = _repeated(target, _sum(body.cost, 2))
    return Estimate(_sum(target.cost, loop, 2), BOOL, ONE)


def _sum(*costs: int) -> int:
    return min(MAX, sum(costs))


def _repeated(target: Estimate, step: int) -> int:
    return min(MAX, target.range.most * step)


def _covering(estimates: list[Estimate]) -> Size:
    size = _NOTHING if estimates else exactly(0)
    for each in estimates:
        size = size.union(each.range)
    return size


def _read(kind: Type, bound: Bound | None, size: Size | None) -> Estimate:
    known = size_of(kind, bound)
    return Estimate(1, kind, size if known is None else known, bound=bound)


def _choice(condition: Estimate, yes: Estimate, no: Estimate, kind: Type) -> Estimate:
    entries = None if yes.entries is None else yes.entries.union(no.entries)
    cost = _sum(condition.cost, max(yes.cost, no.cost))
    return Estimate(cost, kind, yes.range.union(no.range), entries)


_ESTIMATORS: Final[dict[type[Node], Callable[[Estimator, Any], Estimate]]] = {
    Literal: Estimator.literal,
    Identifier: Estimator.identifier,
    Select: Estimator.select,
    Index: Estimator.index,
    Has: Estimator.has,
    Logical: Estimator.logical,
    Conditional: Estimator.conditional,
    ListLiteral: Estimator.list_literal,
    MapLiteral: Estimator.map_literal,
    Call: Estimator.call,
    Comprehension: Estimator.comprehension,
}
