"""The in-memory store: every object version, one increasing resourceVersion, and a bounded history.

Invariants: resourceVersions are handed out in the order of writes and never repeat; subscribers see
every change of a table in that order, also when a subscriber writes while it is being called; a
stored version is immutable. Pure: no asyncio, no clock, no HTTP, no rule about any resource.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from simulator.objects import JsonObject, encode_json

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

DEFAULT_HISTORY: Final = 100_000
"""Changes kept per table. A watch that resumes from before them gets 410. About 1 KiB each."""


class StoreError(Exception):
    """The store refused a write or a read."""


class AlreadyExistsError(StoreError):
    """A create met an object of the same key."""


class MissingError(StoreError):
    """The key holds no object."""


class StaleError(StoreError):
    """The write named a resourceVersion that is no longer the current one."""


class CompactedError(StoreError):
    """The requested resourceVersion is older than the history."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {requested} ({oldest})")


class Version:
    """One immutable version of one object.

    Its JSON bytes are made once per view and then reused.
    """

    __slots__ = ("_bytes", "_views", "name", "namespace", "obj", "rv")

    def __init__(self, namespace: str, name: str, obj: JsonObject, rv: int) -> None:
        self.namespace = namespace
        self.name = name
        self.obj = obj
        self.rv = rv
        self._bytes: bytes | None = None
        self._views: dict[str, bytes] | None = None

    def encoded(self) -> bytes:
        """Return the JSON of the object as stored."""
        if self._bytes is None:
            self._bytes = encode_json(self.obj)
        return self._bytes

    def encoded_as(self, view: str, convert: Callable[[JsonObject], JsonObject]) -> bytes:
        """Return the JSON of the converted object; it is cached under the name `view`."""
        if self._views is None:
            self._views = {}
        made = self._views.get(view)
        if made is None:
            made = self._views[view] = encode_json(convert(self.obj))
        return made


class StoreChange(NamedTuple):
    """One write: what the object is now, and what it was before.

    For DELETED, `version` is the last state, at the resourceVersion of the deletion.
    """

    type: ChangeType
    version: Version
    previous: Version | None
    rv: int


Subscriber: TypeAlias = Callable[[str, StoreChange], None]
"""Called as `subscriber(table, change)`. It must not raise; it may write to the store."""


class StoreStatistics(NamedTuple):
    """Numbers of one store at one moment."""

    resource_version: int
    writes: int
    objects: Mapping[str, int]
    history: Mapping[str, int]
    subscribers: int


@dataclass(slots=True)
class _Table:
    namespaces: dict[str, dict[str, Version]] = field(default_factory=dict)
    history: deque[StoreChange] = field(default_factory=deque)
    floor: int = 0
    """Changes with a resourceVersion at or below this are gone."""
    size: int = 0
    listed: tuple[int, list[Version]] | None = None
    """The last full listing in key order, valid while the table's last change is the noted one."""
    changed: int = 0


def _versions(table: _Table, namespace: str) -> Iterator[Version]:
    if namespace:
        names = table.namespaces.get(namespace, {})
        for name in sorted(names):
            yield names[name]
        return
    for key in sorted(table.namespaces):
        names = table.namespaces[key]
        for name in sorted(names):
            yield names[name]


