"""The objects in the files of a dump: YAML or JSON, one or many, Lists, streams, exports.

Every form becomes a value of JSON, and a value becomes objects; YAML is read again for the lines of
its objects if there is a fault. Objects are not decoded here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler.client.kinds import Kinds
from scheduler.client.resources import RESOURCES, Resource
from scheduler.offline import openb
from scheduler.offline.dump_files import DumpFile, dump_files
from scheduler.offline.editing import WorldError
from scheduler.offline.faults import MAX_FAULTS, Faults
from scheduler.offline.json_values import JsonError, values
from scheduler.sanitizing.lookalikes import advice
from scheduler.sanitizing.yaml_limits import Loader, YamlLimitError, check_limits, located

MAX_YAML_BYTES: Final = 256 << 20
"""Of one file; values of YAML need 50 times the memory of their text."""
_MAX_LISTS: Final = 2
"""Lists in lists, as `jq -s` makes them of several outputs of kubectl."""

_MAX_NAMES: Final = 10
_EXPECTED: Final = "give Kubernetes objects, one, several in a row, or a List"
_KAI_OBJECTS: Final = "rawObjects"
"""Where the objects are in a snapshot of the KAI scheduler."""

_NO_DUMPS: Final = {
    ("v1", "Status"): "this is an error of an API server: dump it again",
    ("meta.k8s.io/v1", "Table"): "this is a table: let kubectl print -o json",
}
"""What to do about kinds that stand for other objects, or for none."""
_SOURCES: Final = {
    "kustomization.yaml": "a kustomization: render it first, with kubectl kustomize",
    "kustomization.yml": "a kustomization: render it first, with kubectl kustomize",
    "Chart.yaml": "the chart of Helm: render it first, with helm template",
}
"""Files beside which manifests stand that are not what a cluster would have."""

_BUILT_IN: Final = Kinds()
_EXPORTED: Final = {
    **{each.plural: each for each in RESOURCES.values()},
    "pvs": RESOURCES["persistentvolumes"],
    "pvcs": RESOURCES["persistentvolumeclaims"],
}
"""Resources by their names in exports, in lower case."""

_Text = bytes | msgspec.Raw
"""Of a value of JSON."""
_Place = Callable[[], str]
_Where = Callable[[int, _Text], str]
"""Returns the place of an object, by its index in its list and its text."""


class Metadata(msgspec.Struct, rename="camel"):
    """The part of the metadata that identifies an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Head(msgspec.Struct, rename="camel"):
    """The part of an object that identifies it."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = msgspec.field(default_factory=Metadata)


class _Document(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    """None in an empty list of the Go types."""


_BEGINNING: Final = re.compile(
    rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]+)"\s*,\s*"kind"\s*:\s*"([^"\\]+)"\s*,'
).match
"""The beginning of an object as kubectl writes it, so that it need not be read to its end twice."""

_OPENS_JSON: Final = re.compile(rb"\s*[{\[]").match

decode_head: Final = msgspec.json.Decoder(Head).decode
_decode_export: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw] | None).decode
_documents: Final = msgspec.json.Decoder(_Document | list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class DumpedObject:
    """One object of a file, and where it is there."""

    resource: Resource[Any]
    data: bytes | msgspec.Raw
    where: _Place


@dataclass(frozen=True, slots=True)
class Other:
    """One object that is not of a built-in kind: a plugin may read it."""

    api_version: str
    kind: str
    data: bytes | msgspec.Raw
    where: _Place


@dataclass(slots=True)
class Found:
    """Objects of files, and what is to be said about these files."""

    sources: list[DumpedObject] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    """The built-in resources of lists of one kind, even of empty ones."""
    mixed: bool = False
    """Whether there is a list of many kinds, which does not say which ones were asked for."""
    notes: list[str] = field(default_factory=list)
    without: list[Path] = field(default_factory=list)
    """Files of folders that have no objects."""


def read_objects(paths: Iterable[str | Path]) -> Found:
    """Read files, and the files in folders.

    Raises:
        WorldError: files cannot be read; the text names each, and the line.
    """
    found, faults = Found(), Faults()
    for file in dump_files(paths, faults, found.notes):
        try:
            _FileReader(found, file, faults).read()
        except WorldError as error:
            faults.note(str(error))
    faults.report()
    return found


class _FileReader:
    """Adds what is in one file to what was found."""

    def __init__(self, found: Found, file: DumpFile, faults: Faults) -> None:
        self._found, self._file, self._faults = found, file, faults
        #: Lists and objects of this file.
        self._count = 0
        #: Values that are no objects: their texts and places.
        self._strays: list[tuple[str, _Place]] = []
        self._stray_count = 0

    def read(self) -> None:
        """Read the file. Raises WorldError if it cannot be read at all, else notes its faults."""
        file, before = self._file, self._faults.count
        if not file.data or file.data.isspace():
            raise WorldError(
                f"{file.path}: the file is empty: the command that was to write it may have failed"
            )
        if (advice := _SOURCES.get(file.path.name)) is not None:
            raise WorldError(f"{file.path}: {advice}")
        if file.named and ".csv" in file.path.suffixes:
            self._read_node_list()
        elif not self._read_json():
            self._read_yaml()
        if self._count or file.named:
            for text, where in self._strays:
                self._faults.note(text, where)
            self._faults.count += self._stray_count - len(self._strays)
        if not self._count and before == self._faults.count:
            if file.named:
                raise WorldError(f"{file.path}: the file has no Kubernetes object")
            self._found.without.append(file.path)

    def _read_node_list(self) -> None:
        """Read a node list in the openb format."""
        path = self._file.path
        if openb.is_pod_list(path):
            raise WorldError(f"{path}: pods that arrive are a workload: give --workload {path}")
        for row, each in enumerate(openb.read_nodes(path), 2):
            text = msgspec.json.encode(openb.node(each))
            self._add_object(text, "", "", partial("{}:{}".format, path, row), 0)

    def _read_json(self) -> bool:
        """Read JSON; return False for another text."""
        file = self._file
        if not _OPENS_JSON(file.data):
            return False
        try:
            found = list(values(file.data, _documents))
        except JsonError as error:
            if ".json" not in file.path.suffixes and not error.repeated_key:
                return False
            # As YAML a large file would take minutes, only to be refused there as well.
            where = f"{file.path}:{error.line}" if error.line else str(file.path)
            raise WorldError(f"{where}: {error}") from error
        for text, document in found:
            self._add(document, text, partial(_json_place, file))
        return True

    def _read_yaml(self) -> None:
        path, data = self._file.path, self._file.data
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
            text = f"neither YAML nor JSON: {problem}" + (self._advice and f"; {self._advice}")
            raise WorldError(f"{where}: {text}") from error
        lines = _YamlLines(path, data)
        for index, document in enumerate(documents):
            if document is not None:
                self._add_yaml(document, partial(lines.place, index))

    def _add_yaml(self, document: Any, where: _Where) -> None:
        if not isinstance(document, dict | list):
            problem = f"expected a Kubernetes object, got {document!r:.60}"
            self._note_stray(problem, partial(where, 0, b""))
            return
        try:
            text = msgspec.json.encode(document)
            self._add(_documents.decode(text), text, where)
        except (TypeError, ValueError) as error:
            self._faults.note(str(error), partial(where, 0, b""))

    def _add(self, document: Any, text: _Text, where: _Where, depth: int = 0) -> None:
        """Add what a value of JSON has: an object, a list of objects, or an export."""
        if isinstance(document, list):
            self._found.mixed = True
            for index, each in enumerate(document):
                self._add_object(each, "", "", partial(where, index, each), depth)
            return
        version, kind = document.api_version, document.kind
        if document.items is msgspec.UNSET:
            if kind or not self._add_export(text, where):
                self._add_object(text, version, kind, partial(where, 0, text), depth)
            return
        self._count += 1
        if of_one_kind := kind.removesuffix("List"):
            kind = of_one_kind
            self._note_listed(_BUILT_IN.of(version, kind))
        else:
            version, kind, self._found.mixed = "", "", True
        for index, each in enumerate(document.items or ()):
            self._add_object(each, version, kind, partial(where, index, each), depth)

    def _note_listed(self, resource: Resource[Any] | None) -> None:
        if resource is not None:
            self._found.listed.add(resource.plural)

    def _add_object(self, text: _Text, version: str, kind: str, place: _Place, depth: int) -> None:
        """Add an object; `version` and `kind` are those of its list, if that has some."""
        begins = _BEGINNING(text)
        if begins is not None:
            version, kind = begins[1].decode(), begins[2].decode()
        else:
            try:
                head = decode_head(text)
            except msgspec.DecodeError as error:
                self._note_stray(f"expected a Kubernetes object: {error}", place)
                return
            # The API leaves these out in the items of a PodList.
            version, kind = (head.api_version, head.kind) if head.kind else (version, kind)
        if (version, kind) in _NO_DUMPS:
            self._note_stray(_NO_DUMPS[version, kind], place)
        elif not kind:
            self._note_stray(f"{version or 'no apiVersion'} no kind: {_EXPECTED}", place)
        elif not (kind.endswith("List") and self._add_list(text, place, depth)):
            self._count += 1
            resource = _BUILT_IN.of(version, kind)
            if resource is not None:
                self._found.sources.append(DumpedObject(resource, text, place))
            else:
                self._found.others.append(Other(version, kind, text, place))

    def _note_stray(self, problem: str, place: _Place) -> None:
        self._stray_count += 1
        if self._stray_count <= MAX_FAULTS:
            self._strays.append((problem + (self._advice and f"; {self._advice}"), place))

    @cached_property
    def _advice(self) -> str:
        return advice(self._file.data)

    def _add_list(self, text: _Text, place: _Place, depth: int) -> bool:
        """Add the objects of a list in a list; return False if it is none."""
        document = _documents.decode(text)
        if document.items is msgspec.UNSET:
            return False
        if depth == _MAX_LISTS:
            self._note_stray(f"more than {_MAX_LISTS} lists in lists", place)
        else:
            self._add(document, text, lambda _index, _text: place(), depth + 1)
        return True

    def _add_export(self, text: _Text, where: _Where) -> bool:
        """Add the objects of an export of a simulator: lists by the names of their resources.

        Return False if it is none.
        """
        found, unused = False, []
        try:
            export = _decode_export(text)
            if _KAI_OBJECTS in export:
                export = _decode_export(export[_KAI_OBJECTS])
        except msgspec.DecodeError:
            return False
        for name, listed in export.items():
            resource = _EXPORTED.get(name.lower())
            try:
                objects = () if resource is None else _decode_list(listed) or ()
            except msgspec.DecodeError:
                resource = None
            if resource is None:
                unused.append(name)
                continue
            found = True
            self._count += 1
            self._note_listed(resource)
            for index, each in enumerate(objects):
                place = partial(where, index, each)
                self._add_object(each, resource.api_version, resource.kind, place, _MAX_LISTS)
        if found and unused:
            names = ", ".join(each[:60] for each in unused[:_MAX_NAMES])
            self._found.notes.append(f"{self._file.path}: not used: {names}")
        return found


def _json_place(file: DumpFile, _item: int, text: _Text) -> str:
    """Return where an object of a file of JSON is."""
    before = max(0, file.data.find(bytes(text)))
    return f"{file.path}:{file.data.count(10, 0, before) + 1}"


class _YamlLines:
    """The lines of the objects of a YAML file, for which it is read again: only errors need it."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path, self._data = path, data

    def place(self, document: int, item: int, _text: _Text) -> str:
        """Return where an object of a document is."""
        lines = self._lines[document] if document < len(self._lines) else []
        return f"{self._path}:{lines[item]}" if item < len(lines) else str(self._path)

    @cached_property
    def _lines(self) -> list[list[int]]:
        return [_lines_of(each) for each in yaml.compose_all(self._data, Loader=Loader)]


def _lines_of(node: yaml.Node) -> list[int]:
    """Return the line of each object of a document, from 1."""
    if isinstance(node, yaml.SequenceNode):  # Of objects.
        return [each.start_mark.line + 1 for each in node.value]
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            return [each.start_mark.line + 1 for each in value.value]
    return [node.start_mark.line + 1]
