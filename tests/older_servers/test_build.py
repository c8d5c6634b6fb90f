"""The modules of the older API servers; nothing is compiled here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.control_plane.binaries import BinariesMissingError
from tests.older_servers import build


@pytest.mark.parametrize("release", build.releases())
def test_all_parts_are_of_the_release_that_the_folder_names(release: str) -> None:
    version = build.version_of(release)
    assert version.startswith(f"{release}.")
    go_mod = (build.MODULES / release / "go.mod").read_text()
    staging = re.findall(r"=> (k8s\.io/\S+) (v\S+)$", go_mod, re.MULTILINE)
    assert len(staging) >= 30
    assert {each for _, each in staging} == {version.replace("v1.", "v0.", 1)}


def test_there_are_releases_before_that_of_the_control_plane() -> None:
    assert build.releases() == ("v1.33", "v1.36")


def test_a_release_that_is_not_built_is_reported_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "BUILD_DIRECTORY", tmp_path)
    with pytest.raises(BinariesMissingError, match=r"v1\.33\.\d+ in .*make older-servers-build"):
        build.find("v1.33")


def test_an_unknown_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["v1.12"]) == 1
    assert "no folder v1.12 in" in capsys.readouterr().err
