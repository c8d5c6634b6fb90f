"""The core reads no clock and no random source of its own, and does no I/O.

What import-linter can say (layers, third-party packages) it says itself.
"""

from __future__ import annotations

import pytest

from scheduler.testing.purity import impurities
from tests.unit.repository.tree import CORE, ROOT


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
        "open('file')",
        "print('text')",
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
        "def f(archive):\n    return archive.open()",
    ],
)
def test_the_check_lets_pass(source: str) -> None:
    assert not list(impurities(source))
