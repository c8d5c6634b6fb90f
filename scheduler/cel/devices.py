"""Selectors of devices: CEL expressions over the variable `device`.

Source: `dynamic-resource-allocation/cel/compile.go` of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from scheduler.api.devices import Device, DeviceAttribute
from scheduler.api.meta import RawQuantity
from scheduler.api.quantity import Quantity, QuantityError
from scheduler.api.quantity import parse as parse_quantity
from scheduler.cel.compiled import Compiled
from scheduler.cel.compiler import Compiler, Environment
from scheduler.cel.declarations import merged
from scheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    RECURSION_LIMIT_EXCEEDED,
    CompileError,
    EvaluationCancelledError,
    EvaluationError,
)
from scheduler.cel.estimates import Bound
from scheduler.cel.estimator import Estimator
from scheduler.cel.evaluation import Evaluation, MapWithDefault
from scheduler.cel.libraries import (
    lists,
    named_formats,
    networks,
    optionals,
    quantities,
    regular_expressions,
    standard,
    strings,
    versions,
)
from scheduler.cel.metering import COST_LIMIT, MAX_COMPILE_WORK, Check, Meter
from scheduler.cel.syntax import Node
from scheduler.cel.types import ANY, BOOL, STRING, Type, map_of
from scheduler.cel.values import type_name

_ATTRIBUTES: Final = map_of(STRING, map_of(STRING, ANY))
_CAPACITY: Final = map_of(STRING, map_of(STRING, quantities.QUANTITY))
_DEVICE: Final = Type("kubernetes.DRADevice")
FIELDS: Final = {
    "driver": STRING,
    "attributes": _ATTRIBUTES,
    "capacity": _CAPACITY,
    "allowMultipleAllocations": BOOL,
}
"""Fields of the variable `device`, and their types."""


@cache
def environment() -> Environment:
    """Return what a selector may refer to."""
    libraries = (
        standard, strings, lists, optionals, regular_expressions, quantities, versions, networks,
        named_formats,
    )  # fmt: skip
    return Environment(
        merged(*(each.FUNCTIONS for each in libraries)),
        standard.TYPES,
        {"device": _DEVICE},
        {_DEVICE.name: FIELDS},
    )


_CHARACTER_BYTES: Final = 100
"""Bytes of a syntax tree for each character; measured were up to 98."""
_NODE_BYTES: Final = 350
"""Bytes of a compiled node; measured were up to 310."""


def prepare() -> None:
    """Make the tables of the parser, which takes some 100 ms, if they are not there yet."""
    from scheduler.cel.parser import parser  # noqa: PLC0415 - see ParsedExpression

    parser()


class ParsedExpression:
    """An expression that is not compiled yet; both take long, so it is parsed in pieces."""

    __slots__ = ("_parsing", "expression", "nbytes", "tree")

    def __init__(self, expression: str) -> None:
        """Begin to parse the expression; raises `CompileError`."""
        self.expression = expression
        #: Estimate of the memory that the syntax tree takes.
        self.nbytes = _CHARACTER_BYTES * len(expression)
        #: The syntax tree, None before the end.
        self.tree: Node | None = None
        # Lark takes 1.4 MiB, which most clusters, without such expressions, do not need.
        from scheduler.cel.parser import Parsing  # noqa: PLC0415

        self._parsing = Parsing(expression)

    def advance(self, check: Check | None = None) -> bool:
        """Parse the next piece; return whether it was the last one.

        Raises `CompileError`, and the exception of `check`.
        """
        if self.tree is None:
            try:
                self.tree = self._parsing.advance(Meter([], check, MAX_COMPILE_WORK))
            except EvaluationCancelledError as error:
                raise CompileError(str(error)) from None
        return self.tree is not None


class DeviceSelector:
    """A compiled expression. Immutable: to be shared and cached."""

    __slots__ = ("_code", "_size", "expression", "nbytes")

    def __init__(self, source: str | ParsedExpression, check: Check | None = None) -> None:
        """Compile the expression; raises `CompileError`, and the exception of `check`."""
        parsed = ParsedExpression(source) if isinstance(source, str) else source
        compiler, _, compiled = _compiled(parsed, check)
        self.expression = expression = parsed.expression
        self._code = compiled.code
        self._size = compiler.size
        #: Estimate of the memory that the selector takes.
        self.nbytes = _NODE_BYTES * compiler.nodes + len(expression)

    def matches(self, device: Mapping[str, Any], check: Check | None = None) -> bool:
        """Whether the expression is true for a device, which `device_value` made.

        Raises `EvaluationError` for a failure, and `EvaluationCancelledError` if the cost exceeds
        the limit or `check` raised it.
        """
        return self.evaluate(device, check)[0]

    def evaluate(self, device: Mapping[str, Any], check: Check | None = None) -> tuple[bool, int]:
        """Return the result and its cost; raises as `matches`."""
        evaluation = Evaluation([device, *([None] * (self._size - 1))], check)
        try:
            value = self._code(evaluation)
        except RecursionError:
            # Of a value that is nested deeply, which takes several levels of the expression each.
            raise EvaluationError(RECURSION_LIMIT_EXCEEDED) from None
        if evaluation.cost > COST_LIMIT:
            raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
        if type(value) is not bool:
            raise EvaluationError(_not_bool(type_name(value)))
        return (value, evaluation.cost)


_ATTRIBUTE_BOUND: Final = Bound(64)
_BOUNDS: Final = {
    "device": Bound(
        fields={
            "driver": Bound(63),
            "attributes": Bound(
                32,
                key=Bound(63),
                element=Bound(32, key=Bound(32), element=_ATTRIBUTE_BOUND, is_open=True),
            ),
            "capacity": Bound(32, key=Bound(63), element=Bound(32, key=Bound(32), element=Bound())),
            "allowMultipleAllocations": Bound(1),
        }
    )
}
"""Sizes that the API server admits for parts of a device."""


def check_storable(expression: str) -> None:
    """Raise `CompileError` if an API server would not store an expression.

    It refuses those that do not compile, and those whose estimated cost exceeds the limit
    (`pkg/apis/resource/validation: validateCELSelector`).
    """
    try:
        if estimated_cost(expression) > COST_LIMIT:
            raise CompileError("too complex, exceeds cost limit")
    except EvaluationCancelledError as error:
        raise CompileError(str(error)) from None


def estimated_cost(expression: str) -> int:
    """Return what an evaluation costs at most for any device, as an API server estimates it.

    Raises `CompileError`, and `EvaluationCancelledError` for too much work.
    """
    compiler, tree, _ = _compiled(ParsedExpression(expression), None)
    return Estimator(compiler, _BOUNDS).estimate(tree).cost


def _compiled(parsed: ParsedExpression, check: Check | None) -> tuple[Compiler, Node, Compiled]:
    while not parsed.advance(check):
        pass
    assert parsed.tree is not None
    compiler = Compiler(environment(), check)
    try:
        compiled = compiler.compile(parsed.tree)
        compiler.finish()
    except EvaluationCancelledError as error:
        raise CompileError(str(error)) from None
    result = compiler.unifier.resolve(compiled.type)
    if result != BOOL and result.name != "any":
        raise CompileError(f"must evaluate to bool or the unknown type, not {result}")
    return compiler, parsed.tree, compiled


def _not_bool(name: str) -> str:
    reason = f"unsupported type conversion from '{name}' to bool"
    if name == "string":
        reason = "unsupported native conversion from string to 'bool'"
    return f"CEL result of type {name} could not be converted to bool: {reason}"


def device_value(driver: str, device: Device) -> dict[str, Any]:
    """Return the value of the variable `device`.

    Raises `EvaluationError` for an attribute of an unknown kind (lists are known only with
    `list_attributes`) and for a version that cannot be parsed: no expression can be evaluated then.
    """
    return {
        "driver": driver,
        "attributes": _by_domain(
            driver,
            {name: attribute_value(name, each) for name, each in device.attributes.items()},
        ),
        "capacity": _by_domain(
            driver, {name: _amount(name, each.value) for name, each in device.capacity.items()}
        ),
        "allowMultipleAllocations": device.allow_multiple_allocations is True,
    }


def attribute_value(name: str, attribute: DeviceAttribute) -> Any:
    """Return the CEL value of an attribute; raises as `device_value`."""
    for value in (attribute.integer, attribute.boolean, attribute.string):
        if value is not None:
            return value
    try:
        if attribute.version is not None:
            return versions.parse(attribute.version)
        for values in (attribute.ints, attribute.bools, attribute.strings):
            if values is not None:
                return list(values)
        if attribute.versions is not None:
            return [versions.parse(each) for each in attribute.versions]
    except EvaluationError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _amount(name: str, raw: RawQuantity) -> Quantity:
    try:
        return parse_quantity(raw)
    except QuantityError as error:
        # The API server does not store such a value.
        raise EvaluationError(f"capacity {name}: {error}") from None


def _by_domain(driver: str, values: Mapping[str, Any]) -> MapWithDefault:
    domains = MapWithDefault()
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = driver, name
        domains.setdefault(domain, {})[identifier] = value
    return domains
