"""The files by which commands find the schedulers of their user."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import msgspec
import pytest

from scheduler.client.local_address import AddressFile, LocalAddress, addresses, folder

ADDRESS: Final = LocalAddress(os.getpid(), "https://a", "n/l", "127.0.0.1", 10259, "ab" * 32)


def write(directory: Path, address: LocalAddress = ADDRESS) -> AddressFile:
    file = AddressFile(directory)
    file.write(address)
    return file


def test_what_was_written_last_is_read_until_it_is_removed(tmp_path: Path) -> None:
    directory = tmp_path / "kubestow"
    file, later = write(directory), msgspec.structs.replace(ADDRESS, port=1)
    assert list(addresses(directory)) == [ADDRESS]
    file.write(later)
    assert list(addresses(directory)) == [later]
    file.remove()
    file.remove()
    assert list(directory.iterdir()) == []


def test_only_the_user_can_read_folder_and_file(tmp_path: Path) -> None:
    directory = tmp_path / "kubestow"
    write(directory)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (directory, *directory.iterdir())]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_nothing_is_written_or_read_where_others_can_write(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "kubestow"
    file = write(directory)
    directory.chmod(mode)
    assert list(addresses(directory)) == []
    with pytest.raises(PermissionError, match="others can write to the folder"):
        file.write(ADDRESS)


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert folder({}) is None
    assert list(addresses(None)) == []


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere")
    (tmp_path / "kubestow").symlink_to(tmp_path / "elsewhere")
    assert list(addresses(tmp_path / "kubestow")) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1.json", b"{"),
        ("1.json", b"[" * 20_000),
        ("x.json", msgspec.json.encode(ADDRESS)),
        ("99999999999999999999.json", msgspec.json.encode(ADDRESS)),
        # No process has it: the greatest is 2^22.
        ("4194305.json", msgspec.json.encode(ADDRESS)),
    ],
)
def test_a_file_of_no_running_scheduler_is_passed_over(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert list(addresses(tmp_path)) == []


def test_files_of_processes_that_have_ended_are_removed(tmp_path: Path) -> None:
    ended = tmp_path / "4194305.json"
    ended.touch()
    write(tmp_path)
    assert not ended.exists()


def test_without_a_folder_there_is_nothing(tmp_path: Path) -> None:
    assert list(addresses(tmp_path / "absent")) == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_RUNTIME_DIR": "/run/u", "XDG_STATE_HOME": "/s"}, "/run/u/kubestow"),
        ({"XDG_RUNTIME_DIR": "relative", "XDG_STATE_HOME": "/s"}, "/s/kubestow"),
        ({}, "~/.local/state/kubestow"),
    ],
)
def test_the_folder_is_of_the_session_or_of_the_user(
    environ: dict[str, str], expected: str
) -> None:
    assert folder(environ) == Path(expected).expanduser()
