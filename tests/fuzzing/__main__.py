"""Fuzz the targets one after the other; the exit status is 1 when one of them found a fault."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

CORPUS: Final = Path(__file__).with_name("corpus")
FOUND: Final = Path("build/fuzz")
INPUT_TIMEOUT_SECONDS: Final = 10
"""One input may take no longer: work per byte has to be bounded."""
MEMORY_LIMIT_MEGABYTES: Final = 2048
MAX_INPUT_BYTES: Final = 16 * 1024
TAIL_LINES: Final = 40


class Outcome(NamedTuple):
    """Result of a target's run."""

    target: str
    executions: str
    coverage: str
    inputs: int
    failed: bool


def _fuzz(target: str, seconds: int, seed: int, console: Console) -> Outcome:
    found = FOUND / target
    found.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "tests.fuzzing.run", target, str(found), str(CORPUS / target),
        f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={INPUT_TIMEOUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_LIMIT_MEGABYTES}", f"-max_len={MAX_INPUT_BYTES}",
        f"-artifact_prefix={FOUND}/{target}-", "-print_final_stats=1",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    output = done.stdout + done.stderr
    if done.returncode != 0:
        tail = "\n".join(output.splitlines()[-TAIL_LINES:])
        console.print(f"[red]{target}: a fault was found[/red]", highlight=False)
        console.print(tail, markup=False, highlight=False)
        console.print(f"The input is {FOUND}/{target}-crash-… ; run it again with", highlight=False)
        console.print(f"  python -m tests.fuzzing.run {target} FILE", highlight=False)
    executions = re.findall(r"stat::number_of_executed_units: (\d+)", output)
    coverage = re.findall(r"cov: (\d+)", output)
    return Outcome(
        target,
        executions[-1] if executions else "?",
        coverage[-1] if coverage else "?",
        len(list(found.iterdir())),
        done.returncode != 0,
    )


def main() -> int:
    """Entry point."""
    names = sorted(each.name for each in CORPUS.iterdir())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument(
        "--seconds", type=int, default=60, help="for all targets together (default: 60)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the mutations (default: 0, another one each time)"
    )
    parser.add_argument(
        "--target", choices=names, action="append", help="only this one; may be repeated"
    )
    arguments = parser.parse_args()
    console = Console()
    try:
        import atheris  # noqa: F401  (its absence has a text of its own)
    except ImportError:
        console.print("No fuzzing: atheris has no package for this platform or Python.")
        return 0
    chosen = arguments.target or names
    share = max(1, arguments.seconds // len(chosen))
    outcomes = [_fuzz(name, share, arguments.seed, console) for name in chosen]
    table = Table("target", "executions", "edges covered", "new inputs", "fault", title="Fuzzing")
    for each in outcomes:
        fault = "yes" if each.failed else "no"
        table.add_row(each.target, each.executions, each.coverage, str(each.inputs), fault)
    console.print(table)
    return 1 if any(each.failed for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
