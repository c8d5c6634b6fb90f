"""Build information: kubestow's own version, and the Kubernetes release it behaves like.

Clients compare versions of components with each other, so the Kubernetes release comes first
wherever upstream states one, with ours as build metadata: `v1.37.0+kubestow.0.1.0`.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Final

DISTRIBUTION: Final = "kubestow"
COMPATIBLE_MAJOR: Final = "1"
COMPATIBLE_MINOR: Final = "37"
UNINSTALLED: Final = "0.0.0"
"""Shown when the package runs from a source tree that was never installed."""


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """Versions and platform, for the fields of Kubernetes' version.Info."""

    version: str
    major: str
    minor: str
    python: str
    #: As Go writes it: `linux/x86_64`.
    platform: str

    @property
    def git_version(self) -> str:
        """The Kubernetes release, with our version as build metadata of the semantic version."""
        return f"v{self.major}.{self.minor}.0+{DISTRIBUTION}.{self.version}"

    def version_info(self) -> dict[str, str]:
        """Return the body of `/version`, with the fields of Kubernetes' version.Info."""
        return {
            "major": self.major,
            "minor": self.minor,
            "gitVersion": self.git_version,
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "",
            "goVersion": "",
            "compiler": platform.python_implementation().lower(),
            "platform": self.platform,
        }


@cache
def build_info() -> BuildInfo:
    """Read the version of the installed distribution, once for all worlds of a simulation."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        version = UNINSTALLED
    return BuildInfo(
        version=version,
        major=COMPATIBLE_MAJOR,
        minor=COMPATIBLE_MINOR,
        python=platform.python_version(),
        platform=f"{platform.system().lower()}/{platform.machine()}",
    )
