"""Record the demos and write docs/casts: `python -m devtools.casts [NAME ...]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from devtools.casts.recording import record
from devtools.casts.svg import render

FOLDER: Final = Path(__file__).parents[2] / "docs" / "casts"
MAX_BYTES: Final = 150_000
"""A page with all casts stays below half a megabyte."""


class Cast(NamedTuple):
    """A command to record."""

    arguments: tuple[str, ...]
    """Of kubestow."""
    columns: int
    lines: int
    """More than it prints: what scrolls out of a cast cannot be read."""
    seconds: float
    """Between two pictures."""


CASTS: Final = {
    "demo": Cast(("demo",), 104, 44, 1.25),
    "gpu-queue": Cast(("demo", "gpu-queue"), 90, 40, 0.5),
    "zone-stockout": Cast(("demo", "zone-stockout"), 136, 40, 0.5),
}


def command_line(name: str) -> str:
    """Return the command of a cast, as a user types it."""
    return " ".join(["kubestow", *CASTS[name].arguments])


def main(names: list[str]) -> None:
    """Write the casts with these names; without any, all of them."""
    for name in names or CASTS:
        cast = CASTS[name]
        command = [sys.executable, "-m", "scheduler", *cast.arguments]
        frames = record(command, cast.columns, cast.lines, cast.seconds)
        picture = render(command_line(name), frames, cast.columns)
        size = len(picture.encode())
        if size > MAX_BYTES:
            sys.exit(f"{name}: {size} bytes are more than {MAX_BYTES}: take fewer pictures")
        (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")
        print(f"{FOLDER / name}.svg: {len(frames)} pictures, {size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
