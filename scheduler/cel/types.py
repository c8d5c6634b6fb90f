"""Static types of CEL expressions, and how they unify.

Source: the CEL language definition (github.com/google/cel-spec, `doc/langdef.md`, "Gradual type
checking") and cel-go's `checker/types.go: isAssignable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its name, and the types it is made of (`list(int)`, `map(string, any)`).

    The name of a type variable begins with `$`, that of an object type has a dot.
    """

    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def is_dynamic(self) -> bool:
        """Whether operations are checked at run time only."""
        return self.name in {"dyn", "any"}

    @property
    def is_variable(self) -> bool:
        """Whether the type stands for one that unification finds."""
        return self.name.startswith("$")


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DYN: Final = Type("dyn")
ANY: Final = Type("any")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
A: Final = Type("$A")
B: Final = Type("$B")


def list_of(element: Type) -> Type:
    """Return the type of lists with such elements."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps with such keys and values."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of optionals that may hold such a value."""
    return Type("optional_type", (value,))


def type_of(what: Type) -> Type:
    """Return the type of a type that is a value (`int` in `type(1) == int`)."""
    return Type("type", (what,))


class Unifier:
    """The types that the type variables of one expression stand for."""

    __slots__ = ("_bound", "_numbers")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._numbers = count()

    def fresh(self) -> Type:
        """Return a type variable that occurs nowhere else."""
        return Type(f"${next(self._numbers)}")

    def instantiate(self, types: Sequence[Type]) -> list[Type]:
        """Replace the variables of a declaration by fresh ones, the same by the same."""
        names: dict[str, Type] = {}

        def renamed(each: Type) -> Type:
            if each.is_variable:
                if each.name not in names:
                    names[each.name] = self.fresh()
                return names[each.name]
            if not each.parameters:
                return each
            return Type(each.name, tuple(map(renamed, each.parameters)))

        return [renamed(each) for each in types]

    def resolve(self, what: Type) -> Type:
        """Replace bound variables by what they stand for; free ones by `dyn`."""
        what = self._shallow(what)
        if what.is_variable:
            return DYN
        if not what.parameters:
            return what
        return Type(what.name, tuple(map(self.resolve, what.parameters)))

    def all_assignable(self, values: Sequence[Type], targets: Sequence[Type]) -> bool:
        """Whether values of these types fit these parameters; only then variables are bound."""
        saved = dict(self._bound)
        if all(map(self._assign, values, targets)):
            return True
        self._bound = saved
        return False

    def assignable(self, value: Type, target: Type) -> bool:
        """Whether a value of one type fits where another is expected."""
        return self.all_assignable((value,), (target,))

    def joined(self, one: Type, other: Type) -> Type:
        """Return the type that covers both, `dyn` if only that does."""
        if self.assignable(other, one):
            return one if not self._shallow(other).is_dynamic else other
        return DYN

    def _shallow(self, what: Type) -> Type:
        while what.is_variable and what.name in self._bound:
            what = self._bound[what.name]
        return what

    def _assign(self, value: Type, target: Type) -> bool:
        value, target = self._shallow(value), self._shallow(target)
        if value == target:
            return True
        for variable, other in ((target, value), (value, target)):
            if variable.is_variable:
                return self._bind(variable, other)
        if value.is_dynamic or target.is_dynamic:
            return True
        for one, other in ((value, target), (target, value)):
            if one == NULL:
                # As in protocol buffers, null is a value of every message.
                return "." in other.name
        if value.name == target.name == "type":
            return True  # One type may be compared with another.
        return (
            value.name == target.name
            and len(value.parameters) == len(target.parameters)
            and all(map(self._assign, value.parameters, target.parameters))
        )

    def _bind(self, variable: Type, what: Type) -> bool:
        if self._occurs(variable, what):
            return False
        self._bound[variable.name] = what
        return True

    def _occurs(self, variable: Type, what: Type) -> bool:
        what = self._shallow(what)
        return what == variable or any(self._occurs(variable, each) for each in what.parameters)
