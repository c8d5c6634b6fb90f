"""The wall clock of one process, to be set forward or back while it runs."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("wall_clock.c")
NANOSECONDS: Final = 1_000_000_000


def build(directory: Path) -> Path:
    """Compile the library that is preloaded; needs a C compiler.

    Raises:
        RuntimeError: the compiler refused, or there is none.
    """
    library = directory / "wall_clock.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        msg = "no C compiler (cc) to build the shifted wall clock with: install gcc"
        raise RuntimeError(msg) from error
    if done.returncode != 0:
        msg = f"{' '.join(command)}: {done.stderr}"
        raise RuntimeError(msg)
    return library


class WallClock:
    """The offset of one process's wall clock, in a file that the process maps."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        self.set(0.0)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that give a process this clock."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_OFFSET_FILE": str(self._file)}

    def set(self, seconds: float) -> None:
        """Shift the clock by so many seconds from the true time, at once."""
        mode = "r+b" if self._file.exists() else "w+b"
        with self._file.open(mode) as file:
            file.write(struct.pack("=q", int(seconds * NANOSECONDS)))
