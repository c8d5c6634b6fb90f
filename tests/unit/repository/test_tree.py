"""The tree does not depend on the machine or the network it was written on."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.repository.tree import ROOT, tracked_files, tracked_texts

# Written with groups, so that this file does not match itself.
MACHINE_PATH: Final = re.compile(r"(?<![\w.\-/}])/(?:work|farm|root|tmp|home/\w+)/[A-Za-z]")
REGISTRY: Final = re.compile(
    r"(?:pypi|pythonhosted|test\.pypi)\.(?:org|python\.org)"
    r"|(?:proxy|sum)\.golang\.org|registry\.npmjs|--(?:extra-)?index(?:-url)|--find(?:-links)"
)
SECRET: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE (?:KEY)-----")


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, REGISTRY, SECRET], ids=["machine path", "package registry", "key"]
)
def test_no_file_contains(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["work", "tmp", "root", "home/someone"])
def test_the_patterns_find_what_they_look_for(folder: str) -> None:
    assert MACHINE_PATH.search(f"open('/{folder}/kubeconfig')")
    assert not MACHINE_PATH.search("https://example.org/root/readme")
    assert REGISTRY.search("https://{}.org/simple".format("pypi"))


def test_scripts_are_executable() -> None:
    scripts = [path for path in tracked_files() if path.read_bytes().startswith(b"#!")]
    assert ROOT / ".ci" / "run" in scripts
    assert not [path.name for path in scripts if not path.stat().st_mode & 0o100]
