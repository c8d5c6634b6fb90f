"""The page of `kubestow ui` is what its manifest and the licences say, and is in the wheel."""

from __future__ import annotations

import json
import re
import zipfile
from typing import Final

import pytest

from devtools.page_libraries import MANIFEST, VENDOR, altered, packages
from tests.page.build import MANIFEST as TEST_MANIFEST
from tests.unit.repository.container import Image
from tests.unit.repository.tree import ROOT

STATIC: Final = ROOT / "scheduler" / "cli" / "page" / "static"
MAX_LINES: Final = 500


def test_the_libraries_are_byte_for_byte_those_of_the_manifest() -> None:
    assert altered(MANIFEST, VENDOR) == []
    listed = {name for package in packages(MANIFEST) for name in package["files"]}
    assert {path.name for path in VENDOR.iterdir()} == listed | {MANIFEST.name}


@pytest.mark.parametrize("manifest", [MANIFEST, TEST_MANIFEST], ids=["shipped", "tests"])
def test_a_library_has_version_licence_hash_and_reason(manifest: object) -> None:
    for package in packages(MANIFEST if manifest == MANIFEST else TEST_MANIFEST):
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert package["integrity"].startswith("sha512-")
        assert len(package["reason"].split()) > 3
        assert package["licence"]


def test_each_shipped_library_comes_with_its_licence() -> None:
    for package in packages(MANIFEST):
        text = (VENDOR / f"{package['name']}.LICENSE").read_text()
        assert package["licence"].split("-")[0] in text


def test_the_page_loads_nothing_from_elsewhere() -> None:
    """An address in a comment or a namespace is no request; these are the ways to make one."""
    loads = re.compile(r"""(?:src|href|url|import|fetch)\s*[=(]?\s*\(?["'`]?(?:https?:)?//""")
    for path in STATIC.glob("*.*"):
        assert not loads.search(path.read_text()), path


def test_own_modules_are_short_and_escape_nothing_by_hand() -> None:
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        assert len(text.splitlines()) <= MAX_LINES, path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function", text)


def test_imports_lead_to_files_of_the_page() -> None:
    for path in STATIC.glob("*.js"):
        for name in re.findall(r'from "(.+?)"', path.read_text()):
            assert (STATIC / name).is_file(), f"{path.name} imports {name}"


@pytest.mark.slow
def test_the_wheel_has_all_files_and_the_installed_server_finds_them(image: Image) -> None:
    wanted = {path.relative_to(ROOT).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    with zipfile.ZipFile(image.wheel) as archive:
        assert wanted <= set(archive.namelist())
    code = (
        "import json; from scheduler.cli.page.server import static_files;"
        "print(json.dumps(sorted(static_files())))"
    )
    result = image.run(["python", "-c", code], image.wheel.parent)
    assert result.returncode == 0, result.stderr
    served = set(json.loads(result.stdout))
    assert {"index.html", "app.js", "style.css", "vendor/preact.js"} <= served
