"""Brings what `make page` needs: Chromium by Debian's client, and axe-core by npm's, if missing.

    python -m tests.page.build

axe-core goes to `build/page`, with the hash that `libraries.json` pins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from devtools import page_libraries
from devtools.page_libraries import ROOT, LibraryError
from tests.page import chromium

MANIFEST: Final = Path(__file__).with_name("libraries.json")
FOLDER: Final = ROOT / "build" / "page"

HELP: Final = (
    "there is no chromium, and it can only be installed as root by apt-get; "
    "install it yourself, and run this again"
)


def axe() -> str:
    """Return the source of axe-core; empty where it was not fetched."""
    file = FOLDER / "axe.min.js"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def main() -> int:
    """Install what is missing; return the exit status."""
    begin = time.monotonic()
    if not chromium.installed():
        if os.geteuid() or shutil.which("apt-get") is None:
            print(f"Error: {HELP}", file=sys.stderr)
            return 1
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        packages = (chromium.PROGRAM, "fonts-dejavu-core")
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "--quiet=2", *command], check=True, env=environment)
        print(f"chromium installed, {time.monotonic() - begin:.0f} s")
    if page_libraries.altered(MANIFEST, FOLDER):
        try:
            page_libraries.write(MANIFEST, FOLDER)
        except LibraryError as error:
            print(f"Error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
