"""Checks and texts of a release: the tag, the changes, and what PyPI and the chart show.

    python -m devtools.release notes v1.2.3  # the changes, if the tag is the version
    python -m devtools.release readme URL    # README.md with every relative link below URL
    python -m devtools.release values IMAGE  # values.yaml of the chart with this image.repository
    python -m devtools.release check dist    # one sdist, one wheel, both with what PyPI needs

The version comes from pyproject.toml and from nowhere else. Only the standard library is used,
because a release checks its tag before it installs anything.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LINK: Final = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)(?=[^)\s]+\))")
"""The place before the target of a relative link, where an absolute one needs its base."""
REPOSITORY: Final = re.compile(r"^  repository: kubestow$", re.MULTILINE)
"""The line of the chart's values.yaml that names the image, without a registry."""

IMAGE: Final = re.compile(r"!\[[^\]]*\]\((?![a-z][a-z0-9+.-]*:)[^)\s]+(?=\))")
"""A relative image up to its end: GitHub answers with a page about the file unless asked for it."""


class ReleaseError(Exception):
    """The repository is not ready for this release. The text says where, and what to do."""


def project_version(root: Path = ROOT) -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def release_notes(tag: str, root: Path = ROOT) -> str:
    """Return the section of CHANGELOG.md for the version that `tag` names, without its heading.

    Raises:
        ReleaseError: the tag is not the version, or the section is absent or empty.
    """
    version = project_version(root)
    if tag != f"v{version}":
        msg = (
            f"the tag is {tag!r}, the version in pyproject.toml {version!r}: "
            f"tag the commit v{version}, or change the version and its copies first"
        )
        raise ReleaseError(msg)
    heading = re.compile(rf"^## \[{re.escape(version)}\](?: - \d{{4}}-\d\d-\d\d)?$", re.MULTILINE)
    changelog = (root / "CHANGELOG.md").read_text()
    found = heading.search(changelog)
    section = re.split(r"^## ", changelog[found.end() :], flags=re.MULTILINE)[0] if found else ""
    if not section.strip():
        msg = (
            f"CHANGELOG.md says nothing below a heading '## [{version}] - YYYY-MM-DD': "
            "give what is under [Unreleased] that heading"
        )
        raise ReleaseError(msg)
    return section.strip() + "\n"


def absolute_links(markdown: str, base: str) -> str:
    """Return `markdown` with each relative link below the URL `base`, except inside code blocks."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    prefix = base.rstrip("/") + "/"
    # Every second part is a code block.
    parts[::2] = [IMAGE.sub(lambda image: image[0] + "?raw=true", part) for part in parts[::2]]
    parts[::2] = [LINK.sub(lambda _: prefix, part) for part in parts[::2]]
    return "".join(parts)


def chart_values(image: str, root: Path = ROOT) -> str:
    """Return values.yaml of the chart with `image` as its default `image.repository`.

    Raises:
        ReleaseError: values.yaml has no such line, or more than one.
    """
    path = root / "charts" / "kubestow" / "values.yaml"
    text, replaced = REPOSITORY.subn(lambda _: f"  repository: {image}", path.read_text())
    if replaced != 1:
        msg = (
            f"{path.relative_to(root)} has {replaced} lines '  repository: kubestow': "
            "write exactly one, below 'image:'"
        )
        raise ReleaseError(msg)
    return text


def check_packages(directory: Path, root: Path = ROOT) -> str:
    """Check what `make packages` put into `directory`; return a line that names it.

    Raises:
        ReleaseError: there is not one sdist and one wheel of the version, their metadata differ, or
            the text for PyPI is not Markdown or has a relative link.
    """
    version = project_version(root)
    name = f"kubestow-{version}"
    source, wheel = directory / f"{name}.tar.gz", directory / f"{name}-py3-none-any.whl"
    found = sorted(path.name for path in directory.glob("kubestow-*") if path.suffix != ".tgz")
    if found != sorted([source.name, wheel.name]):
        msg = (
            f"{directory} has {', '.join(found) or 'no packages'}: "
            f"leave only {source.name} and {wheel.name}, which `make packages` builds"
        )
        raise ReleaseError(msg)
    with tarfile.open(source) as archive:
        member = archive.extractfile(f"{name}/PKG-INFO")
        of_source = _metadata(member.read() if member else b"")
    with zipfile.ZipFile(wheel) as archive:
        of_wheel = _metadata(archive.read(f"{name}.dist-info/METADATA"))
    if sorted(of_source.items()) != sorted(of_wheel.items()):
        msg = (
            f"the metadata of {source.name} and {wheel.name} differ: build both by `make packages`"
        )
        raise ReleaseError(msg)
    text = str(of_wheel.get_payload())
    if of_wheel["Description-Content-Type"] != "text/markdown" or not text.strip():
        msg = f"{wheel.name} has no Markdown text for PyPI: see `readme` in pyproject.toml"
        raise ReleaseError(msg)
    if absolute_links(text, "x:") != text:
        msg = (
            f"the text for PyPI in {wheel.name} has relative links, which lead nowhere there: "
            "build with the README that `python -m devtools.release readme URL` prints"
        )
        raise ReleaseError(msg)
    return f"{source.name} and {wheel.name} agree, and every link of their text is absolute\n"


def _metadata(content: bytes) -> Message:
    return Parser().parsestr(content.decode())


COMMANDS: Final[dict[str, tuple[str, str, Callable[[str], str]]]] = {
    "notes": ("check the tag and print the changes of its version", "TAG", release_notes),
    "readme": (
        "print README.md with absolute links; URL is the address of the files of this release",
        "URL",
        lambda url: absolute_links((ROOT / "README.md").read_text(), url),
    ),
    "values": ("print the chart's values.yaml with this image", "IMAGE", chart_values),
    "check": (
        "check the packages in a directory",
        "DIRECTORY",
        lambda directory: check_packages(Path(directory)),
    ),
}
"""Help, name of the argument and function of each command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m devtools.release")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, argument, _) in COMMANDS.items():
        commands.add_parser(name, help=text).add_argument("argument", metavar=argument)
    options = parser.parse_args(arguments)
    try:
        text = COMMANDS[options.command][2](options.argument)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
