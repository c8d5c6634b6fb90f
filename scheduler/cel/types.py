"""Static types of CEL expressions, and how they unify.

Source: the CEL language definition (github.com/google/cel-spec, `doc/langdef.md`, "Gradual type
checking") and cel-go's `checker/types.go: isAssignable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from scheduler.cel.metering import Meter


class Type:
    """A type: its name, and the types it is made of (`list(int)`, `map(string, any)`).

    The name of a type variable begins with `$`, that of an object type has a dot. Types share those
    that they are made of, and one of a few nodes may stand for a tree of billions. So everything
    here visits each node once, and without recursion.
    """

    __slots__ = ("is_ground", "is_variable", "name", "parameters")

    def __init__(self, name: str, parameters: tuple[Type, ...] = ()) -> None:
        self.name = name
        self.parameters = parameters
        #: Whether the type stands for one that unification finds.
        self.is_variable = name.startswith("$")
        #: Whether no type variable is in it.
        self.is_ground: bool = not self.is_variable and all(each.is_ground for each in parameters)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type) or self.name != other.name:
            return False
        if not self.parameters and not other.parameters:
            return True
        return Unifier(Meter([])).same(self, other)

    def __hash__(self) -> int:
        return hash((self.name, len(self.parameters)))

    def __repr__(self) -> str:
        return f"Type({self!s})"

    def __str__(self) -> str:
        """Return the text of the type, cut if it is long."""
        parts: list[str] = []
        pending: list[Type | str] = [self]
        while pending:
            each = pending.pop()
            if isinstance(each, str):
                parts.append(each)
                continue
            parts.append(each.name)
            if len(parts) > MAX_SHOWN:
                return f"{''.join(parts)}..."
            if each.parameters:
                pending.append(")")
                for number, parameter in reversed(list(enumerate(each.parameters))):
                    pending += (parameter, ", " if number else "(")
        return "".join(parts)

    @property
    def is_dynamic(self) -> bool:
        """Whether operations are checked at run time only."""
        return self.name in {"dyn", "any"}


MAX_SHOWN: Final = 100
"""Names and signs of a type that its text shows."""
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


def may_fit(value: Type, target: Type) -> bool:
    """Whether `Unifier.assignable` may be true: a quick look at the outermost names."""
    return (
        value.name == target.name
        or value.is_variable
        or target.is_variable
        or value.is_dynamic
        or target.is_dynamic
        or NULL.name in (value.name, target.name)
    )


class Unifier:
    """The types that the type variables of one expression stand for."""

    __slots__ = ("_bound", "_changes", "_final", "_meter", "_numbers", "_same")

    def __init__(self, meter: Meter) -> None:
        """Create a unifier that accounts for each node of a type that it visits."""
        self._meter = meter
        self._bound: dict[str, Type] = {}
        # What the variables that were bound since the last success stood for before.
        self._changes: list[tuple[str, Type | None]] = []
        self._numbers = count()
        # Types and what they stand for, all of whose variables are bound, by identity.
        self._final: dict[int, tuple[Type, Type]] = {}
        # Pairs of types that are the same, by identity.
        self._same: dict[tuple[int, int], tuple[Type, Type]] = {}

    def fresh(self) -> Type:
        """Return a type variable that occurs nowhere else."""
        return Type(f"${next(self._numbers)}")

    def instantiate(self, types: Sequence[Type]) -> list[Type]:
        """Replace the variables of a declaration by fresh ones, the same by the same."""
        names: dict[str, Type] = {}

        def renamed(each: Type) -> Type:
            if each.is_ground:
                return each
            if each.is_variable:
                if each.name not in names:
                    names[each.name] = self.fresh()
                return names[each.name]
            return Type(each.name, tuple(map(renamed, each.parameters)))

        return [renamed(each) for each in types]

    def resolve(self, what: Type) -> Type:
        """Replace bound variables by what they stand for; free ones by `dyn`."""
        # Results by the identity of the type, and whether they cannot change any more.
        done: dict[int, tuple[Type, bool]] = {}
        pending = [what]
        while pending:
            self._meter.spend(_STEP)
            each = pending[-1]
            meant = self._shallow(each)
            if meant.is_ground or meant.is_variable:
                done[id(each)] = (meant if meant.is_ground else DYN, meant.is_ground)
            else:
                missing = [inner for inner in meant.parameters if id(inner) not in done]
                if missing:
                    pending += missing
                    continue
                inner = [done[id(parameter)] for parameter in meant.parameters]
                made = Type(meant.name, tuple(found for found, _ in inner))
                is_final = all(final for _, final in inner)
                if is_final:
                    self._final[id(meant)] = meant, made
                done[id(each)] = made, is_final
            pending.pop()
        return done[id(what)][0]

    def same(self, one: Type, other: Type) -> bool:
        """Whether two types are equal, without regard to what variables stand for."""
        self._meter.spend(_STEP)
        pending = [(one, other)]
        pairs: dict[tuple[int, int], tuple[Type, Type]] = {}
        while pending:
            left, right = pending.pop()
            pair = id(left), id(right)
            if left is right or pair in pairs or pair in self._same:
                continue
            self._meter.spend(_STEP)
            if left.name != right.name or len(left.parameters) != len(right.parameters):
                return False
            pairs[pair] = left, right
            pending += zip(left.parameters, right.parameters, strict=True)
        self._same.update(pairs)
        return True

    def all_assignable(self, values: Sequence[Type], targets: Sequence[Type]) -> bool:
        """Whether values of these types fit these parameters; only then variables are bound."""
        self._meter.spend(_CALL)
        pending = list(zip(values, targets, strict=True))
        pending.reverse()
        seen: set[tuple[int, int]] = set()
        while pending:
            value, target = pending.pop()
            if value is target:
                continue
            self._meter.spend(_STEP)
            value, target = self._shallow(value), self._shallow(target)
            pair = id(value), id(target)
            if pair in seen:
                continue
            seen.add(pair)
            inner = self._assigned(value, target)
            if inner is None:
                self._undo()
                return False
            pending += reversed(inner)
        self._changes.clear()
        return True

    def assignable(self, value: Type, target: Type) -> bool:
        """Whether a value of one type fits where another is expected."""
        return self.all_assignable((value,), (target,))

    def joined(self, one: Type, other: Type) -> Type:
        """Return the type that covers both, `dyn` if only that does."""
        self._meter.spend(_CALL)
        if one is other:
            return one
        if self.assignable(other, one):
            return one if not self._shallow(other).is_dynamic else other
        return DYN

    def _shallow(self, what: Type) -> Type:
        """Return the type that a variable stands for, and one without variables if it is known."""
        if what.is_ground:
            return what
        names: list[str] = []
        while what.is_variable and what.name in self._bound:
            names.append(what.name)
            what = self._bound[what.name]
        for name in names[:-1]:
            # Or else the path through the elements of a long list is as long.
            self._set(name, what)
        final = self._final.get(id(what))
        return what if final is None else final[1]

    def _assigned(self, value: Type, target: Type) -> Sequence[tuple[Type, Type]] | None:
        """Assign one node to another; return the pairs that must fit as well, None if it fails."""
        if value is target or (value.name == target.name and not value.parameters):
            return ()
        for variable, other in ((target, value), (value, target)):
            if variable.is_variable:
                return () if self._bind(variable, other) else None
        if value.is_dynamic or target.is_dynamic:
            return ()
        for one, other in ((value, target), (target, value)):
            if one.name == NULL.name:
                # As in protocol buffers, null is a value of every message.
                return () if "." in other.name else None
        if value.name != target.name:
            return None
        if value.name == "type":
            return ()  # One type may be compared with another.
        if len(value.parameters) != len(target.parameters):
            return None
        return list(zip(value.parameters, target.parameters, strict=True))

    def _bind(self, variable: Type, what: Type) -> bool:
        if not what.is_ground and self._occurs(variable, what):
            return False
        self._set(variable.name, what)
        return True

    def _set(self, name: str, what: Type) -> None:
        self._changes.append((name, self._bound.get(name)))
        self._bound[name] = what

    def _undo(self) -> None:
        while self._changes:
            name, before = self._changes.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before

    def _occurs(self, variable: Type, what: Type) -> bool:
        pending, seen = [what], set[int]()
        while pending:
            self._meter.spend(_STEP)
            each = self._shallow(pending.pop())
            if each.is_variable and each.name == variable.name:
                return True
            if not each.is_ground and id(each) not in seen:
                seen.add(id(each))
                pending += each.parameters
        return False


_CALL: Final = 20
"""Units of work to begin an operation."""
_STEP: Final = 8
"""Units of work to visit a node of a type."""
