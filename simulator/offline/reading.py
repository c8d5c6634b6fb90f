"""Objects from files: what `kubectl get nodes,pods,pvc,... -A -o yaml` prints, and manifests.

YAML or JSON, one or many objects, Lists, gzip, many files, folders of them. A world decodes the
objects anew, so that several worlds can be built of one reading.

Files may come from anywhere: what is read is bounded in bytes, in what compression and aliases make
of few of them, and in depth; a link in a folder leads to nothing outside of the folder.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgspec
import yaml

from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.bundle.reading import GZIP_MAGIC
from scheduler.client.kinds import Kinds
from scheduler.client.resources import PODS, Resource
from scheduler.files import open_file, reason
from scheduler.text.yaml_limits import Loader, YamlLimitError, check_limits, located
from simulator.offline.editing import (
    FINISHED,
    WorldError,
    refuse_negative_amounts,
    resource_of,
)
from simulator.offline.faults import Faults
from simulator.offline.local_storage import keeps_data_on_its_node
from simulator.offline.virtual_time import no_collections

SUFFIXES: Final = (".yaml", ".yml", ".json", ".gz")
"""Files that are read of a folder."""

MAX_BYTES: Final = 2 << 30
"""Of all files together, after decompression: 150,000 pods as kubectl prints them."""
MAX_YAML_BYTES: Final = 256 << 20
"""Of one file; values of YAML need 50 times the memory of their text."""
MAX_RATIO: Final = 200
"""Compression of a file of more than `RATIO_FROM`; objects that are alike reach some 50."""
RATIO_FROM: Final = 64 << 20
MAX_FILES: Final = 10_000
"""In one folder."""
_CHUNK: Final = 1 << 20
_EXAMPLES: Final = 5
"""Objects that a note names."""

_BUILT_IN: Final = Kinds()

_ORDER: Final = {"nodes": 0, "pods": 2}
"""The order of resources in a world; those not listed have 1."""


class Filled(Protocol):
    """The part of a world that `Objects.fill` uses."""

    local_storage: set[str]
    """The keys of pods whose data are on the disk of their node."""

    @property
    def kinds(self) -> Kinds:
        """The kinds that the plugins of the world read."""

    def complete(self, resource: Resource[Any], item: Any) -> None:
        """Fill in what an API server would."""

    def put_item(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises QuantityError."""


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Document(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_BEGINNING: Final = re.compile(
    rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]+)"\s*,\s*"kind"\s*:\s*"([^"\\]+)"\s*,'
).match
"""The beginning of an object as kubectl writes it, so that it need not be read to its end twice."""

_PLACE: Final = re.compile(r"\(byte (\d+)\)").search
"""Where msgspec's text of a syntax error says the place."""

_decode_head: Final = msgspec.json.Decoder(_Head).decode
_decode_document: Final = msgspec.json.Decoder(_Document).decode


@dataclass(frozen=True, slots=True)
class _Source:
    """One object of a file, and where it is there."""

    resource: Resource[Any]
    data: bytes | msgspec.Raw
    where: Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Other:
    """One object that is not of a built-in kind: a plugin may read it."""

    api_version: str
    kind: str
    data: bytes | msgspec.Raw
    where: Callable[[], str]


@dataclass(slots=True)
class Objects:
    """Objects that were read."""

    _sources: list[_Source] = field(default_factory=list)
    _others: list[_Other] = field(default_factory=list)
    #: Bytes of the files that were read, after decompression.
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._sources) + len(self._others)

    @classmethod
    def read(cls, *paths: str | Path) -> Objects:
        """Read files, and the files in folders in the order of their names.

        Raises:
            WorldError: files cannot be read; the text names each, and the line.
        """
        found, faults = cls(), Faults()
        with no_collections():
            for path in _files(paths):
                try:
                    found._read_file(path, faults)
                except WorldError as error:
                    faults.note(str(error))
        faults.report()
        return found

    def fill(self, world: Filled) -> list[str]:
        """Put the objects into a world: nodes first, pending pods last, by their age.

        Returns a line for each kind that is skipped, because nothing in this world reads it, and
        for objects that replaced another one of the same name.

        Raises:
            WorldError: objects are malformed; the text names file, line and object of each.
        """
        pending: list[tuple[tuple[str, str], _Source, Pod]] = []
        skipped, putting = Counter[str](), _Putting(world)
        sources = [*self._sources, *self._read_by_plugins(world.kinds, skipped)]
        for source in sorted(sources, key=lambda each: _ORDER.get(each.resource.plural, 1)):
            item = putting.decoded(source)
            if item is None or (source.resource is PODS and item.status.phase in FINISHED):
                continue
            if source.resource is not PODS or item.spec.node_name:
                # At once: it then shares most of its content with others, and the rest is freed.
                putting.put(source, item)
            else:
                order = (item.metadata.creation_timestamp or "", item.key)
                pending.append((order, source, item))
        for _, source, item in sorted(pending, key=lambda each: each[0]):
            putting.put(source, item)
        putting.faults.report()
        notes = [
            f"{kind}: {count} skipped, since scheduling reads no such objects"
            for kind, count in skipped.items()
        ]
        return [*notes, *putting.replacements()]

    def _read_by_plugins(self, kinds: Kinds, skipped: Counter[str]) -> Iterator[_Source]:
        """Yield the objects of custom resources; count the others by kind."""
        for each in self._others:
            resource = kinds.of(each.api_version, each.kind)
            if resource is None:
                skipped[f"{each.api_version} {each.kind}"] += 1
            else:
                yield _Source(resource, each.data, each.where)

    @property
    def plurals(self) -> set[str]:
        """The resources of built-in kinds that were read."""
        return {each.resource.plural for each in self._sources}

    # -- files -----------------------------------------------------------------------------------

    def _read_file(self, path: Path, faults: Faults) -> None:
        data = content(path, MAX_BYTES - self._bytes, pipes=True)
        self._bytes += len(data)
        try:
            document = _decode_document(data)
        except (msgspec.DecodeError, RecursionError) as error:
            if ".json" in path.suffixes and data.lstrip()[:1] in (b"{", b"["):
                # As YAML a large file would take minutes, only to be refused there as well.
                raise WorldError(f"{path}{_json_line(data, error)}: {error}") from error
            self._read_yaml(path, data, faults)
            return
        for each in (msgspec.Raw(data),) if document.items is None else document.items:
            place = partial(_json_place, path, data, each)
            try:
                self._add_json(each, document, place)
            except WorldError as error:
                faults.note(str(error), place)

    def _add_json(self, raw: msgspec.Raw, document: _Document, where: Callable[[], str]) -> None:
        begins = _BEGINNING(raw)
        if begins is not None:
            version, kind = begins[1].decode(), begins[2].decode()
            self._add({"apiVersion": version, "kind": kind}, raw, where)
            return
        try:
            head = _decode_head(raw)
        except msgspec.DecodeError as error:
            raise WorldError(str(error)) from error
        version, kind = head.api_version, head.kind
        if not kind and document.kind != "List":
            # The API leaves these out in the items of a PodList.
            version, kind = document.api_version, document.kind.removesuffix("List")
        self._add({"apiVersion": version, "kind": kind}, raw, where)

    def _read_yaml(self, path: Path, data: bytes, faults: Faults) -> None:
        if len(data) > MAX_YAML_BYTES:
            raise WorldError(
                f"{path}: more than {MAX_YAML_BYTES >> 20} MiB of YAML; dump it with -o json"
            )
        try:
            check_limits(data)
            documents = list(yaml.load_all(data, Loader=Loader))
        except YamlLimitError as error:
            raise WorldError(f"{path}:{error.line}: {error}") from error
        except (yaml.YAMLError, ValueError) as error:
            line, problem = located(error)
            where = f"{path}:{line}" if line else str(path)
            raise WorldError(f"{where}: neither YAML nor JSON: {problem}") from error
        lines = _YamlLines(path, data)
        for index, document in enumerate(documents):
            for item, obj in enumerate(_items(document)):
                place = partial(lines.place, index, item)
                try:
                    self._add_yaml(obj, place)
                except WorldError as error:
                    faults.note(str(error), place)

    def _add_yaml(self, obj: Any, where: Callable[[], str]) -> None:
        if not isinstance(obj, dict):
            raise WorldError(f"expected a Kubernetes object, got {obj!r:.60}")
        self._add(obj, _json(obj), where)

    def _add(
        self, head: Mapping[str, Any], data: bytes | msgspec.Raw, where: Callable[[], str]
    ) -> None:
        try:
            self._sources.append(_Source(resource_of(head, _BUILT_IN), data, where))
        except WorldError:
            if not head.get("kind"):
                raise
            self._others.append(_Other(str(head.get("apiVersion")), str(head["kind"]), data, where))


