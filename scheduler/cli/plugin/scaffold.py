"""The files of a new plugin: module, tests, configuration, kustomization, README."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from scheduler.cli.plugin import scaffold_texts as texts

POINTS: Final = ("pre-enqueue", "pre-filter", "filter", "score", "reserve", "permit", "pre-bind")
"""Extension points in the order of the methods."""
DOMAIN: Final = "example.com"
_COLUMNAR: Final = ("filter", "score")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MAX_NAME: Final = 40


class ScaffoldError(ValueError):
    """The name cannot be used, or the folder has files; the text says what to do."""


class Scaffold:
    """A new plugin, before its files are written."""

    def __init__(self, name: str, points: Iterable[str], *, columnar: bool = False) -> None:
        """Choose names and points. Raises ScaffoldError."""
        self.module = name.replace("-", "_")
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise ScaffoldError(
                f"{name!r}: give a name like rack-aware, of lower-case letters, digits and hyphens"
            )
        if keyword.iskeyword(self.module) or _is_taken(self.module):
            raise ScaffoldError(
                f"{name!r} is a word of Python, or the module {self.module} exists already; "
                "give another name"
            )
        self._points = tuple(each for each in POINTS if each in set(points))
        chosen: list[str] = []
        for point in self._points:
            chosen.append(point)
            if columnar and point in _COLUMNAR:
                chosen.append(f"{point} columnar")
        #: Points, and forms beside them, for which there are texts.
        self._parts = tuple(chosen)
        self._class = "".join(each.capitalize() for each in name.split("-"))
        first, *others = (texts.WHAT[point] for point in self._points)
        more = "".join(f"    {each}\n" for each in others)
        self._names = {
            "@what": " ".join([first, *others]),
            "@doc": f"{first}\n\n{more}    " if others else first,
            "@class": self._class,
            "@module": self.module,
            "@name": f"{DOMAIN}/{self._class}",
            "@label": f"{DOMAIN}/{name}",
        }

    def files(self) -> dict[str, str]:
        """Return the text of each file by its name."""
        tests = texts.TEST_HEAD + "".join(texts.TESTS[point] for point in self._points)
        found = {
            f"{self.module}.py": self._source(),
            f"test_{self.module}.py": tests,
            "config.yaml": texts.CONFIG,
            "kustomization.yaml": texts.KUSTOMIZATION,
            "README.md": texts.README,
        }
        return {name: self._filled(text) for name, text in found.items()}

    def write(self, folder: Path) -> list[Path]:
        """Write the files; return their paths.

        Raises:
            ScaffoldError: the folder has files already, or cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise ScaffoldError(f"{folder} is not empty; name another folder with --folder")
            for name, text in self.files().items():
                (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ScaffoldError(f"{folder}: {error.strerror}") from error
        return [folder / name for name in self.files()]

    def _source(self) -> str:
        methods = "".join(texts.METHODS[part] for part in self._parts) + self._events()
        head = texts.HEAD
        for mark, by_part in (
            ("@fields\n", texts.FIELDS),
            ("@attributes\n", texts.ATTRIBUTES),
            ("@constructor\n", texts.CONSTRUCTOR),
            ("@checks", texts.CHECKS),
        ):
            head = head.replace(mark, self._joined(by_part) + ("\n" if mark != "@checks" else ""))
        collections = "Iterator, Sequence" if self._events() else "Iterator"
        head = head.replace("@collections", collections)
        return head.replace("@imports\n", "".join(self._imports(head + methods))) + methods

    def _joined(self, by_part: Mapping[str, str]) -> str:
        return "".join(by_part.get(part, "") for part in self._parts)

    def _events(self) -> str:
        events: dict[str, None] = {}
        for point in self._points:
            for resource, actions in texts.EVENTS.get(point, ()):
                events[texts.EVENT.format(resource, actions)] = None
        return f"{texts.EVENTS_HEAD}{''.join(events)}        )\n" if events else ""

    def _imports(self, source: str) -> Iterator[str]:
        if "np." in source:
            yield "import numpy as np\n"
        yield from _import("kubestow.plugin", _NAMES, source)
        if "MAX_DIGITS" in source:
            yield "\nMAX_DIGITS = 18\n"
        yield "\n"

    def _filled(self, text: str) -> str:
        for mark, name in self._names.items():
            text = text.replace(mark, name)
        return text


def _is_taken(module: str) -> bool:
    """Whether Python would find another module of this name: its own, ours or an installed one."""
    return module in sys.stdlib_module_names or find_spec(module) is not None


_NAMES: Final = (
    "MAX_NODE_SCORE",
    "SKIP",
    "ActionType",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "Codes",
    "Columns",
    "CycleState",
    "EventResource",
    "Handle",
    "Int64Column",
    "NodeInfo",
    "NodeTableView",
    "Permission",
    "Pod",
    "ReuseRule",
    "Rows",
    "Status",
    "is_qualified_name",
    "unresolvable",
    "unschedulable",
)


def _import(module: str, names: Sequence[str], source: str) -> Iterator[str]:
    """Yield the import of those names that the source uses."""
    used = [each for each in names if re.search(rf"(?<![\w.]){each}\b", source)]
    line = f"from {module} import {', '.join(used)}\n"
    if len(line) <= 90:
        yield line
    elif used:
        yield f"from {module} import (\n"
        yield from (f"    {each},\n" for each in used)
        yield ")\n"
