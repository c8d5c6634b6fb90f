"""The core reads no clock and no random source of its own, and does no I/O over the network.

Read from the syntax tree: an import inside a function counts, and a name that is only mentioned in
a docstring does not. What import-linter can say (layers, third-party packages) it says itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.unit.repository.tree import CORE, ROOT

FORBIDDEN_MODULES: Final = frozenset(
    {"asyncio", "time", "random", "secrets", "socket", "ssl", "http", "threading", "subprocess"}
)
FORBIDDEN_CALLS: Final = frozenset({"now", "utcnow", "today", "uuid1", "uuid4", "urandom"})
"""Attributes that, called, read a clock or entropy: `datetime.now()`, `os.urandom()`."""


def impurities(source: str) -> Iterator[str]:
    """Yield a line number and a reason for everything in `source` that the core must not do."""
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


@pytest.mark.parametrize("folder", CORE)
def test_the_core_takes_time_and_chance_from_outside(folder: str) -> None:
    path = ROOT / folder
    sources = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert sources, f"{folder} has no module"
    found = [
        f"{path.relative_to(ROOT)}: {reason}"
        for path in sources
        for reason in impurities(path.read_text())
    ]
    assert not found, "inject a Clock or a random source through the Handle instead:\n" + "\n".join(
        found
    )


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "import asyncio.subprocess as sub",
        "from time import monotonic",
        "def f():\n    import random",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "import datetime\ndatetime.date.today()",
        "import uuid\nuuid.uuid4()",
        "import os\nos.urandom(8)",
        "import numpy as np\nnp.random.default_rng()",
        "from numpy.random import default_rng",
        "from numpy import random",
    ],
)
def test_the_check_sees(source: str) -> None:
    assert list(impurities(source))


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime, timedelta\ndatetime.fromisoformat('2026-01-01')",
        "def f(clock):\n    return clock.now()",
        "def f(state):\n    return state.now",
        "'''See asyncio, time and random.'''",
        "async def f(writer):\n    await writer.bind()",
        "from scheduler.framework import Clock",
    ],
)
def test_the_check_lets_pass(source: str) -> None:
    assert not list(impurities(source))
