"""The admission chain: where policies, quota and injected behaviour plug in.

A write passes, in this order: the strategy of its kind (defaults), mutating hooks, the strategy's
validation, validating hooks, charging hooks (quota), which must come last because nobody may refuse
what is paid for. Hooks of one list run in the order they were added. A hook refuses by raising
`ApiError`. Nothing here knows a resource.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from simulator.clock import SimClock
from simulator.objects import JsonObject
from simulator.resources import Resource
from simulator.store import Store

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]
Personality: TypeAlias = Literal["stock", "native"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]


@dataclass(slots=True)
class WriteOptions:
    """Query parameters of a write; `warnings` collects what goes into Warning headers."""

    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    field_manager: str = ""
    force: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class AdmissionRequest:
    """One write on its way in.

    Mutating hooks may change `obj` in place; `old` is shared, never change it.
    """

    operation: Operation
    resource: Resource
    subresource: str
    namespace: str
    name: str
    obj: JsonObject
    old: JsonObject | None
    options: WriteOptions
    store: Store
    clock: SimClock


Hook: TypeAlias = Callable[[AdmissionRequest], None]


class _Registered(NamedTuple):
    name: str
    tables: frozenset[str]
    operations: frozenset[str]
    hook: Hook

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation in self.operations and (
            not self.tables or request.resource.table in self.tables
        )


class AdmissionChain:
    """Hooks of three kinds, each for some tables (none named: all) and operations."""

    def __init__(self) -> None:
        self._mutating: list[_Registered] = []
        self._validating: list[_Registered] = []
        self._charging: list[_Registered] = []

    def add_mutating(
        self,
        name: str,
        hook: Hook,
        *,
        tables: Collection[str] = (),
        operations: Collection[Operation] = ("CREATE", "UPDATE"),
    ) -> None:
        """Add a hook that may change the object."""
        self._mutating.append(_Registered(name, frozenset(tables), frozenset(operations), hook))

    def add_validating(
        self,
        name: str,
        hook: Hook,
        *,
        tables: Collection[str] = (),
        operations: Collection[Operation] = ("CREATE", "UPDATE"),
    ) -> None:
        """Add a hook that may only refuse."""
        self._validating.append(_Registered(name, frozenset(tables), frozenset(operations), hook))

    def add_charging(
        self,
        name: str,
        hook: Hook,
        *,
        tables: Collection[str] = (),
        operations: Collection[Operation] = ("CREATE", "UPDATE"),
    ) -> None:
        """Add a hook that runs after all others and keeps account of what is let in."""
        self._charging.append(_Registered(name, frozenset(tables), frozenset(operations), hook))

    def remove(self, name: str) -> None:
        """Take out every hook of that name."""
        self._mutating = [entry for entry in self._mutating if entry.name != name]
        self._validating = [entry for entry in self._validating if entry.name != name]
        self._charging = [entry for entry in self._charging if entry.name != name]

    def mutate(self, request: AdmissionRequest) -> None:
        """Run the mutating hooks."""
        for entry in self._mutating:
            if entry.wants(request):
                entry.hook(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Run the validating hooks, then the charging ones."""
        for entry in (*self._validating, *self._charging):
            if entry.wants(request):
                entry.hook(request)
