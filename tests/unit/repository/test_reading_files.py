"""Files whose names come from outside are read in one way, with limits (`scheduler.files`)."""

from __future__ import annotations

import ast
from typing import Final

from tests.unit.repository.tree import tracked_texts

READERS: Final = frozenset({"read_text", "read_bytes"})
OWN: Final = {
    "scheduler/files/__init__.py": "the reader",
    "scheduler/metrics/definitions.py": "of the package",
    "scheduler/cli/page/server.py": "of the package",
    "scheduler/testing/snapshots.py": "of a test",
    "scheduler/cli/demo.py": "its own log",
    "scheduler/isolation/process/worker.py": "of /proc",
    "scheduler/isolation/process/descendants.py": "of /proc",
}
"""Modules that read files of which they know what they are, or that only this process writes."""


def reads(source: str) -> list[int]:
    """Return the lines on which a source opens a file for reading."""
    return [
        each.lineno
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.Call)
        and (
            (isinstance(each.func, ast.Attribute) and each.func.attr in READERS)
            or _opens(each)
            or (isinstance(each.func, ast.Attribute) and ast.unparse(each.func) == "click.File")
        )
    ]


def _opens(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name == "os.open":
        return "O_RDONLY" in ast.unparse(call)
    if name != "open" and not name.endswith(".open"):
        return False
    mode = [ast.unparse(each) for each in (*call.args, *(key.value for key in call.keywords))]
    return not any(each.strip("'\"") in ("w", "wb", "a", "ab", "x", "xb") for each in mode)


def test_only_the_reader_opens_files_for_reading() -> None:
    found = [
        f"{path}:{line}"
        for path, text in tracked_texts().items()
        if path.endswith(".py")
        and path.split("/")[0] in ("scheduler", "simulator", "config")
        and path not in OWN
        for line in reads(text)
    ]
    assert found == [], "use scheduler.files: a name may stand for a pipe or a device"


def test_the_check_sees_each_way() -> None:
    for source in (
        "open(path)",
        "path.open('rb')",
        "Path(path).read_text()",
        "gzip.open(path)",
        "os.open(path, os.O_RDONLY)",
        "click.File('rb')",
    ):
        assert reads(source) == [1], source
    for source in ("path.open('w')", "os.open(path, os.O_WRONLY)", "read_file(path)"):
        assert reads(source) == [], source
