"""Calls of `hits.hit`, inserted into the product.

A mutant that has another value only sometimes, such as `<` for `<=`, is hit when its value differs:
no test can notice it otherwise. What runs when its module is imported is hit by the functions that
may read it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from devtools.mutants.mutating import Function, Mutant

PRODUCT: Final = ("scheduler", "plugins", "config", "simulator")
HIT: Final = '__import__("mutants_hits").hit'
_PURE: Final = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Compare, ast.BinOp, ast.UnaryOp),
    *(ast.expr_context, ast.operator, ast.unaryop, ast.cmpop),
)
_PURE_CALLS: Final = ("len", "min", "max", "abs", "int")

Insertion = tuple[int, int, int, str]
"""Offset; 0 for an end, 1 for a beginning; a rank, so that ends and beginnings nest; the text."""


def mark(root: Path, mutants: Mapping[int, Mutant]) -> None:
    """Write the calls into the files of a copy of the tree."""
    for file in (file for name in PRODUCT for file in sorted((root / name).rglob("*.py"))):
        path = file.relative_to(root).as_posix()
        text = file.read_bytes()
        insertions = [
            insertion
            for number, mutant in mutants.items()
            for insertion in _insertions(path, text, number, mutant)
        ]
        if insertions:
            file.write_bytes(_insert(text, insertions))


def _insertions(path: str, text: bytes, number: int, mutant: Mutant) -> Iterator[Insertion]:
    if mutant.read_by is None:
        if mutant.path == path:
            yield from _of_code(number, mutant)
    elif mutant.path == path or any(name.encode() in text for name in mutant.read_by):
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, Function) and (
                mutant.path == path or _names(function).intersection(mutant.read_by)
            ):
                yield from _of_function(number, function, text)


def _of_code(number: int, mutant: Mutant) -> Iterator[Insertion]:
    length = mutant.end - mutant.start
    if mutant.is_statement:
        yield (mutant.start, 1, -length, f"{HIT}({number}, None); ")
        return
    if _can_be_compared(mutant):
        yield (mutant.start, 1, -length, f"{HIT}({number}, ")
        yield (mutant.end, 0, length, f", lambda: {mutant.replacement})")
    else:
        yield (mutant.start, 1, -length, f"({HIT}({number}, None), ")
        yield (mutant.end, 0, length, ")[1]")


def _can_be_compared(mutant: Mutant) -> bool:
    """Whether it evaluates what the code does anyway, and can be evaluated once more."""
    nodes = list(ast.walk(ast.parse(f"({mutant.source})", mode="eval").body))
    if not isinstance(nodes[0], ast.Compare | ast.BinOp | ast.Call):
        return False
    return all(isinstance(node, _PURE) or _is_pure_call(node) for node in nodes)


def _is_pure_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id in _PURE_CALLS and len(node.args) > (node.func.id in ("min", "max")))
    )


def _of_function(number: int, function: Function, text: bytes) -> Iterator[Insertion]:
    for statement in function.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # the docstring
        decorators = getattr(statement, "decorator_list", [])
        line = min([statement.lineno, *(each.lineno for each in decorators)])
        start = sum(map(len, text.splitlines(keepends=True)[: line - 1])) + statement.col_offset
        call = f"{HIT}({number}, None)\n{' ' * statement.col_offset}"
        yield (start, 1, -len(text), call)
        return


def _names(function: Function) -> set[str]:
    """Return the names that a function reads, of variables and of attributes."""
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(function))
    return set(names)


def _insert(text: bytes, insertions: Iterable[Insertion]) -> bytes:
    parts, end = [], 0
    for start, _, _, inserted in sorted(insertions):
        parts += [text[end:start], inserted.encode()]
        end = start
    return b"".join([*parts, text[end:]])
