"""The root of the repository, and its text files under version control. Reads only."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]

CORE: Final = (
    "scheduler/sanitizing",
    "scheduler/api",
    "scheduler/cel",
    "scheduler/explain/records",
    "scheduler/explain/examining",
    "scheduler/framework",
    "scheduler/groups",
    "scheduler/cache",
    "scheduler/queue",
    "scheduler/engine",
    "scheduler/history",
    "scheduler/extenders/circuit_breaker.py",
    "scheduler/extenders/extender.py",
    "scheduler/extenders/protocol.py",
    "plugins",
    "config",
)
"""Folders and files of the pure core: events in, decisions out (CONTRIBUTING.md, "The layers")."""


def tracked_files() -> list[Path]:
    """Return the files git tracks, or, in an unpacked archive without git, all files."""
    if not (ROOT / ".git").exists():
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


@cache
def tracked_texts() -> Mapping[str, str]:
    """Return the content of every tracked UTF-8 file by its path below the root.

    They are read once: no test may change them.
    """
    texts: dict[str, str] = {}
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        try:
            texts[path.relative_to(ROOT).as_posix()] = content.decode()
        except UnicodeDecodeError:
            continue
    return MappingProxyType(texts)
