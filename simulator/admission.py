"""The admission chain, to which policies, quota and injected behaviour are added.

A write passes, in this order: the strategy of its kind (defaults), mutating hooks, mutating
policies, mutating webhooks, the strategy's validation, validating hooks, charging hooks (quota),
which come last because a charged write must not be rejected. Hooks of one kind run in the order
they were added. A hook rejects a write by raising `ApiError`. No resource is special here.

A policy or webhook that changed the object has the mutating part run once more: all hooks, and
those policies and webhooks with reinvocation policy IfNeeded that ran before it (k8s.io/apiserver:
`pkg/admission/reinvocation.go`, `plugin/policy/mutating/dispatcher.go`). A policy whose match
condition was false counts as not run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args

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


Kind: TypeAlias = Literal["mutating", "policy", "webhook", "validating", "charging"]
"""A policy is a MutatingAdmissionPolicy, a webhook a mutating one."""


class _Registered(NamedTuple):
    name: str
    hook: Hook
    tables: frozenset[str]
    operations: frozenset[str]
    condition: Condition
    if_needed: bool

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation in self.operations and (
            not self.tables or request.resource.table in self.tables
        )


class _Invocations:
    """The first and the second run of the policies, or of the webhooks, for one request."""

    def __init__(self, entries: list[_Registered], request: AdmissionRequest) -> None:
        self._entries = [entry for entry in entries if entry.wants(request)]
        self._request = request
        self._invoked: set[str] = set()
        self._again: set[str] = set()
        self._output: JsonObject | None = None

    def run(self, *, again: bool) -> bool:
        """Run what must run. Whether the object was changed."""
        request, changed = self._request, False
        if again and request.obj != self._output:
            self._repeat_invoked()
        for entry in self._entries:
            if not entry.condition(request) or (again and entry.name not in self._again):
                continue
            before = copy_tree(request.obj)
            entry.hook(request)
            if request.obj != before:
                changed = True
                self._repeat_invoked()
            if entry.if_needed:
                self._invoked.add(entry.name)
        self._output = copy_tree(request.obj) if self._entries else None
        return changed

    def _repeat_invoked(self) -> None:
        """Mark what has run before the object changed, to run once more."""
        self._again |= self._invoked
        self._invoked = set()


class AdmissionChain:
    """Hooks of five kinds, each for some tables (default: all) and operations."""

    def __init__(self) -> None:
        self._hooks: dict[Kind, list[_Registered]] = {kind: [] for kind in get_args(Kind)}

    def add(
        self,
        kind: Kind,
        name: str,
        hook: Hook,
        *,
        tables: Collection[str] = (),
        operations: Collection[Operation] = ("CREATE", "UPDATE"),
        condition: Condition = _always,
        if_needed: bool | None = None,
    ) -> None:
        """Add a hook behind those of its kind.

        Mutating hooks, policies and webhooks may change the object; validating hooks only reject
        the write; charging hooks run last and account for what is admitted. `condition` stands for
        the `matchConditions` of a policy. `if_needed` is the reinvocation policy IfNeeded, else
        Never; by default policies have it and webhooks do not.
        """
        again = kind == "policy" if if_needed is None else if_needed
        where = frozenset(tables), frozenset(operations)
        self._hooks[kind].append(_Registered(name, hook, *where, condition, again))

    def remove(self, name: str) -> None:
        """Remove every hook of that name."""
        for kind, hooks in self._hooks.items():
            self._hooks[kind] = [entry for entry in hooks if entry.name != name]

    def mutate(self, request: AdmissionRequest) -> None:
        """Run the mutating hooks, policies and webhooks, and again where one changed something."""
        policies = _Invocations(self._hooks["policy"], request)
        webhooks = _Invocations(self._hooks["webhook"], request)
        for again in (False, True):
            self._call("mutating", request)
            changed = policies.run(again=again)
            changed = webhooks.run(again=again) or changed
            if not changed:
                break

    def validate(self, request: AdmissionRequest) -> None:
        """Run the validating hooks, then the charging ones."""
        self._call("validating", request)
        self._call("charging", request)

    def _call(self, kind: Kind, request: AdmissionRequest) -> None:
        for entry in self._hooks[kind]:
            if entry.wants(request):
                entry.hook(request)
