"""Run rounds, show progress, print the figures; the exit status is 1 when a problem was found."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.robustness.faults import FAULTS
from benchmarks.robustness.replicas import site
from benchmarks.robustness.rounds import Report, Rounds

_NAMES = {fault.name: fault for fault in FAULTS}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.robustness",
        description="Two replicas of kubestow on a real control plane while processes, connections "
        "and clocks fail at random. The audit log judges: every pod bound once, no node over "
        "capacity, nothing lost, nothing written without the Lease.",
        epilog="Needs what `make envtest-build` builds, and a C compiler. A round takes 5 to 30 s.",
    )
    parser.add_argument("--rounds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices (default: 1)")
    parser.add_argument("--fault", choices=sorted(_NAMES), help="this one in every round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there as well")
    parser.add_argument(
        "--keep", type=Path, metavar="DIRECTORY", help="keep logs and the audit log there"
    )
    return parser.parse_args()


def _show(report: Report, seconds: float, console: Console) -> None:
    table = Table("figure", "value", title="Robustness")
    recovery = sorted(report.recovery)
    rows = {
        "rounds": str(report.rounds),
        "pods created and bound": str(report.pods),
        "takeovers of the Lease": str(report.takeovers),
        "starts of a replica": str(report.starts),
        "binds refused as conflicts": str(report.conflicts),
        "seconds from the end of a fault to the last bind": (
            f"median {statistics.median(recovery):.1f}, most {recovery[-1]:.1f}"
            if recovery
            else "-"
        ),
        "minutes": f"{seconds / 60:.1f}",
        "problems": str(len(report.problems)),
    }
    for row in rows.items():
        table.add_row(*row)
    console.print(table)
    faults = Table("fault", "rounds")
    for name, count in sorted(report.faults.items()):
        faults.add_row(name, str(count))
    console.print(faults)
    for problem in report.problems:
        console.print(f"[red]problem:[/red] {problem}", highlight=False)


def main() -> int:
    """Entry point."""
    arguments = _arguments()
    console = Console()
    started = time.monotonic()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="kubestow-robustness-") as temporary:
        directory = arguments.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with site(directory.resolve()) as running, Progress(console=console) as progress:
                rounds = Rounds(running, random.Random(arguments.seed), report)
                rounds.prepare()
                task = progress.add_task("rounds", total=arguments.rounds)
                for _ in range(arguments.rounds):
                    rounds.run(_NAMES.get(arguments.fault))
                    text = f"rounds, {len(report.problems)} problems"
                    progress.update(task, advance=1, description=text)
        except KeyboardInterrupt:
            report.problems.append("interrupted")
        finally:
            # After hours, what was found must not be lost with a control plane that fails.
            _show(report, time.monotonic() - started, console)
            if arguments.json:
                arguments.json.write_text(report.json())
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
