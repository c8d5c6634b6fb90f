"""Runs on a Dask cluster, the optional dependencies `sweep`.

Dask starts the runs of a worker that died anew on another one. Its workers need the same version of
kubestow, the module of the function, and the files that the parameters name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from simulator.sweeps.runs import Function, SweepError, Task, attempt, failed

CONNECT_SECONDS: Final = 30.0
WORKERS_SECONDS: Final = 120.0
"""To wait for the first worker: clusters that grow on demand take a while."""


def on_dask(
    function: Function, tasks: Sequence[Task], address: str
) -> Iterator[tuple[Task, bytes]]:
    """Run tasks; yield each with the content of its file, in the order of their ends.

    Raises:
        SweepError: Dask is not installed, or the cluster cannot be reached, has no worker, or is
            lost.
    """
    try:
        from distributed import Client  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise SweepError("Dask is not installed: pip install distributed") from error
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SweepError(f"Dask cluster {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError as error:
            raise SweepError(
                f"Dask cluster {address}: no worker in {WORKERS_SECONDS:g} s; start one with "
                f"`dask worker {address} --nthreads 1`"
            ) from error
        yield from _ended(client, function, tasks, address)


def _ended(
    client: Any, function: Function, tasks: Sequence[Task], address: str
) -> Iterator[tuple[Task, bytes]]:
    """Run tasks; see `on_dask`. Those whose workers died again and again run once more, alone."""
    from distributed import KilledWorker, as_completed  # noqa: PLC0415 - an optional dependency

    lost: list[tuple[Task, bytes]] = []
    futures = {client.submit(attempt, function, task, pure=False): task for task in tasks}
    completed = as_completed(futures, loop=client.loop)
    for future in completed:
        match future.status:
            case "finished":
                yield futures.pop(future), future.result()
            case "error":
                task, error = futures.pop(future), future.exception()
                ended = task, failed(task, f"{type(error).__name__}: {error}")
                if isinstance(error, KilledWorker):
                    lost.append(ended)
                else:
                    yield ended
            case "cancelled":
                raise SweepError(
                    f"Dask cluster {address}: the connection was lost; finished runs are kept, "
                    "and the same sweep goes on with the others"
                )
            case _:
                # The worker that had the result has died since; another one runs the task again.
                completed.add(future)
    # Dask counts the end of a worker against all runs that it had, also those that had not begun.
    if len(lost) == len(tasks) == 1:
        yield from lost
        return
    for task, _ in lost:
        yield from _ended(client, function, [task], address)
