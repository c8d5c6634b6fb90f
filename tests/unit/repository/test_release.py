"""A release: one version in all files, notes from the changelog, links that work on PyPI."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest
import yaml

from devtools.docs_site import slug
from devtools.release import (
    ReleaseError,
    absolute_links,
    chart_values,
    check_packages,
    main,
    project_version,
    release_notes,
)
from scheduler.cli.version import version_text
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
        ("![a](docs/a.svg)", "![a](https://host/tree/docs/a.svg?raw=true)"),
        ("![a](https://example.com/a.svg)", "![a](https://example.com/a.svg)"),
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
    assert all((ROOT / re.split("[#?]", link)[0]).exists() for link in inside)
    headings = re.findall(r"^#+ (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    anchors = {f"#{slug(each, '-')}" for each in headings}
    assert all(link.startswith("https://") or link in anchors for link in links)


def test_the_chart_of_a_release_has_its_image_and_nothing_else_changed() -> None:
    before = yaml.safe_load((ROOT / "charts/kubestow/values.yaml").read_text())
    after = yaml.safe_load(chart_values("registry.example/owner/kubestow"))
    assert after["image"].pop("repository") == "registry.example/owner/kubestow"
    assert before["image"].pop("repository") == "kubestow"
    assert after == before


@pytest.mark.parametrize("lines", [0, 2])
def test_values_without_one_place_for_the_image_are_refused(tmp_path: Path, lines: int) -> None:
    chart = tmp_path / "charts" / "kubestow"
    chart.mkdir(parents=True)
    (chart / "values.yaml").write_text("image:\n" + "  repository: kubestow\n" * lines)
    with pytest.raises(ReleaseError, match=rf"values.yaml has {lines} lines .* exactly one"):
        chart_values("x/kubestow", tmp_path)


TEXT: Final = """Metadata-Version: 2.4
Name: kubestow
Version: 1.2.0
Description-Content-Type: text/markdown

# kubestow

[Documents](https://example.com/docs)
"""


def pack(repository: Path, of_source: str = TEXT, of_wheel: str = TEXT) -> Path:
    """Write an sdist and a wheel that have only metadata; return their directory."""
    directory = repository / "dist"
    directory.mkdir()
    with tarfile.open(directory / "kubestow-1.2.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("kubestow-1.2.0/PKG-INFO")
        member.size = len(of_source)
        archive.addfile(member, io.BytesIO(of_source.encode()))
    with zipfile.ZipFile(directory / "kubestow-1.2.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("kubestow-1.2.0.dist-info/METADATA", of_wheel)
    return directory


def test_packages_that_agree_are_named(repository: Path) -> None:
    said = check_packages(pack(repository), repository)
    assert said.startswith("kubestow-1.2.0.tar.gz and kubestow-1.2.0-py3-none-any.whl agree")


@pytest.mark.parametrize("name", ["kubestow-1.1.0-py3-none-any.whl", "kubestow-1.2.0.zip"])
def test_a_package_of_another_version_or_kind_is_refused(repository: Path, name: str) -> None:
    directory = pack(repository)
    (directory / name).touch()
    with pytest.raises(ReleaseError, match=rf"has .*{re.escape(name)}.*: leave only "):
        check_packages(directory, repository)


def test_an_empty_directory_is_refused(repository: Path) -> None:
    with pytest.raises(ReleaseError, match="has no packages: leave only "):
        check_packages(repository, repository)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("https://example.com/docs", "docs/a.md", "has relative links, which lead nowhere"),
        ("text/markdown", "text/plain", "has no Markdown text for PyPI"),
    ],
)
def test_a_text_that_pypi_cannot_show_is_refused(
    repository: Path, old: str, new: str, message: str
) -> None:
    text = TEXT.replace(old, new)
    with pytest.raises(ReleaseError, match=message):
        check_packages(pack(repository, text, text), repository)


def test_packages_whose_metadata_differ_are_refused(repository: Path) -> None:
    with pytest.raises(ReleaseError, match=r"metadata of .* differ: build both"):
        check_packages(pack(repository, TEXT.replace("1.2.0", "1.2.1")), repository)


def test_only_the_page_of_releases_installs_a_published_package() -> None:
    """No release is published: such a command fails, or installs what a stranger reserved."""
    command = re.compile(r"pip install (?:-\S+ |['\"])*kubestow\b")
    naming = {path for path, text in tracked_texts().items() if command.search(text)}
    assert naming <= {"CHANGELOG.md", "docs/releasing.md"}
