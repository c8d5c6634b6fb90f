"""The file of a run: JSON, gzipped if its name ends in `.gz`. Bounded, and strict about types."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

import msgspec

from scheduler.files import open_file, reason
from scheduler.history.run import RecordedRun

MAX_RUN_BYTES: Final = 2 << 30
"""Of a file after decompression."""


class RunError(Exception):
    """A file that is no usable run; the text names the file, what is wrong, and what to do."""


def load_run(path: str) -> RecordedRun:
    """Read a run.

    Raises:
        RunError: the file cannot be read, or is none.
    """
    try:
        run = msgspec.json.decode(_content(Path(path)), type=RecordedRun)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RunError(f"{path} is no run ({error}); docs/page.md describes the format") from error
    if not run.begin <= run.end:
        raise RunError(f"{path}: the run ends at {run.end}, before it begins at {run.begin}")
    return run


def _content(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            content = stream.read(MAX_RUN_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"cannot read {path}: {reason(error)}") from error
    if len(content) > MAX_RUN_BYTES:
        raise RunError(f"{path} has more than {MAX_RUN_BYTES >> 30} GiB, after decompression")
    return content