def _json_line(data: bytes, error: Exception) -> str:
    """Return the line of a syntax error as msgspec locates it, `:12`; the last without a place."""
    found = _PLACE(str(error))
    end = len(data.rstrip()) if found is None else int(found[1])
    return f":{data.count(10, 0, end) + 1}"


class _Putting:
    """Puts objects into a world, and notes what is wrong with them."""

    def __init__(self, world: Filled) -> None:
        self._world = world
        self.faults = Faults()
        #: What was put last of each resource and key.
        self._known: dict[tuple[str, str], _Source] = {}
        self._replaced = 0
        self._examples: list[str] = []

    def decoded(self, source: _Source) -> Any | None:
        """Return the typed object, or None for a fault."""
        try:
            item = source.resource.decode(source.data)
            self._world.complete(source.resource, item)
            refuse_negative_amounts(source.resource, item)
        except ValueError as error:
            self._fault(source, error)
            return None
        if source.resource is PODS and keeps_data_on_its_node(source.data):
            self._world.local_storage.add(item.key)
        return item

    def put(self, source: _Source, item: Any) -> None:
        """Add or replace an object; one whose amounts cannot be read is a fault."""
        try:
            self._world.put_item(source.resource, item)
        except QuantityError as error:
            self._fault(source, error)
            return
        key = (source.resource.plural, source.resource.key(item))
        before = self._known.get(key)
        self._known[key] = source
        if before is not None:
            self._replaced += 1
            if len(self._examples) < _EXAMPLES:
                here, there = source.where(), before.where()
                self._examples.append(f"{_named(source)} ({here} replaced {there})")

    def replacements(self) -> list[str]:
        """Return the note about the objects that replaced others."""
        more = self._replaced - len(self._examples)
        names = ", ".join(self._examples) + (f" and {more} more" if more else "")
        return [f"objects of the same name: {names}"] if names else []

    def _fault(self, source: _Source, error: ValueError) -> None:
        self.faults.note(f"{_named(source)}: {error}", source.where)


