"""Workers: processes of this machine, started afresh, each with one run at a time.

A worker that dies takes nothing with it: its run goes to another one. The pools of the standard
library give up all runs when one process dies, and do not say whose it was.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Final

from simulator.sweeps.runs import Function, SweepError, Task, attempt, failed

MAX_ATTEMPTS: Final = 3
"""Workers that one run may lose before it counts as failed; Dask's own default, too."""

_READY: Final = b"ready"
_SPAWN: Final = multiprocessing.get_context("spawn")
_SECONDS_TO_END: Final = 5.0


def cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_this_process(function: Function, tasks: Sequence[Task]) -> Iterator[tuple[Task, bytes]]:
    """Run one task after the other, here."""
    for task in tasks:
        yield task, attempt(function, task)


def on_processes(
    function: Function, tasks: Sequence[Task], processes: int
) -> Iterator[tuple[Task, bytes]]:
    """Run tasks on processes; yield each with the content of its file, in the order of their ends.

    Raises:
        SweepError: a process ends before it can begin.
    """
    waiting = deque(tasks)
    attempts: Counter[str] = Counter()
    workers: list[_Worker] = []
    try:
        while True:
            busy = sum(each.task is not None for each in workers)
            if not busy and not waiting:
                return
            while len(workers) < min(processes, len(waiting) + busy):
                workers.append(_Worker(function))
            for worker in workers:
                if worker.idle and waiting:
                    worker.give(waiting.popleft())
            for worker in _reporting(workers):
                task = worker.task
                content = worker.receive()
                if content is None:
                    workers.remove(worker)
                    if task is not None:
                        attempts[task.run.name] += 1
                        if attempts[task.run.name] < MAX_ATTEMPTS:
                            waiting.appendleft(task)
                        else:
                            yield task, failed(task, _lost(worker))
                elif task is not None and content != _READY:
                    yield task, content
    finally:
        for worker in workers:
            worker.kill()


def _reporting(workers: Sequence[_Worker]) -> list[_Worker]:
    """Wait until some workers have sent something, or have ended."""
    ready = wait(
        [each.connection for each in workers] + [each.process.sentinel for each in workers]
    )
    return [each for each in workers if each.connection in ready or each.process.sentinel in ready]


def _lost(worker: _Worker) -> str:
    code = worker.process.exitcode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended ({code})"
    return f"its worker process {how}, {MAX_ATTEMPTS} times in a row; is there enough memory?"


class _Worker:
    """One process, and the task that it has."""

    def __init__(self, function: Function) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(
            target=_work, args=(theirs, function), name="sweep worker", daemon=True
        )
        self.process.start()
        theirs.close()
        self._started = False
        self.task: Task | None = None

    @property
    def idle(self) -> bool:
        return self._started and self.task is None

    def give(self, task: Task) -> None:
        self.task = task
        with suppress(OSError):  # It has died, which `receive` will find.
            self.connection.send(task)

    def receive(self) -> bytes | None:
        """Return what the worker has sent; None: it has died."""
        try:
            content = self.connection.recv_bytes() if self.connection.poll() else None
        except (EOFError, OSError):
            content = None
        if content is not None:
            if self._started:
                self.task = None
            self._started = True
            return content
        self.kill()
        if not self._started:
            raise SweepError(
                f"a worker process ended ({self.process.exitcode}) before its first run. The "
                "function must be in a module that can be imported, and a script must start the "
                'sweep below `if __name__ == "__main__":`; processes=0 runs here'
            )
        return None

    def kill(self) -> None:
        self.process.kill()
        self.process.join(_SECONDS_TO_END)
        self.connection.close()


def _work(connection: Connection, function: Function) -> None:
    """Run tasks until the sweep ends; the main function of a process."""
    # Ctrl-C reaches all processes of a terminal; the sweep itself ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_sweep, name="sweep", daemon=True).start()
    connection.send_bytes(_READY)
    while True:
        try:
            task: Task = connection.recv()
            connection.send_bytes(attempt(function, task))
        except (EOFError, BrokenPipeError):
            # The sweep has ended, or was killed; another one runs the task again.
            return


def _end_with_the_sweep() -> None:
    """End a worker in the middle of its run when the sweep was killed: nobody waits for it."""
    sweep = multiprocessing.parent_process()
    if sweep is not None:
        sweep.join()
        os._exit(1)
