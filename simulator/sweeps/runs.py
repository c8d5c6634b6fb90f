"""Runs: names with parameters, the key of each, and what comes of one.

A worker, wherever it is, makes the bytes of the file of its run, so that these do not depend on
who ran it. They hold no time and no name of a machine.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.build_info import build_info
from scheduler.files import read_file

Function = Callable[[Mapping[str, Any]], Any]
"""`function(parameters)` returns a JSON value. It is a function of a module, not a lambda or a
function within another one, so that workers can import it."""

MAX_FILE_BYTES: Final = 4 << 30
"""Of a file that a run reads or has written: the most that a bundle has."""

MAX_NAME: Final = 200
"""Characters of a name: it becomes a file name."""

MAX_FAULTS: Final = 20
"""Faults of the runs of one sweep that an error lists."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]*")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class SweepError(Exception):
    """A sweep that cannot begin, or not go on; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run: a name, which is unique in its sweep, and a JSON object for the function.

    >>> SweepRun("best-fit-42", {"policy": "BestFit", "seed": 42}).name
    'best-fit-42'
    """

    name: str
    """Letters, digits and `._+=-`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The end of one run: a result, or an error."""

    run: SweepRun
    result: Any = None
    """The JSON value that the function returned; None after an error."""
    error: str = ""
    """Type and text of the exception that ended the run; empty: it finished."""
    traceback: str = ""
    """The calls that led to the error, the function's first."""
    reused: bool = False
    """Read from the folder, where an earlier sweep had left it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A run with its key, as workers get it."""

    run: SweepRun
    key: str
    kubestow: str
    """The version of kubestow that the key belongs to."""


class _File(msgspec.Struct, omit_defaults=True):
    """The content of the file of a run."""

    name: str
    key: str
    parameters: dict[str, Any]
    result: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    error: str = ""
    traceback: str = ""


_decode: Final = msgspec.json.Decoder(_File).decode


def tasks(function: Function, runs: Sequence[SweepRun], version: str) -> list[Task]:
    """Check the runs, and give each its key.

    Raises:
        SweepError: the function has no name, names of runs are no file names or given twice,
            parameters are not JSON; every fault, of very many the first.
    """
    faults: list[str] = []
    found: list[Task] = []
    names: set[str] = set()
    kubestow = build_info().version
    about = {"function": name_of(function), "kubestow": kubestow, "version": version}
    for run in runs:
        # Names that differ in case only are one file on some file systems.
        if not _NAME.fullmatch(run.name) or len(run.name) > MAX_NAME:
            faults.append(
                f"{run.name[:80]!r}: a name has letters, digits and ._+=- only, begins with a "
                f"letter or digit, and has at most {MAX_NAME} characters"
            )
        elif run.name.lower() in names:
            faults.append(f"{run.name!r}: there is another run with this name")
        names.add(run.name.lower())
        try:
            key = hashlib.sha256(_encode({**about, "parameters": run.parameters})).hexdigest()
        except (TypeError, ValueError, RecursionError) as error:
            faults.append(f"{run.name[:80]!r}: its parameters are not JSON: {error}")
            continue
        found.append(Task(run, key, kubestow))
    if faults:
        raise SweepError(listed(faults))
    return found


def listed(faults: Sequence[str]) -> str:
    """Return a line for each fault, of very many the first, and how many more there are."""
    more = len(faults) - MAX_FAULTS
    return "\n".join([*faults[:MAX_FAULTS], *([f"and {more} more"] if more > 0 else [])])


def name_of(function: Function) -> str:
    """Return module and name of a function. Raises SweepError if it is none of a module."""
    name = getattr(function, "__qualname__", "<")
    if "<" in name:
        raise SweepError(
            f"{function!r} is not a function of a module; workers import it by its name, and the "
            "name tells its results from those of another function"
        )
    return f"{function.__module__}:{name}"


def attempt(function: Function, task: Task) -> bytes:
    """Run a task, here; return the content of its file. An exception ends the run only."""
    mine = build_info().version
    if mine != task.kubestow:
        text = f"this worker has kubestow {mine}, the sweep {task.kubestow}: install the same"
        return failed(task, text)
    try:
        result = function(task.run.parameters)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary between a run and the others
        below = error.__traceback__.tb_next if error.__traceback__ else None
        lines = traceback.format_exception(type(error), error, below)
        return failed(task, f"{type(error).__name__}: {error}", "".join(lines))
    try:
        encoded = _encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(task, f"the result is not JSON: {error}")
    return _bytes(_file(task, result=msgspec.Raw(encoded)))


def failed(task: Task, error: str, calls: str = "") -> bytes:
    """Return the content of the file of a run that has no result."""
    return _bytes(_file(task, error=error or "unknown error", traceback=calls))


def _file(task: Task, **fields: Any) -> _File:
    return _File(task.run.name, task.key, dict(task.run.parameters), **fields)


def _bytes(content: _File) -> bytes:
    return _encode(content) + b"\n"


def outcome(content: bytes, *, reused: bool = False, key: str = "") -> SweepOutcome | None:
    """Read the content of a file; None if it is damaged, or of another run than that of `key`."""
    try:
        found = _decode(content)
        result = msgspec.json.decode(found.result)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if key and found.key != key:
        return None
    run = SweepRun(found.name, found.parameters)
    return SweepOutcome(run, result, found.error, found.traceback, reused)


def digest(*paths: str | Path) -> str:
    """Return a hash of files, and of the files in folders: for `version`.

    A sweep whose plugin files or traces have changed is then run again, and not read from the
    folder. Compiled files are left out.

    Raises:
        OSError: a file cannot be read.
    """
    found = hashlib.sha256()
    for path in paths:
        for name, file in _files(Path(path)):
            content = read_file(file, MAX_FILE_BYTES)
            found.update(f"{name}\0{len(content)}\0".encode())
            found.update(content)
    return found.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        return iter([(path.name, path)])
    inside: Iterable[Path] = (each for each in path.rglob("*") if each.is_file())
    kept = (each for each in inside if each.suffix != ".pyc")
    return iter(sorted((each.relative_to(path).as_posix(), each) for each in kept))
