"""Re-importing the modules of plugin folders, as a transaction on `sys.modules`.

Old modules are only removed from `sys.modules` and stay alive while one of their plugins is used. A
module should therefore import at its top, since an import inside a function finds the new module.

Installed libraries are not re-imported, even if their virtual environment is in a plugin folder:
NumPy, for one, cannot be imported a second time.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

from scheduler.framework.registry import libraries

_PACKAGES: Final = tuple(
    f"{Path(__file__).resolve().parents[2] / each}{os.sep}"
    for each in ("kubestow", "scheduler", "plugins", "config", "simulator")
)
"""Folders of this program, which a plugin folder may contain in a clone of the repository."""

_NO_FOLDER: Final = os.devnull
"""A prefix without compiled files. Not from `gettempdir`, which writes a file to find a folder."""


class FreshImports:
    """Makes imports between `begin` and `end` read the folders' modules from their files.

    `undo` may be called at any time, from any thread and repeatedly: `sys.modules` is then as it
    was before.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._roots = tuple({f"{root}{os.sep}" for each in folders for root in _roots(each)})
        self._libraries = tuple(
            each for each in (*libraries(), *_PACKAGES) if each.startswith(self._roots)
        )
        self._compiling = sys.pycache_prefix, sys.dont_write_bytecode
        self.undone = False
        self._begun = False
        #: Names and modules that were imported from the folders before.
        self.forgotten: dict[str, ModuleType] = {}

    def begin(self) -> None:
        """Forget the modules of the folders."""
        self.forgotten = self._take_out()
        self._begun = True
        importlib.invalidate_caches()
        # Compile from source, since compiled files are matched by size and time in seconds only.
        self._compiling = sys.pycache_prefix, sys.dont_write_bytecode
        sys.pycache_prefix, sys.dont_write_bytecode = _NO_FOLDER, True

    def end(self) -> None:
        """Use compiled files again; the new modules stay."""
        sys.pycache_prefix, sys.dont_write_bytecode = self._compiling

    def undo(self) -> None:
        """Replace the new modules by those that were there before."""
        self.undone = True
        if not self._begun:
            return
        self.end()
        self._take_out()
        sys.modules.update(self.forgotten)

    def contains(self, path: str) -> bool:
        """Whether the file is in one of the folders, and not part of a library there."""
        # The path of a package is its folder, without a separator at the end.
        return path.startswith(self._roots) and not f"{path}{os.sep}".startswith(self._libraries)

    def _take_out(self) -> dict[str, ModuleType]:
        found = {name: each for name, each in list(sys.modules.items()) if self._is_ours(each)}
        for name in found:
            sys.modules.pop(name, None)
        return found

    def _is_ours(self, module: object) -> bool:
        # Not with `getattr`: it makes lazy modules import. Namespace packages have no file; their
        # path is a list of folders.
        attributes = getattr(module, "__dict__", {})
        places = [attributes.get("__file__"), *(attributes.get("__path__") or ())]
        return any(isinstance(place, str) and self.contains(place) for place in places)


def _roots(folder: str) -> tuple[str, str]:
    return str(Path(folder).absolute()), str(Path(folder).resolve())
