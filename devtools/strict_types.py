"""`make types`: one run of mypy over the project, and over code that it shows and writes for users.

    python -m devtools.strict_types

That is the plugin of README.md, those of docs/plugins.md, and what `kubestow plugin new` writes for
each choice. The settings are those of the project, which are stricter than `--strict`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Final

from devtools.markdown import blocks
from scheduler.cli.plugin.scaffold import POINTS, Scaffold

ROOT: Final = Path(__file__).parents[1]


def main() -> int:
    """Return the status of mypy."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="kubestow-types-") as name:
        folder = Path(name)
        modules = [each / f"{each.name.replace('-', '_')}.py" for each in scaffolds(folder)]
        paths = [*settings["tool"]["mypy"]["files"], *modules, *documented(folder)]
        return subprocess.call([sys.executable, "-m", "mypy", *map(str, paths)], cwd=ROOT)


def documented(folder: Path) -> list[Path]:
    """Write a module for each document with the Python that stands in it alone; return the files.

    A block that quotes a file below `examples` is checked there.
    """
    written = []
    for document in ("README.md", "docs/plugins.md"):
        found = [
            each.text
            for each in blocks(ROOT / document, ROOT)
            if each.language == "python" and "/" not in each.mark
        ]
        file = folder / f"documented_in_{Path(document).stem.lower()}.py"
        file.write_text("\n\n".join(found), encoding="utf-8")
        written.append(file)
    return written


def scaffolds(folder: Path) -> list[Path]:
    """Write a folder for each point, each point with the next, and all; return the folders.

    Those with a columnar form are written with it, too.
    """
    scalar = [*((each,) for each in POINTS), *pairwise(POINTS), POINTS]
    columnar = [("filter",), ("score",), ("filter", "score"), POINTS]
    written = []
    for points, has_columns in [(each, False) for each in scalar] + [
        (each, True) for each in columnar
    ]:
        parts = [each.replace("-", "")[:5] for each in points][:3]
        name = "-".join(["rule", str(len(points)), *parts, *(["columnar"] if has_columns else [])])
        Scaffold(name, points, columnar=has_columns).write(folder / name)
        written.append(folder / name)
    return written


if __name__ == "__main__":
    sys.exit(main())
