"""Reading of files whose names come from a person or from a configuration.

Whatever a name stands for, reading it ends soon and takes bounded memory: a device or the terminal
is refused, and so is a pipe unless the caller reads it once only, and then for what is written to
it within a time. A file that is too large is refused as well.

Every refusal is an OSError whose `strerror` says what is wrong and what to do, like those of the
operating system, so callers need one handler for both.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SILENCE_SECONDS: Final = 10.0
"""Maximum wait for the next bytes of a pipe."""
PIPE_SECONDS: Final = 60.0
"""Maximum time until the end of a pipe: a writer may go on for ever."""
PIPE_BYTES: Final = 256 << 20
"""Maximum bytes of a pipe: unlike a file's, its size is not known before."""
SMALL_BYTES: Final = 4 << 20
"""Maximum bytes of configurations, certificates, tokens and the like: four times what an object of
the API can hold."""
_CHUNK: Final = 1 << 20

_INSTEAD: Final = "write it into a file, and name that"
NO_FILE: Final = "a device or a terminal: name a file"
ONCE: Final = f"a pipe, which can be read only once: {_INSTEAD}"
SILENT: Final = (
    f"a pipe into which nothing was written for {{seconds:g}} s; start its writer, or {_INSTEAD}"
)
ENDLESS: Final = f"a pipe whose writer did not end within {{seconds:g}} s: {_INSTEAD}"
TOO_LARGE: Final = "more than {size}, which is too large"


def open_file(path: str | Path, *, pipes: bool = False) -> BinaryIO:
    """Open a file for reading.

    With `pipes` also a pipe, such as one of a shell's process substitution; leave it out if the
    file is read again.

    Raises:
        OSError: it cannot be opened, or is refused.
    """
    # A blocking open waits until a pipe has a writer; without O_NOCTTY a terminal may take over.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise _refusal(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if stat.S_ISFIFO(mode):
            if not pipes:
                raise _refusal(errno.ESPIPE, ONCE, path)
            return io.BufferedReader(_Pipe(descriptor, path), _CHUNK)
        if not stat.S_ISREG(mode):
            raise _refusal(errno.ENODEV, NO_FILE, path)
        return io.BufferedReader(_File(descriptor, path))
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: str | Path, limit: int = SMALL_BYTES, *, pipes: bool = False) -> bytes:
    """Return the content of a file of at most `limit` bytes; see `open_file`.

    Raises:
        OSError: it cannot be read, or is refused.
    """
    with open_file(path, pipes=pipes) as file:
        return read_stream(file, limit, path)


def read_stream(file: BinaryIO, limit: int = SMALL_BYTES, path: str | Path = "") -> bytes:
    """Return the rest of an open file, such as standard input, of at most `limit` bytes.

    Raises:
        OSError: it cannot be read, or is too large.
    """
    pieces, size = [], 0
    while piece := file.read(min(_CHUNK, limit + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _refusal(errno.EFBIG, TOO_LARGE.format(size=_size(limit)), path)
    return b"".join(pieces)


def reason(error: Exception) -> str:
    """Return the text of an error, of an OSError without number and path.

    >>> reason(OSError(2, "No such file or directory", "x")), reason(ValueError("no YAML"))
    ('No such file or directory', 'no YAML')
    """
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


class _File(io.FileIO):
    """A file; one that has nothing to read yet is none, such as /proc/kmsg."""

    def __init__(self, descriptor: int, path: str | Path) -> None:
        super().__init__(descriptor, "rb")
        self._path = path

    def readinto(self, buffer: WriteableBuffer) -> int:
        count: int | None = super().readinto(buffer)
        if count is None:
            raise _refusal(errno.EAGAIN, NO_FILE, self._path)
        return count

    def readall(self) -> bytes:
        data: bytes | None = super().readall()
        if data is None:
            raise _refusal(errno.EAGAIN, NO_FILE, self._path)
        return data


class _Pipe(io.RawIOBase):
    """A pipe that is read for a limited time."""

    def __init__(self, descriptor: int, path: str | Path) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._path = path
        self._end = time.monotonic() + PIPE_SECONDS
        self._bytes = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise _refusal(errno.EIO, ENDLESS.format(seconds=PIPE_SECONDS), self._path)
        # Without a writer this waits for one: a pipe ends when the last writer has closed it.
        if not self._poll.poll(min(SILENCE_SECONDS, left) * 1000):
            raise _refusal(errno.EIO, SILENT.format(seconds=SILENCE_SECONDS), self._path)
        count = os.readv(self._descriptor, [buffer])
        self._bytes += count
        if self._bytes > PIPE_BYTES:
            text = f"{TOO_LARGE.format(size=_size(PIPE_BYTES))} for a pipe: {_INSTEAD}"
            raise _refusal(errno.EFBIG, text, self._path)
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)


def _refusal(number: int, text: str, path: str | Path) -> OSError:
    return OSError(number, text, str(path))


def _size(limit: int) -> str:
    for bits, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if limit >= 1 << bits and not limit % (1 << bits):
            return f"{limit >> bits} {unit}"
    return f"{limit} bytes"
