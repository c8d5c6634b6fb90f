"""CEL expressions of selectors, built from all functions of all libraries, with large arguments.

An expression binds a few values, most of them large lists and texts, and calls functions with them,
often in a loop. Most of these expressions are charged little for much work or memory. Whether an
API server would store one is for the caller to find out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from scheduler.cel.declarations import Overload
from scheduler.cel.devices import environment
from scheduler.cel.parser import MAX_LENGTH

SCALARS: Final = ("int", "string", "bool", "double", "uint", "bytes")
LITERALS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "int": ("0", "1", "3", "-1", "99", "5000"),
    "uint": ("1u", "7u"),
    "double": ("1.5", "-0.0", "1e300"),
    "string": (
        "'a'", "''", "'1Gi'", "'1.2.3-a.b'", "'1h'", "'::1'", "'10.0.0.0/8'", "'http://h:1/p?q=1'",
        "'2020-01-01T00:00:00Z'", "'[a-z]+'", "'(a|b)*c'", "'%s'", "'UTC'", "'dns1123Label'", "'.'",
        "device.driver",
    ),
    "bytes": ("b'a'", "b'\\xff'"),
    "null_type": ("null",),
    "google.protobuf.Duration": ("duration('1h')", "duration('-1s')"),
    "google.protobuf.Timestamp": ("timestamp(0)", "timestamp('2020-01-01T00:00:00Z')"),
    "kubernetes.Quantity": ("quantity('1Gi')", "quantity('-3')"),
    "kubernetes.Semver": ("semver('1.2.3-a.b.c')", "semver('v1', true)"),
    "kubernetes.URL": ("url('http://h:1/p?q=1&q=2')",),
    "kubernetes.NamedFormat": ("format.dns1123Subdomain()", "format.byte()", "format.uri()"),
    "net.IP": ("ip('::1')", "ip('10.0.0.1')"),
    "net.CIDR": ("cidr('10.0.0.0/8')",),
}  # fmt: skip
"""Expressions of a fixed size, by the name of the type."""

TEXTS: Final = ("a", "1", "a.", "1h", "%s", "é", "\U0001f600", "[a]", "x{9}", "/?a=b&", "1:", "A ")
_FUNCTIONS: Final = environment().functions


class ExpressionFuzzer:
    """Builds expressions; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        # Names of bound variables by the text of their type.
        self._variables: dict[str, list[str]] = {}
        self._names = 0

    def expressions(self) -> Iterator[str]:
        """Yield expressions of at most the length that an API server accepts, without end."""
        overloads = [(name, each) for name, overloads in _FUNCTIONS.items() for each in overloads]
        while True:
            self._random.shuffle(overloads)
            for number in range(0, len(overloads), 3):
                made = self._expression(overloads[number : number + 3])
                if len(made.encode()) <= MAX_LENGTH:
                    yield made

    def _expression(self, overloads: list[tuple[str, Overload]]) -> str:
        self._variables, self._names = {}, 0
        bindings = [self._binding() for _ in range(self._random.randint(1, 6))]
        terms = [self._term(*each) for each in overloads]
        body = "&&".join(terms * self._random.choice((1, 1, 1, 10, 100)))
        for _ in range(self._random.choice((0, 1, 1, 1, 2))):
            body = self._loop(body)
        for name, value in reversed(bindings):
            body = f"cel.bind({name},{value},{body})"
        return body

    def _binding(self) -> tuple[str, str]:
        kind = self._random.choice(
            ("list(int)", "list(int)", "string", "list(string)", "list(list(int))", "map(int, int)")
        )
        value = self._large(kind)
        name = self._fresh()
        self._variables.setdefault(kind, []).append(name)
        return name, value

    def _fresh(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _size(self, most: int = 900_000) -> int:
        """Return a size, the small ones as often as the large."""
        return int(10 ** self._random.uniform(0, len(str(most)) - 0.05))

    def _large(self, kind: str) -> str:
        choose = self._random.choice
        known = self._variables.get(kind, ())
        if kind == "string":
            unit = choose(TEXTS)
            made = f"'{unit * self._random.choice((1, 10, 300))}'"
            for _ in range(self._random.randint(0, 3)):
                made = f"{made}.replace('{unit}','{unit * choose((2, 10, 100))}')"
            return f"{choose(known)}+{made}" if known and choose((True, False)) else made
        number = f"lists.range({self._size()})"
        made = {
            "list(int)": number,
            "list(string)": choose((f"{self._text()}.split('')", f"[{self._text()}]")),
            "list(list(int))": f"lists.range({self._size(999)}).map(x,{number})",
            "map(int, int)": f"lists.range({self._size(9999)}).transformMap(i,x,x)",
        }[kind]
        if kind == "list(int)" and choose((True, False)):
            made = f"lists.range({self._size(9999)}).map(x,x*x)"
        if known and kind.startswith("list"):
            made = choose((f"{choose(known)}+{choose(known)}", f"{choose(known)}+{made}", made))
        return made

    def _text(self) -> str:
        known = self._variables.get("string")
        return self._random.choice(known) if known else f"'{'a b' * 30}'"

    def _loop(self, body: str) -> str:
        number, name = self._size(99_999), self._fresh()
        form = self._random.choice(
            (
                "lists.range({0}).all({1},{2})",
                "lists.range({0}).exists({1},!({2}))",
                "lists.range({0}).map({1},{2}).size()>0",
                "lists.range({0}).filter({1},{2}).size()>0",
                "lists.range({0}).exists_one({1},{2})",
                "lists.range({0}).transformList(i,{1},{2}).size()>0",
                "lists.range({0}).transformMap(i,{1},[{2}]).size()>0",
                "lists.range({0}).transformMapEntry(i,{1},{{i:{2}}}).size()>0",
                "lists.range({0}).sortBy({1},{2}).size()>0",
                "optional.of({0}).optMap({1},{2}).hasValue()",
            )
        )
        return form.format(number, name, body)

    def _term(self, name: str, overload: Overload) -> str:
        return f"[{self._call(name, overload)}].size()==1"

    def _call(self, name: str, overload: Overload) -> str:
        parameters = [str(each) for each in overload.parameters]
        # Types that variables stand for; keys of maps are scalars.
        is_key = any(each.startswith("map($A") for each in parameters)
        types = {"$A": self._random.choice(("int", "string"))} if is_key else {}
        arguments = [self._argument(self._concrete(each, types)) for each in parameters]
        if name.startswith("_") and len(arguments) == 2:
            return f"({arguments[0]}){name.strip('_')}({arguments[1]})".replace(")in(", ") in (")
        if name in ("-_", "!_"):
            return f"{name[0]}({arguments[0]})"
        if overload.is_member:
            return f"({arguments[0]}).{name}({','.join(arguments[1:])})"
        return f"{name}({','.join(arguments)})"

    def _concrete(self, kind: str, types: dict[str, str]) -> str:
        """Return the type without variables, each of which stands for one type."""
        for variable in ("$A", "$B"):
            if variable in kind:
                chosen = self._random.choice((*SCALARS, "list(int)", "map(int, int)"))
                kind = kind.replace(variable, types.setdefault(variable, chosen))
        return kind

    def _argument(self, kind: str) -> str:
        known = self._variables.get(kind)
        if known and self._random.random() < 0.8:
            return self._random.choice(known)
        if kind == "dyn":
            everything = [each for names in self._variables.values() for each in names]
            return f"dyn({self._random.choice(everything)})"
        if kind in LITERALS:
            return self._random.choice(LITERALS[kind])
        outer, _, inner = kind.partition("(")
        inner = inner.removesuffix(")")
        if outer == "optional_type":
            return f"optional.of({self._argument(inner)})"
        if outer == "map":
            key, _, value = inner.partition(", ")
            return f"{{{self._argument(key)}:{self._argument(value)}}}"
        element = self._argument(inner)
        ranged = f"lists.range({self._size(9999)}).map(x,{element})"
        return self._random.choice((f"[{element}]", f"[{element},{element}]", ranged))
