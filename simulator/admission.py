"""The admission chain: where policies, quota and injected behaviour plug in.

A write passes, in this order: the strategy of its kind (defaults), mutating hooks, mutating
policies, mutating webhooks, the strategy's validation, validating hooks, charging hooks (quota),
which must come last because nobody may refuse what is paid for. Hooks of one list run in the order
they were added. A hook refuses by raising `ApiError`. Nothing here knows a resource.

A policy or webhook that changed the object has the mutating part run once more: all hooks, and
those policies and webhooks with reinvocation policy IfNeeded that ran before it (k8s.io/apiserver:
`pkg/admission/reinvocation.go`, `plugin/policy/mutating/dispatcher.go`). A policy whose match
condition was false has not run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from simulator.clock import SimClock
from simulator.objects import JsonObject, copy_tree
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
Condition: TypeAlias = Callable[[AdmissionRequest], bool]


def _always(_request: AdmissionRequest) -> bool:
    return True


class _Registered(NamedTuple):
    name: str
    tables: frozenset[str]
    operations: frozenset[str]
    hook: Hook
    condition: Condition = _always
    if_needed: bool = False
    """Reinvocation policy IfNeeded; else Never."""

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation in self.operations and (
            not self.tables or request.resource.table in self.tables
        )


class _Invocations:
    """Runs the policies, or the webhooks, for one request: at first, and once more."""

    def __init__(self, entries: list[_Registered], request: AdmissionRequest) -> None:
        self._entries = [entry for entry in entries if entry.wants(request)]
        self._request = request
        self._invoked: set[str] = set()
        self._again: set[str] = set()
        self._output: JsonObject | None = None

    def run(self, *, again: bool) -> bool:
        """Whether the object was changed."""
        request, changed = self._request, False
        if again and request.obj != self._output:
            self._require()
        for entry in self._entries:
            if not entry.condition(request) or (again and entry.name not in self._again):
                continue
            before = copy_tree(request.obj)
            entry.hook(request)
            if request.obj != before:
                changed = True
                self._require()
            if entry.if_needed:
                self._invoked.add(entry.name)
        self._output = copy_tree(request.obj) if self._entries else None
        return changed

    def _require(self) -> None:
        """Return the names of the policies that must run again."""
        self._again |= self._invoked
        self._invoked = set()


class AdmissionChain:
    """Hooks of five kinds, each for some tables (none named: all) and operations."""

    def __init__(self) -> None:
        self._mutating: list[_Registered] = []
        self._policies: list[_Registered] = []
        self._webhooks: list[_Registered] = []
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

    def add_policy(
        self,
        name: str,
        hook: Hook,
        *,
        tables: Collection[str] = (),
        operations: Collection[Operation] = ("CREATE", "UPDATE"),
        condition: Condition = _always,
        if_needed: bool = True,
    ) -> None:
        """Add what a MutatingAdmissionPolicy does; `condition` are its `matchConditions`."""
        self._policies.append(
            _Registered(name, frozenset(tables), frozenset(operations), hook, condition, if_needed)
        )

    def add_webhook(
        self,
        name: str,
        hook: Hook,
        *,
        tables: Collection[str] = (),
        operations: Collection[Operation] = ("CREATE", "UPDATE"),
        if_needed: bool = False,
    ) -> None:
        """Add what a mutating webhook does."""
        self._webhooks.append(
            _Registered(name, frozenset(tables), frozenset(operations), hook, if_needed=if_needed)
        )

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
        self._policies = [entry for entry in self._policies if entry.name != name]
        self._webhooks = [entry for entry in self._webhooks if entry.name != name]
        self._validating = [entry for entry in self._validating if entry.name != name]
        self._charging = [entry for entry in self._charging if entry.name != name]

    def mutate(self, request: AdmissionRequest) -> None:
        """Run the mutating hooks, policies and webhooks, and again where one changed something."""
        policies = _Invocations(self._policies, request)
        webhooks = _Invocations(self._webhooks, request)
        for again in (False, True):
            for entry in self._mutating:
                if entry.wants(request):
                    entry.hook(request)
            changed = policies.run(again=again)
            changed = webhooks.run(again=again) or changed
            if not changed:
                break

    def validate(self, request: AdmissionRequest) -> None:
        """Run the validating hooks, then the charging ones."""
        for entry in (*self._validating, *self._charging):
            if entry.wants(request):
                entry.hook(request)
