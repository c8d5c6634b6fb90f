"""Every gate of `.ci/run`, side by side where they do not depend on each other.

    .ci/run                 all gates
    .ci/run lint types      only these targets of the Makefile, and the gates that they need

Each gate is a target of the Makefile. Builds run one after the other, with low priority, so that
they take what the tests leave of two cores. Of the others, two run at a time, those that are
quickest to fail first; `make test` and `make test-slow` have two processes and run alone. What a
gate printed follows when it has ended. After the first gate that fails no other begins. A table
comes last.

Runs before anything is installed: it uses the standard library only.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOGS: Final = ROOT / "build" / "ci"
CORES: Final = 2
LOW_PRIORITY: Final = 10


@dataclass(frozen=True)
class Gate:
    """A target of the Makefile."""

    name: str
    after: tuple[str, ...] = ("venv",)
    cores: int = 1
    build: bool = False
    """Builds run one at a time, beside the others, with low priority."""


GATES: Final = (
    Gate("venv", after=()),
    Gate("page-build", build=True),
    Gate("envtest-build", build=True),
    Gate("e2e-build", after=("envtest-build",), build=True),
    Gate("thirdparty-short-build", after=("envtest-build",), build=True),
    Gate("lint-workflows", build=True),
    Gate("lint"),
    Gate("types"),
    Gate("docs"),
    Gate("sbom"),
    Gate("test", cores=CORES),
    Gate("test-slow", cores=CORES),
    Gate("envtest", after=("envtest-build",)),
    Gate("e2e-short", after=("e2e-build",)),
    Gate("thirdparty-short", after=("thirdparty-short-build",)),
    Gate("page", after=("page-build", "docs")),
    Gate("soak"),
    Gate("fuzz"),
)
"""In the order in which they begin. `chart`, `thirdparty`, `e2e` and `older-servers` have jobs of
their own, or are run by hand."""


@dataclass
class Run:
    """A gate that runs or ran."""

    gate: Gate
    process: subprocess.Popen[bytes]
    log: Path
    begin: float
    wall: float = 0.0
    cpu: float = 0.0
    status: int | None = None
    counts: dict[str, int] = field(default_factory=dict)


def environment() -> dict[str, str]:
    """Return the variables of all gates."""
    return {
        **os.environ,
        # `auto` would take every core of the host, also where a container may use two of them.
        "PROCESSES": str(CORES),
        # The locked dependencies have OpenTelemetry: its tests must not pass by being skipped.
        "KUBESTOW_REQUIRE_OTEL": "1",
        # A gate judges the commit: it mutates the same way each time. `make fuzz` without explores.
        "SEED": "1",
    }


def start(gate: Gate, make: Sequence[str], variables: Mapping[str, str]) -> Run:
    """Start a gate, in a process group of its own."""
    log = LOGS / f"{gate.name}.log"
    nice = ["nice", "-n", str(LOW_PRIORITY)] if gate.build else []
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*nice, *make, gate.name],
            cwd=ROOT,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Run(gate, process, log, time.monotonic())


def wait(running: Mapping[int, Run]) -> Run:
    """Wait until one of these gates has ended; return it with what it took."""
    while True:
        pid, status, usage = os.wait4(-1, 0)
        run = running.get(pid)
        if run is None:
            continue
        run.wall = time.monotonic() - run.begin
        run.cpu = usage.ru_utime + usage.ru_stime
        run.status = run.process.returncode = os.waitstatus_to_exitcode(status)
        run.counts = counts(run.log.read_text(encoding="utf-8", errors="replace"))
        return run


def counts(text: str) -> dict[str, int]:
    """Return how many tests passed, failed and so on, by the last summary of pytest."""
    summaries = re.findall(r"^=*\s*((?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.]+s", text, re.MULTILINE)
    last = summaries[-1] if summaries else ""
    return {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last)}


def named(names: Sequence[str]) -> list[Gate]:
    """Return the gates of these names after those that they need; others are targets as well.

    >>> [gate.name for gate in named(["chart", "page"])]
    ['venv', 'chart', 'page-build', 'docs', 'page']
    """
    known = {gate.name: gate for gate in GATES}
    found: dict[str, Gate] = {}
    for name in names:
        gate = known.get(name, Gate(name))
        found |= {each.name: each for each in (*named(gate.after), gate)}
    return list(found.values())


def chosen(gates: Iterable[Gate], waiting: Sequence[Gate], running: Iterable[Run]) -> list[Gate]:
    """Return the waiting gates that can begin now; `gates` have passed.

    >>> [gate.name for gate in chosen((), GATES, ())]
    ['venv']
    """
    passed = {gate.name for gate in gates}
    builds = sum(run.gate.build for run in running)
    free = CORES - sum(run.gate.cores for run in running if not run.gate.build)
    found = []
    for gate in waiting:
        if not passed.issuperset(gate.after):
            continue
        if gate.build:
            if builds:
                continue
            builds += 1
        elif gate.cores > free:
            # The next ones must not keep the cores that it waits for.
            free = 0
            continue
        else:
            free -= gate.cores
        found.append(gate)
    return found


def table(runs: Sequence[Run], seconds: float) -> str:
    """Return a line for each gate: its wall time, CPU time and tests."""
    rows = [("gate", "wall", "CPU", "tests", "reruns", "result")]
    for run in runs:
        tests = sum(run.counts.get(each, 0) for each in ("passed", "failed", "error", "errors"))
        word = "ended" if run.status is None else "FAILED" if run.status else "passed"
        rows.append(
            (
                run.gate.name,
                f"{run.wall:.0f} s",
                f"{run.cpu:.0f} s",
                str(tests or ""),
                str(run.counts.get("rerun", 0) if tests else ""),
                word,
            )
        )
    cpu = sum(run.cpu for run in runs)
    rows.append(("all", f"{seconds:.0f} s", f"{cpu:.0f} s", "", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if 0 < place < len(widths) - 1 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def end(running: Iterable[Run]) -> None:
    """End gates that still run, with all that they started."""
    for run in running:
        try:
            os.killpg(run.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    for run in running:
        try:
            run.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
        run.wall = time.monotonic() - run.begin


def show(run: Run, out: IO[bytes]) -> None:
    """Print what a gate printed."""
    out.write(f"\n===== make {run.gate.name}\n".encode())
    out.write(run.log.read_bytes())
    word = "passed" if run.status == 0 else f"FAILED with status {run.status}"
    out.write(f"===== make {run.gate.name}: {word}, {run.wall:.0f} s\n".encode())
    out.flush()


def run_all(gates: Sequence[Gate], make: Sequence[str]) -> int:
    """Run gates; return the exit status: that of the first one that failed.

    After that no further gate begins. Those that run go on: their findings cost little more time.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    variables = environment()
    waiting = list(gates)
    running: dict[int, Run] = {}
    ended: list[Run] = []
    failed: list[Run] = []
    try:
        while running or (waiting and not failed):
            passed = [run.gate for run in ended]
            for gate in [] if failed else chosen(passed, waiting, running.values()):
                waiting.remove(gate)
                print(f"{time.monotonic() - begin:5.0f} s  make {gate.name} begins", flush=True)
                run = start(gate, make, variables)
                running[run.process.pid] = run
            run = wait(running)
            del running[run.process.pid]
            ended.append(run)
            show(run, sys.stdout.buffer)
            if run.status:
                failed.append(run)
    finally:
        end(running.values())
    print(f"\n{table([*ended, *running.values()], time.monotonic() - begin)}")
    if not failed:
        return 0
    names = " ".join(run.gate.name for run in failed)
    not_run = ", ".join(gate.name for gate in waiting) or "none"
    print(f"\nmake {names} failed; not run: {not_run}", flush=True)
    return failed[0].status or 0


def main(names: Sequence[str]) -> int:
    """Run the named gates, or all."""
    # As on Ctrl-C, what runs is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return run_all(named(names) if names else GATES, ("make", "--no-print-directory"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
