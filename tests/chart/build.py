"""Builds Helm into `.helm/bin`: `python -m tests.chart.build`.

Its version is that of the go.mod here. Only the standard library is used, because this runs before
the project is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from devtools import go_programs
from devtools.go_programs import BuildError, Program, say

BUILD_DIRECTORY: Final = Path(__file__).resolve().parents[2] / ".helm" / "bin"

HELM: Final = Program("helm", "helm.sh/helm/v3/cmd/helm", Path(__file__).resolve().parent)


def main() -> int:
    """Build Helm where it is missing or out of date; return the exit status."""
    try:
        go_programs.build([HELM], BUILD_DIRECTORY, what="the chart's tests")
    except BuildError as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
