"""Builds upstream's end-to-end specs: `python -m tests.e2e.build` makes `.envtest/bin/e2e.test`.

Only the standard library is used, because this runs before the project is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from devtools.control_plane.binaries import ASSETS_VARIABLE, BUILD_DIRECTORY, find_directory
from devtools.control_plane.build import GoModule, build
from devtools.go_programs import UNOPTIMIZED, BuildError, is_executable

BINARY: Final = "e2e.test"

MODULE: Final = GoModule(
    directory=Path(__file__).resolve().parent,
    packages={BINARY: "k8s.io/kubernetes/test/e2e"},
    # Without vet, which would check every dependency and take longer than the compiler.
    command=("test", "-c", "-vet=off"),
    # The others are those of the control plane, compiled already.
    own_flags=(f"-gcflags=k8s.io/kubernetes/test/...={UNOPTIMIZED}",),
)


def main() -> int:
    """Run the command line; return the exit status."""
    directory = find_directory()
    try:
        if directory == BUILD_DIRECTORY:
            build(directory, MODULE)
        elif is_executable(directory / BINARY):
            print(f"using {directory / BINARY} ({ASSETS_VARIABLE}); nothing to build")
        else:
            msg = (
                f"no {BINARY} in {directory}, where {ASSETS_VARIABLE} points: put that of the same "
                "release there, or unset the variable to have everything built"
            )
            raise BuildError(msg)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
