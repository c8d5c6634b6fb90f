"""sweep: run what is not finished yet, and write each result as it comes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from simulator.sweeps.dask_cluster import on_dask
from simulator.sweeps.local import cores, in_this_process, on_processes
from simulator.sweeps.progress import Progress
from simulator.sweeps.runs import Function, SweepOutcome, SweepRun, Task, name_of, outcome, tasks
from simulator.sweeps.storage import State, Storage


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a sweep at its end."""

    finished: int
    """Runs that have a result, those that were reused included."""
    reused: int
    """Runs that an earlier sweep had finished."""
    failed: tuple[str, ...]
    """The names of those that ended with an error, in the order of the runs."""

    @property
    def total(self) -> int:
        """All runs."""
        return self.finished + len(self.failed)


def sweep(
    function: Function,
    runs: Sequence[SweepRun],
    folder: str | Path,
    *,
    processes: int | None = None,
    dask: str = "",
    version: str = "",
    on_outcome: Callable[[SweepOutcome], None] | None = None,
    console: Console | None = None,
) -> Summary:
    """Run each run that the folder has no result of, and write its result there.

    An exception ends its run, and the others go on; failed runs are run again by the next sweep. A
    worker that dies loses nothing: its run begins anew on another one, three times at most. Nor
    does a sweep that is interrupted: call it again. `read` yields the results.

    Files are the same bytes however the runs are distributed, if the function returns the same.

    Args:
        function: makes a JSON value of the parameters of a run; workers import it by its name.
        runs: in the order in which they begin.
        folder: receives the results; see `simulator.sweeps.storage`. One sweep at a time.
        processes: of this machine; None: one for each core, 0: in this process, to debug.
        dask: the address of a Dask scheduler, `tcp://HOST:PORT`, in place of `processes`.
        version: of what the runs depend on beside function, parameters and kubestow's own version;
            results of another version are not reused. See `digest`.
        on_outcome: is called with each outcome, those that are reused first.
        console: shows progress if it is a terminal.

    Raises:
        SweepError: the runs are malformed, the folder cannot be written, workers cannot start, or
            the Dask cluster is lost.
    """
    todo = tasks(function, runs, version)
    storage = Storage(folder)
    states: dict[str, State] = {}
    reused = 0
    with storage.locked(), Progress(console, len(todo)) as progress:
        try:
            with closing(_outcomes(function, todo, storage, processes, dask)) as outcomes:
                for found in outcomes:
                    states[found.run.name] = "failed" if found.error else "finished"
                    reused += found.reused
                    progress.advance(found)
                    if on_outcome is not None:
                        on_outcome(found)
        finally:
            storage.write_index(name_of(function), version, todo, states)
    failed = tuple(each.run.name for each in todo if states[each.run.name] == "failed")
    return Summary(len(todo) - len(failed), reused, failed)


def _outcomes(
    function: Function, todo: Sequence[Task], storage: Storage, processes: int | None, dask: str
) -> Generator[SweepOutcome]:
    """Yield what the folder has, then each further run as soon as its file is written."""
    rest: list[Task] = []
    for task in todo:
        known = storage.finished(task)
        if known is None:
            rest.append(task)
        else:
            yield known
    with closing(_ran(function, rest, processes, dask)) as ran:
        for task, content in ran:
            storage.write(task, content)
            found = outcome(content)
            assert found is not None
            yield found


def _ran(
    function: Function, rest: Sequence[Task], processes: int | None, dask: str
) -> Generator[tuple[Task, bytes]]:
    if not rest:
        return
    count = cores() if processes is None else processes
    if dask:
        yield from on_dask(function, rest, dask)
    elif count <= 0:
        yield from in_this_process(function, rest)
    else:
        yield from on_processes(function, rest, count)
