"""The plugin classes of a file or a folder, loaded as `kubestow run` loads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import click

from scheduler.files import read_file
from scheduler.framework.registry import load
from scheduler.reload.plugin_modules import FreshImports
from scheduler.service.options import add_plugin_directories

MAX_SOURCE_BYTES: Final = 1_000_000
"""Of a file that may have plugins."""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The files that plugin classes are in."""

    folder: Path
    #: Of the files with plugins, without `.py`.
    modules: tuple[str, ...]
    #: The one class that was asked for; empty: all.
    only: str = ""

    @classmethod
    def of(cls, path: str) -> Self:
        """Find the files of FILE, FOLDER or FILE:CLASS. Raises UsageError if there are none."""
        name, colon, only = path.rpartition(":")
        place = Path(name if colon and only.isidentifier() else path)
        wanted = only if place == Path(name) and colon else ""
        if place.is_file() and place.suffix == ".py" and place.stem.isidentifier():
            return cls(place.resolve().parent, (place.stem,), wanted)
        if not place.is_dir():
            raise click.UsageError(
                f"{path}: there is no such folder or Python file; write FILE.py, FILE.py:CLASS or "
                "FOLDER"
            )
        modules = sorted(
            each.stem
            for each in place.glob("*.py")
            if each.stem.isidentifier() and not each.stem.startswith(("test_", "conftest"))
        )
        return cls(place.resolve(), tuple(modules), wanted)

    def load(self) -> list[Any]:
        """Import the modules from their files, and return the classes in them.

        Raises:
            ConfigurationError: a module cannot be imported, or a class has faults.
            UsageError: there is no class.
        """
        add_plugin_directories([str(self.folder)])
        imports = FreshImports([str(self.folder)])
        imports.begin()
        try:
            found = [load(each) for each in self._references()]
        finally:
            imports.end()
        if not found:
            file = f"{self.modules[0]}.py" if len(self.modules) == 1 else ""
            raise click.UsageError(
                f"{self.folder / file}: no class here has a `name`; a plugin has one, such as "
                'name = "example.com/MyPlugin"'
            )
        return found

    def _references(self) -> Iterator[str]:
        for module in self.modules:
            names = [self.only] if self.only else self._classes(module)
            for name in names:
                yield f"{module}:{name}"

    def _classes(self, module: str) -> list[str]:
        """Return the names of classes with a `name`, read without running the module."""
        file = self.folder / f"{module}.py"
        try:
            tree = ast.parse(read_file(file, MAX_SOURCE_BYTES))
        except OSError:
            return []
        except (SyntaxError, ValueError, RecursionError):
            # Loading it words the error, with file and line.
            return ["Plugin"]
        return [
            each.name
            for each in tree.body
            if isinstance(each, ast.ClassDef) and any(map(_is_name, each.body))
        ]


def _is_name(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="name")]) | ast.AnnAssign(target=ast.Name(id="name")):
            return True
    return False
