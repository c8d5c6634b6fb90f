"""Runs upstream's end-to-end specs: `python -m tests.e2e [--short]`; see CONTRIBUTING.md.

Exits with status 1 if the result of a spec is not the one that the table in `specs.py` expects: if
it fails, or if it passes although it is expected to fail.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from devtools.control_plane.binaries import REPOSITORY, BinariesMissingError, find_directory
from devtools.control_plane.control_plane import ControlPlane, ProcessError
from devtools.go_programs import is_executable
from scheduler.client.configuration import load_configuration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from tests.e2e.build import BINARY
from tests.e2e.cluster import NODES, SCHEDULERS, cluster_with, nodes_of
from tests.e2e.report import ReportError, compare, describe_faults, merge, print_table, read_report
from tests.e2e.specs import SPECS, Spec, choose

OUTPUT: Final = REPOSITORY / "build" / "e2e"
SUITE: Final = "Kubernetes e2e suite"
"""Ginkgo puts it before the name of each spec."""
SUITE_TIMEOUT: Final = "60m"
READY_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.5
HEARTBEAT_SECONDS: Final = 30.0
SERIAL: Final = re.compile(r"\[Serial\]|WorkloadAwarePreemption")
"""In the names of specs that need the cluster for themselves; the latter share a resource."""
PARALLEL: Final = 8
"""Processes for the others: most of their time is waiting."""
FEW: Final = 4
"""So many are not worth processes of their own, which take seconds to start."""
SEED: Final = 1
"""Of the order of the specs: the same each time."""


def arguments_of(kubeconfig: Path, specs: Sequence[Spec], report: Path) -> list[str]:
    """Return the arguments of e2e.test that run exactly `specs`."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--provider=skeleton",
        f"--num-nodes={NODES}",
        # These do not exist here, and the search for them takes minutes.
        "--dump-logs-on-failure=false",
        "--system-daemonsets-startup-timeout=10s",
        *(f"--ginkgo.focus=^{SUITE} {re.escape(spec.name)}$" for spec in specs),
        f"--ginkgo.json-report={report}",
        f"--ginkgo.seed={SEED}",
        f"--ginkgo.timeout={SUITE_TIMEOUT}",
        "--ginkgo.no-color",
        "--ginkgo.v",
        # Go's own limit for tests is ten minutes.
        "--test.timeout=0",
    ]


class Batch(NamedTuple):
    """Specs that one process runs, one after the other."""

    name: str
    specs: list[Spec]


def batches_of(specs: Sequence[Spec]) -> tuple[list[Batch], Batch]:
    """Return the specs that may run side by side, in `PARALLEL` batches, and the serial ones."""
    others = [spec for spec in specs if not SERIAL.search(spec.name)]
    if len(others) <= FEW:
        return [], Batch(BINARY, [*specs])
    serial = [spec for spec in specs if SERIAL.search(spec.name)]
    parallel = [
        Batch(f"{BINARY}-{number}", part)
        for number in range(PARALLEL)
        if (part := others[number::PARALLEL])
    ]
    return parallel, Batch(BINARY, serial)


class Suite:
    """Runs batches of specs on a cluster; the reports are files in its directory."""

    def __init__(self, plane: ControlPlane, binary: Path) -> None:
        self._plane = plane
        self._binary = binary
        self._running = 0

    async def run(self, specs: Sequence[Spec]) -> list[tuple[Batch, Path]]:
        """Run all specs on fake nodes; return each batch with its report.

        Raises:
            ProcessError: a process ended without a report.
        """
        configuration = await load_configuration(kubeconfig=str(self._plane.kubeconfig))
        async with Transport(configuration) as transport:
            kubelets = nodes_of(ApiClient(transport, user_agent="simulated-kubelets"))
            playing = asyncio.create_task(kubelets.run())
            running = asyncio.create_task(self._run_batches(kubelets.ready, specs))
            beating = asyncio.create_task(self._beat())
            try:
                await asyncio.wait({playing, running}, return_when=asyncio.FIRST_COMPLETED)
                if playing.done():
                    playing.result()
                return await running
            finally:
                tasks = (playing, running, beating)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            seconds = time.monotonic() - began
            _print_status(f"      specs of unfinished processes: {self._running}, {seconds:.0f} s")

    async def _run_batches(
        self, ready: asyncio.Event, specs: Sequence[Spec]
    ) -> list[tuple[Batch, Path]]:
        async with asyncio.timeout(READY_SECONDS):
            await ready.wait()
        parallel, serial = batches_of(specs)
        reports = await asyncio.gather(*(self._run_batch(batch) for batch in parallel))
        if serial.specs:
            reports.append(await self._run_batch(serial))
        return reports

    async def _run_batch(self, batch: Batch) -> tuple[Batch, Path]:
        report = self._plane.files.directory / f"{batch.name}.json"
        command = [str(self._binary), *arguments_of(self._plane.kubeconfig, batch.specs, report)]
        process = await asyncio.to_thread(
            self._plane.start_process, batch.name, command, port=0, wait=False
        )
        self._running += len(batch.specs)
        while process.running:  # noqa: ASYNC110 - there is no event of its end
            await asyncio.sleep(POLL_SECONDS)
        self._running -= len(batch.specs)
        if not await asyncio.to_thread(report.is_file):
            problem = f"ended with status {process.returncode} and wrote no report"
            raise ProcessError(process.describe(problem))
        return batch, report


def find_binary() -> Path:
    """Return the path of e2e.test.

    Raises:
        BinariesMissingError: it is not built.
    """
    binary = find_directory() / BINARY
    if not is_executable(binary):
        msg = f"no {binary}: run `make e2e-build` once (it needs Go and takes some minutes)"
        raise BinariesMissingError(msg)
    return binary


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--short", action="store_true", help="the specs of the short set only")
    parser.add_argument(
        "--only",
        metavar="TEXT",
        action="append",
        default=[],
        help="only specs with this text in their name; may be given several times",
    )
    parser.add_argument(
        "--scheduler",
        choices=SCHEDULERS,
        default=SCHEDULERS[0],
        help="which one serves default-scheduler; with kube-scheduler, to compare, every spec has "
        "to pass",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where report and logs go")
    parser.add_argument("--list", action="store_true", help="print the table of specs and end")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(spec.describe() for spec in SPECS))
        return 0
    specs = choose(SPECS, short=options.short, only=options.only, scheduler=options.scheduler)
    if not specs:
        _print_status("error: no spec has such a name; --list prints them all")
        return 1
    try:
        return _run(specs, options.scheduler, options.output.resolve() / options.scheduler)
    except KeyboardInterrupt:
        _print_status("interrupted")
        return 130
    except (BinariesMissingError, ProcessError, ReportError) as error:
        _print_status(f"error: {error}")
        return 1


def _run(specs: Sequence[Spec], scheduler: str, output: Path) -> int:
    binary = find_binary()
    began = time.monotonic()
    with cluster_with(scheduler, output) as plane:
        _print_status(f"{len(specs)} specs against {scheduler}; logs: {plane.files.logs}")
        done = asyncio.run(Suite(plane, binary).run(specs))
    found = merge([(read_report(path.read_bytes()), batch.specs) for batch, path in done])
    results = compare(found, specs, SPECS)
    print(print_table(results), flush=True)
    faults = describe_faults(results)
    for problem in found.problems:
        _print_status(f"\nthe suite: {problem}")
    if faults:
        _print_status(f"\n{faults}")
    _print_status(f"\nreport and logs: {output}; {time.monotonic() - began:.0f} s in all")
    return 1 if faults or found.problems else 0


def _print_status(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
