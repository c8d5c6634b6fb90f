"""Worlds from bundles: the same objects, rows, queue, reservations and random state.

A bundle was checked against its manifest before (`scheduler.recording.reading`); its content may
nevertheless be of another version or hand-made, so that every value is checked where it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

import msgspec

from config import GATES, Configuration, FeatureGates
from scheduler.api.meta import Named
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.client.resources import PODS, Resource
from scheduler.engine import Attempt
from scheduler.explain.records import QueueState
from scheduler.framework import ConfigurationError, QueuedPodInfo, Registry
from scheduler.framework.bundled import MemoryInBundle, StateInBundle
from scheduler.offline.assembly import Assembly
from scheduler.offline.editing import checked
from scheduler.offline.tables import Tables
from scheduler.recording.format import (
    ASSUMED,
    CONFIGURATION,
    OBJECT,
    PLUGIN,
    QUEUE,
    ROW,
    STATE,
    STREAM,
    BundleError,
    Line,
)
from scheduler.recording.reading import Bundle, open_bundle
from scheduler.service.options import RunOptions, available_plugins, read_configuration

MALFORMED: Final = (msgspec.DecodeError, ValueError, TypeError, LookupError, OverflowError)
"""What content that makes no sense raises where it is used; numbers may be too large as well."""


class _Configured(msgspec.Struct, rename="camel"):
    configuration: dict[str, Any]
    feature_gates: dict[str, bool] = {}
    plugins: dict[str, list[str]] = {}


class _State(msgspec.Struct, rename="camel"):
    time: float
    monotonic: float
    random: tuple[int, tuple[int, ...], float | None]
    rotations: dict[str, int] = {}
    free_rows: list[int] = []
    nominations: list[tuple[str, str]] = []
    leading: bool = True


class _Row(msgspec.Struct):
    node: str
    pods: list[str] = []


class Record(msgspec.Struct, rename="camel"):
    """A pending pod as the queue had it."""

    pod: str
    uid: str
    place: str = ""
    node: str = ""
    info: dict[str, Any] = {}
    memory: dict[str, Any] = {}


class _Piece(msgspec.Struct):
    profile: str
    plugin: str
    state: Any = None


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


@dataclass(slots=True)
class Content:
    """The state of a bundle, decoded; the stream stays in the file."""

    bundle: Bundle
    configured: _Configured
    state: _State
    rows: list[_Row] = field(default_factory=list)
    objects: list[msgspec.Raw] = field(default_factory=list)
    queue: list[Record] = field(default_factory=list)
    assumed: list[Record] = field(default_factory=list)
    pieces: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> Content:
        """Read and check a file. Raises BundleError."""
        bundle = open_bundle(path)
        found: dict[str, list[Any]] = {}
        kinds: dict[str, Any] = {
            CONFIGURATION: _Configured,
            STATE: _State,
            ROW: _Row,
            QUEUE: Record,
            ASSUMED: Record,
            PLUGIN: _Piece,
        }
        for line in bundle.lines():
            if line.section in STREAM:
                break
            if line.section == OBJECT:
                found.setdefault(OBJECT, []).append(msgspec.Raw(bytes(line.data)))
            elif line.section in kinds:
                decoded = decoded_line(bundle.path, line, kinds[line.section])
                found.setdefault(line.section, []).append(decoded)
        for section in (CONFIGURATION, STATE):
            if section not in found:
                raise BundleError(f"{bundle.path}: the bundle has no {section}")
        content = cls(
            bundle,
            found[CONFIGURATION][0],
            found[STATE][0],
            found.get(ROW, []),
            found.get(OBJECT, []),
            found.get(QUEUE, []),
            found.get(ASSUMED, []),
        )
        seen: dict[str, str] = {}
        for piece in found.get(PLUGIN, ()):
            # Profiles share the state of a plugin: the first profile's is enough.
            if seen.setdefault(piece.plugin, piece.profile) == piece.profile:
                content.pieces.setdefault(piece.plugin, []).append(piece.state)
        return content

    def stream(self) -> Iterator[Line]:
        """Yield what was recorded, in order."""
        return (line for line in self.bundle.lines() if line.section in STREAM)

    def _check_imports(self, plugin_dirs: Sequence[str]) -> None:
        """Refuse to import what only the file asks for: importing a module runs it."""
        for reference in _imports(self.configured.configuration):
            package = reference.partition(":")[0].partition(".")[0]
            if PathFinder.find_spec(package, list(plugin_dirs)) is None:
                raise BundleError(
                    f"{self.bundle.path}: it names the plugin {reference!r:.200}, which is in no "
                    "folder of --plugin-dir. What a file names is not imported from elsewhere: "
                    "give --plugin-dir with the folder that has it"
                )

    def configuration(self, plugin_dirs: Sequence[str]) -> tuple[Configuration, Registry]:
        """Read the configuration of the bundle, with the plugins installed here.

        Raises:
            BundleError: a plugin is missing, or this version does not know a setting.
        """
        self._check_imports(plugin_dirs)
        gates = {
            name: on
            for name, on in self.configured.feature_gates.items()
            if name in GATES and GATES[name].default != on
        }
        registry = available_plugins()
        try:
            options = RunOptions(
                replace_default_scheduler=True,
                plugin_dirs=tuple(plugin_dirs),
                feature_gates=FeatureGates(gates),
            )
            text = msgspec.json.encode(self.configured.configuration).decode()
            return read_configuration(options, registry, text=text), registry
        except ConfigurationError as error:
            problems = "; ".join(error.problems)
            raise BundleError(
                f"{self.bundle.path}: the configuration in it cannot be used here: {problems}. It "
                f"was written by kubestow {self.bundle.header.version}; folders with third-party "
                "plugins are given by --plugin-dir"
            ) from error


def _imports(value: Any) -> Iterator[str]:
    """Yield every `module:Class` that enables a plugin, wherever it stands in a configuration."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            enabled = inner if key == "enabled" and isinstance(inner, list) else ()
            for each in enabled:
                name = each.get("name") if isinstance(each, Mapping) else None
                if isinstance(name, str) and ":" in name:
                    yield name
            yield from _imports(inner)
    elif isinstance(value, list):
        for each in value:
            yield from _imports(each)