def _named(source: _Source) -> str:
    try:
        metadata = _decode_head(source.data).metadata
    except msgspec.DecodeError:
        return source.resource.kind
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return f"{source.resource.kind} {name or '?'}"


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    for each in paths:
        path = Path(each)
        if not path.is_dir():
            yield path
            continue
        yield from _files_in(path)


def _files_in(folder: Path) -> list[Path]:
    inside = sorted(each for each in folder.iterdir() if each.suffix in SUFFIXES and each.is_file())
    if not inside:
        raise WorldError(f"{folder}: the folder has no file ending in {', '.join(SUFFIXES)}")
    if len(inside) > MAX_FILES:
        raise WorldError(f"{folder}: the folder has more than {MAX_FILES} files")
    for each in inside:
        # A mounted ConfigMap has links, all of which stay inside.
        if each.is_symlink() and not each.resolve().is_relative_to(folder.resolve()):
            raise WorldError(
                f"{each}: a link to a file outside of the folder; name the file itself"
            )
    return inside


def content(path: Path, limit: int, *, pipes: bool = False) -> bytes:
    """Return what is in a file, which may be compressed by gzip, at most `limit` bytes.

    With `pipes` also what is in a pipe (`scheduler.files`).

    Raises:
        WorldError: it cannot be read, or is refused.
    """
    try:
        with open_file(path, pipes=pipes) as file:
            head = file.read(len(GZIP_MAGIC))
            if head == GZIP_MAGIC:
                return _joined(path, _inflated(path, file), limit)
            return _joined(path, chain((head,), iter(partial(file.read, _CHUNK), b"")), limit)
    except (OSError, zlib.error) as error:
        raise WorldError(f"{path}: {reason(error)}") from error


def _joined(path: Path, pieces: Iterable[bytes], limit: int) -> bytes:
    found, size = [], 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > limit:
            raise WorldError(
                f"{path}: more than {MAX_BYTES >> 30} GiB, after decompression and with the files "
                "before it: refused"
            )
    return b"".join(found)


def _inflated(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a gzip file whose magic number was read; members may follow another."""
    packed, total, data = len(GZIP_MAGIC), 0, GZIP_MAGIC
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    while chunk := file.read(_CHUNK):
        packed += len(chunk)
        data += chunk
        while data:
            if inflater.eof:
                inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
            piece = inflater.decompress(data, _CHUNK)
            total += len(piece)
            if total > max(RATIO_FROM, packed * MAX_RATIO):
                raise WorldError(
                    f"{path}: compressed more than {MAX_RATIO} times, as no dump is: refused; "
                    "decompress it first"
                )
            yield piece
            data = inflater.unused_data.lstrip(b"\0") if inflater.eof else inflater.unconsumed_tail
    if not inflater.eof:
        raise WorldError(f"{path}: the file is cut: its compressed data has no end")


def _items(document: Any) -> Iterator[Any]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("items"), list):
        yield document
        return
    kind = str(document.get("kind", "List"))
    head = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for each in document["items"]:
        complete = not isinstance(each, dict) or each.get("kind") or kind == "List"
        yield each if complete else {**head, **each}


def _json(obj: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(obj)
    except (TypeError, ValueError) as error:
        raise WorldError(str(error)) from error


def _json_place(path: Path, data: bytes, raw: msgspec.Raw) -> str:
    """Return where an object of a file of JSON is."""
    return f"{path}:{data.count(10, 0, max(0, data.find(bytes(raw)))) + 1}"


class _YamlLines:
    """The lines of the objects of a YAML file, for which it is read again: only errors need it."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path, self._data = path, data

    def place(self, document: int, item: int) -> str:
        """Return where an object of a document is."""
        lines = self._lines[document] if document < len(self._lines) else []
        return f"{self._path}:{lines[item]}" if item < len(lines) else str(self._path)

    @cached_property
    def _lines(self) -> list[list[int]]:
        return [_lines_of(each) for each in yaml.compose_all(self._data, Loader=Loader)]


def _lines_of(node: yaml.Node) -> list[int]:
    """Return the line of each object of a document, from 1."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            return [each.start_mark.line + 1 for each in value.value]
    return [node.start_mark.line + 1]
