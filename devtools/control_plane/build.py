"""Builds the real control plane into `.envtest/bin`: `python -m devtools.control_plane.build`.

The versions come from `go.mod` beside this file; `build` builds other modules that require
Kubernetes, too (`GoModule`). How programs are built is in `devtools.go_programs`.

Only the standard library is used, because this runs before the project is installed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devtools import go_programs
from devtools.control_plane.binaries import (
    ASSETS_VARIABLE,
    BUILD_DIRECTORY,
    Binaries,
    BinariesMissingError,
    find_directory,
)
from devtools.go_programs import FLAGS, BuildError, Program, say

MODULE_DIRECTORY: Final = Path(__file__).resolve().parent

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
    """Of Go; `("test", "-c")` builds the tests of the packages. Not part of the stamp."""

    own_flags: tuple[str, ...] = ()
    """In addition to those that all binaries share."""

    def programs(self, flags: tuple[str, ...]) -> list[Program]:
        """Return what is built from it with some flags."""
        return [
            Program(name, package, self.directory, (*flags, *self.own_flags), self.command)
            for name, package in self.packages.items()
        ]


CONTROL_PLANE: Final = GoModule(directory=MODULE_DIRECTORY, packages=PACKAGES)


def kubernetes_version(go_mod: str) -> str:
    """Return the Kubernetes version that the text of a go.mod requires, with its leading "v"."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b", go_mod, re.MULTILINE)
    if found is None:
        msg = (
            "go.mod does not require k8s.io/kubernetes at a release such as v1.37.2: "
            "correct its `require` lines"
        )
        raise BuildError(msg)
    return found[1]


def build_flags(version: str) -> tuple[str, ...]:
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
    return (*FLAGS, "-ldflags", " ".join(["-s", "-w", *settings]))


def build(directory: Path = BUILD_DIRECTORY, module: GoModule = CONTROL_PLANE) -> None:
    """Build every binary of `module` that is missing from `directory` or out of date.

    Raises:
        BuildError: Go is missing, the modules cannot be fetched, or a package does not compile.
    """
    version = kubernetes_version((module.directory / "go.mod").read_text())
    go_programs.build(
        module.programs(build_flags(version)),
        directory,
        what=f"Kubernetes {version}",
        remedy=f"set {ASSETS_VARIABLE} to a directory that has the binaries already",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m devtools.control_plane.build", description=__doc__.partition("\n")[0]
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
            say(f"using the binaries in {directory} ({ASSETS_VARIABLE}); nothing to build")
    except (BuildError, BinariesMissingError) as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
