"""Binaries of the control plane: their location, and the error when one is missing.

`KUBEBUILDER_ASSETS`, the variable that Kubernetes' own test kits use, comes first; then the
directory that `devtools.control_plane.build` fills. Nothing here builds or downloads: a test that
silently compiles Kubernetes for four minutes looks like a test that hangs.

Only the standard library is used, because `build` runs before the project is installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devtools.go_programs import is_executable

REPOSITORY: Final = Path(__file__).resolve().parents[2]
BUILD_DIRECTORY: Final = REPOSITORY / ".envtest" / "bin"
ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"

REQUIRED: Final = ("etcd", "kube-apiserver", "kubectl")
OPTIONAL: Final = ("kube-scheduler", "kube-controller-manager")
"""Upstream's prebuilt asset archives hold the three required ones only, so these may be missing."""


class BinariesMissingError(RuntimeError):
    """A required binary is missing. The text names its path and how to build it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The executables of one Kubernetes release. `None` means that this set has no such command."""

    directory: Path
    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    kube_scheduler: Path | None
    kube_controller_manager: Path | None

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Binaries:
        """Return the set in `KUBEBUILDER_ASSETS` if that is set, else the one built here.

        The two are never mixed: components of different releases would fail in ways that look like
        bugs.

        Raises:
            BinariesMissingError: a required command is not there.
        """
        return cls.in_directory(find_directory(environ))

    @classmethod
    def in_directory(cls, directory: Path) -> Binaries:
        """Return the set in `directory`.

        Raises:
            BinariesMissingError: a required command is not there.
        """
        missing = [name for name in REQUIRED if not is_executable(directory / name)]
        if missing:
            raise BinariesMissingError(_missing_text(directory, missing))
        scheduler, controller_manager = (
            directory / name if is_executable(directory / name) else None for name in OPTIONAL
        )
        return cls(
            directory=directory,
            etcd=directory / "etcd",
            kube_apiserver=directory / "kube-apiserver",
            kubectl=directory / "kubectl",
            kube_scheduler=scheduler,
            kube_controller_manager=controller_manager,
        )

    def require(self, name: str) -> Path:
        """Return the path of the command called `name`.

        Raises:
            BinariesMissingError: this set does not have it.
            ValueError: there is no such command in any set.
        """
        if name not in REQUIRED + OPTIONAL:
            msg = (
                f"unknown command {name!r}: the control plane has {', '.join(REQUIRED + OPTIONAL)}"
            )
            raise ValueError(msg)
        path = self.directory / name
        if not is_executable(path):
            raise BinariesMissingError(_missing_text(self.directory, [name]))
        return path


def find_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory in which the binaries are expected; it need not exist."""
    assets = environ.get(ASSETS_VARIABLE, "")
    return Path(assets) if assets else BUILD_DIRECTORY


def _missing_text(directory: Path, missing: list[str]) -> str:
    names = ", ".join(missing)
    if directory == BUILD_DIRECTORY:
        return (
            f"no {names} in {directory}: run `make envtest-build` once (it needs Go and takes some "
            f"minutes), or set {ASSETS_VARIABLE} to a directory that has {', '.join(REQUIRED)}"
        )
    return (
        f"no {names} in {directory}, where {ASSETS_VARIABLE} points: "
        "correct that variable or unset it"
    )
