"""The wheel holds what it needs, and imports its own packages wherever it is started."""

from __future__ import annotations

import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml

from devtools.release import project_version
from tests.unit.repository.container import Image
from tests.unit.repository.tree import ROOT

pytestmark = pytest.mark.slow

PACKAGES = ("config", "kubestow", "plugins", "scheduler", "simulator")
DIST_INFO = f"kubestow-{project_version()}.dist-info"
DATA = f"kubestow-{project_version()}.data"


def contents(image: Image) -> dict[str, str]:
    """Return the text files of the wheel by name."""
    with zipfile.ZipFile(image.wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(image: Image) -> None:
    names = set(contents(image))
    top_level = {name.split("/")[0] for name in names}
    assert top_level == {*PACKAGES, DIST_INFO, DATA}
    completion = f"{DATA}/data/share"
    assert {name for name in names if name.startswith(f"{DATA}/")} == {
        f"{completion}/bash-completion/completions/kubestow",
        f"{completion}/zsh/site-functions/_kubestow",
        f"{completion}/fish/vendor_completions.d/kubestow.fish",
    }
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    profiles = {
        f"config/profiles/{path.name}" for path in (ROOT / "config/profiles").glob("*.yaml")
    }
    assert profiles
    assert profiles <= names
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert sources <= names


def test_the_metadata_names_licence_and_command(image: Image) -> None:
    files = contents(image)
    metadata = message_from_string(files[f"{DIST_INFO}/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("kubestow", project_version())
    assert metadata["License-Expression"] == "Apache-2.0"
    entry_points = files[f"{DIST_INFO}/entry_points.txt"].split("\n")
    assert "kubestow = kubestow.command:main" in entry_points
    assert not [line for line in entry_points if line.startswith("kube-scheduler")]


@pytest.fixture
def foreign(open_directory: Path) -> Path:
    """Return a directory whose `config` and `plugins` are somebody else's."""
    for name in ("config", "plugins"):
        package = open_directory / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise SystemExit('imported a foreign {name}')\n")
    (configuration,) = yaml.safe_load_all((ROOT / "manifests/config.yaml").read_text())
    (open_directory / "profile.yaml").write_text(configuration["data"]["config.yaml"])
    return open_directory


@pytest.mark.parametrize(
    "arguments",
    [
        ["kubestow", "--version"],
        # Reads config and all in-tree plugins; the file is the one in the ConfigMap.
        ["kubestow", "config", "validate", "profile.yaml"],
        ["python", "-m", "scheduler", "--version"],
        ["python", "-m", "scheduler", "config", "validate", "profile.yaml"],
    ],
    ids=" ".join,
)
def test_foreign_folders_in_the_working_directory_are_not_imported(
    image: Image, foreign: Path, arguments: list[str]
) -> None:
    # The image sets PYTHONSAFEPATH as a second line of defence; an ordinary installation does not.
    result = image.run(arguments, foreign, without="PYTHONSAFEPATH")
    assert result.returncode == 0, result.stdout + result.stderr
