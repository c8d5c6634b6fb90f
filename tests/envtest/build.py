"""Builds the real control plane into `.envtest/bin`: `python -m tests.envtest.build`.

The versions come from `go.mod` beside this file and from nowhere else; `build` builds other modules
of the same kind, too (`GoModule`). A binary is built again only when its stamp (a hash of go.mod,
go.sum, the flags and the package) differs, so a second run takes no time. Binaries appear under
their name only when they are complete.

Only the standard library is used, because this runs before the project is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.envtest.binaries import (
    ASSETS_VARIABLE,
    BUILD_DIRECTORY,
    Binaries,
    BinariesMissingError,
    find_directory,
    is_executable,
)

MODULE_DIRECTORY: Final = Path(__file__).resolve().parent
HEARTBEAT_SECONDS: Final = 30.0
"""How often a long build says that it is alive."""

PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
"""Command to main package, the same five as the `tool` lines of go.mod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoModule:
    """A module without Go code of its own, and the binaries that are built from it."""

    directory: Path
    """Of go.mod, which requires k8s.io/kubernetes at a release, and go.sum."""

    packages: Mapping[str, str]
    """Name of the binary to its package."""

    command: tuple[str, ...] = ("build",)
    """Of Go; `("test", "-c")` builds the tests of the packages."""


CONTROL_PLANE: Final = GoModule(directory=MODULE_DIRECTORY, packages=PACKAGES)


class BuildError(RuntimeError):
    """The build cannot go on. The text says what failed and what to do."""


def kubernetes_version(go_mod: str) -> str:
    """Return the Kubernetes version that the text of a go.mod requires, with its leading "v"."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b", go_mod, re.MULTILINE)
    if found is None:
        msg = (
            "go.mod does not require k8s.io/kubernetes at a release such as v1.36.2: "
            "correct its `require` lines"
        )
        raise BuildError(msg)
    return found[1]


def build_flags(version: str) -> list[str]:
    """Return the flags of `go build` for Kubernetes at `version`.

    The published modules carry "v0.0.0-master" as their version, which upstream's release scripts
    replace at link time; left alone, every component would report that. The commit is emptied
    because its placeholder would otherwise show up in every User-Agent.
    """
    major, minor, _ = version.removeprefix("v").split(".")
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "",
        "gitTreeState": "archive",
    }
    settings = [
        f"-X {package}.{key}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for key, value in values.items()
    ]
    return [
        "-mod=readonly",
        "-buildvcs=false",
        "-trimpath",
        "-ldflags",
        " ".join(["-s", "-w", *settings]),
    ]


def stamp_of(name: str, flags: Sequence[str], module: GoModule = CONTROL_PLANE) -> str:
    """Return the hash of all that decides the content of the binary `name`."""
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        digest.update((module.directory / file).read_bytes())
    digest.update("\0".join([module.packages[name], *flags]).encode())
    return digest.hexdigest()


def build(directory: Path = BUILD_DIRECTORY, module: GoModule = CONTROL_PLANE) -> None:
    """Build every binary of `module` that is missing from `directory` or out of date.

    Raises:
        BuildError: Go is missing, the modules cannot be fetched, or a package does not compile.
    """
    directory.mkdir(parents=True, exist_ok=True)
    version = kubernetes_version((module.directory / "go.mod").read_text())
    flags = build_flags(version)
    with _only_one_build(directory):
        stale = [
            name
            for name in module.packages
            if not _is_current(directory, name, stamp_of(name, flags, module))
        ]
        if not stale:
            names = ", ".join(module.packages)
            _say(f"{names} of Kubernetes {version} in {directory}: up to date")
            return
        go = _find_go()
        _download_modules(go, module)
        started = time.monotonic()
        for position, name in enumerate(stale, start=1):
            _say(f"[{position}/{len(stale)}] building {name}")
            _build_one(go, module, name, directory, flags)
        _say(f"built {len(stale)} binaries into {directory} in {time.monotonic() - started:.0f} s")


def _build_one(go: str, module: GoModule, name: str, directory: Path, flags: Sequence[str]) -> None:
    started = time.monotonic()
    target, partial = directory / name, directory / f".{name}.partial"
    package = module.packages[name]
    status, errors = _run_go(
        [go, *module.command, *flags, "-o", str(partial), package],
        module,
        doing=f"building {name}",
    )
    if status != 0:
        msg = f"building {name} from {package} failed with status {status}:\n{errors}"
        raise BuildError(msg)
    partial.replace(target)
    _stamp_file(directory, name).write_text(stamp_of(name, flags, module))
    size = target.stat().st_size / 1e6
    _say(f"      {name}: {time.monotonic() - started:.0f} s, {size:.0f} MB")


def _download_modules(go: str, module: GoModule) -> None:
    """Fetch all modules first, so that a network failure does not look like a compile error."""
    started = time.monotonic()
    _say("fetching Go modules")
    status, errors = _run_go([go, "mod", "download"], module, doing="fetching Go modules")
    if status != 0:
        msg = (
            f"the Go modules could not be fetched:\n{errors}\n"
            "Check the network and the module proxy (`go env GOPROXY` shows which one is used), "
            f"or set {ASSETS_VARIABLE} to a directory that has the binaries already."
        )
        raise BuildError(msg)
    _say(f"      modules: {time.monotonic() - started:.0f} s")


def _run_go(command: Sequence[str], module: GoModule, *, doing: str) -> tuple[int, str]:
    """Run Go in the module's directory; return its exit status and the end of its error output."""
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=module.directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while True:
            try:
                _, errors = process.communicate(timeout=HEARTBEAT_SECONDS)
            except subprocess.TimeoutExpired:
                _say(f"      still {doing}, {time.monotonic() - started:.0f} s")
            else:
                return process.returncode, "\n".join(errors.splitlines()[-30:])


def _find_go() -> str:
    go = shutil.which("go")
    if go is None:
        msg = (
            "Go is needed to build the control plane, and there is no `go` on PATH: install Go, "
            f"or set {ASSETS_VARIABLE} to a directory that has the binaries already"
        )
        raise BuildError(msg)
    return go


def _is_current(directory: Path, name: str, stamp: str) -> bool:
    file = _stamp_file(directory, name)
    return is_executable(directory / name) and file.is_file() and file.read_text() == stamp


def _stamp_file(directory: Path, name: str) -> Path:
    return directory / f".{name}.stamp"


@contextmanager
def _only_one_build(directory: Path) -> Iterator[None]:
    """Hold a lock file, so that a second build waits and then finds everything done."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.envtest.build", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--print-dir",
        action="store_true",
        help="print the directory of the binaries and do nothing",
    )
    options = parser.parse_args(arguments)
    directory = find_directory()
    if options.print_dir:
        print(directory)
        return 0
    try:
        if directory == BUILD_DIRECTORY:
            build(directory)
        else:
            Binaries.in_directory(directory)
            _say(f"using the binaries in {directory} ({ASSETS_VARIABLE}); nothing to build")
    except (BuildError, BinariesMissingError) as error:
        _say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
