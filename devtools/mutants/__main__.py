"""Count how many of some random faults in the product the tests notice.

    python -m devtools.mutants                      # draw mutants, write build/mutants.json
    python -m devtools.mutants --again build/mutants.json --output build/after.json

The second form tests those mutants that were killed, on the tree as it is now: first with the test
that killed each, then with all others that reach it.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from devtools.mutants.mutating import Mutant, draw, find
from devtools.mutants.running import Copy, Hits, order

ROOT: Final = Path(__file__).resolve().parents[2]

Verdict = tuple[str | None, float]
"""The test that killed the mutant, or the file that could not be collected; and its seconds."""


class Run:
    """One use of the command. Tests of mutants run side by side, each in a copy of its own."""

    def __init__(self, folder: Path, processes: int) -> None:
        self._folder = folder
        self._processes = processes
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(processes):
            self._copies.put(Copy(ROOT, folder / str(number)))

    def test(self, mutants: Mapping[int, Mutant]) -> dict[int, Verdict]:
        """Test mutants with all tests that reach them."""
        print(f"recording which tests reach {len(mutants)} mutants ...", flush=True)
        hits = Copy(ROOT, self._folder / "record").record(mutants, self._processes)
        print(f"{len(hits.seconds)} tests pass without a mutant; not used, for they fail:")
        print("".join(f"  {test}\n" for test in hits.failed), end="", flush=True)
        verdicts: dict[int, Verdict] = {}
        wanted = dict(mutants)
        while wanted:
            with ThreadPoolExecutor(self._processes) as threads:
                run = {n: threads.submit(self._test, n, wanted[n], hits) for n in wanted}
            verdicts |= {number: future.result() for number, future in run.items()}
            wanted = self._killed_by_chance({n: verdicts[n] for n in wanted}, mutants, hits)
        return verdicts

    def _test(self, number: int, mutant: Mutant, hits: Hits) -> Verdict:
        tests = [test for test in hits.tests.get(number, ()) if test in hits.seconds]
        with self._copy() as copy, copy.mutated(mutant):
            killer = copy.first_failure(order(mutant, tests, hits.seconds), hits.seconds)
        print(f"{mutant}\n    {_outcome(killer)} ({len(tests)} tests reach it)", flush=True)
        return killer, hits.seconds.get(killer or "", 0.0)

    def _killed_by_chance(
        self, verdicts: Mapping[int, Verdict], mutants: Mapping[int, Mutant], hits: Hits
    ) -> dict[int, Mutant]:
        """Return mutants whose killer fails without them too, and do not use it any more."""
        killers = sorted({killer for killer, _ in verdicts.values() if killer})
        with self._copy() as copy:
            failed = copy.failures(killers, hits.seconds)
        for test in failed:
            print(f"fails without a mutant too: {test}", flush=True)
            hits.seconds.pop(test, None)
        return {n: mutants[n] for n, (killer, _) in verdicts.items() if killer in failed}

    def test_again(
        self, mutants: Mapping[int, Mutant], before: Mapping[int, Verdict]
    ) -> dict[int, Verdict]:
        """Test mutants with the tests that killed them before, then with the others."""
        with ThreadPoolExecutor(self._processes) as threads:
            run = {
                number: threads.submit(self._test_with, mutant, *before[number])
                for number, mutant in mutants.items()
            }
        verdicts = {number: future.result() for number, future in run.items()}
        others = {n: mutants[n] for n, (killer, _) in verdicts.items() if not killer}
        return verdicts | (self.test(others) if others else {})

    def _test_with(self, mutant: Mutant, killer: str | None, seconds: float) -> Verdict:
        assert killer
        with self._copy() as copy, copy.mutated(mutant):
            found = killer if copy.failures([killer], {killer: seconds}) else None
        print(f"{mutant}\n    {_outcome(found)}", flush=True)
        return found, seconds

    @contextmanager
    def _copy(self) -> Iterator[Copy]:
        copy = self._copies.get()
        try:
            yield copy
        finally:
            self._copies.put(copy)


def main(arguments: list[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m devtools.mutants")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--again", type=Path, help="the result of an earlier run")
    parser.add_argument("--output", type=Path, default=ROOT / "build/mutants.json")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        run = Run(Path(folder), options.processes)
        if options.again is None:
            mutants = dict(enumerate(draw(ROOT, options.count, options.seed)))
            verdicts = run.test(mutants)
        else:
            mutants, before = _earlier(json.loads(options.again.read_text()))
            verdicts = run.test_again(mutants, before)
            for number in mutants.keys() - {n for n, verdict in verdicts.items() if verdict[0]}:
                print(f"no longer killed: {mutants[number]}\n    was {_outcome(before[number][0])}")
    results = [
        {"killed": verdicts[n][0] is not None, "killer": verdicts[n][0], "seconds": verdicts[n][1]}
        | asdict(mutant)
        for n, mutant in mutants.items()
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1))
    print(f"{sum(result['killed'] for result in results)} of {len(results)} mutants are killed")


def _earlier(results: list[dict[str, Any]]) -> tuple[dict[int, Mutant], dict[int, Verdict]]:
    """Return the mutants that were killed and are still there, and what killed them."""
    mutants, before = {}, {}
    killed = [result for result in results if result["killed"]]
    print(f"{len(killed)} of {len(results)} mutants were killed")
    for number, result in enumerate(killed):
        names = ("path", "scope", "code", "source", "replacement", "nth")
        key = tuple(str(result[name]) for name in names)
        file = ROOT / result["path"]
        there = find(result["path"], file.read_bytes()) if file.exists() else []
        found = next((mutant for mutant in there if mutant.key == key), None)
        if found is None:
            print(f"not in this tree: {' '.join(key)}")
            continue
        mutants[number] = found
        before[number] = (result["killer"], result["seconds"])
    return mutants, before


def _outcome(killer: str | None) -> str:
    return f"killed by {killer}" if killer else "survives"


if __name__ == "__main__":
    main(sys.argv[1:])
