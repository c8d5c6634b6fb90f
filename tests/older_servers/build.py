"""Builds older API servers into `.envtest/older`: `python -m tests.older_servers.build`.

Each folder of `modules` is one release, with the kube-apiserver that its go.mod requires. A built
one stands beside etcd and kubectl of the control plane, so that its folder is a complete set for
`KUBEBUILDER_ASSETS` as well. Another release:

    cp -r modules/v1.33 modules/v1.XX     # replace both version numbers in go.mod, and `godebug`
    cd modules/v1.XX && rm go.sum && go mod tidy

Only the standard library is used, because this runs before the project is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devtools.control_plane.binaries import (
    REPOSITORY,
    Binaries,
    BinariesMissingError,
    find_directory,
)
from devtools.control_plane.build import PACKAGES, GoModule, build, build_flags, kubernetes_version
from devtools.go_programs import BuildError, say

MODULES: Final = Path(__file__).resolve().parent / "modules"
BUILD_DIRECTORY: Final = REPOSITORY / ".envtest" / "older"
API_SERVER: Final = "kube-apiserver"

SHARED: Final = ("etcd", "kubectl")
"""Commands of the control plane that each older API server is used with."""


def releases() -> tuple[str, ...]:
    """Return the releases that can be built, such as v1.33."""
    return tuple(sorted(file.parent.name for file in MODULES.glob("*/go.mod")))


def module_of(release: str) -> GoModule:
    """Return the module of a release."""
    return GoModule(directory=MODULES / release, packages={API_SERVER: PACKAGES[API_SERVER]})


def version_of(release: str) -> str:
    """Return the version that is built for a release, such as v1.33.13."""
    return kubernetes_version((MODULES / release / "go.mod").read_text())


def find(release: str) -> Binaries:
    """Return the built set of a release.

    Raises:
        BinariesMissingError: it is not built, or from another go.mod.
    """
    directory = BUILD_DIRECTORY / release
    (program,) = module_of(release).programs(build_flags(version_of(release)))
    if not program.is_current(directory):
        msg = (
            f"no kube-apiserver {version_of(release)} in {directory}: "
            "run `make older-servers-build` once (it needs Go and takes some minutes)"
        )
        raise BinariesMissingError(msg)
    return Binaries.in_directory(directory)


def build_release(release: str) -> None:
    """Build the API server of a release where it is missing or out of date.

    Raises:
        BuildError: Go is missing, the modules cannot be fetched, or the package does not compile.
        BinariesMissingError: the control plane is not built.
    """
    control_plane = Binaries.in_directory(find_directory())
    directory = BUILD_DIRECTORY / release
    build(directory, module_of(release))
    for name in SHARED:
        link = directory / name
        link.unlink(missing_ok=True)
        link.symlink_to(control_plane.require(name).resolve())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.older_servers.build", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("releases", nargs="*", help="what to build; all by default")
    chosen = parser.parse_args(arguments).releases or releases()
    try:
        if unknown := set(chosen) - set(releases()):
            raise BuildError(
                f"no folder {', '.join(sorted(unknown))} in {MODULES}; "
                f"there are {', '.join(releases())}"
            )
        for release in chosen:
            build_release(release)
    except (BuildError, BinariesMissingError) as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
