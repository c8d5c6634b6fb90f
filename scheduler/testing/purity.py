"""Purity: a plugin decides from what it is given, so that a recorded decision replays exactly.

Read from the syntax tree: an import inside a function counts, and a name that is only mentioned in
a docstring does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

FORBIDDEN_MODULES: Final = frozenset(
    {"asyncio", "time", "random", "secrets", "socket", "ssl", "http", "threading", "subprocess"}
)
FORBIDDEN_CALLS: Final = frozenset({"now", "utcnow", "today", "uuid1", "uuid4", "urandom"})
"""Attributes that, called, read a clock or entropy: `datetime.now()`, `os.urandom()`."""
INPUT_AND_OUTPUT: Final = frozenset({"open", "input", "print"})
"""Functions of Python that do I/O."""


def impurities(source: str) -> Iterator[str]:
    """Yield a line number and a reason for each clock, random source and I/O in `source`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
                modules += [f"{module}.{alias.name}" for alias in node.names]
            case ast.Call(func=ast.Attribute(attr=attribute, value=owner)):
                yield from _impure_call(node, attribute, owner)
                continue
            case ast.Call(func=ast.Name(id=name)) if name in INPUT_AND_OUTPUT:
                yield f"line {node.lineno}: calls {name}"
                continue
            case _:
                continue
        for module in modules:
            if module.split(".")[0] in FORBIDDEN_MODULES or module.startswith("numpy.random"):
                yield f"line {node.lineno}: imports {module}"


def _impure_call(call: ast.Call, attribute: str, owner: ast.expr) -> Iterator[str]:
    """Yield a reason when the call reads a clock or NumPy's random numbers.

    `state.now` is an injected value and not a call, `clock.now()` an injected Clock: only the
    classes of datetime, the modules os and uuid and `np.random` are sources of their own.
    """
    text = ast.unparse(owner)
    own_source = text.split(".")[-1] in {"datetime", "date", "os", "uuid"}
    if attribute in FORBIDDEN_CALLS and own_source:
        yield f"line {call.lineno}: calls {text}.{attribute}"
    if text in {"np.random", "numpy.random"}:
        yield f"line {call.lineno}: calls {text}.{attribute}"
