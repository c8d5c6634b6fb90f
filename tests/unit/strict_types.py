"""Check files with mypy --strict, without checking all of kubestow again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.unit.repository.tree import ROOT


def strict_type_errors(files: Iterable[Path], folder: Path) -> str:
    """Return what `mypy --strict` says about these files, or nothing if there are no errors.

    With the settings of this project, which are stricter; so what `make types` has cached about the
    modules that they import holds. A copy in `folder` is used: mypy may run elsewhere meanwhile.
    """
    cache = folder / "mypy-cache"
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", cache)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", *map(str, files)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    shutil.rmtree(cache, ignore_errors=True)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr
