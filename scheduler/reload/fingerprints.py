"""Detection of changed files by fingerprints that are compared every few seconds.

Polling detects changes that notifications miss or need a dependency for: the symbolic link that the
kubelet swaps when it updates a ConfigMap, network file systems, editors that rename files. It takes
one `stat` for a file and one per Python file for a plugin folder, and reads nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from scheduler.service.options import RunOptions

Fingerprint = tuple[object, ...]
"""Compared for equality only."""

VIRTUAL_ENVIRONMENT: Final = "pyvenv.cfg"
"""The file that marks the folder of a virtual environment (PEP 405)."""

Seen = tuple[Fingerprint, Fingerprint]
"""The fingerprints of the configuration file and of the plugin folders."""


def look(options: RunOptions) -> Seen:
    """Return the fingerprints of all files of a run's configuration."""
    return of_file(options.config_file), of_folders(options.plugin_dirs)


def of_file(path: str) -> Fingerprint:
    """Return a value that changes with the file or with the target of a link on its path."""
    if not path:
        return ()
    try:
        found = Path(path).stat()
        return (
            os.path.realpath(path),
            found.st_dev,
            found.st_ino,
            found.st_mtime_ns,
            found.st_size,
        )
    except OSError as error:
        return path, error.errno


def of_folders(folders: Iterable[str]) -> Fingerprint:
    """Return a value that changes with any Python file in the folders."""
    return tuple(entry for folder in folders for entry in _of_folder(folder))


def _of_folder(folder: str) -> Iterator[Fingerprint]:
    # `Path.is_dir` raises where a folder on the way may not be searched.
    yield folder, os.path.realpath(folder), os.path.isdir(folder)  # noqa: PTH112
    for parent, below, names in os.walk(folder):
        # Hidden folders hold versions of a ConfigMap, to which links outside them point.
        below[:] = sorted(name for name in below if name[0] != "." and name != "__pycache__")
        if VIRTUAL_ENVIRONMENT in names:
            below.clear()  # Thousands of files, none of which defines a plugin.
            continue
        for name in sorted(names):
            if name.endswith(".py"):
                path = f"{parent}/{name}"
                yield path, of_file(path)
