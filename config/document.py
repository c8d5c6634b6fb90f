"""YAML or JSON text as a tree that remembers lines.

Keeps what a plain `yaml.safe_load` loses: repeated keys and line numbers. Scalars follow YAML 1.1
as the Kubernetes tools read it: without timestamps (no setting is one) and without numbers to the
base of 60 (`1:30`), but with numbers such as `1e3`, which JSON allows. It knows no schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from scheduler.framework.field_errors import FieldErrors, child, item
from scheduler.framework.status import ConfigurationError
from scheduler.sanitizing.lookalikes import advice

MAX_CHARACTERS: Final = 1 << 20
"""A ConfigMap cannot hold more than 1 MiB."""

MAX_NODES: Final = 100_000
"""Limits the expansion of aliases; a real file has a few hundred values."""

_SECOND_DOCUMENT: Final = "but found another document"
"""PyYAML's text for it."""

EXPONENT: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+\Z")
"""Numbers for JSON and Kubernetes' tools, but text for PyYAML."""

BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
"""Text for Kubernetes' tools, but numbers for PyYAML."""

Plain = Any
"""JSON data: None, bool, int, float, str, list, dict."""


@dataclass(slots=True)
class Scalar:
    """A leaf."""

    value: bool | int | float | str | None


@dataclass(slots=True)
class Items:
    """A list."""

    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Entries:
    """A mapping with string keys."""

    nodes: dict[str, Node] = field(default_factory=dict)


Node = Scalar | Items | Entries


@dataclass(slots=True)
class Document:
    """The whole text. `places` has the origin of each path, such as `line 12`."""

    root: Entries
    places: dict[str, str]
    errors: FieldErrors

    def find(self, path: tuple[str | int, ...]) -> Node | None:
        """Return the node at a path of keys and indexes, or None."""
        node: Node | None = self.root
        for step in path:
            if isinstance(node, Entries) and isinstance(step, str):
                node = node.nodes.get(step)
            elif isinstance(node, Items) and isinstance(step, int) and step < len(node.nodes):
                node = node.nodes[step]
            else:
                return None
        return node

    def override(self, path: str, value: Plain) -> None:
        """Set a value from the command line over the file; `path` is dotted."""
        *parents, last = path.split(".")
        node = self.root
        for key in parents:
            inner = node.nodes.get(key)
            if not isinstance(inner, Entries):
                if isinstance(inner, Items) or (inner is not None and inner.value is not None):
                    return  # decoding reports that this is no mapping
                inner = node.nodes[key] = Entries()
            node = inner
        node.nodes[last] = from_plain(value)
        self.places[path] = "set on the command line"


def parse(text: str) -> Document:
    """Read one document.

    Raises:
        ConfigurationError: the text cannot be read at all. Repeated keys and the like become
            errors of the document instead.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConfigurationError(f"the configuration is longer than {MAX_CHARACTERS} characters")
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        # JSON allows tabs between tokens and forbids them inside strings; YAML chokes on them.
        text = text.replace("\t", " ")
    try:
        root = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(_syntax(error, text)) from error
    except RecursionError as error:
        raise ConfigurationError("the configuration is nested too deeply") from error
    places: dict[str, str] = {}
    reader = _Reader(places)
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        raise ConfigurationError("the configuration is empty")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError(
            "the configuration must be a mapping that starts with apiVersion and kind"
        )
    return Document(reader.mapping(root, ""), places, reader.errors)


def plain(node: Node) -> Plain:
    """Convert a tree to JSON data."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(inner) for inner in node.nodes]
    return {key: plain(inner) for key, inner in node.nodes.items()}


def from_plain(value: Plain) -> Node:
    """Convert JSON data to a tree."""
    if isinstance(value, Mapping):
        return Entries({str(key): from_plain(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return Items([from_plain(inner) for inner in value])
    return Scalar(value)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 scalars as described in the module's docstring."""


_Loader.yaml_implicit_resolvers = {
    first: [
        ("tag:yaml.org,2002:str", BASE_60),
        *((tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"),
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+0123456789"))

_SCALARS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str")
)
_MERGE: Final = "tag:yaml.org,2002:merge"


class _Reader:
    """Converter of PyYAML's nodes to ours, which records places and mistakes."""

    def __init__(self, places: dict[str, str]) -> None:
        self.errors = FieldErrors(places)
        self._places = places
        self._open: set[int] = set()
        self._count = 0
        self._constructor = _Loader("")

    def node(self, node: yaml.Node, path: str) -> Node:
        """Convert any node."""
        self._count += 1
        if self._count > MAX_NODES:
            raise ConfigurationError(f"the configuration has more than {MAX_NODES} values")
        if id(node) in self._open:
            self.errors.add(path, "an alias may not contain itself")
            return Scalar(None)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, path)
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def mapping(self, node: yaml.MappingNode, path: str) -> Entries:
        """Convert a mapping; a repeated key is a mistake, and its first value counts."""
        entries = Entries()
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                self._places[child(path, "<<")] = _line(key_node)
                merged.extend(self._merged(value_node, child(path, "<<")))
                continue
            self._entry(entries, key_node, value_node, path)
        for key_node, value_node in merged:
            # Keys written out win over merged ones.
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value not in entries.nodes:
                self._entry(entries, key_node, value_node, path)
        return entries

    def _entry(
        self, entries: Entries, key_node: yaml.Node, value_node: yaml.Node, path: str
    ) -> None:
        if not isinstance(key_node, yaml.ScalarNode):
            hint = "; render a template first" if isinstance(key_node, yaml.MappingNode) else ""
            self.errors.add(path, f"a key must be text ({_line(key_node)}){hint}")
            return
        key = str(key_node.value)
        below = child(path, key)
        if key in entries.nodes:
            self.errors.add(below, f'key "{key}" already set, and again at {_line(key_node)}')
            return
        self._places[below] = _line(key_node)
        entries.nodes[key] = self.node(value_node, below)

    def _merged(self, node: yaml.Node, path: str) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if isinstance(source, yaml.MappingNode) and id(source) not in self._open:
                yield from source.value
            else:
                self.errors.add(path, '"<<" must name a mapping')

    def _sequence(self, node: yaml.SequenceNode, path: str) -> Items:
        items = Items()
        for index, value in enumerate(node.value):
            below = item(path, index)
            self._places[below] = _line(value)
            items.nodes.append(self.node(value, below))
        return items

    def _scalar(self, node: yaml.Node, path: str) -> Scalar:
        if node.tag not in _SCALARS:
            self.errors.add(path, f'YAML tag "{node.tag}" is not supported here')
            return Scalar(None)
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError) as error:
            self.errors.add(path, f'"{node.value}" is not what its YAML tag says: {error}')
            return Scalar(None)
        if isinstance(value, float) and not math.isfinite(value):
            self.errors.add(path, f"{node.value} is not a finite number")
            return Scalar(None)
        return Scalar(value)


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _syntax(error: yaml.YAMLError | ValueError, text: str) -> str:
    what, where = str(error), ""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = str(error.problem or error.context)
    if what == _SECOND_DOCUMENT:
        return (
            f"a second YAML document begins{where}: give each configuration a file of its own, or "
            "put all profiles into one"
        )
    hint = advice(text.encode())
    return f"the configuration is not valid YAML: {what}{where}" + (hint and f"; {hint}")
