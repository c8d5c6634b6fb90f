"""Builds programs of other projects from their published Go modules.

The version of a program comes from the go.mod that names it and from nowhere else. A binary is
built again only when its stamp (a hash of go.mod, go.sum, sources beside them, the flags and the
package) differs, so a second run takes no time. Binaries appear under their name only when they are
complete. One call of Go builds all programs of a module, so that one is linked while packages of
another are compiled.

Only the standard library is used, because this runs before the project is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HEARTBEAT_SECONDS: Final = 30.0
"""Interval between the messages of a long build."""

FLAGS: Final = ("-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false")
"""Flags of every `go build`. Packages that were compiled with other flags cannot be shared.

The linker would throw the debug information away (`-w`), which takes a sixth of the compiler's time
to make. Stack traces do not need it.
"""

STRIPPED: Final = ("-ldflags", "-s -w")

UNOPTIMIZED: Final = "-N -l -dwarf=false"
"""Compiler flags for what only serves tests: half the time to compile, and nobody measures it."""

GARBAGE_COLLECTION: Final = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}
"""Of compiler and linker: a quarter less CPU time. Garbage is collected from the limit on."""


class BuildError(RuntimeError):
    """The build failed. The text names the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class Program:
    """One command that is built from a module."""

    name: str
    """Of the binary."""

    package: str
    """The import path of its main package."""

    module: Path
    """The directory of the go.mod and the go.sum that decide its version."""

    flags: tuple[str, ...] = (
        *FLAGS,
        f"-gcflags=all={UNOPTIMIZED}",
        # The last pattern that matches applies: these are compiled already.
        "-gcflags=std=-dwarf=false",
        *STRIPPED,
    )
    """The flags of `command`."""

    command: tuple[str, ...] = ("build",)
    """Of Go; `("test", "-c")` builds the tests of the package."""

    def stamp(self) -> str:
        """Return the hash of all that decides the content of the binary."""
        digest = hashlib.sha256()
        own = sorted(path.name for path in self.module.glob("*.go"))
        for file in ("go.mod", "go.sum", *own):
            digest.update((self.module / file).read_bytes())
        digest.update("\0".join([self.package, *self.flags]).encode())
        return digest.hexdigest()

    def is_current(self, directory: Path) -> bool:
        """Say whether `directory` holds the binary as it would be built now."""
        file = self._stamp_file(directory)
        return (
            is_executable(directory / self.name)
            and file.is_file()
            and file.read_text() == self.stamp()
        )

    def source_directory(self) -> Path:
        """Return the unpacked sources of the module that holds the package; it is read-only.

        Raises:
            BuildError: Go is missing, or the module cannot be fetched.
        """
        command = [find_go(""), "list", "-mod=readonly", "-f", "{{.Module.Dir}}", self.package]
        status, output, errors = _run_go(
            command, self.module, doing=f"looking for the sources of {self.name}"
        )
        if status != 0:
            msg = f"the sources of {self.name} were not found:\n{errors}"
            raise BuildError(msg)
        return Path(output.strip())

    def _stamp_file(self, directory: Path) -> Path:
        return directory / f".{self.name}.stamp"

    def built_name(self) -> str:
        """Return the name that Go gives the binary: the package's, without its major version."""
        name = re.sub(r"/v\d+$", "", self.package).rpartition("/")[2]
        return f"{name}.test" if self.command[0] == "test" else name

    def install(self, built: Path, directory: Path) -> None:
        """Move the complete binary to its name in `directory`, and stamp it."""
        built.replace(directory / self.name)
        self._stamp_file(directory).write_text(self.stamp())


def build(programs: Sequence[Program], directory: Path, *, what: str, remedy: str = "") -> None:
    """Build every program that is missing from `directory` or out of date.

    Args:
        programs: what to build.
        directory: where the binaries go.
        what: the programs are, for the messages.
        remedy: how to do without Go and without a network, if there is a way; completes ", or ...".

    Raises:
        BuildError: Go is missing, the modules cannot be fetched, or a package does not compile.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _only_one_build(directory):
        stale = [program for program in programs if not program.is_current(directory)]
        if not stale:
            names = ", ".join(program.name for program in programs)
            say(f"{names} of {what} in {directory}: up to date")
            return
        go = find_go(remedy)
        started = time.monotonic()
        for module in dict.fromkeys(program.module for program in stale):
            _download_modules(go, module, remedy)
        for together in _groups(stale):
            _compile_into(go, together, directory)
        say(f"built {len(stale)} binaries into {directory} in {time.monotonic() - started:.0f} s")


def _groups(programs: Sequence[Program]) -> list[list[Program]]:
    """Return the programs that one call of Go can build together."""
    groups: dict[tuple[object, ...], list[Program]] = {}
    for program in programs:
        key = (program.module, program.command, program.flags)
        groups.setdefault(key, []).append(program)
    return list(groups.values())


def _compile_into(go: str, programs: Sequence[Program], directory: Path) -> None:
    """Compile programs of one group, with the Go command `go`, into `directory`."""
    started = time.monotonic()
    names = ", ".join(program.name for program in programs)
    say(f"building {names}")
    first = programs[0]
    with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as partial:
        packages = [program.package for program in programs]
        status, _, errors = _run_go(
            [go, *first.command, *first.flags, "-o", f"{partial}/", *packages],
            first.module,
            doing=f"building {names}",
        )
        if status != 0:
            msg = f"building {names} in {first.module} failed with status {status}:\n{errors}"
            raise BuildError(msg)
        for program in programs:
            program.install(Path(partial) / program.built_name(), directory)
    megabytes = [f"{(directory / each.name).stat().st_size / 1e6:.0f} MB" for each in programs]
    say(f"      {names}: {time.monotonic() - started:.0f} s, {', '.join(megabytes)}")


def find_go(remedy: str) -> str:
    """Return the path of `go`.

    Raises:
        BuildError: there is none.
    """
    go = shutil.which("go")
    if go is None:
        msg = f"there is no `go` on PATH: install Go{_or(remedy)}"
        raise BuildError(msg)
    return go


def is_executable(path: Path) -> bool:
    """Say whether `path` is a file that can be run."""
    return path.is_file() and os.access(path, os.X_OK)


def say(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def _download_modules(go: str, module: Path, remedy: str) -> None:
    """Fetch all modules first, so that a network failure does not look like a compile error."""
    started = time.monotonic()
    say(f"fetching the Go modules of {module.name}")
    status, _, errors = _run_go([go, "mod", "download"], module, doing="fetching Go modules")
    if status != 0:
        msg = (
            f"the Go modules could not be fetched:\n{errors}\n"
            "Check the network and the module proxy (`go env GOPROXY` shows which one is used)"
            f"{_or(remedy)}."
        )
        raise BuildError(msg)
    say(f"      modules: {time.monotonic() - started:.0f} s")


def _or(remedy: str) -> str:
    return f", or {remedy}" if remedy else ""


def _run_go(command: Sequence[str], module: Path, *, doing: str) -> tuple[int, str, str]:
    """Run Go in a module's directory; return its exit status, output and the end of its errors."""
    environment = GARBAGE_COLLECTION | os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=module,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=HEARTBEAT_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"      still {doing}, {time.monotonic() - started:.0f} s")
            else:
                return process.returncode, output, "\n".join(errors.splitlines()[-30:])


@contextmanager
def _only_one_build(directory: Path) -> Iterator[None]:
    """Hold a lock file, so that a second build waits and then finds everything done."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
