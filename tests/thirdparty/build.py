"""Builds third-party controllers into `.thirdparty/bin`: `python -m tests.thirdparty.build`.

Each folder of `modules` is one program: its name, and a go.mod with one `tool` line that names its
main package. They are separate because they need different releases of the Kubernetes libraries.

    cd modules && mkdir NAME && cd NAME
    go mod init kubestow.test/thirdparty/NAME && go get -tool PACKAGE@VERSION

`alertrules` and `dashboard` are our own programs, around packages of Prometheus and of Grafana;
their main.go lies beside their go.mod.

Only the standard library is used, because this runs before the project is installed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devtools import go_programs
from devtools.control_plane.build import CONTROL_PLANE, kubernetes_version
from devtools.go_programs import FLAGS, STRIPPED, BuildError, Program, say

MODULES: Final = Path(__file__).resolve().parent / "modules"
BUILD_DIRECTORY: Final = Path(__file__).resolve().parents[2] / ".thirdparty" / "bin"


def programs() -> dict[str, Program]:
    """Return every program by its name."""
    return {file.parent.name: _program(file) for file in sorted(MODULES.glob("*/go.mod"))}


def build(names: Sequence[str] = (), directory: Path = BUILD_DIRECTORY) -> None:
    """Build the programs called `names`, by default all, where they are missing or out of date.

    Raises:
        BuildError: a name is unknown, Go is missing, the modules cannot be fetched, or a package
            does not compile.
    """
    known = programs()
    unknown = [name for name in names if name not in known]
    if unknown:
        msg = f"no folder {', '.join(unknown)} in {MODULES}; there are {', '.join(known)}"
        raise BuildError(msg)
    chosen = [known[name] for name in names or known]
    go_programs.build(chosen, directory, what="third parties")


def _program(file: Path) -> Program:
    text = file.read_text()
    tools = re.findall(r"^tool (\S+)$", text, re.MULTILINE)
    if len(tools) != 1:
        msg = f"{file} must have exactly one line `tool PACKAGE`; it has {len(tools)}"
        raise BuildError(msg)
    release = kubernetes_version((CONTROL_PLANE.directory / "go.mod").read_text())
    if f"k8s.io/client-go {release.replace('v1', 'v0', 1)} " in text:
        # Its libraries are those of the control plane, which are compiled already with these flags.
        return Program(file.parent.name, tools[0], file.parent, (*FLAGS, *STRIPPED))
    return Program(file.parent.name, tools[0], file.parent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.thirdparty.build", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="programs to build; all by default")
    options = parser.parse_args(arguments)
    try:
        build(options.names)
    except BuildError as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
