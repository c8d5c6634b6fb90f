"""Sweeps on a Dask cluster: a real scheduler with two worker processes on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import dask.config
import distributed
import pytest
from distributed import LocalCluster

from simulator import sweeps
from simulator.sweeps import dask_cluster
from tests.unit.simulator.sweeps import functions
from tests.unit.simulator.sweeps.test_sweeps import contents, results

pytestmark = pytest.mark.slow

LOOPBACK: Final[Mapping[str, Any]] = {"host": "127.0.0.1", "dashboard_address": ":0"}


@contextmanager
def workers(count: int, allowed_failures: int = 1) -> Iterator[str]:
    """The address of a cluster; a process of a worker that is killed begins anew."""
    with (
        dask.config.set(
            {
                # 3, the default, take longer.
                "distributed.scheduler.allowed-failures": allowed_failures,
                # A worker that is starting again just then, so long after an earlier end, would be
                # taken for lost, and closed.
                "distributed.deploy.lost-worker-timeout": "1 hour",
            }
        ),
        LocalCluster(n_workers=count, threads_per_worker=1, **LOOPBACK) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with workers(2) as found:
        yield found


def test_runs_on_dask_write_the_same_bytes_though_a_worker_is_killed(
    tmp_path: Path, address: str
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    fatal = sweeps.SweepRun("fatal", {"seed": 9, "file": str(tmp_path / "begun")})
    all_runs = [*(sweeps.SweepRun(f"seed-{seed}", {"seed": seed}) for seed in range(3)), fatal]
    assert sweeps.sweep(functions.packed, all_runs, there, dask=address).failed == ()
    assert (tmp_path / "begun").exists(), "a worker was killed"
    assert sweeps.sweep(functions.packed, all_runs, here, processes=0).failed == ()
    assert contents(here) == contents(there)


def test_a_result_that_is_lost_before_it_is_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Its worker has died, and another one runs the task again."""
    lost: list[Any] = []

    class Losing(distributed.as_completed):
        def __next__(self) -> Any:
            future = super().__next__()
            if future not in lost:
                lost.append(future)
                future._state.lose()
            return future

        def add(self, future: Any) -> None:
            future._state.finish()
            super().add(future)

    monkeypatch.setattr(distributed, "as_completed", Losing)
    runs = [sweeps.SweepRun(f"n{number}", {"number": number}) for number in range(3)]
    assert sweeps.sweep(functions.double, runs, tmp_path, dask=address).failed == ()
    assert len(lost) == 3


def test_a_run_that_raises_or_kills_every_worker_fails_and_the_others_finish(
    tmp_path: Path, address: str
) -> None:
    runs = [sweeps.SweepRun("fatal", {"killed": True}), sweeps.SweepRun("a"), sweeps.SweepRun("b")]
    assert sweeps.sweep(functions.always_killed, runs, tmp_path, dask=address).failed == ("fatal",)
    found = {each.run.name: each for each in sweeps.read(tmp_path)}
    assert found["fatal"].error.startswith("KilledWorker")
    assert (found["a"].result, found["b"].result) == ("finished", "finished")

    numbers = [sweeps.SweepRun(f"n{number}", {"number": number}) for number in (1, -1)]
    assert sweeps.sweep(functions.double, numbers, tmp_path, dask=address).failed == ("n-1",)
    here = tmp_path / "here"
    sweeps.sweep(functions.double, numbers, here, processes=0)
    assert {name: contents(tmp_path)[name] for name in contents(here)} == contents(here)


def test_a_run_that_waits_for_the_worker_that_another_kills_finishes(tmp_path: Path) -> None:
    runs = [sweeps.SweepRun("fatal", {"killed": True}), sweeps.SweepRun("waits")]
    with workers(1, allowed_failures=0) as address:
        done = sweeps.sweep(functions.always_killed, runs, tmp_path, dask=address)
    assert done.failed == ("fatal",)
    assert results(tmp_path)["waits"] == "finished"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1"])
def test_a_cluster_that_cannot_be_reached_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.2)
    with pytest.raises(sweeps.SweepError, match=f"Dask cluster {address}: "):
        sweeps.sweep(
            functions.double, [sweeps.SweepRun("a", {"number": 1})], tmp_path, dask=address
        )


def test_a_cluster_without_workers_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "WORKERS_SECONDS", 0.1)
    runs = [sweeps.SweepRun("a", {"number": 1})]
    with LocalCluster(n_workers=0, **LOOPBACK) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(sweeps.SweepError, match=f"start one with `dask worker {address}"):
            sweeps.sweep(functions.double, runs, tmp_path, dask=address)


def test_without_dask_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(sweeps.SweepError, match=r"pip install distributed"):
        sweeps.sweep(
            functions.double, [sweeps.SweepRun("a", {"number": 1})], tmp_path, dask="tcp://x:1"
        )
    assert results(tmp_path) == {}
