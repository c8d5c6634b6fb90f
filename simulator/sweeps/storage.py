"""The folder of a sweep: a file for each run, and an index.

    FOLDER/runs/NAME.json    name, key and parameters, and `result` or `error` with `traceback`
    FOLDER/index.json        the runs of the last sweep in order, each with its state

A file is written under another name and renamed, so that it is whole or not there. The index is
written at the end of a sweep, whatever ended it; what is finished is told by the files alone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from scheduler.files import read_file
from simulator.sweeps.runs import MAX_FILE_BYTES, SweepError, SweepOutcome, Task, outcome

State = Literal["finished", "failed", "missing"]

INDEX: Final = "index.json"
RUNS: Final = "runs"
_LOCK: Final = ".lock"


class SweepEntry(msgspec.Struct, frozen=True):
    """A run in the index."""

    name: str
    key: str
    state: State


class _Index(msgspec.Struct):
    function: str
    version: str
    runs: list[SweepEntry]


class Storage:
    """One folder; made if it does not exist."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._runs = self.folder / RUNS

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other sweeps out of the folder.

        Raises:
            SweepError: another one is at work, or the folder cannot be written.
        """
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / _LOCK).open("w")
        except OSError as error:
            raise SweepError(f"{self.folder}: {error.strerror or error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise SweepError(
                    f"{self.folder}: another sweep writes into this folder; wait for its end, or "
                    "give another folder"
                ) from error
            # Of a sweep that was killed while it wrote.
            for each in (*self.folder.glob(".*.json.*"), *self._runs.glob(".*.json.*")):
                each.unlink(missing_ok=True)
            try:
                yield
            finally:
                # Closing is not enough: a process that was just forked, such as a worker of Dask
                # that starts again, has the file open until it runs another program.
                fcntl.flock(lock, fcntl.LOCK_UN)

    def finished(self, task: Task) -> SweepOutcome | None:
        """Return what an earlier sweep has left of a run with this key, unless it failed.

        Raises:
            SweepError: the file cannot be read.
        """
        found = self._read(task.run.name, task.key)
        return None if found is None or found.error else found

    def _read(self, name: str, key: str) -> SweepOutcome | None:
        try:
            content = read_file(self._runs / f"{name}.json", MAX_FILE_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SweepError(f"{error.filename}: {error.strerror or error}") from error
        return outcome(content, reused=True, key=key)

    def write(self, task: Task, content: bytes) -> None:
        """Write the file of a run. Raises SweepError."""
        self._replace(self._runs / f"{task.run.name}.json", content)

    def write_index(
        self, function: str, version: str, tasks: Sequence[Task], states: Mapping[str, State]
    ) -> None:
        """Write the index; runs without a state are missing. Raises SweepError."""
        entries = [
            SweepEntry(each.run.name, each.key, states.get(each.run.name, "missing"))
            for each in tasks
        ]
        content = msgspec.json.encode(_Index(function, version, entries))
        self._replace(self.folder / INDEX, msgspec.json.format(content, indent=1) + b"\n")

    def _replace(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        except OSError as error:
            raise SweepError(
                f"{path}: {error.strerror or error}; finished runs are kept, and the same sweep "
                "goes on with the others"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    def entries(self) -> list[SweepEntry]:
        """Read the index. Raises SweepError."""
        path = self.folder / INDEX
        try:
            return msgspec.json.decode(read_file(path, MAX_FILE_BYTES), type=_Index).runs
        except OSError as error:
            raise SweepError(f"{path}: {error.strerror or error}") from error
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise SweepError(f"{path}: {error}; run the sweep again to write it anew") from error

    def outcomes(self) -> Iterator[SweepOutcome]:
        """Yield what the folder has of the runs of the index, in order. Raises SweepError."""
        for entry in self.entries():
            found = self._read(entry.name, entry.key)
            if found is not None:
                yield found


def read(folder: str | Path) -> Iterator[SweepOutcome]:
    """Yield the outcomes of the last sweep of a folder in the order of its runs.

    Failed runs are among them; runs that it did not reach are not.

    Raises:
        SweepError: the folder has no index, or a damaged one.
    """
    return Storage(folder).outcomes()
