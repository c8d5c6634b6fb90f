"""The file: what was written is read, and everything else is refused with a text that says why."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from scheduler.recording import reading
from scheduler.recording.format import API_VERSION, BundleError, Header
from scheduler.recording.reading import is_bundle, open_bundle
from scheduler.recording.writing import BundleWriter


def written(version: str = API_VERSION, lines: int = 3) -> bytes:
    writer = BundleWriter(Header(api_version=version, kind="Bundle", version="9.9"))
    pieces = [writer.begin()]
    pieces += [
        writer.add("object", {"number": number, "pad": "x" * 200}) for number in range(lines)
    ]
    return b"".join((*pieces, writer.end()))


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[bytes], str]:
    """Return a function that reads a file and returns the error."""

    def read(data: bytes) -> str:
        path = tmp_path / "file"
        path.write_bytes(data)
        with pytest.raises(BundleError) as caught:
            open_bundle(path)
        text = str(caught.value)
        assert text.startswith(str(path))
        return text.removeprefix(f"{path}: ")

    return read


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_bytes(written())
    bundle = open_bundle(path)
    assert (bundle.header.version, bundle.manifest.end) == ("9.9", "complete")
    assert bundle.manifest.sections == {"bundle": 1, "object": 3}
    numbers = [msgspec.json.decode(line.data)["number"] for line in bundle.lines()]
    assert numbers == [0, 1, 2]
    assert is_bundle(path)


def test_other_tools_can_read_it() -> None:
    lines = gzip.decompress(written()).splitlines()
    assert [msgspec.json.decode(line)["section"] for line in lines] == [
        "bundle",
        *["object"] * 3,
        "manifest",
    ]


def test_a_file_that_was_cut_anywhere_is_refused(refused: Callable[[bytes], str]) -> None:
    whole = written(lines=40)
    for size in range(20, len(whole), 7):
        assert "cut" in refused(whole[:size])


def test_a_file_without_a_manifest_was_cut(refused: Callable[[bytes], str]) -> None:
    lines = gzip.decompress(written()).splitlines(keepends=True)[:-1]
    assert "ends after line 4, without a manifest" in refused(gzip.compress(b"".join(lines)))


def test_a_changed_content_is_refused(refused: Callable[[bytes], str]) -> None:
    changed = gzip.decompress(written()).replace(b'"number":1', b'"number":7')
    assert "does not match the checksum" in refused(gzip.compress(changed))


def test_a_damaged_byte_is_noticed(refused: Callable[[bytes], str]) -> None:
    data = bytearray(written(lines=40))
    data[len(data) // 2] ^= 0xFF
    assert refused(bytes(data))


def test_another_version_is_refused(refused: Callable[[bytes], str]) -> None:
    text = refused(written("bundle.kubestow.io/v7"))
    assert "version 'bundle.kubestow.io/v7'" in text
    assert f"reads {API_VERSION}" in text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not compressed by gzip"),
        (b"kind: Pod\n", "not compressed by gzip"),
        (gzip.compress(b"", mtime=0), "empty"),
        (gzip.compress(b"{}\n", mtime=0), "not a bundle of kubestow"),
        (gzip.compress(b"[" * 5000 + b"\n", mtime=0), "not a bundle of kubestow"),
        (gzip.compress(b'{"section":"pod","data":1}\n', mtime=0), "its first line has no header"),
        (gzip.compress(b"\xff\xfe\n", mtime=0), "not a bundle of kubestow"),
        (b"\x1f\x8bnothing", "damaged"),
    ],
)
def test_what_is_no_bundle_is_refused(
    refused: Callable[[bytes], str], data: bytes, text: str
) -> None:
    assert text in refused(data)


def test_something_after_the_end_is_refused(refused: Callable[[bytes], str]) -> None:
    assert "something follows the end" in refused(written() + b"more")


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="nowhere: No such file"):
        open_bundle(tmp_path / "nowhere")
    assert not is_bundle(tmp_path / "nowhere")


def test_a_zip_bomb_is_refused_before_it_unfolds(
    refused: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 3 << 20)
    first = gzip.decompress(written()).splitlines(keepends=True)[0]
    bomb = gzip.compress(first + (b'{"section":"x","data":"' + b"a" * 1000 + b'"}\n') * 50_000)
    assert len(bomb) < 1 << 20
    assert "after decompression: refused" in refused(bomb)


def test_a_line_without_end_is_refused(
    refused: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1 << 20)
    assert "a line of more than" in refused(gzip.compress(b"a" * (8 << 20)))
    assert "a line of more than" in refused(gzip.compress(b"a" * (3 << 20) + b"\n"))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["s" * 1_000_000], "a section whose name is longer than 64"),
        ([f"s{number}" for number in range(70)], "more than 64 sections"),
    ],
)
def test_names_of_sections_take_little_memory(
    refused: Callable[[bytes], str], names: list[str], text: str
) -> None:
    writer = BundleWriter(Header(api_version=API_VERSION, kind="Bundle", version="9.9"))
    pieces = [writer.begin(), *(writer.add(name, {}) for name in names), writer.end()]
    assert text in refused(b"".join(pieces))
