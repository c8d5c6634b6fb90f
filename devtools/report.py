"""`make report`: sizes of the code, for a person who judges its cohesion. No test counts lines.

    python -m devtools.report

Lines of code are those with a token other than comments and docstrings. The depth of a package is
the number of modules in its longest chain of imports.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = (
    "kubestow", "scheduler", "plugins", "config", "simulator", "benchmarks", "devtools", "tests",
)  # fmt: skip
DEEP: Final = ("scheduler.engine", "scheduler.service")
LONG_FILE: Final = 500
LONG_FUNCTION: Final = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SILENT: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    | {tokenize.ENDMARKER}
)


def main() -> None:
    """Print the lines of code of each package, long files and functions, and import chains."""
    sizes: Counter[str] = Counter()
    files: list[tuple[int, str]] = []
    functions: list[tuple[int, str]] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            place = path.relative_to(ROOT)
            lines = code_lines(text, tree)
            sizes[package] += lines
            if place.parent != Path(package):
                sizes[f"  {'/'.join(place.parts[:2])}"] += lines
            files.append((text.count("\n"), str(place)))
            functions += [
                (count, f"{place}:{line} {name}") for count, line, name in function_lines(tree)
            ]
    for name in sorted(sizes, key=str.strip):
        print(f"{sizes[name]:8,} {name}")
    _print_long(f"files of more than {LONG_FILE} lines", files, LONG_FILE)
    _print_long(f"functions of more than {LONG_FUNCTION} lines", functions, LONG_FUNCTION)
    for package in DEEP:
        print(f"\nlongest chain of imports in {package}: {' '.join(longest_chain(package))}")


def code_lines(text: str, tree: ast.Module) -> int:
    """Return the number of lines with code."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                found.difference_update(range(node.lineno, end + 1))
    return len(found)


def function_lines(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield lines, first line and name of each function."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, node.lineno, node.name


def longest_chain(package: str) -> tuple[str, ...]:
    """Return the longest chain of modules of a package each of which imports the next.

    Imports under `if TYPE_CHECKING` and inside functions do not count.
    """
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / package.replace(".", "/")).rglob("*.py")
    }
    imports = {
        name: {each if each in paths else each.rpartition(".")[0] for each in _imported(path)}
        & paths.keys() - {name}
        for name, path in paths.items()
    }
    chains: dict[str, tuple[str, ...]] = {}
    return max((_chain(name, imports, chains) for name in sorted(imports)), key=len)


def _chain(
    name: str, imports: Mapping[str, set[str]], chains: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    if name not in chains:
        below = (_chain(each, imports, chains) for each in sorted(imports[name]))
        chains[name] = (name, *max(below, key=len, default=()))
    return chains[name]


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _print_long(title: str, found: list[tuple[int, str]], limit: int) -> None:
    long = sorted((each for each in found if each[0] > limit), reverse=True)
    print(f"\n{len(long)} {title}")
    for lines, place in long:
        print(f"{lines:8,} {place}")


if __name__ == "__main__":
    main()
