"""The tests nearest to what changed, for as long as there is time: `make test-quick`.

    python -m devtools.quick                  # changes that are not committed; else the last commit
    python -m devtools.quick --since main     # everything since a revision

Near is what imports a changed module over the fewest steps, by the import graph of the layers.
Tests in the folder of the same name come first, those of the repository's own files last, unless
no code changed. What did not run is named: it is for `make test`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = (
    "kubestow",
    "scheduler",
    "plugins",
    "config",
    "simulator",
    "benchmarks",
    "devtools",
    "tests",
)
REPOSITORY: Final = "tests/unit/repository"
SECONDS: Final = 50.0
"""After which no test begins any more. The longest ones take a few seconds."""
MAX_FILES: Final = 150
"""Collecting more would take the time in which the nearest ones run."""


def changed_since(revision: str | None) -> list[str]:
    """Return the files that changed and exist, relative to the root."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return [line for line in done.stdout.splitlines() if line]

    untracked = git("ls-files", "--others", "--exclude-standard")
    paths = {*git("diff", "--name-only", revision or "HEAD"), *untracked}
    if not paths and revision is None:
        paths = {*git("diff", "--name-only", "HEAD~1")}
    return sorted(path for path in paths if (ROOT / path).is_file())


def modules_of(paths: Iterable[str], modules: Iterable[str]) -> tuple[set[str], list[str]]:
    """Return the modules that files are, or are data of, and the files that belong to none."""
    known = set(modules)
    found: set[str] = set()
    others: list[str] = []
    for text in paths:
        path = PurePosixPath(text)
        parts = path.with_suffix("").parts if path.suffix == ".py" else path.parts[:-1]
        while parts and ".".join(parts) not in known:
            parts = parts[:-1]
        if parts and parts != ("tests",):
            found.add(".".join(parts))
        else:
            others.append(text)
    # What a conftest offers is used without an import.
    for module in [each for each in found if each.endswith(".conftest")]:
        folder = module.removesuffix("conftest")
        found |= {each for each in known if each.startswith(folder)}
    return found, others


def distances(changed: Iterable[str], graph: grimp.ImportGraph) -> dict[str, int]:
    """Return how many imports lead from each module to a changed one, if any do."""
    steps = dict.fromkeys(changed, 0)
    edge = list(steps)
    while edge:
        following = []
        for module in edge:
            for importer in graph.find_modules_that_directly_import(module):
                if importer not in steps:
                    steps[importer] = steps[module] + 1
                    following.append(importer)
        edge = following
    return steps


def ranked(steps: Mapping[str, int], others: Sequence[str]) -> list[str]:
    """Return the files of tests, the nearest first."""
    changed = [
        module.removeprefix("scheduler.")
        for module, count in steps.items()
        if count == 0 and not module.startswith("tests.")
    ]
    # A package, or the folder of a module.
    folders = {folder for each in changed for folder in (each, each.rpartition(".")[0]) if folder}
    mirrored = tuple(f"tests.unit.{folder}." for folder in folders)

    def rank(module: str) -> tuple[int, bool, str]:
        count = steps[module]
        near = module.startswith(mirrored)
        return (min(count, 1) if near else count, not near, module)

    tests = sorted(filter(_is_test, steps), key=rank)
    files = [f"{module.replace('.', '/')}.py" for module in tests]
    repository = sorted(str(each.relative_to(ROOT)) for each in (ROOT / REPOSITORY).glob("test_*"))
    ordered = [*repository, *files] if others and not files else [*files, *repository]
    return list(dict.fromkeys(ordered))


def _is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def with_doctests(changed: Iterable[str]) -> Iterator[str]:
    """Yield the changed files whose docstrings have examples."""
    for module in sorted(changed):
        file = ROOT / f"{module.replace('.', '/')}.py"
        if file.is_file() and not module.startswith("tests.") and ">>> " in file.read_text():
            yield str(file.relative_to(ROOT))


def by_folder(files: Iterable[str]) -> str:
    """Return `tests/unit/queue (23), tests/integration/service (4)`.

    >>> by_folder(["tests/unit/queue/test_heap.py", "tests/unit/queue/test_moves.py"])
    'tests/unit/queue (2)'
    """
    folders = Counter("/".join(PurePosixPath(file).parts[:-1][:3]) or "." for file in files)
    return ", ".join(f"{folder} ({count})" for folder, count in folders.items()) or "none"


def shown(title: str, files: Iterable[str]) -> None:
    """Print the folders of files under a title."""
    text = by_folder(files)
    indent = "  "
    lines = textwrap.fill(
        text, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    print(f"{title}\n{lines}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the nearest tests; return the exit status of pytest."""
    parser = argparse.ArgumentParser(prog="python -m devtools.quick", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--since", metavar="REVISION", help="count all changes since a revision")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time (default %(default)s)")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.seconds
    paths = changed_since(options.since)
    if not paths:
        print("nothing has changed")
        return 0
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
    changed, others = modules_of(paths, graph.modules)
    files = ranked(distances(changed, graph), others)
    taken, left = files[:MAX_FILES], files[MAX_FILES:]
    shown("changed files:", paths)
    shown("files with the nearest tests:", taken)
    command = [sys.executable, "-m", "pytest", "-q", "-r", "fE", "-p", "devtools.time_limit"]
    command += [f"--end-at={end}", "--numprocesses=2", "--dist=load", "--maxschedchunk=1"]
    command += [*with_doctests(changed), *taken]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    everything = {str(each.relative_to(ROOT)) for each in (ROOT / "tests").rglob("test_*.py")}
    rest = sorted(everything.difference(taken))
    shown(f"files not looked at, of which {len(left)} import what changed from further away:", rest)
    print("make test runs them all; make envtest those that need a real API server")
    # 5: no test was collected, such as where all are for a real API server.
    return 0 if status == 5 else status


if __name__ == "__main__":
    sys.exit(main())
