"""The JavaScript libraries of the page, fetched from npm as their manifests pin them.

    python -m devtools.page_libraries          # write scheduler/cli/page/static/vendor anew
    python -m devtools.page_libraries --pin    # the same after a change of a version

A manifest names packages with version, licence, reason, and `integrity`, npm's hash of the whole
package; and for each file that is taken its path in the package and the SHA-256 of what is written.
Modules are written as they are, but for two things that only a build could use: imports by package
name become relative, and the address of a source map is left out. `--pin` writes the SHA-256.

The files for users are under version control, so neither an installation nor the wheel needs npm.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
VENDOR: Final = ROOT / "scheduler/cli/page/static/vendor"
MANIFEST: Final = VENDOR / "manifest.json"

_IMPORT: Final = re.compile(rb'(\bfrom|\bimport)"preact"')
_SOURCE_MAP: Final = re.compile(rb"//# sourceMappingURL=\S*\n?")


class LibraryError(RuntimeError):
    """A library is not what its manifest says. The text names it, and what to do."""


def packages(manifest: Path) -> list[dict[str, Any]]:
    """Return the packages of a manifest."""
    found: list[dict[str, Any]] = json.loads(manifest.read_text(encoding="utf-8"))["packages"]
    return found


def sha256(content: bytes) -> str:
    """Return the hash as a manifest has it."""
    return hashlib.sha256(content).hexdigest()


def altered(manifest: Path, folder: Path) -> list[str]:
    """Return the files in `folder` that are missing or not what the manifest says."""
    return [
        name
        for package in packages(manifest)
        for name, entry in package["files"].items()
        if not (folder / name).is_file() or sha256((folder / name).read_bytes()) != entry["sha256"]
    ]


def write(manifest: Path, folder: Path, *, pin: bool = False) -> None:
    """Fetch every package of a manifest, and write its files to `folder`.

    With `pin` the hashes of the files go to the manifest; otherwise they must be those in it.

    Raises:
        LibraryError: npm cannot be run, or something is not what the manifest says.
    """
    found = packages(manifest)
    folder.mkdir(parents=True, exist_ok=True)
    for package in found:
        content = _unpacked(package)
        for name, entry in package["files"].items():
            body = _relative(content[f"package/{entry['from']}"])
            if pin:
                entry["sha256"] = sha256(body)
            elif sha256(body) != entry["sha256"]:
                raise LibraryError(f"{name} is not what {manifest.name} says; if meant, use --pin")
            (folder / name).write_bytes(body)
    if pin:
        text = json.dumps({"packages": found}, indent=2, ensure_ascii=False)
        manifest.write_text(f"{text}\n", encoding="utf-8")


def _unpacked(package: dict[str, Any]) -> dict[str, bytes]:
    """Fetch a package by the npm client; return its files by path."""
    wanted = f"{package['name']}@{package['version']}"
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", wanted]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stderr", b"") or b""
            text = f"{error} {output.decode(errors='replace')[-500:]}"
            raise LibraryError(f"npm cannot fetch {wanted}: {text}") from error
        (archive,) = Path(folder).glob("*.tgz")
        body = archive.read_bytes()
    digest = base64.b64encode(hashlib.sha512(body).digest()).decode()
    if package["integrity"] != f"sha512-{digest}":
        raise LibraryError(f"{wanted} has the hash sha512-{digest}, not that of the manifest")
    with tarfile.open(fileobj=io.BytesIO(body)) as files:
        members = [member for member in files if member.isfile()]
        return {each.name: stream.read() for each in members if (stream := files.extractfile(each))}


def _relative(body: bytes) -> bytes:
    return _SOURCE_MAP.sub(b"", _IMPORT.sub(rb'\1"./preact.js"', body))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Fetch the libraries of the page from npm.")
    parser.add_argument("--pin", action="store_true", help="write the hashes to the manifest")
    try:
        write(MANIFEST, VENDOR, pin=parser.parse_args(arguments).pin)
    except LibraryError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
