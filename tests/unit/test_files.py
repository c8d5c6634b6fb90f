"""Reading of files that a person names, whatever they are: bounded in time and memory."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from scheduler import files
from scheduler.files import open_file, read_file, read_stream


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@contextmanager
def written(pipe: Path, piece: bytes, times: int) -> Iterator[None]:
    """Write to a pipe in a thread, at most until the end of the context."""

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            for _ in range(times):
                file.write(piece)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        # The writer may still wait for a reader; when this one leaves, its next write fails.
        while thread.is_alive():
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            thread.join(0.01)
            os.close(reader)


ENDLESS = 1 << 40


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2048)
    assert read_file(path, 2048) == b"x" * 2048
    with pytest.raises(OSError, match="more than 1 KiB, which is too large") as caught:
        read_file(path, 1024)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    with pytest.raises(OSError, match="more than 1000 bytes"):
        read_file(path, 1000)


@pytest.mark.parametrize("pipes", [False, True])
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
def test_a_device_is_refused(device: str, pipes: bool) -> None:
    with pytest.raises(OSError, match="a device or a terminal: name a file"):
        read_file(device, pipes=pipes)


@pytest.mark.parametrize("size", [10, -1])
def test_a_file_that_has_nothing_to_read_yet_is_refused(
    pipe: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Such as /proc/kmsg, which waits for messages; here it is a pipe that claims to be a file."""
    monkeypatch.setattr(stat, "S_ISFIFO", lambda _: False)
    monkeypatch.setattr(stat, "S_ISREG", lambda _: True)
    with pipe.open("r+b", buffering=0), open_file(pipe) as file:
        with pytest.raises(OSError, match=files.NO_FILE) as refused:
            file.read(size)
        assert refused.value.filename == str(pipe)


def test_a_folder_and_a_missing_file_are_refused_in_the_words_of_the_system(
    tmp_path: Path,
) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing")


def test_a_pipe_is_refused_at_once_where_a_file_is_read_again(pipe: Path) -> None:
    with pytest.raises(OSError, match="a pipe, which can be read only once: write it into a file"):
        read_file(pipe)


def test_a_pipe_without_a_writer_is_given_up(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SILENCE_SECONDS", 0.0)
    with pytest.raises(OSError, match="nothing was written for 0 s; start its writer, or write it"):
        read_file(pipe, pipes=True)


def test_a_pipe_is_read_to_its_end(pipe: Path) -> None:
    with written(pipe, b"x" * 1000, times=1000):
        assert len(read_file(pipe, pipes=True)) == 1_000_000
    with written(pipe, b"ab", times=1), open_file(pipe, pipes=True) as file:
        assert (file.read(1), file.read()) == (b"a", b"b")


def test_an_endless_writer_is_given_up_at_the_limit_of_the_caller(pipe: Path) -> None:
    with written(pipe, b"x" * 4096, times=ENDLESS), pytest.raises(OSError, match="more than 1 MiB"):
        read_file(pipe, 1 << 20, pipes=True)


def test_an_endless_writer_is_given_up_at_the_limit_of_pipes(
    pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_BYTES", 1 << 20)
    with (
        written(pipe, b"x" * 4096, times=ENDLESS),
        pytest.raises(OSError, match="more than 1 MiB, which is too large for a pipe: write it"),
    ):
        read_file(pipe, 1 << 30, pipes=True)


def test_a_slow_writer_is_given_up_after_a_time(
    pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_SECONDS", 0.0)
    with (
        written(pipe, b"x", times=ENDLESS),
        pytest.raises(OSError, match="a pipe whose writer did not end within 0 s: write it into"),
    ):
        read_file(pipe, pipes=True)


def test_standard_input_has_the_same_limit() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x" * 100)
    os.close(writer)
    with os.fdopen(reader, "rb") as file, pytest.raises(OSError, match="more than 10 bytes"):
        read_stream(file, 10)
