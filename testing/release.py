"""Checks and texts of a release: does the tag name the version, what changed, links for PyPI.

    python -m testing.release notes v1.2.3  # the changes, if the tag is the version
    python -m testing.release readme URL    # README.md with every relative link below URL

The version comes from pyproject.toml and from nowhere else. Only the standard library is used,
because a release checks its tag before it installs anything.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LINK: Final = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)(?=[^)\s]+\))")
"""The place before the target of a relative link, where an absolute one needs its base."""


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
    parts[::2] = [LINK.sub(lambda _: prefix, part) for part in parts[::2]]
    return "".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m testing.release")
    commands = parser.add_subparsers(dest="command", required=True)
    notes = commands.add_parser("notes", help="check the tag and print the changes of its version")
    notes.add_argument("tag", help="such as v1.2.3")
    readme = commands.add_parser("readme", help="print README.md with absolute links")
    readme.add_argument("url", help="address of the files of this release")
    options = parser.parse_args(arguments)
    try:
        if options.command == "notes":
            text = release_notes(options.tag)
        else:
            text = absolute_links((ROOT / "README.md").read_text(), options.url)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
