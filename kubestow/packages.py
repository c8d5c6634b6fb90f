"""Our packages, and other people's of the same names.

Imported by pytest in every run of an environment with kubestow: it uses the standard library only.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

NAMES: Final = ("config", "plugins", "scheduler", "simulator")

ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder that has them, and this package: `site-packages`, or a clone."""


def put_first() -> None:
    """Move folders with other people's packages of these names behind ours on `sys.path`.

    The other folders keep their places, so that what is not ours is found where it was. Processes
    that are started with this path find ours as well.
    """
    at = next((at for at, each in enumerate(sys.path) if _is_root(each)), len(sys.path))
    before = sys.path[:at]
    clashing = [each for each in before if _has_any(Path(each))]
    kept = [each for each in before if each not in clashing]
    sys.path[:] = [*kept, *(sys.path[at : at + 1] or [str(ROOT)]), *clashing, *sys.path[at + 1 :]]


def check(*names: str) -> None:
    """Raise ImportError if Python finds somebody else's package in place of one of ours.

    Args:
        names: Those that are needed; by default all.
    """
    for name in names or NAMES:
        place = _place(name)
        if place is None:
            continue
        if ROOT not in place.parents:
            raise ImportError(
                f"kubestow needs its own package `{name}`, but Python finds {place} first: start"
                f" Python where that is not on the path, rename it, or install kubestow into an"
                f" environment of its own"
            )
        if not _is_ours(place):
            raise ImportError(
                f"kubestow needs its own package `{name}`, but another distribution has replaced"
                f" {place}: install both anew, each into an environment of its own"
            )


def _is_root(entry: str) -> bool:
    return Path(entry).resolve() == ROOT


def _has_any(folder: Path) -> bool:
    return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in NAMES)


def _is_ours(place: Path) -> bool:
    """Return whether a file of this folder is ours: its first line names kubestow."""
    with place.open("rb") as file:
        return b"kubestow" in file.readline(200)


def _place(name: str) -> Path | None:
    """Return the file or folder that a package was or would be imported from."""
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else None
    found = getattr(loaded, "__file__", None) or (spec.origin if spec is not None else None)
    if found is None and spec is not None:  # a folder without __init__.py
        found = next(iter(spec.submodule_search_locations or ()), None)
    return None if found is None else Path(found).resolve()
