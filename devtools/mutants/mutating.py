"""Faults that a slip of the hand could make: `<` for `<=`, a statement left out, None returned.

A mutant is one such fault. It is identified by its file, the function around it, the line and the
text that it replaces, so that it is found again in a later tree. Declarations and texts are not
mutated: annotations, docstrings, decorators, log records, f-strings, assertions, patterns.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = (
    *(f"scheduler/{part}" for part in ("queue", "engine", "cache", "framework", "service")),
    "plugins",
    "config",
)

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOG_RECORD: Final = re.compile(r"\w*log(?:ger)?\.(?:debug|info|warning|error|exception|critical)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault. Bytes `start` to `end` of the file, which are `source`, become `replacement`."""

    path: str
    scope: str
    """Qualified name of the class or function around it; empty in the module."""
    code: str
    """The line, without indentation."""
    source: str
    replacement: str
    nth: int
    """0 for the first of those that agree in all of the above."""
    line: int
    start: int
    end: int
    is_statement: bool
    read_by: tuple[str, ...] | None
    """Names of what is defined here when the module is imported; None inside a function."""

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies it in a later tree."""
        return (self.path, self.scope, self.code, self.source, self.replacement, str(self.nth))

    def __str__(self) -> str:
        """Name the place and the change."""
        change = f"{' '.join(self.source.split())} -> {self.replacement}"
        return f"{self.path}:{self.line} {self.scope or '(module)'}: {change}"

    def apply(self, text: bytes) -> bytes:
        """Return the file with the fault."""
        return text[: self.start] + self.replacement.encode() + text[self.end :]


def draw(root: Path, count: int, seed: int) -> list[Mutant]:
    """Draw `count` mutants: every line that has some has the same chance, and gives at most one."""
    lines: defaultdict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            for mutant in find(path, file.read_bytes()):
                lines[path, mutant.line].append(mutant)
    chance = random.Random(seed)
    return [chance.choice(lines[line]) for line in sorted(chance.sample(sorted(lines), count))]


def find(path: str, text: bytes) -> list[Mutant]:
    """Return all mutants of a file."""
    finder = _Finder(path, text)
    finder.visit(ast.parse(text))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, text: bytes) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._offsets = [0]
        for line in self._lines:
            self._offsets.append(self._offsets[-1] + len(line))
        self._scope: list[str] = []
        self._read_by: tuple[str, ...] | None = ()
        self._equal: Counter[tuple[str, ...]] = Counter()

    def visit(self, node: ast.AST) -> None:
        if _is_declaration_or_text(node):
            return
        for place, changed in _changes(node):
            if self._read_by is None or not _is_union(node):
                self._add(place, changed)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._visit_function(node)
            case ast.ClassDef():
                self._visit_inside(node.name, (node.name,), [*node.bases, *node.body])
            case ast.Assign(targets=targets) if self._read_by is not None:
                self._visit_inside("", tuple(map(_last_name, targets)), [node.value])
            case ast.AnnAssign(target=target, value=value):
                names = self._read_by if self._read_by is None else (_last_name(target),)
                self._visit_inside("", names, [value] if value else [])
            case _:
                self.generic_visit(node)

    def _visit_function(self, node: Function) -> None:
        called = self._scope[-1] if node.name == "__init__" and self._scope else node.name
        defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        names = None if self._read_by is None else (called,)
        self._visit_inside(node.name, names, defaults)
        self._visit_inside(node.name, None, node.body)

    def _visit_inside(self, scope: str, read_by: tuple[str, ...] | None, nodes: list[Any]) -> None:
        outside = self._read_by
        self._read_by = read_by
        if scope:
            self._scope.append(scope)
        for node in nodes:
            self.visit(node)
        if scope:
            self._scope.pop()
        self._read_by = outside

    def _add(self, place: ast.expr | ast.stmt, changed: ast.AST) -> None:
        assert place.end_lineno is not None
        assert place.end_col_offset is not None
        start = self._offsets[place.lineno - 1] + place.col_offset
        end = self._offsets[place.end_lineno - 1] + place.end_col_offset
        is_statement = isinstance(place, ast.stmt)
        replacement = ast.unparse(changed) if is_statement else f"({ast.unparse(changed)})"
        code = self._lines[place.lineno - 1].decode().strip()
        source, scope = self._text[start:end].decode(), ".".join(self._scope)
        key = (self._path, scope, code, source, replacement)
        nth = self._equal[key]
        self._equal[key] += 1
        where = (place.lineno, start, end, is_statement, self._read_by)
        self.found.append(Mutant(*key, nth, *where))


def _is_declaration_or_text(node: ast.AST) -> bool:
    match node:
        case ast.arguments() | ast.JoinedStr() | ast.Assert() | ast.pattern():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Call() as call) | (ast.Call() as call):
            return (
                LOG_RECORD.fullmatch(".".join(ast.unparse(call.func).split(".")[-2:])) is not None
            )
    return False


def _is_union(node: ast.AST) -> bool:
    """Whether it may be the definition of a type."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _last_name(target: ast.expr) -> str:
    return re.split(r"\W+", ast.unparse(target))[-1]


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Yield what can be replaced in or below a node, and by what."""
    match node:
        case ast.Compare(ops=[operator]):
            for other in COMPARISONS[type(operator)]:
                yield node, _with(node, ops=[other()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            yield node, _with(node, op=ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op):
            yield node, _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int(number) | float(number)):
            yield from ((node, ast.Constant(number + step)) for step in (1, -1))
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            yield node, _with(node, func=ast.Name(FUNCTIONS[name]))
    yield from _changes_of_conditions(node)
    yield from _changes_of_statements(node)


def _changes_of_conditions(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    tests: list[ast.expr] = []
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            tests = [test]
        case ast.comprehension(ifs=tests):
            pass
    for test in tests:
        if not isinstance(test, ast.Compare | ast.UnaryOp):  # which are negated by themselves
            yield test, ast.UnaryOp(ast.Not(), test)


def _changes_of_statements(node: ast.AST) -> Iterator[tuple[ast.stmt, ast.AST]]:
    match node:
        case ast.Return(value=ast.Constant(value=None | False)):
            return  # None for False is hardly a change
        case ast.Return(value=value) if value is not None:
            yield node, ast.Return(ast.Constant(None))
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue():
            yield node, ast.Break()
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield node, ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Delete():
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()  # a local variable without its value would fail at once


def _with(node: ast.AST, **changed: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **changed})
