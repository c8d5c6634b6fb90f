"""The addresses of schedulers that this user runs on this machine: a file of each.

`kubestow run` outside of a cluster writes one, `kubestow explain` and the like read it. Only the
user can read or write it, so whoever reads it can trust what it says: where the process listens,
and the hash of its certificate. Without it a command cannot tell a scheduler of this machine from
whatever else a Lease names, and sends nothing.

The folder is `kubestow` in the session's own (`XDG_RUNTIME_DIR`), else in the user's state
(`XDG_STATE_HOME`, `~/.local/state`). The files of processes that have ended are removed by the next
one that writes there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from scheduler.client.structs import complete
from scheduler.files import read_file

MAX_BYTES: Final = 16 << 10
MAX_FILES: Final = 100
_SUFFIX: Final = ".json"


class LocalAddress(msgspec.Struct, frozen=True, rename="camel"):
    """The content of a file."""

    pid: int
    #: URL of the API server of the process.
    api_server: str
    #: `namespace/name` of the Lease for which it is a candidate; empty: it leads without one.
    lease: str
    #: An address of this machine, and the port of the HTTPS endpoints.
    host: str
    port: int
    #: Hash of the serving certificate (DER), in lower-case hexadecimal digits.
    certificate_sha256: str = msgspec.field(name="certificateSHA256")
    #: The names of its profiles.
    scheduler_names: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The URL of the HTTPS endpoints."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


complete(LocalAddress)


def folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the files, which need not exist; None for a user without a home.

    >>> str(folder({"XDG_RUNTIME_DIR": "/run/user/1000"}))
    '/run/user/1000/kubestow'
    """
    session = environ.get("XDG_RUNTIME_DIR", "")
    if session.startswith("/"):
        return Path(session) / "kubestow"
    state = environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        # Not Path.expanduser, which raises where the user has no home directory.
        state = os.path.expanduser("~/.local/state")  # noqa: PTH111
    return Path(state) / "kubestow" if state.startswith("/") else None


class AddressFile:
    """The file of this process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / f"{os.getpid()}{_SUFFIX}"

    def write(self, address: LocalAddress) -> None:
        """Write the file anew. Raises OSError, also for a folder that others can write to."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(self._directory):
            raise PermissionError(1, "others can write to the folder", str(self._directory))
        for path in _files(self._directory):
            if not _is_running(path.stem):
                path.unlink(missing_ok=True)
        # A reader sees the former content or this one.
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(address))
        new.replace(self._path)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        with suppress(OSError):
            self._path.unlink()


def addresses(directory: Path | None) -> Iterator[LocalAddress]:
    """Yield what the running schedulers of this user have written; nothing that others could."""
    if directory is None or not _is_private(directory):
        return
    for path in _files(directory):
        try:
            if _is_running(path.stem) and _is_private(path):
                yield msgspec.json.decode(read_file(path, MAX_BYTES), type=LocalAddress)
        except (OSError, ValueError):
            # It has ended meanwhile, or another version wrote it.
            continue


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob(f"*{_SUFFIX}"))[:MAX_FILES]
    except OSError:
        return []


def _is_private(path: Path) -> bool:
    """Whether it is this user's, and nobody else can write to it or put another in its place."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_running(pid: str) -> bool:
    if not (pid.isascii() and pid.isdecimal()):
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's
    return True