def decoded_line(path: Path, line: Line, kind: Any) -> Any:
    """Decode the data of a line. Raises BundleError."""
    try:
        return msgspec.json.decode(line.data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleError(f"{path}: malformed {line.section}: {error}") from error


def unknown_kinds(unknown: Mapping[str, int]) -> list[str]:
    """Return a line for each kind that was skipped."""
    return [
        f"{kind}: {count} skipped, since this version knows no such objects"
        for kind, count in sorted(unknown.items())
    ]


class Restorer:
    """Brings a world without objects into the state of a bundle."""

    def __init__(
        self,
        assembly: Assembly,
        content: Content,
        complete: Callable[[Resource[Any], Any], None] = lambda _resource, _item: None,
        *,
        same_profiles: bool = True,
    ) -> None:
        """Prepare the restoration.

        Args:
            assembly: of the world.
            content: of the bundle.
            complete: fills in what an API server would.
            same_profiles: whether the pods of the world's profiles are those of the bundle's.
        """
        self._complete, self._same_profiles = complete, same_profiles
        self._assembly = assembly
        self._content = content
        #: Kinds that this version does not know, and how often they occur.
        self.unknown: dict[str, int] = {}
        #: Attempts whose binding was under way, by UID.
        self.under_way: dict[str, Attempt] = {}

    def restore(self) -> None:
        """Restore everything. Raises BundleError."""
        try:
            self._objects()
            self._assumed()
            self._queue()
            self._plugins()
            self._rest()
        except BundleError:
            raise
        except MALFORMED as error:
            path = self._content.bundle.path
            raise BundleError(f"{path}: the bundle contradicts itself: {error}") from error

    def _objects(self) -> None:
        assembly, content = self._assembly, self._content
        table = assembly.state.cache.table
        table.reserve_layout([each.node for each in content.rows], content.state.free_rows)
        for raw in content.objects:
            put_object(assembly.tables, raw, self.unknown, self._complete)
        assembly.tables.deliver(assembly.handlers)
        table.release_reserved()
        assembly.state.subscriptions.publish_synced()

    def _assumed(self) -> None:
        scheduling = self._assembly.scheduling
        in_flight = {each.uid for each in self._content.queue if each.place == "in-flight"}
        for record in self._content.assumed:
            pod = self._pod(record)
            if pod is None:
                continue
            info = scheduling.queue.take(pod)
            restore_record(self._assembly, info, record, self._content.state.monotonic)
            attempt = scheduling.engine.adopt(info, record.node)
            if record.info:
                self.under_way[record.uid] = attempt
            if record.uid not in in_flight:
                scheduling.queue.done(record.uid)

    def _queue(self) -> None:
        queue = self._assembly.scheduling.queue
        known = set()
        for record in self._content.queue:
            known.add(record.uid)
            pod = self._pod(record)
            if pod is None or record.place == "in-flight":
                continue
            info = queue.restore(pod, QueueState(record.place), record.info)
            restore_memory(self._assembly, info, record.memory, self._content.state.monotonic)
        for info, _ in list(queue.records()) if self._same_profiles else ():
            if info.uid not in known and info.uid not in self.under_way:
                queue.delete(info.pod)

    def _plugins(self) -> None:
        for plugin in _plugins(self._assembly).values():
            pieces = self._content.pieces.get(plugin.name)
            if pieces and isinstance(plugin, StateInBundle):
                plugin.restore_bundle_state(pieces)

    def _rest(self) -> None:
        assembly, state = self._assembly, self._content.state
        restore_nominations(assembly, state.nominations)
        for name, algorithm in assembly.scheduling.engine.algorithms.items():
            algorithm.search.rotation = state.rotations.get(name, 0)
        table = assembly.state.cache.table
        for number, row in enumerate(self._content.rows):
            known = table.pods[number] if number < len(table.pods) else {}
            # Their order decides between equal victims.
            table.reorder_pods(number, [uid for uid in row.pods if uid in known])
        assembly.random.setstate(state.random)

    def _pod(self, record: Record) -> Pod | None:
        return find_pod(self._assembly, record.pod, record.uid)


def put_object(
    tables: Tables,
    raw: msgspec.Raw,
    unknown: dict[str, int],
    complete: Callable[[Resource[Any], Any], None] = lambda _resource, _item: None,
) -> None:
    """Add or replace an object of a bundle, or count its kind as unknown.

    Raises:
        ValueError: it is malformed.
    """
    resource = resource_in(tables, raw, unknown)
    if resource is None:
        return
    item = decoded_object(resource, raw, complete)
    try:
        checked(resource, item)
        tables.put(resource.plural, item)
    except QuantityError as error:
        raise ValueError(f"a {resource.kind} is malformed: {error}") from error


def decoded_object(
    resource: Resource[Any], raw: msgspec.Raw, complete: Callable[[Resource[Any], Any], None]
) -> Any:
    """Decode an object of a bundle. Raises ValueError if it is malformed."""
    try:
        item = resource.decode(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"a {resource.kind} is malformed: {error}") from error
    if not item.metadata.name:
        raise ValueError(f"a {resource.kind} has no name")
    complete(resource, item)
    return item


def remove_object(tables: Tables, raw: msgspec.Raw, unknown: dict[str, int]) -> None:
    """Remove an object that is named in a bundle, if it is there; count its kind if unknown."""
    resource = resource_in(tables, raw, unknown)
    if resource is not None:
        metadata = msgspec.json.decode(raw, type=Named).metadata
        key = resource.key_of(metadata.namespace, metadata.name)
        known = tables.stores[resource.plural].by_key(key)
        if known is not None:
            tables.remove(resource.plural, known)


def resource_in(tables: Tables, raw: msgspec.Raw, unknown: dict[str, int]) -> Resource[Any] | None:
    """Return the resource of an object of a bundle; None, and counted, if its kind is unknown."""
    head = msgspec.json.decode(raw, type=_Head)
    resource = tables.kinds.of(head.api_version, head.kind)
    if resource is None:
        name = f"{head.api_version} {head.kind}"[:120]
        unknown[name] = unknown.get(name, 0) + 1
    return resource


def find_pod(assembly: Assembly, key: str, uid: str) -> Pod | None:
    """Return the newest object of a pod, `namespace/name`, if it has this UID."""
    pod: Pod | None = assembly.tables.stores[PODS.plural].by_key(key)
    return pod if pod is not None and pod.uid == uid else None


def restore_nominations(assembly: Assembly, nominations: Sequence[tuple[str, str]]) -> None:
    """Let these be the nominations, by `namespace/name`."""
    store = assembly.tables.stores[PODS.plural]
    known = ((store.by_key(key), node) for key, node in nominations)
    nominator = assembly.scheduling.queue.nominator
    nominator.restore([(pod, node) for pod, node in known if pod is not None])


def restore_record(
    assembly: Assembly, info: QueuedPodInfo, record: Record, monotonic: float
) -> None:
    """Set the fields of a pod's queue record, and what plugins keep there."""
    if record.info:
        assembly.scheduling.queue.restore_fields(info, record.info)
    restore_memory(assembly, info, record.memory, monotonic)


def restore_memory(
    assembly: Assembly, info: QueuedPodInfo, memory: Mapping[str, Any], monotonic: float
) -> None:
    """Set what plugins keep about a pod; `monotonic` is where the time of the world begins.

    Fields whose names end in `_monotonic` are seconds of the recorded monotonic clock.
    """
    plugins = _plugins(assembly)
    for name, kept in memory.items():
        plugin = plugins.get(name)
        if not isinstance(plugin, MemoryInBundle):
            continue
        value = msgspec.convert(kept, plugin.memory_type)
        for each in dataclasses.fields(value):
            if each.name.endswith("_monotonic"):
                setattr(value, each.name, getattr(value, each.name) - monotonic)
        info.memory()[name] = value


def _plugins(assembly: Assembly) -> dict[str, Any]:
    """Return the plugins of all profiles by name; what they share is in each of them."""
    frameworks = assembly.profiles.frameworks.values()
    return {name: plugin for each in frameworks for name, plugin in each.plugins.items()}
