"""A release: one version in all files, notes from the changelog, links that work on PyPI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from scheduler.cli.version import version_text
from testing.release import ReleaseError, absolute_links, main, project_version, release_notes
from tests.unit.repository.tree import ROOT, tracked_texts

VERSION: Final = project_version()
IMAGE_TAG: Final = re.compile(r"\bkubestow:v?(\d+(?:\.\d+)+)")
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
CHANGELOG: Final = """# Changelog

## [Unreleased]

- Not yet.

## [1.2.0] - 2026-01-31

### Added

- A thing.

## [1.1.0] - 2025-12-01

- An older thing.
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository at version 1.2.0."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_the_image_of_the_manifests_has_the_version() -> None:
    kustomization = yaml.safe_load((ROOT / "manifests/kustomization.yaml").read_text())
    assert [image["newTag"] for image in kustomization["images"]] == [VERSION]


def test_images_in_the_documents_have_the_version() -> None:
    documents = {path: text for path, text in tracked_texts().items() if path.endswith(".md")}
    found = {(path, tag) for path, text in documents.items() for tag in IMAGE_TAG.findall(text)}
    assert "README.md" in {path for path, _ in found}
    assert {tag for _, tag in found} == {VERSION}, found


def test_the_readme_states_the_version() -> None:
    (stated,) = re.findall(r"^Version ([\d.]+\d)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert VERSION.split(".")[:2] == stated.split(".")


def test_the_command_states_the_version() -> None:
    assert version_text("kubestow").split()[1] == VERSION, "installed elsewhere? make venv"


def test_the_notes_are_the_section_of_the_version(repository: Path) -> None:
    assert release_notes("v1.2.0", repository) == "### Added\n\n- A thing.\n"


@pytest.mark.parametrize("tag", ["v1.2.1", "1.2.0", "v1.2.0-rc.1", ""])
def test_a_tag_that_is_not_the_version_is_refused(repository: Path, tag: str) -> None:
    with pytest.raises(ReleaseError, match=rf"the tag is '{re.escape(tag)}', .* '1\.2\.0': tag"):
        release_notes(tag, repository)


@pytest.mark.parametrize("heading", ["## [1.2]", "## [1.2.0]\n\n## [1.2.0] - 2026-01-31"])
def test_a_version_without_notes_is_refused(repository: Path, heading: str) -> None:
    text = CHANGELOG.replace("## [1.2.0] - 2026-01-31", heading)
    (repository / "CHANGELOG.md").write_text(text)
    with pytest.raises(ReleaseError, match=r"says nothing below a heading '## \[1\.2\.0\] - "):
        release_notes("v1.2.0", repository)


def test_the_command_refuses_a_wrong_tag_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notes", "v0.0.0"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: the tag is 'v0.0.0'")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](docs/a.md)", "[a](https://host/tree/docs/a.md)"),
        ("[a](docs/a.md#b)", "[a](https://host/tree/docs/a.md#b)"),
        ("[a](#b)", "[a](#b)"),
        ("[a](https://example.com/a.md)", "[a](https://example.com/a.md)"),
        ("```sh\n[a](b)\n```\n[a](b)", "```sh\n[a](b)\n```\n[a](https://host/tree/b)"),
    ],
)
def test_relative_links_become_absolute(link: str, expected: str) -> None:
    for base in ("https://host/tree", "https://host/tree/"):
        assert absolute_links(link, base) == expected


def test_every_link_of_the_readme_works_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    base = "https://host/blob/v1"
    assert main(["readme", base]) == 0
    links = LINK.findall(capsys.readouterr().out)
    inside = [link.removeprefix(f"{base}/") for link in links if link.startswith(base)]
    assert len(inside) > 10
    assert all((ROOT / link.partition("#")[0]).exists() for link in inside)
    assert all(link.startswith("https://") for link in links)
