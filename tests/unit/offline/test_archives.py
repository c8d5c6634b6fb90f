"""Archives of dumps: read without unpacking them, within limits, and refused with a reason."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from scheduler import offline
from scheduler.offline import archives, dump_files

NODE: Final = json.dumps(offline.node("n1")).encode()
RUNNING: Final = json.dumps(offline.pod("a", cpu=3, node="n1")).encode()
LONG: Final = "shop" * 40
FILES: Final = {
    "dump/nodes.json": NODE,
    f"dump/{LONG}/{LONG}/pods.json": RUNNING,
    "dump/shop/a/logs.txt": b"{" * 3000,
    "dump/packed.json.gz": gzip.compress(json.dumps(offline.node("n2")).encode()),
    "dump/.hidden/x.json": b"{",
    "__MACOSX/dump/._nodes.json": b"{",
}

Files = Mapping[str, bytes]


def tarred(files: Files, form: int = tarfile.PAX_FORMAT, mode: str = "w") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return written.getvalue()


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return written.getvalue()


def free(path: Path) -> int:
    with offline.World.load(path) as world:
        return world.how_many_fit(offline.pod("p", cpu=1)).total


def refusal(path: Path) -> str:
    with pytest.raises(offline.WorldError) as caught:
        offline.Objects.read(path)
    return str(caught.value)


@pytest.mark.parametrize(
    "packed",
    [
        tarred,
        lambda files: tarred(files, tarfile.GNU_FORMAT),
        lambda files: tarred(files, mode="w:gz"),
        zipped,
        lambda files: zipped(files, zipfile.ZIP_STORED),
        lambda files: zipped({name.replace("/", "\\"): data for name, data in files.items()}),
        lambda files: zipped({f"../../{name}": data for name, data in files.items()}),
        lambda files: tarred({f"/{name}": data for name, data in files.items()}),
        lambda files: tarred({f"./../{name}": data for name, data in files.items()}),
    ],
    ids=["tar", "gnu", "tgz", "zip", "stored", "windows", "above", "absolute", "parent"],
)
def test_the_files_of_an_archive_are_read(tmp_path: Path, packed: Callable[[Files], bytes]) -> None:
    path = tmp_path / "dump"
    path.write_bytes(packed(FILES))
    before = set(tmp_path.rglob("*"))
    assert free(path) == 5
    assert set(tmp_path.rglob("*")) == before


def test_a_file_of_an_archive_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "dump.tgz"
    path.write_bytes(tarred({"a/b.yaml": b"kind: Node\nkind: Node\n"}, mode="w:gz"))
    assert f"{path}/a/b.yaml:2: the key " in refusal(path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    private = tmp_path / "private.json"
    private.write_text("{secret")
    link = tarfile.TarInfo("pods.json")
    link.type, link.linkname = tarfile.SYMTYPE, str(private)
    path = tmp_path / "dump.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(link)
        info = tarfile.TarInfo("nodes.json")
        info.size = len(NODE)
        archive.addfile(info, io.BytesIO(NODE))
    entry = zipfile.ZipInfo("pods.json")
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "dump.zip", "w") as zip_archive:
        zip_archive.writestr(entry, str(private))
        zip_archive.writestr("nodes.json", NODE)
    for each in (path, tmp_path / "dump.zip"):
        with offline.World.load(each) as world:
            assert f"links are not read here: {each}/pods.json" in world.notes


def test_archives_in_a_folder_are_noted(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_bytes(NODE)
    (tmp_path / "more.tar.gz").write_bytes(tarred(FILES, mode="w:gz"))
    with offline.World.load(tmp_path) as world:
        assert f"archives are not read here: {tmp_path}/more.tar.gz" in world.notes


@pytest.mark.parametrize("packed", [zipped, tarred])
def test_archives_in_an_archive_are_noted(tmp_path: Path, packed: Callable[[Files], bytes]) -> None:
    path = tmp_path / "dump"
    path.write_bytes(packed({"a/more.tar.gz": b"x", "nodes.json": NODE}))
    with offline.World.load(path) as world:
        assert f"archives are not read here: {path}/a/more.tar.gz" in world.notes


def encrypted() -> bytes:
    data = bytearray(zipped({"a.json": NODE}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def damaged() -> bytes:
    data = bytearray(zipped({"a.json": NODE}, zipfile.ZIP_STORED))
    data[data.index(b'"n1"') + 1] ^= 1
    return bytes(data)


def with_size(size: bytes) -> bytes:
    data = bytearray(tarred({"a.json": NODE}, tarfile.GNU_FORMAT))
    data[124:136] = size
    data[148:156] = f"{sum(data[:148]) + 256 + sum(data[156:512]):06o}\0 ".encode()
    return bytes(data)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (tarred({"a.json": NODE})[:600], "ends within a file"),
        (tarred({"a.json": NODE})[:1024] + b"x" * 512, "does not fit its checksum"),
        (with_size(b"\x80" + b"\xff" * 11), "ends within a file"),
        (with_size(b"-00000000001"), "impossible size"),
        (tarred({"x" * (2 << 20): b""}, tarfile.GNU_FORMAT), "impossible size"),
        (tarred({"logs.txt": b"x"}), "the archive has no file ending in"),
        (zipped({}), "the archive has no file ending in"),
        (zipped({"a.json": NODE})[:-30], "its list of files is missing"),
        (zipped({"a.json": NODE}, zipfile.ZIP_LZMA), "a.json is compressed by method 14: pack it"),
        (encrypted(), "a.json is encrypted: pack it"),
        (damaged(), "the checksum of a file differs"),
        (lzma.compress(NODE), "compressed by xz: decompress it first"),
        (zipped({"a.json": b""}), "a.json: the file is empty"),
        (zipped({"a.tar.gz": b""}), "the archive has no file ending in"),
    ],
)
def test_an_archive_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "dump"
    path.write_bytes(content)
    assert text in refusal(path)


def test_zip_in_its_large_form_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.json": NODE}))
    end = data.rindex(b"PK\x05\x06")
    for place in (end + 10, end + 16):
        changed = data.copy()
        changed[place : place + 2] = b"\xff\xff"
        changed[end + 18 : end + 20] = (
            b"\xff\xff" if place == end + 16 else changed[end + 18 : end + 20]
        )
        (tmp_path / "dump.zip").write_bytes(changed)
        assert "is not read: pack it as tar.gz" in refusal(tmp_path / "dump.zip")


def test_zip_is_no_stream(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(zipped({"a.json": NODE}),))
    writer.start()
    assert "zip in a pipe: write it into a file" in refusal(path)
    writer.join()


def test_tar_is_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(tarred(FILES, mode="w:gz"),))
    writer.start()
    assert len(offline.Objects.read(path)) == 3
    writer.join()


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bomb",
    [
        lambda size: zipped({"a.json": bytes(size)}),
        lambda size: tarred({"a.json": bytes(size)}, mode="w:gz"),
        lambda size: tarred({"a.txt": bytes(size)}, mode="w:gz"),
        lambda size: zipped({"a.json.gz": gzip.compress(bytes(size))}),
    ],
    ids=["zip", "tgz", "not read", "gzip in zip"],
)
def test_a_bomb_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bomb: Callable[[int], bytes]
) -> None:
    monkeypatch.setattr(dump_files, "RATIO_FROM", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(bomb(2 << 20))
    assert "compressed more than 200 times" in refusal(path)


def overlapping(count: int, data: bytes) -> bytes:
    """Return a zip archive whose list names one file many times."""
    packed = zlib.compress(data, wbits=-zlib.MAX_WBITS)
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, 0, 0, 0, 6, 0) + b"a.json"
    entry = struct.pack(
        "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, zlib.crc32(data), len(packed), len(data),
        6, 0, 0, 0, 0, 0, 0,
    ) + b"a.json"  # fmt: skip
    head = local + packed
    end = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(entry) * count, len(head), 0
    )
    return head + entry * count + end


@pytest.mark.parametrize("packed", [zipped, tarred])
def test_all_files_of_an_archive_together_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: Callable[[Files], bytes]
) -> None:
    path = tmp_path / "dump"
    path.write_bytes(packed({"a.json": NODE, "b.json": NODE}))
    monkeypatch.setattr(dump_files, "MAX_BYTES", 2 * len(NODE))
    offline.Objects.read(path)
    monkeypatch.setattr(dump_files, "MAX_BYTES", 2 * len(NODE) - 1)
    assert "more than 0 GiB, after decompression" in refusal(path)


def test_files_that_overlap_count_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dump.zip"
    path.write_bytes(overlapping(50, NODE))
    assert len(offline.Objects.read(path)) == 50
    monkeypatch.setattr(dump_files, "MAX_BYTES", 10 * len(NODE))
    assert "more than 0 GiB, after decompression" in refusal(path)


def test_the_number_of_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dump"
    path.write_bytes(tarred({f"{index}.json": NODE for index in range(3)}))
    monkeypatch.setattr(dump_files, "MAX_FILES", 2)
    assert "the archive has more than 2 files" in refusal(path)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    path.write_bytes(tarred({f"{index}.txt": b"" for index in range(3)}))
    assert "more than 2 files in the archive" in refusal(path)


def test_files_that_are_not_read_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dump"
    path.write_bytes(tarred({"logs.txt": bytes(10_000), "nodes.json": NODE}, mode="w:gz"))
    monkeypatch.setattr(dump_files, "MAX_PASSED", 5_000)
    assert "after decompression: refused; pack only the files with objects" in refusal(path)