class Store:
    """Tables of objects by (namespace, name). Owned by one thread; not safe for two."""

    def __init__(self, *, history: int = DEFAULT_HISTORY) -> None:
        self._limit = max(1, history)
        self._rv = 1
        self._writes = 0
        self._tables: dict[str, _Table] = {}
        self._subscribers: dict[int, tuple[str | None, Subscriber]] = {}
        self._next_subscriber = 0
        self._pending: deque[tuple[str, StoreChange]] = deque()
        self._delivering = False

    @property
    def rv(self) -> int:
        """The resourceVersion of the newest write."""
        return self._rv

    def get(self, table: str, namespace: str, name: str) -> Version | None:
        """Return the current version, or None."""
        held = self._tables.get(table)
        if held is None:
            return None
        names = held.namespaces.get(namespace)
        return None if names is None else names.get(name)

    def items(self, table: str, namespace: str = "") -> list[Version]:
        """Return all current versions in key order; of one namespace when one is given.

        Do not change it.
        """
        held = self._tables.get(table)
        if held is None:
            return []
        if namespace:
            return [*_versions(held, namespace)]
        if held.listed is None or held.listed[0] != held.changed:
            held.listed = (held.changed, [*_versions(held, "")])
        return held.listed[1]

    def count(self, table: str) -> int:
        """Count current objects."""
        held = self._tables.get(table)
        return 0 if held is None else held.size

    def items_at(self, table: str, rv: int) -> list[Version]:
        """Return all versions as of `rv`, in key order. Raises `CompactedError`."""
        held = self._table(table)
        if rv >= held.changed:
            return self.items(table)
        state = {(found.namespace, found.name): found for found in _versions(held, "")}
        for change in self._after(table, held, rv):
            key = (change.version.namespace, change.version.name)
            if change.previous is None:
                state.pop(key, None)
            else:
                state[key] = change.previous
        return [state[key] for key in sorted(state)]

    def create(self, table: str, namespace: str, name: str, obj: JsonObject) -> Version:
        """Store a new object. Takes ownership of `obj` and stamps its resourceVersion."""
        held = self._table(table)
        names = held.namespaces.setdefault(namespace, {})
        if name in names:
            raise AlreadyExistsError(f"{table} {namespace}/{name} already exists")
        version = self._stamp(namespace, name, obj)
        names[name] = version
        held.size += 1
        self._record(table, held, StoreChange("ADDED", version, None, version.rv))
        return version

    def update(
        self, table: str, namespace: str, name: str, obj: JsonObject, *, expected: int | None = None
    ) -> Version:
        """Replace an object.

        Takes ownership of `obj`; `expected` is the version it was made from.
        """
        held, previous = self._current(table, namespace, name, expected)
        version = self._stamp(namespace, name, obj)
        held.namespaces[namespace][name] = version
        self._record(table, held, StoreChange("MODIFIED", version, previous, version.rv))
        return version

    def delete(
        self, table: str, namespace: str, name: str, *, expected: int | None = None
    ) -> Version:
        """Remove an object; returns its last state, carrying the deletion's resourceVersion."""
        held, previous = self._current(table, namespace, name, expected)
        names = held.namespaces[namespace]
        del names[name]
        if not names:
            del held.namespaces[namespace]
        held.size -= 1
        version = self._stamp(namespace, name, dict(previous.obj))
        self._record(table, held, StoreChange("DELETED", version, previous, version.rv))
        return version

    def changes_since(self, table: str, rv: int) -> list[StoreChange]:
        """Return changes after `rv`, oldest first. Raises `CompactedError` when some are gone."""
        return self._after(table, self._table(table), rv)[::-1]

    def compact(self) -> int:
        """Forget all history; return the new oldest resourceVersion."""
        for held in self._tables.values():
            held.history.clear()
            held.floor = self._rv
        return self._rv

    def subscribe(self, table: str | None, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` for every later change of `table`, or of all tables for None.

        Returns the undo.
        """
        number = self._next_subscriber
        self._next_subscriber += 1
        self._subscribers[number] = (table, subscriber)

        def unsubscribe() -> None:
            self._subscribers.pop(number, None)

        return unsubscribe

    def statistics(self) -> StoreStatistics:
        """Count objects, kept changes and subscribers."""
        return StoreStatistics(
            resource_version=self._rv,
            writes=self._writes,
            objects={name: held.size for name, held in self._tables.items() if held.size},
            history={name: len(held.history) for name, held in self._tables.items()},
            subscribers=len(self._subscribers),
        )

    def _table(self, table: str) -> _Table:
        held = self._tables.get(table)
        if held is None:
            held = self._tables[table] = _Table()
        return held

    def _current(
        self, table: str, namespace: str, name: str, expected: int | None
    ) -> tuple[_Table, Version]:
        held = self._table(table)
        found = held.namespaces.get(namespace, {}).get(name)
        if found is None:
            raise MissingError(f"{table} {namespace}/{name} does not exist")
        if expected is not None and expected != found.rv:
            raise StaleError(f"{table} {namespace}/{name} is at {found.rv}, not {expected}")
        return held, found

    def _stamp(self, namespace: str, name: str, obj: JsonObject) -> Version:
        self._rv += 1
        self._writes += 1
        obj["metadata"] = {**obj.get("metadata", {}), "resourceVersion": str(self._rv)}
        return Version(namespace, name, obj, self._rv)

    def _after(self, table: str, held: _Table, rv: int) -> list[StoreChange]:
        """Return changes after `rv`, newest first."""
        if rv < held.floor:
            raise CompactedError(rv, held.floor)
        found: list[StoreChange] = []
        for change in reversed(held.history):
            if change.rv <= rv:
                break
            found.append(change)
        return found

    def _record(self, table: str, held: _Table, change: StoreChange) -> None:
        held.changed = change.rv
        held.history.append(change)
        if len(held.history) > self._limit:
            held.floor = held.history.popleft().rv
        self._pending.append((table, change))
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._pending:
                name, change = self._pending.popleft()
                for wanted, subscriber in [*self._subscribers.values()]:
                    if wanted is None or wanted == name:
                        subscriber(name, change)
        finally:
            self._delivering = False
