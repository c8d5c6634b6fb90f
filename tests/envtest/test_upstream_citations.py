"""Citations of upstream symbols resolve in the sources of the Kubernetes release under test.

A citation is a file and a symbol in it: `schedule_one.go: findNodesThatPassFilters`. Building the
control plane has put the sources into Go's module cache.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.build import MODULE_DIRECTORY, kubernetes_version
from tests.unit.repository.tree import tracked_texts

pytestmark = pytest.mark.envtest

CITATION: Final = re.compile(r"\b([\w./-]*\w\.go): ([A-Za-z_][\w.]*)")


def sources() -> dict[str, list[Path]]:
    """Return the Go files of Kubernetes, its staging modules and cel-go, by file name."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the module cache is found with the command go, which is not installed")
    version = kubernetes_version((MODULE_DIRECTORY / "go.mod").read_text())
    cache = Path(
        subprocess.run(
            [go, "env", "GOMODCACHE"], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    roots = [cache / "k8s.io" / f"kubernetes@{version}"]
    roots += (cache / "k8s.io").glob(f"*@v0{version.removeprefix('v1')}")
    # Whose version kube-apiserver chose: no other is built here.
    roots += (cache / "github.com" / "google").glob("cel-go@*")
    if not roots[0].is_dir():
        pytest.skip(f"{roots[0].name} is not in the module cache: binaries were given, not built")
    found: dict[str, list[Path]] = defaultdict(list)
    for root in roots:
        for path in root.rglob("*.go"):
            found[path.name].append(path)
    return found


def test_every_cited_symbol_exists() -> None:
    files = sources()
    cited = [
        (path, *match)
        for path, text in tracked_texts().items()
        if path.endswith((".py", ".md"))
        for match in CITATION.findall(text)
    ]
    assert cited
    unresolved = [
        f"{path}: {file}: {symbol}"
        for path, file, symbol in cited
        if not any(
            re.search(rf"\b{re.escape(symbol.rpartition('.')[2])}\b", source.read_text())
            for source in files[Path(file).name]
            if source.as_posix().endswith(f"/{file}")
        )
    ]
    assert not unresolved, "\n".join(unresolved)
