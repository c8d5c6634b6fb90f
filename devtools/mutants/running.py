"""Runs tests on copies of the tree. The tree itself is only read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from devtools.mutants import hits
from devtools.mutants.marking import mark
from devtools.mutants.mutating import Mutant
from devtools.mutants.plugin import EVENTS_VARIABLE, TESTS_VARIABLE

NOT_KILLERS: Final = "tests/unit/repository"
"""The tests of this folder judge the text of the tree; any change of it may fail them."""

SHARES_RESULTS: Final = re.compile(r"scope=|^\s*@(?:functools\.)?(?:lru_)?cache\b", re.MULTILINE)
"""In such a file the test that reaches a place may do so for others."""

LIMIT_SECONDS: Final = 60.0
"""Each test may take this long, and ten times as long as it took without a mutant."""
COLLECTION_SECONDS: Final = 300.0
STAGES: Final = (5.0, 100.0, float("inf"))
"""Seconds of tests per process: the first ones should kill most mutants, and collect few files."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The recorded run of all tests."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test took that passed."""
    failed: list[str] = field(default_factory=list)
    """Tests that fail without a mutant, and cannot tell anything."""
    tests: dict[int, list[str]] = field(default_factory=dict)
    """The tests that reach each mutant."""


class Copy:
    """A copy of the tree in a temporary folder, in which one mutant at a time is tested."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._folder = folder
        self.root = folder / "tree"
        self._writes = 0
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=tree, check=True, capture_output=True, text=True)
        for name in names.stdout.split("\0"):
            if name and (tree / name).exists():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, self.root / name, follow_symlinks=False)
        folder.chmod(0o755)  # some tests run the product as another user

    def record(self, mutants: Mapping[int, Mutant], processes: int) -> Hits:
        """Run all tests, and return which ones reach which mutants."""
        source = Path(hits.__file__)
        shutil.copy(source, self.root / "mutants_hits.py")
        mark(self.root, mutants)
        file = self._folder / "hits"
        file.touch()
        file.chmod(0o666)
        distributed = [f"--numprocesses={processes}", "--dist=worksteal"]
        variables = {hits.FILE_VARIABLE: str(file)}
        self._pytest([*distributed, f"--ignore={NOT_KILLERS}"], variables, 4 * 3600.0)
        seconds: defaultdict[str, float] = defaultdict(float)
        failed = set()
        for event, test, duration in self._events():
            seconds[test] += duration
            if event == "failed":
                failed.add(test)
        for test in failed:
            seconds.pop(test)
        reached = self._reached(map(json.loads, file.read_text().splitlines()), seconds, mutants)
        return Hits(dict(seconds), sorted(failed), reached)

    def _reached(
        self, lines: Iterable[tuple[int, str]], tests: Iterable[str], mutants: Mapping[int, Mutant]
    ) -> dict[int, list[str]]:
        by_file: defaultdict[str, list[str]] = defaultdict(list)
        for test in tests:
            by_file[test.partition("::")[0]].append(test)
        texts = {file: (self.root / file).read_text() for file in by_file}
        reached: defaultdict[int, set[str]] = defaultdict(set)
        for number, test_and_phase in lines:
            test = test_and_phase.rpartition(" ")[0]
            file = test.partition("::")[0]
            shares = SHARES_RESULTS.search(texts.get(file, ""))
            reached[number].update(by_file[file] if shares else [test])
        for number, mutant in mutants.items():
            for name in filter(None, mutant.read_by or ()):
                for file, text in texts.items():
                    if re.search(rf"\b{re.escape(name)}\b", text):
                        reached[number].update(by_file[file])
        known = set(tests)
        return {number: sorted(found & known) for number, found in reached.items()}

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Put a mutant into the copy while the context lasts."""
        file = self.root / mutant.path
        original = file.read_bytes()
        try:
            self._write(file, mutant.apply(original))
            yield
        finally:
            self._write(file, original)

    def _write(self, file: Path, text: bytes) -> None:
        """Write a module with a new time: Python takes one of equal time and size for unchanged."""
        self._writes += 1
        file.write_bytes(text)
        os.utime(file, (self._writes, self._writes))

    def first_failure(self, tests: Sequence[str], seconds: Mapping[str, float]) -> str | None:
        """Run tests until one fails, in stages of more and more files, and return that one."""
        for stage in _stages(tests, seconds):
            if failures := self.failures(stage, seconds, "--exitfirst"):
                return failures[0]
        return None

    def failures(
        self, tests: Sequence[str], seconds: Mapping[str, float], *options: str
    ) -> list[str]:
        """Run tests, and return those that fail or take too long, or the file not collected."""
        named = dict.fromkeys(test.partition("::")[0] for test in tests)
        files = [file for file in named if (self.root / file).exists()]
        if not files:
            return []
        limits = {test: LIMIT_SECONDS + 10 * seconds.get(test, 0.0) for test in tests}
        listed = self._folder / "tests"
        listed.write_text(json.dumps(limits))
        limit = COLLECTION_SECONDS + sum(limits.values())
        status = self._pytest([*options, *files], {TESTS_VARIABLE: str(listed)}, limit)
        events = self._events()
        failed = [test for event, test, _ in events if event == "failed"]
        if not failed and status not in (0, 5):  # 5: the tests do not exist
            failed = [events[-1][1] if events else files[0]]
        return list(dict.fromkeys(failed))

    def _pytest(self, arguments: list[str], variables: dict[str, str], limit: float) -> int:
        """Run pytest and return its status, -1 if it had to be ended."""
        (self._folder / "events").unlink(missing_ok=True)
        environment = (
            os.environ
            | variables
            | {
                EVENTS_VARIABLE: str(self._folder / "events"),
                "PYTHONPATH": str(self.root),  # before the tree, which the installation names
            }
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "devtools.mutants.plugin"]
        with (self._folder / "output").open("w") as output:
            process = subprocess.Popen(
                [*command, "-p", "no:cacheprovider", *arguments],
                cwd=self.root,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return -1
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # and what its tests started
                process.wait()

    def _events(self) -> list[tuple[str, str, float]]:
        file = self._folder / "events"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(event, test, seconds) for event, test, seconds in map(json.loads, lines)]


def _stages(tests: Sequence[str], seconds: Mapping[str, float]) -> Iterator[list[str]]:
    """Split tests into the work of a process each, without splitting a file."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    stages = iter(STAGES)
    stage: list[str] = []
    left = next(stages)
    for of_file in by_file.values():
        stage += of_file
        left -= sum(seconds.get(test, 0.0) for test in of_file)
        if left < 0:
            yield stage
            stage, left = [], next(stages, float("inf"))
    if stage:
        yield stage


def order(mutant: Mutant, tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Return tests file by file, those named after the mutant's module first, then the quickest."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    path = Path(mutant.path)

    def rank(file: str) -> tuple[int, float]:
        near = 0 if path.stem in file else 1 if f"/{path.parent.name}/" in f"/{file}" else 2
        return near, sum(seconds[test] for test in by_file[file])

    files = sorted(by_file, key=rank)
    return [test for file in files for test in sorted(by_file[file], key=seconds.__getitem__)]
