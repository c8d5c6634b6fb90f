"""Objects from files: what `kubectl get nodes,pods,pvc,... -A -o yaml` prints, and manifests.

YAML or JSON, one or many objects, Lists, gzip, many files, folders of them. A world decodes the
objects anew, so that several worlds can be built of one reading.

Files may come from anywhere: what is read is bounded in bytes, in what compression and aliases make
of few of them, and in depth; a link in a folder leads to nothing outside of the folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.stored import DECIDING
from scheduler.client.kinds import Kinds
from scheduler.client.resources import PODS, Resource
from scheduler.offline.dump_objects import DumpedObject, Found, decode_head, read_objects
from scheduler.offline.editing import FINISHED
from scheduler.offline.faults import Faults
from scheduler.offline.local_storage import keeps_data_on_its_node
from scheduler.offline.virtual_time import no_collections
from scheduler.service.manifests import Manifests

_EXAMPLES: Final = 5
"""Objects or files that a note names."""

_ORDER: Final = {"nodes": 0, **dict.fromkeys(DECIDING, 1), "pods": 3}
"""The order of resources in a world, those first that decide about others; not listed: 2."""


class Filled(Protocol):
    """The part of a world that `Objects.fill` uses."""

    _local_storage: set[str]
    """The keys of pods whose data are on the disk of their node."""

    @property
    def _kinds(self) -> Kinds:
        """The kinds that the plugins of the world read."""

    @property
    def _manifests(self) -> Manifests:
        """Decodes objects as an API server would store them."""

    def _complete(self, resource: Resource[Any], item: Any) -> None:
        """Fill in what every object has."""

    def _put_item(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises QuantityError."""


@dataclass(slots=True, repr=False)
class Objects:
    """Objects that were read."""

    _found: Found = field(default_factory=Found)

    def __repr__(self) -> str:
        counts = Counter(each.resource.plural for each in self._found.sources)
        return f"<Objects {', '.join(f'{count} {plural}' for plural, count in counts.items())}>"

    def __len__(self) -> int:
        return len(self._found.sources) + len(self._found.others)

    @classmethod
    def read(cls, *paths: str | Path) -> Objects:
        """Read files, and the files in folders, at any depth, in the order of their names.

        Raises:
            WorldError: files cannot be read; the text names each, and the line.
        """
        with no_collections():
            return cls(read_objects(paths))

    def fill(self, world: Filled) -> list[str]:
        """Put the objects into a world: nodes first, pending pods last, by their age.

        Returns a line for each kind that is skipped, because nothing in this world reads it, and
        for objects that replaced another one of the same name.

        Raises:
            WorldError: objects are malformed; the text names file, line and object of each.
        """
        pending: list[tuple[tuple[str, str], DumpedObject, Pod]] = []
        skipped, putting = Counter[str](), _Putting(world)
        sources = [*self._found.sources, *self._read_by_plugins(world._kinds, skipped)]
        for source in sorted(sources, key=lambda each: _ORDER.get(each.resource.plural, 2)):
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
        return [*notes, *self._found.notes, *self._without(), *putting.replacements()]

    def _without(self) -> list[str]:
        without = self._found.without
        more = len(without) - _EXAMPLES
        names = ", ".join(map(str, without[:_EXAMPLES])) + (f" and {more} more" * (more > 0))
        return [f"files without Kubernetes objects: {names}"] if names else []

    def _read_by_plugins(self, kinds: Kinds, skipped: Counter[str]) -> Iterator[DumpedObject]:
        """Yield the objects of custom resources; count the others by kind."""
        for each in self._found.others:
            resource = kinds.of(each.api_version, each.kind)
            if resource is None:
                skipped[f"{each.api_version} {each.kind}"] += 1
            else:
                yield DumpedObject(resource, each.data, each.where)

    @property
    def plurals(self) -> set[str]:
        """The resources of built-in kinds that were read, or asked for."""
        return {each.resource.plural for each in self._found.sources} | self._found.listed

    @property
    def mixed(self) -> bool:
        """Whether others may have been asked for, too: an empty list of kubectl names no kind."""
        return self._found.mixed


class _Putting:
    """Puts objects into a world, and notes what is wrong with them."""

    def __init__(self, world: Filled) -> None:
        self._world = world
        self.faults = Faults()
        #: What was put last of each resource and key.
        self._known: dict[tuple[str, str], DumpedObject] = {}
        self._replaced = 0
        self._examples: list[str] = []

    def decoded(self, source: DumpedObject) -> Any | None:
        """Return the typed object, or None for a fault."""
        try:
            item = self._world._manifests.decode(source.resource, source.data)
            self._world._complete(source.resource, item)
        except ValueError as error:
            self._fault(source, error)
            return None
        if source.resource is PODS and keeps_data_on_its_node(source.data):
            self._world._local_storage.add(item.key)
        return item

    def put(self, source: DumpedObject, item: Any) -> None:
        """Add or replace an object; one whose amounts cannot be read is a fault."""
        try:
            self._world._put_item(source.resource, item)
        except QuantityError as error:
            self._fault(source, error)
            return
        key = (source.resource.plural, source.resource.key(item))
        before = self._known.get(key)
        self._known[key] = source
        if before is not None and not _same(before, source):
            self._replaced += 1
            if len(self._examples) < _EXAMPLES:
                here, there = source.where(), before.where()
                self._examples.append(f"{_named(source)} ({here} replaced {there})")

    def replacements(self) -> list[str]:
        """Return the note about the objects that replaced others."""
        more = self._replaced - len(self._examples)
        names = ", ".join(self._examples) + (f" and {more} more" if more else "")
        return [f"objects of the same name: {names}"] if names else []

    def _fault(self, source: DumpedObject, error: ValueError) -> None:
        self.faults.note(f"{_named(source)}: {error}", source.where)


def _same(one: DumpedObject, other: DumpedObject) -> bool:
    """Whether both are one state of one object, as backups and must-gather write some twice."""
    known, again = (decode_head(each.data).metadata for each in (one, other))
    return bool(known.uid and known.resource_version) and known == again


def _named(source: DumpedObject) -> str:
    try:
        metadata = decode_head(source.data).metadata
    except msgspec.DecodeError:
        return source.resource.kind
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return f"{source.resource.kind} {name or '?'}"
